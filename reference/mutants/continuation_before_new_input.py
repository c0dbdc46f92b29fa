"""Owns one seeded defect: an input that comes while recovery runs waits behind the continuation."""

from __future__ import annotations

from reference import intake
from reference.mutants import reword

CHANGES = "an input that comes while recovery runs waits behind the continuation"
CHECK = "user-input-goes-first"
CLAUSES = ("INT-13",)
CELLS = ("recovery/recovery.decision.stored#1/input-during",)


def apply() -> None:
    """Put it in."""
    reword(intake, "_place", "AND admitting", "AND 0")
