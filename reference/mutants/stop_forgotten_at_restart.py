"""Owns one seeded defect: a worker that starts works on what was stopped and not finished."""

from __future__ import annotations

from reference import projection
from reference.mutants import when_a_worker_starts
from reference.store import Store

CHANGES = "a worker that starts works on what was stopped and not finished"
CHECK = "user-control-obeyed"
CLAUSES = (
    "INT-3",
    "INT-6",
)
CELLS = ("stopped/control.applied#1/worker-killed",)


def _forget(store: Store) -> None:
    with store.write() as tx:
        for row in tx.all("SELECT work_id FROM works WHERE desired_state = 'cancelled'"):
            tx.run("UPDATE works SET state = 'queued', desired_state = 'run' WHERE work_id = ?", row["work_id"])
            projection.work_event(tx, row["work_id"])


def apply() -> None:
    """Put it in."""
    when_a_worker_starts(_forget)
