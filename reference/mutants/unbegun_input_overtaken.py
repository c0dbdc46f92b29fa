"""Owns one seeded defect: an input that comes while recovery runs goes before those that wait and have not begun."""

from __future__ import annotations

from reference import intake
from reference.mutants import reword

CHANGES = "an input that comes while recovery runs goes before those that wait and have not begun"
CHECK = "inputs-in-first-order"
CLAUSES = ("ADM-3",)
CELLS = ("recovery-before-another/recovery.decision.stored#1/input-during",)


def apply() -> None:
    """Put it in."""
    reword(intake, "_FROM_HERE", "EXISTS (SELECT 1 FROM turns t WHERE t.work_id = works.work_id)", "1")
