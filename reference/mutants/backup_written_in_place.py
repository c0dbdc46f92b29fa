"""Owns one seeded defect: a backup of the store is written in place, half before a step and half after it."""

from __future__ import annotations

from typing import Any

from reference import turns
from reference.mutants import swap
from reference.running import Run

CHANGES = "a backup of the store is written in place, half before a step and half after it"
CHECK = "store-whole-at-death"
CLAUSES = (
    "ADM-1",
    "REC-6",
)
CELLS = ("plain/turn.begun#1/worker-killed",)


def _begin(found: Any) -> Any:
    def begin(run: Run) -> None:
        data = run.store.settings.work_db.read_bytes()
        half = len(data) // 2
        backup = run.store.settings.data / "backup.db"
        backup.write_bytes(data[:half])
        found(run)
        backup.write_bytes(data)

    return begin


def apply() -> None:
    """Put it in."""
    swap(turns, "begin", _begin)
