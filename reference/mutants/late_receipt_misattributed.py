"""Owns one seeded defect: a late receipt is attributed to what the session works on now."""

from __future__ import annotations

from typing import Any

from reference import usage
from reference.mutants import swap
from reference.store import Store

CHANGES = "a late receipt is attributed to what the session works on now"
CHECK = "late-receipt-attributed"
CLAUSES = ("USE-6",)
CELLS = (
    "two-inputs/usage.receipt.received#1/overtaken",
    "two-inputs/reply.received#1/overtaken",
)


_NEWEST = (
    "UPDATE attempts SET work_id = (SELECT work_id FROM attempts WHERE session = ? ORDER BY rowid DESC LIMIT 1)"
    " WHERE attempt = ?"
)


def _take_late(found: Any) -> Any:
    def take_late(store: Store, session: str, attempt: str, counts: Any) -> None:
        with store.usage.write() as ledger:
            ledger.run(_NEWEST, session, attempt)
        found(store, session, attempt, counts)

    return take_late


def apply() -> None:
    """Put it in."""
    swap(usage, "take_late", _take_late)
