"""Owns one seeded defect: a write is stored whatever generation it comes from."""

from __future__ import annotations

from reference import ownership
from reference.mutants import reword

CHANGES = "a write is stored whatever generation it comes from"
CHECK = "old-generation-refused"
CLAUSES = ("OWN-3",)
CELLS = ("mail/reply.received#1/overtaken",)


def apply() -> None:
    """Put it in."""
    reword(ownership, "_FENCE", "generation = ? AND owner = ?", "(generation = ? OR 1) AND (owner = ? OR 1)")
