"""Owns one seeded defect: a Stop just before a call is sent again calls it not started, whatever its first sending did."""

from __future__ import annotations

from typing import Any

from reference import effects
from reference.mutants import swap
from reference.running import Run
from reference.store import Row

CHANGES = "a Stop just before a call is sent again calls it not started, whatever its first sending did"
CHECK = "done-means-done"
CLAUSES = ("EFF-3",)
CELLS = ("stopped-when-sent-again/none",)


def _undo(found: Any) -> Any:
    def undo(run: Run, effect: Row, state: str = "not_started", resolution: str | None = None) -> None:
        found(run, effect)

    return undo


def apply() -> None:
    """Put it in."""
    swap(effects, "_undo_dispatch", _undo)
