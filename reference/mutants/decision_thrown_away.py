"""Owns one seeded defect: a decision is deleted when its continuation is admitted."""

from __future__ import annotations

from reference import recovery
from reference.mutants import reword

CHANGES = "a decision is deleted when its continuation is admitted"
CHECK = "decision-stored"
CLAUSES = (
    "REC-2",
    "REC-5",
    "REC-6",
)
CELLS = ("recovery/none",)


def apply() -> None:
    """Put it in."""
    reword(recovery, "_resume", "UPDATE recoveries SET consumed = 1 WHERE key = ?", "DELETE FROM recoveries WHERE key = ?")
