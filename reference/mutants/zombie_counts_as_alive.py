"""Owns one seeded defect: an owner counts as alive as long as its pid and start time can be found."""

from __future__ import annotations

from reference.identity import Identity
from reference.mutants import reword

CHANGES = "an owner counts as alive as long as its pid and start time can be found"
CHECK = "everything-ends"
CLAUSES = (
    "INT-2",
    "REC-5",
)
CELLS = ("met-zombie/none",)


def apply() -> None:
    """Put it in."""
    reword(Identity, "certainly_dead", "ZX", "")
