"""Owns one seeded defect: a worker whose claim has changed no row goes on as if it had."""

from __future__ import annotations

from typing import Any

from reference import ownership
from reference.mutants import swap
from reference.ownership import Held
from reference.settings import Settings
from reference.store import Row, Store

CHANGES = "a worker whose claim has changed no row goes on as if it had"
CHECK = "one-owner"
CLAUSES = (
    "OWN-1",
    "OWN-3",
)
CELLS = ("met-two-recoverers/none",)


def _take(found: Any) -> Any:
    def take(store: Store, row: Row, me: str, settings: Settings, recovering: bool = False) -> Held:
        held: Held | None = found(store, row, me, settings, recovering)
        return held or Held(row["work_id"], row["session"], row["input"], row["request_id"], row["generation"] + 1, me)

    return take


def apply() -> None:
    """Put it in."""
    swap(ownership, "take", _take)
