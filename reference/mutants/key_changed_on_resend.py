"""Owns one seeded defect: a call that is sent again gets an idempotency key of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference import effects
from reference.mutants import swap

CHANGES = "a call that is sent again gets an idempotency key of its own"
CHECK = "unknown-never-resent"
CLAUSES = ("EFF-3",)
CELLS = ("charge/effect.applied#1/worker-killed",)


def _context(found: Any) -> Any:
    def context(run: Any, effect: Any) -> Any:
        made = found(run, effect)
        return replace(made, key=f"{made.key}-{effect['dispatches']}") if effect["dispatches"] else made

    return context


def apply() -> None:
    """Put it in."""
    swap(effects, "_context", _context)
