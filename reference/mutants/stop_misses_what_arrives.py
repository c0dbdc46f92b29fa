"""Owns one seeded defect: a Stop does not look at what has come and is not committed yet."""

from __future__ import annotations

from reference import intake
from reference.mutants import swap

CHANGES = "a Stop does not look at what has come and is not committed yet"
CHECK = "stop-covers-what-had-come"
CLAUSES = (
    "ADM-4",
    "INT-3",
)
CELLS = ("mail/input.received#1/stop-before",)


def apply() -> None:
    """Put it in."""
    swap(intake, "admit_arriving", lambda found: lambda tx, store, session=None: None)
