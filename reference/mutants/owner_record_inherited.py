"""Owns one seeded defect: a worker goes on under the record of an owner that it finds, and claims nothing for itself."""

from __future__ import annotations

from typing import Any

from reference import turns, worker
from reference.mutants import swap
from reference.ownership import Held
from reference.running import Process, Run
from reference.store import Row

CHANGES = "a worker goes on under the record of an owner that it finds, and claims nothing for itself"
CHECK = "owner-claims-first"
CLAUSES = (
    "OWN-1",
    "OWN-6",
)
CELLS = ("plain/turn.begun#1/worker-killed",)


def _take_up(found: Any) -> Any:
    async def take_up(process: Process, row: Row, holding: list[Run]) -> Run | None:
        if row["owner"] is None or row["owner"] == process.me:
            taken = await found(process, row, holding)
            return taken if isinstance(taken, Run) else None
        named = (row[name] for name in ("work_id", "session", "input", "request_id", "generation", "owner"))
        run = turns.take_up(process, Held(*named))
        holding.append(run)
        return run

    return take_up


def apply() -> None:
    """Put it in."""
    swap(worker, "_take_up", _take_up)
