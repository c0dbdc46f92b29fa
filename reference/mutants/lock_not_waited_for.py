"""Owns one seeded defect: a worker does not wait for a lock that another program holds."""

from __future__ import annotations

from reference import store
from reference.mutants import swap

CHANGES = "a worker does not wait for a lock that another program holds"
CHECK = "work-repeated-within-bound"
CLAUSES = (
    "REC-2",
    "REC-13",
)
CELLS = ("met-locked/none",)


def apply() -> None:
    """Put it in."""
    swap(store, "BUSY_MS_MAX", lambda found: 1)
