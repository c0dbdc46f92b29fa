"""Owns one seeded defect: an input that failed is told to the model as if nobody had ever worked on it."""

from __future__ import annotations

from typing import Any

from reference import control
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "an input that failed is told to the model as if nobody had ever worked on it"
CHECK = "outcome-told-with-its-input"
CLAUSES = (
    "REC-8",
    "HIS-3",
)
CELLS = ("met-failed-first/none",)


def _tell(found: Any) -> Any:
    def tell(tx: Tx, turn: Row, what: str, text: str) -> None:
        if what != "failed":
            found(tx, turn, what, text)

    return tell


def apply() -> None:
    """Put it in."""
    swap(control, "tell", _tell)
