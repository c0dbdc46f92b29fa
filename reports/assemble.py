"""Owns how cells become a report: the state of each clause and point, the totals, the verdict, and what was not judged.

Everything here leans to the unfavourable side. A clause is `held` only where a cell showed it and none spoke against it; a
run is `accepted` only where everything planned was played and judged. What came in as data is not looked up again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from reports import levels
from reports.levels import LEVELS, Level
from reports.model import Cell, ClauseRow, Comparisons, PointRow, Report, Status, Totals, Verdict, worst

NAMES_MAX = 12
EXIT_STATUS: dict[Verdict, int] = {"accepted": 0, "rejected": 1, "incomplete": 3}

# A cell in one of these states has shown nothing, whatever its single checks said.
_UNDECIDED: frozenset[str] = frozenset({"void", "inconclusive", "not run"})


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a report is assembled from, besides its cells.

    clause_texts: the contract, text by clause id. claimed: the clauses that the target claims.
    points: the declared breakpoints, each with `name`, `role`, `moment`, `sentence`.
    planned: ids of all cells that the run is to play. finished: whether the run came to its end.
    mutants: names of the seeded defects that were caught, by clause; None if mutants were not played.
    mutants_needed: whether a clause without a mutant counts as `not shown`; None means: if mutants are known.
    excused: points that need not be killed, each `{"reason": ..., "until": "YYYY-MM-DD"}`. today: the date, as ISO text,
        after which an excuse has ended; empty leaves every excuse standing.
    selected_points: the points that this run was narrowed to; None if it was not narrowed.
    canary_expected: whether a canary must be among the cells. level: the level of evidence (ENV-3).
    seconds: wall-clock time of the matrix; None adds up the cells.
    """

    target: str
    policy: str = "continue"
    clause_texts: Mapping[str, str] = field(default_factory=dict)
    claimed: Collection[str] = ()
    points: Sequence[Mapping[str, Any]] = ()
    planned: Sequence[str] = ()
    finished: bool = False
    mutants: Mapping[str, Sequence[str]] | None = None
    mutants_needed: bool | None = None
    excused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    today: str = ""
    selected_points: Collection[str] | None = None
    canary_expected: bool = True
    level: Level = "automated test"
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    started_at: str = ""
    seconds: float | None = None
    entrances: Sequence[str] = ()
    notes: Sequence[str] = ()
    baseline: Mapping[str, Any] | None = None


def assemble(cells: Sequence[Cell], inputs: Inputs) -> Report:
    """The report over these cells. The order of the cells is kept; a cell id that comes twice keeps its last state."""
    cells = list({cell.id: cell for cell in cells}.values())
    points = _point_rows(cells, inputs)
    verdict, why = _verdict(cells, points, inputs)
    clauses = _clause_rows(cells, inputs)
    report = Report(
        verdict=verdict,
        why=why,
        finished=inputs.finished,
        target=inputs.target,
        policy=inputs.policy,
        level=inputs.level,
        versions=dict(inputs.versions),
        started_at=inputs.started_at,
        command=inputs.command,
        entrances=list(inputs.entrances) or sorted({cell.entrance for cell in cells}),
        cells=cells,
        clauses=clauses,
        points=points,
        totals=_totals(cells, inputs),
        comparisons=_comparisons(cells),
        not_judged=list(_not_judged(cells, clauses, points, inputs)),
        notes=list(inputs.notes),
        baseline=dict(inputs.baseline) if inputs.baseline is not None else None,
    )
    return _of_itself(report, inputs)


def _of_itself(report: Report, inputs: Inputs) -> Report:
    """The report with its row for ENV-3, which no cell can speak for: it is about the report."""
    if levels.CLAUSE in inputs.claimed:
        text = inputs.clause_texts.get(levels.CLAUSE, "")
        report.clauses[levels.CLAUSE] = levels.row(report, text)
        report.not_judged = list(_not_judged(report.cells, report.clauses, report.points, inputs))
        if found := levels.broken(report):
            report.verdict = "rejected"
            report.why.insert(0, f"this report says more than was shown: {found[0].expected.says}; {found[0].seen.says}")
    return report


def exit_status(report: Report) -> int:
    """What the command ends with: 0 accepted, 1 rejected, 3 incomplete."""
    return EXIT_STATUS[report.verdict]


# Clauses -------------------------------------------------------------------------------------------------------------


def _voices(cell: Cell) -> Iterator[tuple[str, Status, str]]:
    """What one cell says: clause, status, check. A canary is made to fail, so it says nothing about the target."""
    if cell.canary:
        return
    if cell.status in _UNDECIDED and not cell.disarmed:
        yield from ((clause, cell.status, "") for clause in cell.clauses)
    for violation in cell.violations:
        yield from ((clause, "violated", violation.check) for clause in violation.clauses)
    for result in cell.checks:
        if result.status == "violated":
            named = {clause for violation in result.violations for clause in violation.clauses} or set(result.clauses)
            yield from ((clause, "violated", result.check) for clause in named)
        elif result.status not in ("held", "not run"):  # a check that found nothing to examine says nothing at all
            if not cell.disarmed:
                yield from ((clause, result.status, result.check) for clause in result.clauses)
        elif result.examined > 0 and not cell.disarmed and cell.status not in _UNDECIDED:
            yield from ((clause, "held", result.check) for clause in result.clauses)


def _clause_rows(cells: Iterable[Cell], inputs: Inputs) -> dict[str, ClauseRow]:
    statuses: dict[str, set[Status]] = {}
    speaking: dict[str, set[str]] = {}
    checks: dict[str, set[str]] = {}
    for cell in cells:
        for clause, status, check in _voices(cell):
            statuses.setdefault(clause, set()).add(status)
            if check:
                checks.setdefault(clause, set()).add(check)
            if status in ("held", "violated"):
                speaking.setdefault(clause, set()).add(cell.id)
    mutants = inputs.mutants or {}
    needed = inputs.mutants_needed if inputs.mutants_needed is not None else inputs.mutants is not None
    rows: dict[str, ClauseRow] = {}
    for clause in dict.fromkeys([*inputs.clause_texts, *sorted(inputs.claimed), *sorted(statuses)]):
        behind = sorted(mutants.get(clause, ()))
        row = ClauseRow(
            status="not claimed",
            cells=len(speaking.get(clause, ())),
            mutants=behind,
            text=inputs.clause_texts.get(clause, ""),
            checks=sorted(checks.get(clause, ())),
        )
        row.status = _clause_status(clause in inputs.claimed, statuses.get(clause, set()), bool(behind) or not needed)
        rows[clause] = row
    return rows


def _clause_status(
    claimed: bool, found: set[Status], can_fail: bool
) -> Literal["held", "violated", "inconclusive", "void", "not shown", "not claimed", "not run"]:
    """The state of a clause. A violation counts though the clause is not claimed: what was seen was seen."""
    if "violated" in found:
        return "violated"
    if not claimed:
        return "not claimed"
    state = worst(found - {"not claimed"})
    if state == "not run":
        return "not run" if "not run" in found else "not shown"
    if state == "held" and not can_fail:
        return "not shown"
    return state


# Points --------------------------------------------------------------------------------------------------------------


def _point_rows(cells: Sequence[Cell], inputs: Inputs) -> dict[str, PointRow]:
    rows = {
        each["name"]: PointRow(
            declared=True,
            role=each.get("role", ""),
            moment=each.get("moment", ""),
            sentence=each.get("sentence", ""),
            excused=_excuse(inputs, each["name"]),
        )
        for each in inputs.points
    }
    for cell in cells:
        for name, times in cell.points_reached.items():
            rows.setdefault(name, PointRow(declared=False)).reached += times
        if cell.canary or cell.disarmed:
            continue
        for name in set(cell.points_killed):
            row = rows.setdefault(name, PointRow(declared=False))
            row.killed += 1
            row.recovered += cell.status == "held"
    return rows


def _excuse(inputs: Inputs, name: str) -> str | None:
    """The excuse that stands for a point, with its end; None if there is none, or if its end has passed."""
    excuse = inputs.excused.get(name)
    if excuse is None or (inputs.today and excuse.get("until", "") < inputs.today):
        return None
    return f"{excuse.get('reason', 'no reason given')} (until {excuse.get('until', 'no date')})"


# Verdict and totals --------------------------------------------------------------------------------------------------


def _verdict(cells: Sequence[Cell], points: Mapping[str, PointRow], inputs: Inputs) -> tuple[Verdict, list[str]]:
    """The verdict with its reasons, weightiest first."""
    judged = [cell for cell in cells if not cell.canary]
    count = Counter(cell.status for cell in judged)
    broken = [f"{_cells(count['violated'])} broke a promise"] if count["violated"] else []
    open_ = list(_incomplete(cells, judged, count, points, inputs))
    verdict: Verdict = "rejected" if broken else "incomplete" if open_ else "accepted"
    return verdict, broken + open_


def _incomplete(
    cells: Sequence[Cell],
    judged: Sequence[Cell],
    count: Counter[Status],
    points: Mapping[str, PointRow],
    inputs: Inputs,
) -> Iterator[str]:
    """Each reason why this run cannot be accepted though nothing was violated."""
    missing = set(inputs.planned) - {cell.id for cell in cells}
    if not inputs.finished:
        yield "the run has not finished" + (
            f": {len(missing)} of {len(set(inputs.planned))} planned cells are missing" if missing else ""
        )
    elif missing:
        yield f"{_cells(len(missing))} of {len(set(inputs.planned))} planned never gave a result, such as {min(missing)}"
    canaries = [cell for cell in cells if cell.canary]
    for canary in canaries:
        if canary.status != "violated":
            yield f"the canary {canary.id} must fail and was {canary.status}: this harness would not have seen a defect"
    if inputs.canary_expected and not canaries:
        yield "no canary was played, so nothing shows that this harness can fail a run"
    if count["void"]:
        yield f"{_cells(count['void'])} void: a death that was not ours, or a fault of the harness"
    if count["inconclusive"]:
        yield f"{_cells(count['inconclusive'])} inconclusive: not reached, vacuous, or an unknown that did not close"
    vacuous = [cell.id for cell in judged if cell.vacuous]
    if vacuous:
        yield f"{_cells(len(vacuous))} vacuous: the fault left nothing where it should have: {_some(vacuous)}"
    if count["not run"]:
        yield f"{_cells(count['not run'])} not run"
    if not any(cell.status in ("held", "violated") and not cell.disarmed for cell in judged):
        yield "nothing was judged, and nothing judged is never a pass"
    spared = [name for name, row in points.items() if row.declared and not row.killed and not row.excused]
    if inputs.selected_points is not None:
        spared = [name for name in spared if name in inputs.selected_points]
    if spared:
        yield f"{len(spared)} declared breakpoint{_s(spared)} neither killed nor excused: {_some(spared)}"


def _totals(cells: Sequence[Cell], inputs: Inputs) -> Totals:
    """The sums. A canary is a cell, but its red is not the target's, so `by_status` leaves it out."""
    played = sum(cell.status != "not run" for cell in cells)
    seconds = inputs.seconds if inputs.seconds is not None else sum(cell.seconds for cell in cells)
    return Totals(
        cells=len(cells),
        kills=sum(kill.proved for cell in cells for kill in cell.kills),
        seconds=round(seconds, 3),
        cases_per_hour=round(played / seconds * 3600, 1) if seconds > 0 else 0.0,
        by_status=dict(Counter(cell.status for cell in cells if not cell.canary)),
    )


def _comparisons(cells: Sequence[Cell]) -> Comparisons:
    """How far the evidence of these cells was compared. A canary is there to be violated, whatever it is compared with."""
    cells = [cell for cell in cells if not cell.canary]
    return Comparisons(
        planned=sum(cell.evidence is not None and bool(cell.evidence.planned) for cell in cells),
        compared=sum(bool(cell.compared) for cell in cells),
        lacking=sum(bool(cell.not_compared) for cell in cells),
        vacuous=sum(bool(cell.vacuous) for cell in cells),
    )


def _not_judged(
    cells: Sequence[Cell], clauses: Mapping[str, ClauseRow], points: Mapping[str, PointRow], inputs: Inputs
) -> Iterator[str]:
    """What a reader must not take this report for, one line each."""
    yield "A real reboot is not accepted here: a restart of the host is played by a new boot identity (ENV-2)."
    yield "A SIGKILL leaves the page cache alive, so a kill proves nothing about fsync; only a power-loss run does."
    beyond = [level for level in LEVELS if level != inputs.level]
    yield f"The level of this evidence is: {inputs.level}. It says nothing for {_some(beyond, 'or')} (ENV-3)."
    unshown = "claimed but not shown: no cell speaks for them, or no seeded defect shows that their check can fail"
    for status, words in (("not claimed", "not claimed by this target"), ("not shown", unshown)):
        found = [clause for clause, row in clauses.items() if row.status == status]
        if found:
            yield f"{len(found)} clause{_s(found)} {words}: {_some(found, most=NAMES_MAX)}."
    for name, row in points.items():
        if row.excused and not row.killed:
            yield f"Breakpoint {name} was not killed: {row.excused}."
    for name in inputs.excused:
        if name in points and not points[name].excused:
            yield f"The excuse for breakpoint {name} ended on {inputs.excused[name].get('until')} and counts no more."
    if cells and not inputs.finished:
        yield "The run has not finished, so no cell was compared with its fault-free and its disarmed play yet."
    for name, lacking in Counter(name for cell in cells for name in cell.not_compared).items():
        yield f"{_cells(lacking)} could not be compared with {name}, which this run does not have."
    if inputs.selected_points is not None:
        left = [
            name for name, row in points.items() if row.declared and name not in inputs.selected_points and not row.killed
        ]
        if left:
            yield f"This run was narrowed: {len(left)} declared breakpoint{_s(left)} left out: {_some(left, most=6)}."


def _s(things: Collection[object]) -> str:
    return "" if len(things) == 1 else "s"


def _cells(number: int) -> str:
    return f"{number} cell" if number == 1 else f"{number} cells"


def _some(names: Sequence[str], last: str = "and", most: int = 6) -> str:
    """The first names in words, and how many more there are."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
