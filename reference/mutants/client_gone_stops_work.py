"""Owns one seeded defect: work stops when the client that watches it goes away."""

from __future__ import annotations

from typing import Any

from reference import control
from reference.events import EventStream
from reference.mutants import swap

CHANGES = "work stops when the client that watches it goes away"
CHECK = "client-gone-work-goes-on"
CLAUSES = ("INT-5",)
CELLS = ("long-stream/provider.reply.chunk#3/client-gone",)


def _call(found: Any) -> Any:
    async def call(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await found(self, scope, receive, send)
        await self._in_thread(control.apply, self._store, self._session, "stop")

    return call


def apply() -> None:
    """Put it in."""
    swap(EventStream, "__call__", _call)
