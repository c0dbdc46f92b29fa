"""Owns one seeded defect: a store that cannot be read is thrown away and made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reference import store
from reference.model import StateUnavailable
from reference.mutants import swap

CHANGES = "a store that cannot be read is thrown away and made anew"
CHECK = "no-repair-while-unreadable"
CLAUSES = (
    "OWN-4",
    "REC-1",
)
CELLS = ("mail/turn.begun#1/store-unreadable",)


def _state(found: Any) -> Any:
    def state(path: Path, name: str) -> str:
        try:
            return str(found(path, name))
        except StateUnavailable:
            for ending in ("", "-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)
            return "absent"

    return state


def apply() -> None:
    """Put it in."""
    swap(store, "_state", _state)
