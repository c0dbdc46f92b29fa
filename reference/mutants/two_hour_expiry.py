"""Owns one seeded defect: work that nobody owned for two hours is given up."""

from __future__ import annotations

from typing import Any

from reference import clock, ownership, recovery
from reference.mutants import swap
from reference.running import Process, Run
from reference.store import Row

CHANGES = "work that nobody owned for two hours is given up"
CHECK = "no-hidden-expiry"
CLAUSES = ("INT-8",)
CELLS = (
    "mail/attempt.stored#1/downtime-3h",
    "mail/effect.applied#1/downtime-30d",
)


EXPIRY_S = 7200.0


def _recover(found: Any) -> Any:
    async def recover(process: Process, row: Row, holding: list[Run]) -> Run | None:
        if clock.now() > row["lease_until"] + EXPIRY_S:
            held = ownership.take(process.store, row, process.me, process.settings, recovering=True)
            if held is not None:
                with process.store.write() as tx:
                    ownership.release(tx, held, "failed", "expired")
            return None
        run = await found(process, row, holding)
        return run if isinstance(run, Run) else None

    return recover


def apply() -> None:
    """Put it in."""
    swap(recovery, "recover", _recover)
