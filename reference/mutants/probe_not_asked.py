"""Owns one seeded defect: a write that could be asked for is sent again without asking."""

from __future__ import annotations

from reference import effects
from reference.mutants import swap

CHANGES = "a write that could be asked for is sent again without asking"
CHECK = "unknown-never-resent"
CLAUSES = (
    "EFF-3",
    "EFF-6",
)
CELLS = ("publish/effect.applied#1/worker-killed",)


async def _ask(*_: object) -> None:
    return None


def apply() -> None:
    """Put it in."""
    swap(effects, "_ask", lambda found: _ask)
