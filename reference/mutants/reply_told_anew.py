"""Owns one seeded defect: a worker that starts tells replies again, under new numbers, whose sending is not marked."""

from __future__ import annotations

import json

from reference import projection
from reference.mutants import when_a_worker_starts
from reference.store import Store

CHANGES = "a worker that starts tells replies again, under new numbers, whose sending is not marked"
CHECK = "reply-told-once"
CLAUSES = (
    "REC-13",
    "UIX-1",
)
CELLS = ("met-reply-told-twice/none",)


_UNMARKED = "SELECT * FROM events JOIN sessions USING (session) WHERE type = 'reply' AND number > announced"


def _tell_again(store: Store) -> None:
    with store.write() as tx:
        for row in tx.all(_UNMARKED):
            projection.add(tx, row["session"], "reply", **json.loads(row["data"]))


def apply() -> None:
    """Put it in."""
    when_a_worker_starts(_tell_again)
