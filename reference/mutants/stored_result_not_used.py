"""Owns one seeded defect: recovery makes the calls of the last reply again though their results are stored."""

from __future__ import annotations

from typing import Any

from reference import recovery, transcript
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "recovery makes the calls of the last reply again though their results are stored"
CHECK = "stored-result-reused"
CLAUSES = (
    "EFF-4",
    "REC-13",
)
CELLS = ("recovery-known/none",)


_recovered: list[str] = []


def _recover(found: Any) -> Any:
    async def recover(process: Any, row: Row, holding: Any) -> Any:
        run = await found(process, row, holding)
        _recovered.append(row["work_id"])
        return run

    return recover


def _open_calls(found: Any) -> Any:
    def open_calls(tx: Tx, turn: Row) -> Any:
        reply = transcript.newest_reply(tx, turn["turn_id"])
        if _recovered and _recovered.pop() and reply is not None:
            return reply["item"], list(transcript.calls(reply["calls"]))
        return found(tx, turn)

    return open_calls


def apply() -> None:
    """Put it in."""
    swap(recovery, "recover", _recover)
    swap(transcript, "open_calls", _open_calls)
