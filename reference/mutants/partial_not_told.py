"""Owns one seeded defect: a reply that was cut off is left out of later requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference import context
from reference.model import Item
from reference.mutants import swap

CHANGES = "a reply that was cut off is left out of later requests"
CHECK = "partial-told-and-marked"
CLAUSES = (
    "HIS-5",
    "REC-11",
)
CELLS = ("recovery-stream/none",)


def _messages(found: Any) -> Any:
    def messages(items: Sequence[Item], note: str | None = None) -> Any:
        return found([item for item in items if item.complete], note)

    return messages


def apply() -> None:
    """Put it in."""
    swap(context, "messages", _messages)
