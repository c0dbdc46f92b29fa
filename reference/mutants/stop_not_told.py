"""Owns one seeded defect: a request that was paused and then stopped is told to the model without a word of that."""

from __future__ import annotations

from typing import Any

from reference import control
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "a request that was paused and then stopped is told to the model without a word of that"
CHECK = "outcome-told-with-its-input"
CLAUSES = ("HIS-3",)
CELLS = ("met-paused-then-stopped/none",)


def _tell(found: Any) -> Any:
    def tell(tx: Tx, turn: Row, what: str, text: str) -> None:
        if what != "stopped" or turn["state"] != "interrupted":
            found(tx, turn, what, text)

    return tell


def apply() -> None:
    """Put it in."""
    swap(control, "tell", _tell)
