"""Owns one seeded defect: a worker that starts gives up what was accepted and not begun."""

from __future__ import annotations

from reference import projection
from reference.mutants import when_a_worker_starts
from reference.store import Store

CHANGES = "a worker that starts gives up what was accepted and not begun"
CHECK = "acknowledged-input-not-lost"
CLAUSES = (
    "ADM-1",
    "INT-2",
)
CELLS = ("two-inputs/tool.result.stored#1/worker-killed",)


def _give_up(store: Store) -> None:
    with store.write() as tx:
        for row in tx.all("SELECT work_id FROM works w JOIN inputs USING (work_id) WHERE NOT consumed"):
            tx.run("UPDATE works SET state = 'failed', reason_code = 'restarted' WHERE work_id = ?", row["work_id"])
            projection.work_event(tx, row["work_id"])


def apply() -> None:
    """Put it in."""
    when_a_worker_starts(_give_up)
