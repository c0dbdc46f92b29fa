"""Owns one seeded defect: recovery throws an interrupted turn away though every effect of it is known, and begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference import context, recovery, turns
from reference.model import Item
from reference.mutants import swap
from reference.running import Run
from reference.store import Row

CHANGES = "recovery throws an interrupted turn away though every effect of it is known, and begins anew"
CHECK = "work-repeated-within-bound"
CLAUSES = (
    "REC-2",
    "REC-13",
)
CELLS = ("recovery-known/none",)


_turns: list[Row] = []


def _ask(found: Any) -> Any:
    async def ask(run: Run, turn: Row) -> bool:
        _turns[:] = [turn]
        return bool(await found(run, turn))

    return ask


def _messages(found: Any) -> Any:
    def messages(items: Sequence[Item], note: str | None = None) -> Any:
        turn = _turns[0]
        if turn["predecessor"] is not None:
            items = [item for item in items if item.kind == "user" or item.turn_id == turn["turn_id"]]
        return found(items, note)

    return messages


def apply() -> None:
    """Put it in."""
    swap(recovery, "_stays_unknown", lambda found: lambda tx, turn: True)
    swap(turns, "_ask", _ask)
    swap(context, "messages", _messages)
