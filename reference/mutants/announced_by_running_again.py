"""Owns one seeded defect: a result that is stored and not announced is announced by running its work again."""

from __future__ import annotations

from typing import Any

from reference import recovery, transcript
from reference.mutants import swap
from reference.running import Process
from reference.store import Row

CHANGES = "a result that is stored and not announced is announced by running its work again"
CHECK = "stored-reply-reused"
CLAUSES = ("REC-13",)
CELLS = ("plain/turn.committed#1/worker-killed",)


def _recover(found: Any) -> Any:
    async def recover(process: Process, row: Row, holding: Any) -> Any:
        if row["state"] == "done":
            with process.store.write() as tx:
                tx.run("UPDATE works SET state = 'working', desired_state = 'run' WHERE work_id = ?", row["work_id"])
                transcript.begin_turn(tx, row["session"], row["work_id"])
            row = dict(row) | {"state": "working", "desired_state": "run"}  # type: ignore[assignment]
        return await found(process, row, holding)

    return recover


def apply() -> None:
    """Put it in."""
    swap(recovery, "recover", _recover)
