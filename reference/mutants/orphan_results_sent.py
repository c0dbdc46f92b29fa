"""Owns one seeded defect: calls are left out of a request and their results are sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reference import context
from reference.mutants import swap

CHANGES = "calls are left out of a request and their results are sent"
CHECK = "request-acceptable"
CLAUSES = ("HIS-4",)
CELLS = ("mail/none",)


def _reply(found: Any) -> Any:
    def reply(*given: Any) -> Iterator[dict[str, Any]]:
        for message in found(*given):
            yield {name: value for name, value in message.items() if name != "tool_calls"}

    return reply


def apply() -> None:
    """Put it in."""
    swap(context, "_reply", _reply)
