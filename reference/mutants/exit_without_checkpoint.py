"""Owns one seeded defect: a worker that is told to go ends without giving its work back."""

from __future__ import annotations

from reference import turns, worker
from reference.mutants import swap

CHANGES = "a worker that is told to go ends without giving its work back"
CHECK = "graceful-exit-order"
CLAUSES = ("INT-7",)
CELLS = ("worker-restart/none",)


def apply() -> None:
    """Put it in."""
    swap(turns, "checkpoint", lambda found: lambda run: None)
    swap(worker, "_leave", lambda found: lambda process: None)
