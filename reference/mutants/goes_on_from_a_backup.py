"""Owns one seeded defect: a worker whose store cannot be read goes on from the backup that it made at its last claim."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from reference import ownership
from reference.model import StateUnavailable
from reference.mutants import swap
from reference.settings import Settings
from reference.store import Store

CHANGES = "a worker whose store cannot be read goes on from the backup that it made at its last claim"
CHECK = "unreadable-store-refused"
CLAUSES = (
    "EFF-10",
    "OWN-4",
    "REC-1",
)
CELLS = ("mail/turn.begun#1/store-unreadable",)


def _beside(data: Path) -> Path:
    return data.with_name("backup")


def _take(found: Any) -> Any:
    def take(store: Store, *given: Any, **named: Any) -> Any:
        held = found(store, *given, **named)
        backup = _beside(store.settings.data)
        backup.mkdir(exist_ok=True)
        for database in (store.work, store.usage):
            with closing(sqlite3.connect(backup / database.path.name)) as copy:
                database.driver.backup(copy)
        return held

    return take


def _open(found: Any) -> Any:
    def opened(settings: Settings) -> Any:
        try:
            return found(settings)
        except StateUnavailable:
            return found(replace(settings, data=_beside(settings.data)))

    return opened


def apply() -> None:
    """Put it in."""
    swap(ownership, "take", _take)
    swap(Store, "open", _open)
