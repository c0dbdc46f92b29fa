"""Owns one seeded defect: an input is stored with a full stop that its user has not typed."""

from __future__ import annotations

from reference import intake
from reference.mutants import swap

CHANGES = "an input is stored with a full stop that its user has not typed"
CHECK = "only-sent-inputs-shown"
CLAUSES = ("ADM-2",)
CELLS = ("plain/none",)


def apply() -> None:
    """Put it in."""
    swap(
        intake,
        "_store",
        lambda found: lambda tx, session, request, text, version: found(tx, session, request, text + ".", version),
    )
