"""Owns one seeded defect: an input that is sent again after a Stop runs again."""

from __future__ import annotations

from typing import Any

from reference import intake, projection
from reference.mutants import swap
from reference.store import Store

CHANGES = "an input that is sent again after a Stop runs again"
CHECK = "late-resend-undoes-no-stop"
CLAUSES = ("ADM-4",)
CELLS = ("stopped/none",)


def _accept(found: Any) -> Any:
    def accept(store: Store, *given: Any) -> tuple[dict[str, Any], bool]:
        answer, created = found(store, *given)
        with store.write() as tx:
            again = "UPDATE works SET state = 'queued', desired_state = 'run' WHERE work_id = ? AND state = 'cancelled'"
            if tx.run(again, answer["work_id"]):
                projection.work_event(tx, answer["work_id"])
        return answer, created

    return accept


def apply() -> None:
    """Put it in."""
    swap(intake, "accept", _accept)
