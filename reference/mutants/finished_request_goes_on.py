"""Owns one seeded defect: a worker that starts begins another turn for a request that is finished."""

from __future__ import annotations

from reference import projection, transcript
from reference.mutants import when_a_worker_starts
from reference.store import Store

CHANGES = "a worker that starts begins another turn for a request that is finished"
CHECK = "finished-stays-finished"
CLAUSES = (
    "ADM-6",
    "INT-4",
)
CELLS = ("plain/work.released#1/worker-killed",)


def _go_on(store: Store) -> None:
    with store.write() as tx:
        for row in tx.all("SELECT work_id, session FROM works WHERE state = 'done'"):
            tx.run("UPDATE works SET state = 'queued', desired_state = 'run' WHERE work_id = ?", row["work_id"])
            transcript.begin_turn(tx, row["session"], row["work_id"])
            projection.work_event(tx, row["work_id"])


def apply() -> None:
    """Put it in."""
    when_a_worker_starts(_go_on)
