"""Owns one seeded defect: recovery asks once more for the reply that is stored."""

from __future__ import annotations

from typing import Any

from reference import recovery, transcript
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "recovery asks once more for the reply that is stored"
CHECK = "stored-reply-reused"
CLAUSES = (
    "REC-2",
    "REC-13",
)
CELLS = ("plain/reply.stored#1/worker-killed",)


_recovered: list[str] = []


def _recover(found: Any) -> Any:
    async def recover(process: Any, row: Row, holding: Any) -> Any:
        _recovered.append(row["work_id"])
        return await found(process, row, holding)

    return recover


def _answered(found: Any) -> Any:
    def answered(tx: Tx, turn_id: str) -> bool:
        return False if _recovered and _recovered.pop() else bool(found(tx, turn_id))

    return answered


def apply() -> None:
    """Put it in."""
    swap(recovery, "recover", _recover)
    swap(transcript, "answered", _answered)
