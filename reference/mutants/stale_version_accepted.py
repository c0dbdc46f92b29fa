"""Owns one seeded defect: a control that names an older version is obeyed."""

from __future__ import annotations

from reference import control
from reference.mutants import swap

CHANGES = "a control that names an older version is obeyed"
CHECK = "newest-control-decides"
CLAUSES = ("INT-12",)
CELLS = ("stale-control/none",)


def apply() -> None:
    """Put it in."""
    swap(control, "_current", lambda found: lambda tx, session, version: found(tx, session, None))
