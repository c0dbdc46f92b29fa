"""Owns one seeded defect: recovery repairs the context of a work before it has taken it."""

from __future__ import annotations

from typing import Any

from faults.probe import reach
from reference import ownership, transcript
from reference.mutants import swap
from reference.store import Row, Store

CHANGES = "recovery repairs the context of a work before it has taken it"
CHECK = "recovery-in-order"
CLAUSES = (
    "REC-1",
    "OWN-4",
)
CELLS = ("plain/provider.request.received#1/worker-killed",)


def _take(found: Any) -> Any:
    def take(store: Store, row: Row, *given: Any, recovering: bool = False) -> Any:
        if recovering:
            with store.write() as tx:
                last = transcript.last_turn(tx, row["work_id"])
                if last is not None:
                    transcript.close_attempts(tx, last)
            reach("recovery.repair.written", row["work_id"])
        return found(store, row, *given, recovering=recovering)

    return take


def apply() -> None:
    """Put it in."""
    swap(ownership, "take", _take)
