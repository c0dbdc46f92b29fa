"""Owns one seeded defect: a worker that starts takes up ended works once more, to see whether they have ended."""

from __future__ import annotations

from reference import projection
from reference.mutants import when_a_worker_starts
from reference.store import Store

CHANGES = "a worker that starts takes up ended works once more, to see whether they have ended"
CHECK = "terminal-never-changes"
CLAUSES = ("INT-4",)
CELLS = ("plain/work.released#1/worker-killed",)


def _see(store: Store) -> None:
    with store.write() as tx:
        for row in tx.all("SELECT work_id FROM works WHERE state = 'done'"):
            tx.run("UPDATE works SET state = 'queued', desired_state = 'run' WHERE work_id = ?", row["work_id"])
            projection.work_event(tx, row["work_id"])


def apply() -> None:
    """Put it in."""
    when_a_worker_starts(_see)
