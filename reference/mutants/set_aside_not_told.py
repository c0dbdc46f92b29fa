"""Owns one seeded defect: a newer input is shown to the model behind an interrupted one, without a word about that one."""

from __future__ import annotations

from typing import Any

from reference import control
from reference.mutants import swap

CHANGES = "a newer input is shown to the model behind an interrupted one, without a word about that one"
CHECK = "outcome-told-with-its-input"
CLAUSES = ("HIS-3",)
CELLS = ("recovery-unasked/recovery.ownership.taken#1/input-during",)


def _silent(found: Any) -> Any:
    return lambda tx, session, work_id: None


def apply() -> None:
    """Put it in."""
    swap(control, "tell_who_waits", _silent)
