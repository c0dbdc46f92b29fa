"""Owns one seeded defect: repair closes an attempt without a receipt as one that cost what its stream has shown."""

from __future__ import annotations

from reference import usage
from reference.model import Counts
from reference.mutants import swap
from reference.store import Tx

CHANGES = "repair closes an attempt without a receipt as one that cost what its stream has shown"
CHECK = "usage-equals-billed"
CLAUSES = (
    "USE-2",
    "REC-4",
)
CELLS = ("plain/provider.request.received#1/worker-killed",)


def _close(ledger: Tx, attempt: str, watermark: int | None) -> None:
    usage.take_receipt(ledger, attempt, Counts(0, 0, watermark or 0))


def apply() -> None:
    """Put it in."""
    swap(usage, "close_attempt", lambda found: _close)
