"""Owns one seeded defect: each look at the sessions takes back what was announced."""

from __future__ import annotations

from typing import Any

from reference import snapshot
from reference.mutants import swap
from reference.store import Store

CHANGES = "each look at the sessions takes back what was announced"
CHECK = "snapshot-never-goes-back"
CLAUSES = ("UIX-1",)
CELLS = ("plain/none",)


def _all(found: Any) -> Any:
    def look(store: Store) -> Any:
        views = found(store)
        with store.write() as tx:
            tx.run("UPDATE sessions SET announced = announced - 1")
        return views

    return look


def apply() -> None:
    """Put it in."""
    swap(snapshot, "all", _all)
