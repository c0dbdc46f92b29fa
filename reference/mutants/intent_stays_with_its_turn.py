"""Owns one seeded defect: a call that an earlier turn had intended stays that turn's when another one makes it."""

from __future__ import annotations

from typing import Any

from reference import effects
from reference.mutants import swap
from reference.store import Row

CHANGES = "a call that an earlier turn had intended stays that turn's when another one makes it"
CHECK = "no-duplicate-write"
CLAUSES = ("EFF-3",)
CELLS = ("paused-before-a-call/effect.applied#1/worker-killed",)


def _intend(found: Any) -> Any:
    def intend(run: Any, turn: Row, item: int, call: Any, tool: Any) -> Row:
        with run.store.read() as tx:
            known: Row | None = tx.one(effects._OF_CALL, turn["session"], item, call.id)
        return found(run, turn, item, call, tool) if known is None else known

    return intend


def apply() -> None:
    """Put it in."""
    swap(effects, "_intend", _intend)
