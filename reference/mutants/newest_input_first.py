"""Owns one seeded defect: what waits in a session is worked on newest first."""

from __future__ import annotations

from reference import intake
from reference.mutants import reword

CHANGES = "what waits in a session is worked on newest first"
CHECK = "inputs-in-first-order"
CLAUSES = ("ADM-3",)
CELLS = ("three-inputs/none",)


def apply() -> None:
    """Put it in."""
    reword(intake, "_place", "COALESCE(MAX(place), 0) + 1", "COALESCE(MIN(place), 0) - 1")
