"""Owns one seeded defect: text of a cut reply is taken out of the transcript when the whole reply is there."""

from __future__ import annotations

from typing import Any

from reference import transcript
from reference.mutants import swap
from reference.store import Tx

CHANGES = "text of a cut reply is taken out of the transcript when the whole reply is there"
CHECK = "transcript-append-only"
CLAUSES = (
    "REC-11",
    "HIS-3",
)
CELLS = ("paused/none",)


_TIDY = "DELETE FROM items WHERE session = ? AND kind = 'assistant' AND NOT complete"


def _add(found: Any) -> Any:
    def add(tx: Tx, session: str, key: str, kind: str, text: str, **named: Any) -> int | None:
        if kind == "assistant" and named.get("complete", True):
            tx.run(_TIDY, session)
        number: int | None = found(tx, session, key, kind, text, **named)
        return number

    return add


def apply() -> None:
    """Put it in."""
    swap(transcript, "add", _add)
