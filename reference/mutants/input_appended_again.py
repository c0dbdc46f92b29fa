"""Owns one seeded defect: the turn that continues an interrupted one has its user's input appended again."""

from __future__ import annotations

from typing import Any

from reference import transcript
from reference.mutants import swap
from reference.store import Tx

CHANGES = "the turn that continues an interrupted one has its user's input appended again"
CHECK = "input-appended-once"
CLAUSES = ("ADM-5",)
CELLS = ("mail/tool.effect.done#1/worker-killed",)


def _begin_turn(found: Any) -> Any:
    def begin_turn(tx: Tx, session: str, work_id: str, predecessor: str | None = None, *rest: Any) -> str:
        turn_id: str = found(tx, session, work_id, predecessor, *rest)
        if predecessor is not None:
            row = tx.one("SELECT text, request_id FROM inputs WHERE work_id = ?", work_id)
            assert row is not None
            said = {"turn_id": turn_id, "work_id": work_id, "request_id": row["request_id"]}
            transcript.add(tx, session, f"user:{turn_id}", "user", row["text"], **said)
        return turn_id

    return begin_turn


def apply() -> None:
    """Put it in."""
    swap(transcript, "begin_turn", _begin_turn)
