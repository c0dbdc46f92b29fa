"""Owns one seeded defect: the end of a turn is told when its reply is there, before it is committed."""

from __future__ import annotations

from typing import Any

from reference import events
from reference.model import Event
from reference.mutants import swap

CHANGES = "the end of a turn is told when its reply is there, before it is committed"
CHECK = "events-only-grow"
CLAUSES = ("UIX-1",)
CELLS = ("plain/none",)


def _encode(found: Any) -> Any:
    def encode(event: Event) -> str:
        told = str(found(event))
        if event.type == "reply":
            early = {name: event.data.get(name) for name in ("work_id", "turn_id")} | {"state": "done"}
            told += found(Event(event.number + 1, "turn.ended", early))
        return told

    return encode


def apply() -> None:
    """Put it in."""
    swap(events, "encode", _encode)
