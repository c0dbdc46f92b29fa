"""Owns one seeded defect: a provider that fails is asked again at once."""

from __future__ import annotations

from typing import Any

from reference import turns
from reference.mutants import swap
from reference.running import Run
from reference.store import Row

CHANGES = "a provider that fails is asked again at once"
CHECK = "retries-wait-their-time"
CLAUSES = ("REC-8",)
CELLS = ("passing-fault/none", "mail/provider.request.received#1/provider-error")


def _after_fault(_: Any) -> Any:
    def after_fault(run: Run, turn: Row, fault: Any) -> bool:
        return True

    return after_fault


def apply() -> None:
    """Put it in."""
    swap(turns, "_after_fault", _after_fault)
