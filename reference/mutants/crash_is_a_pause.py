"""Owns one seeded defect: work whose worker died is taken for paused."""

from __future__ import annotations

from typing import Any

from reference import recovery
from reference.mutants import swap
from reference.running import LetGo, Run

CHANGES = "work whose worker died is taken for paused"
CHECK = "restart-is-no-pause"
CLAUSES = (
    "INT-2",
    "INT-6",
)
CELLS = ("plain/turn.begun#1/worker-killed",)


def _repair(_: Any) -> Any:
    async def repair(run: Run) -> bool:
        with run.store.write() as tx:
            tx.run("UPDATE works SET desired_state = 'paused' WHERE work_id = ?", run.held.work_id)
        raise LetGo("control")

    return repair


def apply() -> None:
    """Put it in."""
    swap(recovery, "_repair", _repair)
