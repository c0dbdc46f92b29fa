"""Owns one seeded defect: a worker that is told to go does not hear it."""

from __future__ import annotations

from reference import worker
from reference.mutants import swap

CHANGES = "a worker that is told to go does not hear it"
CHECK = "graceful-exit-order"
CLAUSES = ("INT-7",)
CELLS = ("worker-restart/none",)


def apply() -> None:
    """Put it in."""
    swap(worker._Told, "__call__", lambda found: lambda self, *_: None)
