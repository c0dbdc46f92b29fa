"""Owns one seeded defect: work that crashes again in its recovery is given up."""

from __future__ import annotations

from typing import Any

from reference import ownership, recovery
from reference.mutants import swap
from reference.running import Run

CHANGES = "work that crashes again in its recovery is given up"
CHECK = "killed-again-same-outcome"
CLAUSES = ("REC-9",)
CELLS = ("recovery/recovery.admitted#1/killed-again",)


def _repair(found: Any) -> Any:
    async def repair(run: Run) -> bool:
        with run.store.write() as tx:
            if tx.value("SELECT 1 FROM recoveries WHERE work_id = ? AND NOT consumed", run.held.work_id):
                ownership.release(tx, run.held, "failed", "crash_loop")
                return False
        return bool(await found(run))

    return repair


def apply() -> None:
    """Put it in."""
    swap(recovery, "_repair", _repair)
