"""Owns one seeded defect: an input that comes while a turn has been resumed is refused as changed."""

from __future__ import annotations

from typing import Any

from reference import intake
from reference.model import Refused
from reference.mutants import swap
from reference.store import Store

CHANGES = "an input that comes while a turn has been resumed is refused as changed"
CHECK = "input-queued-not-refused"
CLAUSES = ("ADM-3",)
CELLS = ("met-drain/none",)


_RESUMED = "SELECT 1 FROM works JOIN recoveries USING (work_id) WHERE session = ? AND state = 'working'"


def _accept(found: Any) -> Any:
    def accept(store: Store, session: str, *rest: Any) -> Any:
        with store.read() as tx:
            if tx.value(_RESUMED, session):
                raise Refused("session_changed", "the session has changed; look again and retry", "session", 409)
        return found(store, session, *rest)

    return accept


def apply() -> None:
    """Put it in."""
    swap(intake, "accept", _accept)
