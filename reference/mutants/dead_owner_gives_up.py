"""Owns one seeded defect: work whose owner has died is closed as failed, and nobody takes it over."""

from __future__ import annotations

from typing import Any

from reference import projection
from reference.mutants import swap
from reference.ownership import Lookout
from reference.store import Row, Store

CHANGES = "work whose owner has died is closed as failed, and nobody takes it over"
CHECK = "dead-owner-replaced"
CLAUSES = (
    "OWN-3",
    "OWN-6",
)
CELLS = ("plain/turn.begun#1/worker-killed",)


def _next(found: Any) -> Any:
    def next_(self: Any, store: Store) -> tuple[Row | None, bool]:
        row, pending = found(self, store)
        if row is None or row["owner"] in (None, self.me):
            return row, pending
        with store.write() as tx:
            tx.run(
                "UPDATE works SET owner = NULL, state = 'failed', reason_code = 'died' WHERE work_id = ?", row["work_id"]
            )
            projection.work_event(tx, row["work_id"])
        return next_(self, store)

    return next_


def apply() -> None:
    """Put it in."""
    swap(Lookout, "next", _next)
