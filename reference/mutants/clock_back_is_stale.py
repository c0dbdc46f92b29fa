"""Owns one seeded defect: a worker that sees the clock go back takes what it watches for stale."""

from __future__ import annotations

from typing import Any

from reference import clock
from reference.mutants import swap
from reference.ownership import Lookout
from reference.store import Row

CHANGES = "a worker that sees the clock go back takes what it watches for stale"
CHECK = "live-owner-kept"
CLAUSES = ("OWN-2",)
CELLS = ("met-clock-back/none",)


_seen_at: dict[str, float] = {}


def _lost(found: Any) -> Any:
    def lost(self: Any, row: Row) -> bool:
        ahead = _seen_at.setdefault(row["work_id"], clock.now()) - clock.now()
        return ahead > self.settings.lease_s or bool(found(self, row))

    return lost


def apply() -> None:
    """Put it in."""
    swap(Lookout, "_lost", _lost)
