"""Owns one seeded defect: an owner counts as alive as long as its record stands."""

from __future__ import annotations

from reference.identity import Identity
from reference.mutants import swap

CHANGES = "an owner counts as alive as long as its record stands"
CHECK = "everything-ends"
CLAUSES = (
    "INT-2",
    "REC-5",
)
CELLS = ("plain/turn.begun#1/worker-killed",)


def apply() -> None:
    """Put it in."""
    swap(Identity, "certainly_dead", lambda found: lambda self: False)
