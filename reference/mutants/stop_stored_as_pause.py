"""Owns one seeded defect: a Stop is stored as a Pause."""

from __future__ import annotations

from reference import control
from reference.mutants import swap

CHANGES = "a Stop is stored as a Pause"
CHECK = "control-is-durable"
CLAUSES = (
    "INT-3",
    "INT-6",
)
CELLS = ("stopped/none",)


def apply() -> None:
    """Put it in."""
    swap(control, "_DESIRED", lambda found: found | {"stop": "paused"})
