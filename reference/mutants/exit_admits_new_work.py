"""Owns one seeded defect: a worker that has closed its admission takes up one more work."""

from __future__ import annotations

from typing import Any

from reference import worker
from reference.mutants import swap
from reference.ownership import Lookout
from reference.running import Process
from reference.store import Row

CHANGES = "a worker that has closed its admission takes up one more work"
CHECK = "graceful-exit-order"
CLAUSES = ("INT-7",)
CELLS = ("two-inputs/turn.committed#1/graceful-restart",)


def _next(found: Any) -> Any:
    taken: list[str] = []

    async def next_(process: Process, lookout: Lookout, exits: int) -> Row | None:
        if process.exiting and not taken:
            process.close_admission()
            row, _ = lookout.next(process.store)
            if row is not None:
                taken.append(row["work_id"])
                return row
        row = await found(process, lookout, exits)
        return row if isinstance(row, Row) else None

    return next_


def apply() -> None:
    """Put it in."""
    swap(worker, "_next", _next)
