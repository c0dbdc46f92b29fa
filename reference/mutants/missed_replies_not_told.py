"""Owns one seeded defect: a client that comes back is not told the replies that were stored while it was away."""

from __future__ import annotations

from typing import Any

from reference.events import EventStream
from reference.model import Event
from reference.mutants import swap

CHANGES = "a client that comes back is not told the replies that were stored while it was away"
CHECK = "reply-told-once"
CLAUSES = (
    "REC-13",
    "UIX-1",
)
CELLS = ("met-reply-not-sent/none",)


def _init(found: Any) -> Any:
    def init(self: Any, changes: Any, in_thread: Any, store: Any, session: str, after: int) -> None:
        found(self, changes, in_thread, store, session, after)
        with store.read() as tx:
            self.missed = int(tx.value("SELECT events FROM sessions WHERE session = ?", session)) if after else 0

    return init


def _next(found: Any) -> Any:
    def next_(self: Any) -> list[Event]:
        return [event for event in found(self) if event.type != "reply" or event.number > self.missed]

    return next_


def apply() -> None:
    """Put it in."""
    swap(EventStream, "__init__", _init)
    swap(EventStream, "_next", _next)
