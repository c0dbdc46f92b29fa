"""Owns one seeded defect: a reply without counts is stored as one that cost nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference import turns
from reference.model import Counts
from reference.mutants import swap

CHANGES = "a reply without counts is stored as one that cost nothing"
CHECK = "usage-equals-billed"
CLAUSES = ("USE-2",)
CELLS = ("no-usage/none",)


def _keep(found: Any) -> Any:
    return lambda self, reply: found(self, replace(reply, counts=reply.counts or Counts(0, 0, 0)))


def apply() -> None:
    """Put it in."""
    swap(turns._Attempt, "keep", _keep)
