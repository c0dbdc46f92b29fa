"""Owns one seeded defect: recovery goes on from a checkpoint though an effect of the turn is unknown."""

from __future__ import annotations

from reference import recovery
from reference.mutants import swap

CHANGES = "recovery goes on from a checkpoint though an effect of the turn is unknown"
CHECK = "checkpoint-covers-effects"
CLAUSES = ("REC-3",)
CELLS = ("mail/effect.applied#1/worker-killed",)


def apply() -> None:
    """Put it in."""
    swap(recovery, "_stays_unknown", lambda found: lambda tx, turn: False)
