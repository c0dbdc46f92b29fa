"""Owns one seeded defect: an app that starts numbers its events from one."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from reference import events
from reference.mutants import swap

CHANGES = "an app that starts numbers its events from one"
CHECK = "events-only-grow"
CLAUSES = ("UIX-1",)
CELLS = ("plain/event.sent#2/app-killed",)


def _encode(found: Any) -> Any:
    numbers = count(1)
    return lambda event: found(replace(event, number=next(numbers)))


def apply() -> None:
    """Put it in."""
    swap(events, "encode", _encode)
