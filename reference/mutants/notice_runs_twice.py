"""Owns one seeded defect: a notice that work is there comes twice, and each one asks the model."""

from __future__ import annotations

from typing import Any

import anyio

from reference import provider
from reference.mutants import swap

CHANGES = "a notice that work is there comes twice, and each one asks the model"
CHECK = "no-two-executions"
CLAUSES = (
    "OWN-1",
    "OWN-7",
)
CELLS = ("plain/none",)


def _stream(found: Any) -> Any:
    async def stream(client: Any, settings: Any, attempt: str, messages: Any, tools: Any, on_piece: Any) -> Any:
        replies = []

        async def ask(tell: Any) -> None:
            replies.append(await found(client, settings, attempt, messages, tools, tell))

        async with anyio.create_task_group() as group:
            group.start_soon(ask, on_piece)
            group.start_soon(ask, lambda *_: None)
        return replies[0]

    return stream


def apply() -> None:
    """Put it in."""
    swap(provider, "stream", _stream)
