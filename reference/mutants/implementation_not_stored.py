"""Owns one seeded defect: which implementation ran a call is not stored."""

from __future__ import annotations

from reference import snapshot
from reference.mutants import reword

CHANGES = "which implementation ran a call is not stored"
CHECK = "tools-own-word-counts-nothing"
CLAUSES = ("EFF-7",)
CELLS = ("mail/none",)


def apply() -> None:
    """Put it in."""
    reword(snapshot, "_effect", "implementation", "note")
