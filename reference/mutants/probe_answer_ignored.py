"""Owns one seeded defect: a write is sent again whatever the query says of it."""

from __future__ import annotations

from typing import Any

from reference import effects
from reference.mutants import swap

CHANGES = "a write is sent again whatever the query says of it"
CHECK = "no-duplicate-write"
CLAUSES = ("EFF-3",)
CELLS = ("publish/effect.applied#1/worker-killed",)


def _ask(found: Any) -> Any:
    async def ask(*given: Any) -> None:
        await found(*given)

    return ask


def apply() -> None:
    """Put it in."""
    swap(effects, "_ask", _ask)
