"""Owns one seeded defect: an effect whose outcome is unknown is called failed when its turn ends."""

from __future__ import annotations

from typing import Any

from reference import transcript
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "an effect whose outcome is unknown is called failed when its turn ends"
CHECK = "done-means-done"
CLAUSES = ("EFF-3",)
CELLS = ("mail/effect.applied#1/worker-killed",)


_DROP = "UPDATE effects SET state = 'failed' WHERE turn_id = ? AND state = 'outcome_unknown'"


def _end_turn(found: Any) -> Any:
    def end_turn(tx: Tx, turn: Row, state: str) -> None:
        tx.run(_DROP, turn["turn_id"])
        found(tx, turn, state)

    return end_turn


def apply() -> None:
    """Put it in."""
    swap(transcript, "end_turn", _end_turn)
