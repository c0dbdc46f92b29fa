"""Owns one seeded defect: a call is made before its dispatch is stored."""

from __future__ import annotations

from typing import Any

from reference import effects
from reference.mutants import swap

CHANGES = "a call is made before its dispatch is stored"
CHECK = "effect-in-order"
CLAUSES = ("EFF-1",)
CELLS = ("mail/none",)


_later: list[Any] = []


def _dispatch(found: Any) -> Any:
    return lambda *given: _later.append((found, given))


def _call(found: Any) -> Any:
    async def call(run: Any, act: Any) -> Any:
        outcome = await found(run, act)
        while _later:
            dispatch, given = _later.pop()
            dispatch(*given)
        return outcome

    return call


def apply() -> None:
    """Put it in."""
    swap(effects, "_dispatch", _dispatch)
    swap(effects, "_call", _call)
