"""Owns one seeded defect: earlier replies are told by their first word."""

from __future__ import annotations

from typing import Any

from reference import context
from reference.mutants import swap

CHANGES = "earlier replies are told by their first word"
CHECK = "history-told-as-stored"
CLAUSES = ("HIS-3",)
CELLS = ("mail/none",)


def _messages(found: Any) -> Any:
    def messages(*given: Any) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = found(*given)
        for message in told:
            if message["role"] == "assistant" and message["content"]:
                message["content"] = message["content"].split()[0]
        return told

    return messages


def apply() -> None:
    """Put it in."""
    swap(context, "messages", _messages)
