"""Owns one seeded defect: a continuation that was admitted and not consumed is admitted again."""

from __future__ import annotations

from reference import recovery
from reference.mutants import reword, without_unique

CHANGES = "a continuation that was admitted and not consumed is admitted again"
CHECK = "continuation-once"
CLAUSES = (
    "REC-2",
    "REC-6",
    "OWN-7",
)
CELLS = ("recovery/recovery.admitted#1/killed-again",)


def apply() -> None:
    """Put it in."""
    without_unique("turns", "predecessor")
    without_unique("turns", "continuation")
    reword(recovery, "_admit", "admitted", "restored")
