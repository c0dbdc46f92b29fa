"""Owns one seeded defect: recovery goes on under the control version that it began with."""

from __future__ import annotations

from typing import Any

from reference import recovery
from reference.mutants import swap
from reference.ownership import Held
from reference.store import Tx

CHANGES = "recovery goes on under the control version that it began with"
CHECK = "control-wins-over-recovery"
CLAUSES = ("INT-14",)
CELLS = ("recovery/recovery.decision.stored#1/pause-at",)


def _intent(found: Any) -> Any:
    begun: dict[tuple[str, int], int] = {}

    def intent(tx: Tx, held: Held) -> int:
        key = held.work_id, held.generation
        if key not in begun:
            begun[key] = found(tx, held)
        return begun[key]

    return intent


def apply() -> None:
    """Put it in."""
    swap(recovery, "_intent", _intent)
