"""Owns one seeded defect: a result that cannot be stored at once is dropped."""

from __future__ import annotations

from contextlib import nullcontext

from reference import effects
from reference.mutants import swap

CHANGES = "a result that cannot be stored at once is dropped"
CHECK = "result-in-hand-kept"
CLAUSES = (
    "EFF-4",
    "EFF-13",
)
CELLS = ("met-result-not-stored/none",)


def apply() -> None:
    """Put it in."""
    swap(effects, "_keeping", lambda found: lambda run, effect, outcome: nullcontext())
