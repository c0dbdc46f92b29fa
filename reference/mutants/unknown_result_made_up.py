"""Owns one seeded defect: a call whose outcome is unknown gets an ordinary result when its turn is closed."""

from __future__ import annotations

from reference import transcript
from reference.mutants import swap

CHANGES = "a call whose outcome is unknown gets an ordinary result when its turn is closed"
CHECK = "unknown-outlives-its-turn"
CLAUSES = (
    "EFF-12",
    "EFF-6",
)
CELLS = ("mail/effect.applied#1/worker-killed",)


def apply() -> None:
    """Put it in."""
    swap(transcript, "add", lambda found: lambda *given, **named: found(*given, **named | {"placeholder": False}))
