"""Owns one seeded defect: two calls under one id are taken for one."""

from __future__ import annotations

from reference import context, turns
from reference.mutants import swap

CHANGES = "two calls under one id are taken for one"
CHECK = "same-call-id-twice-is-an-error"
CLAUSES = ("HIS-6",)
CELLS = ("same-call-id/none",)


def apply() -> None:
    """Put it in."""
    swap(turns, "_twice", lambda found: lambda reply: None)
    swap(context, "_check_ids", lambda found: lambda item: None)
