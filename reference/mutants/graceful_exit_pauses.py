"""Owns one seeded defect: a worker that is told to go pauses what it works on."""

from __future__ import annotations

from typing import Any

from reference import ownership, turns
from reference.mutants import swap
from reference.running import Run

CHANGES = "a worker that is told to go pauses what it works on"
CHECK = "restart-is-no-pause"
CLAUSES = ("INT-6",)
CELLS = ("worker-restart/none",)


def _checkpoint(_: Any) -> Any:
    def checkpoint(run: Run) -> None:
        with run.store.write() as tx:
            tx.run("UPDATE works SET desired_state = 'paused' WHERE work_id = ?", run.held.work_id)
            ownership.release(tx, run.held, "paused", "worker_exit")

    return checkpoint


def apply() -> None:
    """Put it in."""
    swap(turns, "checkpoint", _checkpoint)
