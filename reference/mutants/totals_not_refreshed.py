"""Owns one seeded defect: totals stay as they were when a receipt comes."""

from __future__ import annotations

from reference import usage
from reference.mutants import swap

CHANGES = "totals stay as they were when a receipt comes"
CHECK = "totals-can-be-rebuilt"
CLAUSES = ("USE-5",)
CELLS = ("plain/none",)


def apply() -> None:
    """Put it in."""
    swap(usage, "refresh", lambda found: lambda ledger, session: None)
