"""Owns the showing of the catalogues: points, faults, scenarios, clauses, checks, targets, mutants and cases, as rows."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from faults.catalogue import POINTS
from faults.table import FAULTS
from reports import levels
from scenarios.checks import CHECKS
from scenarios.contract import clauses, in_order
from scenarios.library import SCENARIOS
from scenarios.mutants import listed
from scenarios.targets import TARGETS
from scenarios.track_record import MET

Row = dict[str, Any]


def _points() -> list[Row]:
    return [
        {
            "name": point.name,
            "role": point.role,
            "moment": point.moment,
            "sentence": point.sentence,
            "clauses": list(point.clauses),
            "repeats_max": point.repeats_max,
        }
        for point in POINTS
    ]


def _faults() -> list[Row]:
    return [{"name": line.name, "sentence": line.sentence, "clauses": list(line.clauses)} for line in FAULTS.values()]


def _scenarios() -> list[Row]:
    return [
        {
            "name": each.name,
            "family": each.family,
            "title": each.title,
            "faults": list(each.faults),
            "inputs": sorted(each.script.replies),
            "own_plan": [str(fault.at) for fault in each.plan],
        }
        for each in SCENARIOS.values()
    ]


def _clauses() -> list[Row]:
    speaks: dict[str, list[str]] = {}
    for name, check in CHECKS.items():
        for clause in check.clauses:
            speaks.setdefault(clause, []).append(name)
    speaks.setdefault(levels.CLAUSE, []).append(levels.CHECK)
    claimed = {name: set(target.claims) for name, target in TARGETS.items()}
    return [
        {
            "id": clause.id,
            "text": clause.text,
            "seen_by": clause.seen_by,
            "checks": speaks.get(clause.id, []),
            "claimed_by": [name for name, claims in claimed.items() if clause.id in claims],
        }
        for clause in clauses().values()
    ]


def _checks() -> list[Row]:
    return [
        {
            "name": name,
            "clauses": list(check.clauses),
            "promise": check.promise,
            "depends_on_kill": check.depends_on_kill,
        }
        for name, check in CHECKS.items()
    ] + [{"name": levels.CHECK, "clauses": [levels.CLAUSE], "promise": levels.PROMISE, "depends_on_kill": False}]


def _targets() -> list[Row]:
    return [
        {
            "name": target.name,
            "title": target.title,
            "entrances": list(target.entrances),
            "roles": list(target.roles),
            "policies": list(target.policies),
            "points": list(target.points),
            "clauses": in_order(target.claims),
        }
        for target in TARGETS.values()
    ]


_ROWS: dict[str, Callable[[], list[Row]]] = {
    "points": _points,
    "faults": _faults,
    "scenarios": _scenarios,
    "clauses": _clauses,
    "checks": _checks,
    "targets": _targets,
    "mutants": lambda: [each.row() for each in listed()],
    "cases": lambda: [each.row() for each in MET],
}
NAMES = tuple(_ROWS)


def rows(what: str) -> list[Row]:
    """The rows of one catalogue. Raises ValueError, with the nearest names, for what is none."""
    if what not in _ROWS:
        near = get_close_matches(what, NAMES, n=2, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise ValueError(f"no catalogue {what!r}{hint}; there are: {', '.join(NAMES)}")
    return _ROWS[what]()


def spoken_for() -> set[str]:
    """Every clause that some check speaks for, the one that is made of the report included."""
    return {clause for check in CHECKS.values() for clause in check.clauses} | {levels.CLAUSE}


def print_rows(what: str, found: list[Row], console: Console) -> None:
    """Print one catalogue for a person: on a terminal a paragraph for each row, elsewhere one plain line for each."""
    if not console.is_terminal:
        for row in found:
            console.file.write("\t".join(_text(value) for value in row.values()) + "\n")  # rich would expand the tabs
        return
    for row in found:
        name, *fields = row.items()
        console.print(Text(str(name[1]), "bold"), soft_wrap=False)
        for label, value in fields:
            if value not in ("", [], 0, False):
                text = Text.assemble((f"{label.replace('_', ' ')}: ", "dim"), _text(value))
                console.print(Padding(text, (0, 0, 0, 2)), soft_wrap=False)
    console.print(f"{len(found)} {what}")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
