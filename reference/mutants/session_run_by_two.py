"""Owns one seeded defect: two workers run two inputs of one session at once."""

from __future__ import annotations

from typing import Any

from reference import ownership
from reference.mutants import reword, swap
from reference.ownership import Lookout
from reference.store import Row, Store

CHANGES = "two workers run two inputs of one session at once"
CHECK = "resumed-turn-goes-first"
CLAUSES = (
    "ADM-3",
    "OWN-7",
)
CELLS = ("met-message-after-restart/none",)


def _next(found: Any) -> Any:
    def next_(self: Any, store: Store) -> tuple[Row | None, bool]:
        with store.read() as tx:
            rows = tx.all(ownership._OPEN)
        free = (row for row in rows if row["owner"] is None and self._due(row))
        return next(free, None) or found(self, store)[0], bool(rows)

    return next_


def apply() -> None:
    """Put it in."""
    reword(ownership, "_TAKE", "(o.owner IS NOT NULL OR (o.place < works.place AND o.state IN ('queued', 'waiting')))", "0")
    swap(Lookout, "next", _next)
