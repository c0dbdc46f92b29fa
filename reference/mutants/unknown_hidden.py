"""Owns one seeded defect: effects whose outcome is unknown are left out of the snapshot."""

from __future__ import annotations

from reference import snapshot
from reference.mutants import reword

CHANGES = "effects whose outcome is unknown are left out of the snapshot"
CHECK = "unknown-operation-shown"
CLAUSES = (
    "UIX-5",
    "EFF-6",
)
CELLS = ("mail/effect.applied#1/worker-killed",)


def apply() -> None:
    """Put it in."""
    reword(
        snapshot,
        "_session",
        "FROM effects WHERE session = ?",
        "FROM effects WHERE session = ? AND state <> 'outcome_unknown'",
    )
