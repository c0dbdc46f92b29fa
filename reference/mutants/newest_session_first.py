"""Owns one seeded defect: a worker takes up the session that came last."""

from __future__ import annotations

from reference import ownership
from reference.mutants import reword

CHANGES = "a worker takes up the session that came last"
CHECK = "fair-among-sessions"
CLAUSES = ("REC-7",)
CELLS = ("three-sessions/turn.committed#1/worker-killed", "three-sessions/tool.result.stored#1/worker-killed")


def apply() -> None:
    """Put it in."""
    reword(ownership, "_OPEN", "ORDER BY place", "ORDER BY place DESC")
