"""Owns one seeded defect: the results of one reply are told for one another."""

from __future__ import annotations

from typing import Any

from reference import context
from reference.mutants import swap

CHANGES = "the results of one reply are told for one another"
CHECK = "results-match-their-calls"
CLAUSES = ("HIS-1",)
CELLS = ("several/none",)


def _matched(found: Any) -> Any:
    def matched(items: Any) -> Any:
        results = found(items)
        places = list(results)
        return dict(zip(places, [results[place] for place in (*places[1:], *places[:1])], strict=True))

    return matched


def apply() -> None:
    """Put it in."""
    swap(context, "_matched", _matched)
