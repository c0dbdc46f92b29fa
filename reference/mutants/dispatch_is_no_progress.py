"""Owns one seeded defect: a dispatch counts as no progress, so the next recovery follows what was decided before it."""

from __future__ import annotations

from typing import Any

from reference import effects
from reference.mutants import swap
from reference.running import Run

CHANGES = "a dispatch counts as no progress, so the next recovery follows what was decided before it"
CHECK = "checkpoint-covers-effects"
CLAUSES = ("REC-3",)
CELLS = ("recovery-makes-the-call/none",)


def _dispatch(found: Any) -> Any:
    def dispatch(run: Run, *given: Any) -> None:
        found(run, *given)
        with run.store.write() as tx:
            tx.run("UPDATE works SET progress = progress - 1 WHERE work_id = ?", run.held.work_id)

    return dispatch


def apply() -> None:
    """Put it in."""
    swap(effects, "_dispatch", _dispatch)
