"""Owns one seeded defect: work that was interrupted waits for somebody to press Retry."""

from __future__ import annotations

from typing import Any

from reference import ownership, recovery
from reference.mutants import swap
from reference.running import Run

CHANGES = "work that was interrupted waits for somebody to press Retry"
CHECK = "goes-on-by-itself"
CLAUSES = ("INT-2",)
CELLS = ("plain/turn.begun#1/worker-killed",)


def _repair(_: Any) -> Any:
    async def repair(run: Run) -> bool:
        with run.store.write() as tx:
            ownership.release(tx, run.held, "failed", "interrupted", "press Retry to go on")
        return False

    return repair


def apply() -> None:
    """Put it in."""
    swap(recovery, "_repair", _repair)
