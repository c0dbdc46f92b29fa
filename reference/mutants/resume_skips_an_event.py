"""Owns one seeded defect: a client that comes back with its last number misses the event after it."""

from __future__ import annotations

from typing import Any

from reference.events import EventStream
from reference.mutants import swap

CHANGES = "a client that comes back with its last number misses the event after it"
CHECK = "events-only-grow"
CLAUSES = ("UIX-1",)
CELLS = ("met-came-back/none",)


def _init(found: Any) -> Any:
    def init(self: Any, changes: Any, in_thread: Any, store: Any, session: str, after: int) -> None:
        found(self, changes, in_thread, store, session, after + 1 if after else after)

    return init


def apply() -> None:
    """Put it in."""
    swap(EventStream, "__init__", _init)
