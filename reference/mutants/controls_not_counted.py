"""Owns one seeded defect: controls leave the version as it is."""

from __future__ import annotations

from reference import control
from reference.mutants import reword

CHANGES = "controls leave the version as it is"
CHECK = "newest-control-decides"
CLAUSES = ("INT-12",)
CELLS = ("paused/none",)


def apply() -> None:
    """Put it in."""
    reword(control, "_apply", "control_version + 1", "control_version + 0")
