"""Owns one seeded defect: a snapshot says that it holds an event which has not happened yet."""

from __future__ import annotations

from typing import Any

from reference import snapshot
from reference.mutants import swap

CHANGES = "a snapshot says that it holds an event which has not happened yet"
CHECK = "events-equal-snapshot"
CLAUSES = ("UIX-1",)
CELLS = ("plain/none",)


def _ahead(view: dict[str, Any]) -> dict[str, Any]:
    return view | {"event": view["event"] + 1}


def apply() -> None:
    """Put it in."""
    swap(snapshot, "_session", lambda found: lambda *given: _ahead(found(*given)))
