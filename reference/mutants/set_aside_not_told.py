"""Owns one seeded defect: a newer input is shown to the model behind an interrupted one, without a word about that one."""

from __future__ import annotations

from typing import Any

from reference import control
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "a newer input is shown to the model behind an interrupted one, without a word about that one"
CHECK = "outcome-told-with-its-input"
CLAUSES = ("HIS-3",)
CELLS = ("recovery-unasked/recovery.ownership.taken#1/input-during",)


def _tell(found: Any) -> Any:
    def tell(tx: Tx, turn: Row, what: str, text: str) -> None:
        if what != "set aside":
            found(tx, turn, what, text)

    return tell


def apply() -> None:
    """Put it in."""
    swap(control, "tell", _tell)
