"""Owns the seeded defects of this runtime: how they are listed and put in. Each is one file beside this one.

A mutant is a small named change of one behaviour, applied when a process starts with `REFERENCE_MUTANT=<name>`. Its file
says, before anything is run, which check of the harness must catch it, which clauses it breaks, and in which cells it
shows. That is how it is known that those checks can fail. Nothing here is ever imported in ordinary use.

    CHANGES = "what is done otherwise, in a sentence"
    CHECK = "the-check-that-catches-it"
    CLAUSES = ("EFF-3",)
    CELLS = ("mail/effect.applied#1/worker-killed",)

    def apply() -> None: ...
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from contextlib import closing, suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any

from reference import fresh, worker
from reference.model import StateUnavailable
from reference.settings import Settings
from reference.store import Store

VARIABLE = "REFERENCE_MUTANT"


class DoesNotApply(Exception):
    """A mutant whose place in the code is gone: it shows nothing any more, and must be written anew."""


def names() -> list[str]:
    """Every mutant's name: its file's, with dashes."""
    return sorted(each.name.replace("_", "-") for each in pkgutil.iter_modules(__path__))


def listed() -> list[dict[str, Any]]:
    """Every mutant with what its file says of it."""
    return [
        {
            "name": name,
            "changes": module.CHANGES,
            "check": module.CHECK,
            "clauses": list(module.CLAUSES),
            "cells": list(module.CELLS),
        }
        for name in names()
        for module in (_module(name),)
    ]


def apply(name: str) -> None:
    """Put the mutant into this process. Raises DoesNotApply if there is none of that name or its place is gone."""
    if name not in names():
        raise DoesNotApply(f"mutant {name!r} does not apply: there is none of that name")
    try:
        _module(name).apply()
    except (AttributeError, ImportError) as error:
        raise DoesNotApply(f"mutant {name!r} does not apply: {error}") from None


def swap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace the attribute `name` of a module or class by what `make` gives for the one that is there."""
    found = getattr(owner, name, None)
    if found is None:
        raise DoesNotApply(f"{getattr(owner, '__name__', owner)} has no {name!r} any more, so this mutant does not apply")
    setattr(owner, name, make(found))


def reword(owner: Any, name: str, old: str, new: str) -> None:
    """Replace a piece of text in a constant, or in what a function says: an SQL statement, a key.

    Raises DoesNotApply if `old` is not there any more.
    """
    found = getattr(owner, name, None)
    if isinstance(found, str) and old in found:
        setattr(owner, name, found.replace(old, new))
        return
    function = inspect.unwrap(found) if callable(found) else None
    code = _reworded(function.__code__, old, new) if isinstance(function, FunctionType) else None
    if code is None or not isinstance(function, FunctionType):
        raise DoesNotApply(
            f"{getattr(owner, '__name__', owner)}.{name} says {old!r} no more, so this mutant does not apply"
        )
    function.__code__ = code


def _reworded(code: CodeType, old: str, new: str) -> CodeType | None:
    """The code with the text replaced in its constants, or None if it stands in none of them."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, str) and old in constant:
            constants.append(constant.replace(old, new))
        elif isinstance(constant, CodeType):
            constants.append(_reworded(constant, old, new) or constant)
        else:
            constants.append(constant)
    changed = any(was is not now for was, now in zip(code.co_consts, constants, strict=True))
    return code.replace(co_consts=tuple(constants)) if changed else None


def without_unique(table: str, columns: str) -> None:
    """Take a uniqueness out of the schema of stores made from now on, since a defect may not be stopped by it."""
    from reference import schema  # noqa: PLC0415 (large, and few mutants need it)

    rule = re.compile(rf",\s*(CONSTRAINT \S+ )?UNIQUE \({columns}\)")

    def make(found: Any) -> Any:
        def creation(kind: str) -> tuple[str, ...]:
            return tuple(rule.sub("", each) if f"TABLE {table} " in each else each for each in found(kind))

        if creation("work") == found("work"):
            raise DoesNotApply(f"{table} has no uniqueness of {columns} any more, so this mutant does not apply")
        return creation

    swap(schema, "creation", make)
    swap(fresh, "_images", lambda found: {})


def when_a_worker_starts(do: Callable[[Store], None]) -> None:
    """Let a worker do something with the store before it looks for work."""

    def make(found: Any) -> Any:
        def main(settings: Settings, *rest: Any) -> int:
            with suppress(StateUnavailable), closing(Store.open(settings)) as store:  # the worker says so itself
                do(store)
            return int(found(settings, *rest))

        return main

    swap(worker, "main", make)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
