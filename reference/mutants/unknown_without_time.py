"""Owns one seeded defect: an unknown effect is shown without its time and its input."""

from __future__ import annotations

from reference import snapshot
from reference.mutants import swap

CHANGES = "an unknown effect is shown without its time and its input"
CHECK = "unknown-operation-shown"
CLAUSES = ("UIX-5",)
CELLS = ("mail/effect.applied#1/worker-killed",)


def apply() -> None:
    """Put it in."""
    swap(snapshot, "_effect", lambda found: lambda row: found(row) | {"dispatched_at": None, "input_summary": ""})
