"""Owns one seeded defect: results are sent at the end of a request and not behind their calls."""

from __future__ import annotations

from typing import Any

from reference import context
from reference.mutants import swap

CHANGES = "results are sent at the end of a request and not behind their calls"
CHECK = "request-acceptable"
CLAUSES = ("HIS-3",)
CELLS = ("chain/none",)


def _messages(found: Any) -> Any:
    def messages(*given: Any) -> list[dict[str, Any]]:
        return sorted(found(*given), key=lambda message: bool(message["role"] == "tool"))

    return messages


def apply() -> None:
    """Put it in."""
    swap(context, "messages", _messages)
