"""Owns one seeded defect: looking at the sessions begins another turn for what has ended."""

from __future__ import annotations

from typing import Any

from reference import snapshot, transcript
from reference.mutants import swap
from reference.store import Store

CHANGES = "looking at the sessions begins another turn for what has ended"
CHECK = "reconnect-is-silent"
CLAUSES = ("UIX-6",)
CELLS = ("plain/none",)


def _all(found: Any) -> Any:
    def look(store: Store) -> Any:
        views = found(store)
        with store.write() as tx:
            for row in tx.all("SELECT work_id, session FROM works WHERE state = 'done' AND owner IS NULL"):
                tx.run("UPDATE works SET state = 'queued', desired_state = 'run' WHERE work_id = ?", row["work_id"])
                transcript.begin_turn(tx, row["session"], row["work_id"])
        return views

    return look


def apply() -> None:
    """Put it in."""
    swap(snapshot, "all", _all)
