"""Owns the reviewed list of breakpoints that no case kills, each with its reason and the day on which that ends.

A point that is declared, not killed, and not excused here makes a run incomplete. An excuse whose day has passed counts
no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why `point` of `target` is not killed, and until when that is accepted."""

    target: str
    point: str
    reason: str
    until: date


EXCUSES: tuple[Excuse, ...] = ()


def excused(target: str) -> dict[str, dict[str, str]]:
    """For each excused point of the target, its `reason` and the day `until` which it counts, as ISO text."""
    return {
        each.point: {"reason": each.reason, "until": each.until.isoformat()} for each in EXCUSES if each.target == target
    }
