"""Owns one seeded defect: a pause lives as long as the worker that has seen it."""

from __future__ import annotations

from reference import projection
from reference.mutants import when_a_worker_starts
from reference.store import Store

CHANGES = "a pause lives as long as the worker that has seen it"
CHECK = "user-control-obeyed"
CLAUSES = ("INT-3",)
CELLS = ("paused/control.applied#1/worker-killed",)


def _forget(store: Store) -> None:
    with store.write() as tx:
        for row in tx.all("SELECT work_id FROM works WHERE desired_state = 'paused'"):
            tx.run("UPDATE works SET state = 'queued', desired_state = 'run' WHERE work_id = ?", row["work_id"])
            projection.work_event(tx, row["work_id"])


def apply() -> None:
    """Put it in."""
    when_a_worker_starts(_forget)
