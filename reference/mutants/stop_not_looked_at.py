"""Owns one seeded defect: a worker does not look at what the user wants before it goes on."""

from __future__ import annotations

from reference import ownership
from reference.mutants import swap

CHANGES = "a worker does not look at what the user wants before it goes on"
CHECK = "user-control-obeyed"
CLAUSES = (
    "INT-3",
    "INT-12",
)
CELLS = ("stopped/none",)


def apply() -> None:
    """Put it in."""
    swap(ownership, "fence", lambda found: lambda tx, held: dict(found(tx, held)) | {"desired_state": "run"})
