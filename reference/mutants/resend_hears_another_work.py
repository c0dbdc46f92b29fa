"""Owns one seeded defect: a client that sends an input again is told another work than the first time."""

from __future__ import annotations

from typing import Any

from reference import ids, intake
from reference.mutants import swap

CHANGES = "a client that sends an input again is told another work than the first time"
CHECK = "resend-hears-the-same"
CLAUSES = ("ADM-2",)
CELLS = ("sent-twice/none",)


def _accept(found: Any) -> Any:
    def accept(*given: Any) -> tuple[dict[str, Any], bool]:
        answer, created = found(*given)
        return (answer if created else answer | {"work_id": ids.new("w")}), created

    return accept


def apply() -> None:
    """Put it in."""
    swap(intake, "accept", _accept)
