"""Owns one seeded defect: earlier messages of the user are told newest first."""

from __future__ import annotations

from typing import Any

from reference import context
from reference.mutants import swap

CHANGES = "earlier messages of the user are told newest first"
CHECK = "user-messages-in-order"
CLAUSES = ("HIS-3",)
CELLS = ("three-inputs/none",)


def _messages(found: Any) -> Any:
    def messages(*given: Any) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = found(*given)
        places = [place for place, message in enumerate(told) if message["role"] == "user"][:-1]
        said = [told[place] for place in reversed(places)]
        for place, message in zip(places, said, strict=True):
            told[place] = message
        return told

    return messages


def apply() -> None:
    """Put it in."""
    swap(context, "messages", _messages)
