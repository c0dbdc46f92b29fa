"""Owns one seeded defect: a lease that the clock, gone back, leaves far ahead is not renewed and counts as stale."""

from __future__ import annotations

from typing import Any

from reference import clock
from reference.mutants import swap
from reference.ownership import Lease, Lookout
from reference.settings import RENEWALS_PER_LEASE
from reference.store import Row

CHANGES = "a lease that the clock, gone back, leaves far ahead is not renewed and counts as stale"
CHECK = "live-owner-kept"
CLAUSES = ("OWN-2",)
CELLS = ("met-clock-back/none",)


def _lost(found: Any) -> Any:
    def lost(self: Any, row: Row) -> bool:
        return bool(row["lease_until"] - clock.now() > 2 * self.settings.lease_s) or bool(found(self, row))

    return lost


def _due(self: Any) -> bool:
    return bool(clock.monotonic() - self._at >= self.settings.lease_s / RENEWALS_PER_LEASE)


def apply() -> None:
    """Put it in."""
    swap(Lookout, "_lost", _lost)
    swap(Lease, "due", lambda found: _due)
