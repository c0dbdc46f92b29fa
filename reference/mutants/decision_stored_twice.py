"""Owns one seeded defect: recovery stores two decisions, one for each way."""

from __future__ import annotations

from typing import Any

from reference import recovery
from reference.mutants import swap
from reference.running import Run
from reference.store import Row

CHANGES = "recovery stores two decisions, one for each way"
CHECK = "continuation-once"
CLAUSES = ("REC-2",)
CELLS = ("recovery/none",)


def _decide(found: Any) -> Any:
    def decide(run: Run) -> Row | None:
        decision: Row | None = found(run)
        if decision is not None:
            with run.store.write() as tx:
                tx.run(_SECOND, f"{decision['key']}-2", "checkpoint", decision["key"])
        return decision

    return decide


_SECOND = (
    "INSERT OR IGNORE INTO recoveries (key, work_id, way, control_version, generation, consumed)"
    " SELECT ?, work_id, ?, control_version, generation, 1 FROM recoveries WHERE key = ?"
)


def apply() -> None:
    """Put it in."""
    swap(recovery, "_decide", _decide)
