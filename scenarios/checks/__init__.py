"""Owns the list of checks. A check is added as a function in the module of its area; importing this package registers it.

`CHECKS` holds them all by name, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable

from scenarios.checks import (
    accepting,
    effects,
    harness,
    intent,
    interface,
    ownership,
    recovery,
    request_history,
    usage,
)
from scenarios.checks.base import CHECKS, Check, Findings, UnknownCheck, judge, run
from scenarios.checks.base import find as check
from scenarios.checks.evidence import Evidence

__all__ = [
    "AREAS",
    "CHECKS",
    "Check",
    "Evidence",
    "Findings",
    "UnknownCheck",
    "check",
    "clauses_of_checks",
    "for_clauses",
    "judge",
    "run",
]

AREAS = (accepting, intent, ownership, recovery, effects, request_history, usage, interface, harness)


def for_clauses(ids: Iterable[str]) -> list[Check]:
    """The checks that speak for at least one of these clauses, in their fixed order."""
    wanted = set(ids)
    return [each for each in CHECKS.values() if wanted & set(each.clauses)]


def clauses_of_checks() -> dict[str, list[str]]:
    """For each clause that any check speaks for, the names of those checks."""
    found: dict[str, list[str]] = {}
    for each in CHECKS.values():
        for clause in each.clauses:
            found.setdefault(clause, []).append(each.name)
    return dict(sorted(found.items()))
