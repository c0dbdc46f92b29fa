"""Owns the one check that is made of a report instead of a case: that it marks nothing as shown that was not (ENV-3).

Source, automated test, installed program and release are levels of their own. A report stands on exactly one of them, says
for the others that it says nothing, and calls a clause held only where a cell of its own showed it. The check is made
twice each time: of the report, and of a copy with a seeded defect, which it must refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from reports.model import Cell, ClauseRow, Report, Violation, Witness

Level = Literal["source", "automated test", "installed program", "release"]
LEVELS: tuple[Level, ...] = ("source", "automated test", "installed program", "release")

CLAUSE = "ENV-3"
CHECK = "levels-of-evidence-apart"
PROMISE = "a report names its one level of evidence and marks as held only what a cell of its own has shown"
DEFECT = "held-without-a-cell"


def broken(report: Report) -> list[Violation]:
    """Where the report says more than its cells have shown."""
    return [
        Violation(check=CHECK, clauses=[CLAUSE], promise=PROMISE, expected=Witness(says=expected), seen=Witness(says=seen))
        for expected, seen in _too_much(report)
    ]


def row(report: Report, text: str) -> ClauseRow:
    """The report's own row for ENV-3. `not run` if no cell was judged: then there is nothing that could be too much."""
    judged = [cell for cell in report.cells if _judged(cell)]
    sees = bool(broken(_with_defect(report)))
    found = broken(report)
    return ClauseRow(
        status="violated" if found else "not run" if not judged else "held" if sees else "not shown",
        cells=len(judged),
        mutants=[DEFECT] if sees else [],
        text=text,
        checks=[CHECK],
    )


def _too_much(report: Report) -> Iterator[tuple[str, str]]:
    if report.level not in LEVELS:
        yield f"one level of evidence out of {', '.join(LEVELS)}", f"the report names {report.level!r}"
    told = " ".join(report.not_judged)
    for level in LEVELS:
        if level != report.level and level not in told:
            yield f"the report says that it says nothing for the level: {level}", "it does not say so"
    shown = {clause for cell in report.cells if _judged(cell) for clause in _shown(cell)}
    for clause, each in report.clauses.items():
        if clause != CLAUSE and each.status == "held" and clause not in shown:
            yield f"{clause} is held only if a cell has shown it", "it is marked as held, and no cell has"
    for name, point in report.points.items():
        if point.recovered > point.killed:
            yield f"{name} was recovered from at most as often as it was killed", f"{point.recovered} of {point.killed}"


def _judged(cell: Cell) -> bool:
    return cell.status in ("held", "violated") and not cell.canary and not cell.disarmed


def _shown(cell: Cell) -> Iterator[str]:
    yield from cell.clauses
    for result in cell.checks:
        if result.status == "held" and result.examined:
            yield from result.clauses


def _with_defect(report: Report) -> Report:
    """The report with one clause more that it calls held and that no cell has shown."""
    return report.model_copy(update={"clauses": {**report.clauses, "": ClauseRow(status="held", cells=1)}})
