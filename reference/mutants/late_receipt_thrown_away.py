"""Owns one seeded defect: a receipt whose bringer no longer owns the work is thrown away."""

from __future__ import annotations

from reference import usage
from reference.mutants import swap

CHANGES = "a receipt whose bringer no longer owns the work is thrown away"
CHECK = "count-in-hand-kept"
CLAUSES = ("USE-6",)
CELLS = ("met-stopped-while-hung/none",)


def apply() -> None:
    """Put it in."""
    swap(usage, "take_late", lambda found: lambda store, session, attempt, counts: None)
