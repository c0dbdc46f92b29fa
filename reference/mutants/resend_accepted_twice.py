"""Owns one seeded defect: an input that is sent again under its request id is accepted a second time."""

from __future__ import annotations

from reference import intake
from reference.mutants import reword, without_unique

CHANGES = "an input that is sent again under its request id is accepted a second time"
CHECK = "no-duplicate-input"
CLAUSES = ("ADM-2",)
CELLS = ("sent-twice/none",)


def apply() -> None:
    """Put it in."""
    without_unique("inputs", "session, request_id")
    reword(intake, "accept", "WHERE session = ? AND request_id = ?", "WHERE session = ? AND request_id = ? AND 0")
