"""Owns one seeded defect: a worker that is told to go gives its work back to be run, whatever its user has decided."""

from __future__ import annotations

from reference import ownership, turns
from reference.mutants import swap
from reference.running import Run

CHANGES = "a worker that is told to go gives its work back to be run, whatever its user has decided"
CHECK = "everything-ends"
CLAUSES = ("REC-5",)
CELLS = ("worker-restart-stream/exit.controls.stored#1/stop-at",)


def _checkpoint(run: Run) -> None:
    with run.store.write() as tx:
        ownership.release(tx, run.held, "queued", "worker_exit")


def apply() -> None:
    """Put it in."""
    swap(turns, "checkpoint", lambda found: _checkpoint)
