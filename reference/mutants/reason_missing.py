"""Owns one seeded defect: work that rests does not say why."""

from __future__ import annotations

from reference import ownership
from reference.mutants import swap

CHANGES = "work that rests does not say why"
CHECK = "reason-for-every-rest"
CLAUSES = (
    "REC-5",
    "UIX-3",
)
CELLS = ("same-call-id/none",)


def apply() -> None:
    """Put it in."""
    swap(ownership, "release", lambda found: lambda tx, held, state, *_, **named: found(tx, held, state, **named))
