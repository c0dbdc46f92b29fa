"""Owns one seeded defect: a write whose outcome is unknown is simply sent again."""

from __future__ import annotations

from reference import effects
from reference.model import Tool
from reference.mutants import swap
from reference.store import Row

CHANGES = "a write whose outcome is unknown is simply sent again"
CHECK = "no-duplicate-write"
CLAUSES = (
    "EFF-3",
    "REC-3",
)
CELLS = ("mail/effect.applied#1/worker-killed",)


def _left_to(turn: Row | None, effect: Row, tool: Tool) -> bool:
    return turn is not None and effect["turn_id"] == turn["turn_id"]


def apply() -> None:
    """Put it in."""
    swap(effects, "_left_to", lambda found: _left_to)
