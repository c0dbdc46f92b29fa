"""Owns the list of targets that a case file may name.

A case file names its target by one of these words, so that loading a case never imports what a stranger wrote into it.
A target of one's own is given on the command line as `--target package.module:NAME`, which imports that module.
"""

from __future__ import annotations

import importlib
from difflib import get_close_matches

from scenarios.target import Target
from scenarios.targets.runtime import REFERENCE
from scenarios.targets.stdio import IDLE, NAIVE, TWICE

TARGETS: dict[str, Target] = {target.name: target for target in (REFERENCE, NAIVE, IDLE, TWICE)}


class UnknownTarget(ValueError):
    """A name that is no target. The message gives the nearest names."""


def in_file(name: str) -> Target:
    """The target that a case file calls `name`: one of the list, nothing is imported. Raises UnknownTarget."""
    if name in TARGETS:
        return TARGETS[name]
    near = get_close_matches(name, TARGETS, n=3, cutoff=0.4)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    raise UnknownTarget(f"unknown target {name!r}{hint}; `killpoint show targets` lists them all")


def target(name: str) -> Target:
    """The target called `name`, or the one at `package.module:NAME`. Raises UnknownTarget."""
    if name in TARGETS or ":" not in name:
        return in_file(name)
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # it is the user's module, and may fail in any way
        raise UnknownTarget(f"target {name!r} cannot be loaded: {type(error).__name__}: {error}") from None
    if not isinstance(found, Target):
        raise UnknownTarget(f"target {name!r} is a {type(found).__name__}, not a scenarios.target.Target")
    return found
