"""Owns one seeded defect: a new owner takes a work under its old generation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference import ownership
from reference.mutants import reword, swap
from reference.ownership import Held

CHANGES = "a new owner takes a work under its old generation"
CHECK = "one-owner"
CLAUSES = (
    "OWN-1",
    "OWN-3",
)
CELLS = ("plain/turn.begun#1/worker-killed",)


def _take(found: Any) -> Any:
    def take(*given: Any, **named: Any) -> Held | None:
        held: Held | None = found(*given, **named)
        return held and replace(held, generation=held.generation - 1)

    return take


def apply() -> None:
    """Put it in."""
    reword(ownership, "_TAKE", "generation = generation + 1", "generation = generation + 0")
    swap(ownership, "take", _take)
