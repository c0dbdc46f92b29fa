"""Owns the reading of the contract: which clauses exist, what each says, and from where its truth is read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROW = re.compile(
    r"^\| (?P<id>[A-Z]{3}-\d+) \| (?P<text>.+?) \| (?:(?P<source>[^|]+?) \| )?(?P<seen>[^|]+?) \|$", re.MULTILINE
)
_RANGE = re.compile(r"(?P<area>[A-Z]{3})-(?P<first>\d+)(?:\.\.(?P<last>\d+))?")


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of the recovery contract. `seen_by` says from where its truth is read."""

    id: str
    text: str
    seen_by: str


@cache
def clauses() -> dict[str, Clause]:
    """Every clause by its id, in the contract's order."""
    text = Path(__file__).with_name("contract.md").read_text("utf-8")
    return {row["id"]: Clause(row["id"], row["text"].strip(), row["seen"].strip()) for row in _ROW.finditer(text)}


def expand(ranges: str) -> tuple[str, ...]:
    """The clause ids that `ranges` names, such as "ADM-1..6 INT-12..14 ENV-3". Raises KeyError for one that is none."""
    found: list[str] = []
    for match in _RANGE.finditer(ranges):
        first, last = int(match["first"]), int(match["last"] or match["first"])
        found += [f"{match['area']}-{number}" for number in range(first, last + 1)]
    for each in found:
        clauses()[each]
    return tuple(found)


def in_order(ids: Iterable[str]) -> list[str]:
    """These ids in the contract's order, each once."""
    wanted = set(ids)
    return [each for each in clauses() if each in wanted]
