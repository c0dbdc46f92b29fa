"""Owns one seeded defect: a reply of which one call is answered counts as answered when its turn is resumed."""

from __future__ import annotations

from typing import Any

from reference import transcript
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "a reply of which one call is answered counts as answered when its turn is resumed"
CHECK = "told-results-are-stored"
CLAUSES = ("HIS-2",)
CELLS = ("several/tool.result.stored#1/worker-killed",)


def _open_calls(found: Any) -> Any:
    def open_calls(tx: Tx, turn: Row) -> tuple[int, list[Any]]:
        item, missing = found(tx, turn)
        reply = transcript.newest_reply(tx, turn["turn_id"])
        begun = reply is not None and len(missing) < len(transcript.calls(reply["calls"]))
        return item, [] if begun else missing

    return open_calls


def apply() -> None:
    """Put it in."""
    swap(transcript, "open_calls", _open_calls)
