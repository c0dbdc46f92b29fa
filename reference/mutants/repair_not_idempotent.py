"""Owns one seeded defect: each repair writes placeholders of its own."""

from __future__ import annotations

from reference import ids, transcript
from reference.mutants import swap

CHANGES = "each repair writes placeholders of its own"
CHECK = "repair-is-stable"
CLAUSES = ("REC-4",)
CELLS = ("recovery/recovery.repair.written#1/killed-again",)


def apply() -> None:
    """Put it in."""
    swap(transcript, "placeholder_key", lambda found: lambda *given: f"{found(*given)}:{ids.new('p')}")
