"""Owns a run: from what the user wants to a folder with cases, histories, cells and the report.

The folder is the run's memory. The plan is written before anything is played, each cell as soon as it has been judged,
and the index again and again; so a run that was itself killed leaves a readable report that says `incomplete`.

DIR/plan.json        what was wanted, and every case that belongs to the run
DIR/cases/           one case file for each: what `killpoint replay` takes
DIR/histories/       one stored history for each played case: what `killpoint report` judges again
DIR/cells/           one cell for each, as data and as a page
DIR/repro/           for each failed cell a case with its expected violations, the draft of a bug report, and a file that
                     plays the case by itself
DIR/report.*         report.json, report.html, report.md; junit.xml
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faults.catalogue import POINTS
from faults.catalogue import matching as points_matching
from faults.table import matching as faults_matching
from reports import assemble, writer
from reports.model import NO_SCRIPT, Cell, Report, Script
from reports.pages import all_violations
from scenarios import checks, library, matrix, mutants, reproducer, track_record, vacuity
from scenarios.case import Case, CaseError, load
from scenarios.contract import clauses
from scenarios.engine import Engine, Judged, load_history, store_history
from scenarios.excuses import excused
from scenarios.history import History
from scenarios.matrix import Wanted
from scenarios.target import Target
from scenarios.targets import target as target_named
from scenarios.versions import versions
from scenarios.world.handle import World

# Each is half a megabyte; whoever has fifty wants the first of them.
SCRIPTS_MAX = 50
CANARY_ID = "canary/effect.applied#1/worker-killed"


@dataclass
class Plan:
    """What a run is going to do. `target` is the target as the user named it; `cases` holds the file names of its cases,
    in the order in which they are played, and `ids` what they are called. The first `prepared` of them are fault-free plays
    that were judged while the run was prepared: a narrow run compares its cells with them."""

    target: str
    wanted: Wanted
    command: str
    started_at: str
    began: float
    versions: dict[str, str]
    cases: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    prepared: int = 0
    ended: float | None = None

    @property
    def open_cases(self) -> list[str]:
        """The cases that are still to be played when the run has been prepared."""
        return self.cases[self.prepared :]

    def save(self, out: Path) -> None:
        """Write the plan, the whole file or none."""
        writer.atomic_write(out / "plan.json", json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, out: Path) -> Plan:
        """The plan of the run in this folder. Raises FileNotFoundError or ValueError if there is none."""
        data = json.loads((out / "plan.json").read_text())
        return cls(**{**data, "wanted": Wanted(**data["wanted"])})


def check_words(target: Target, wanted: Wanted) -> None:
    """Refuse what names nothing, before anything is written. Raises ValueError with one line that says what would do."""
    library.matching(wanted.scenario)
    if wanted.point != "*":
        points_matching(wanted.point)
    if wanted.fault not in ("*", "none"):
        faults_matching(wanted.fault)
    if wanted.case:
        track_record.cases(target, wanted.case)
    if wanted.mutant:
        mutants.matching(wanted.mutant)
        if target.name != mutants.TARGET:
            raise ValueError(f"target {target.name} has no mutants; they are seeded defects of {mutants.TARGET}")
    if wanted.policy not in target.policies:
        raise ValueError(
            f"target {target.name} does not claim the policy {wanted.policy!r}; it claims: {', '.join(target.policies)}"
        )


def begin(spec: str, target: Target, wanted: Wanted, out: Path) -> Plan:
    """Begin a run in this folder: its plan without any case, and a report that says `incomplete`, so that there is
    something to read whatever ends it. Raises ValueError, in one line, for a folder that holds other things."""
    writer.prepare(out)
    plan = Plan(
        target=spec,
        wanted=wanted,
        command=shlex.join(["killpoint", *sys.argv[1:]]),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        began=time.time(),
        versions=versions(target),
    )
    plan.save(out)
    write_report(out, plan, finished=False)
    return plan


def prepare(spec: str, wanted: Wanted, out: Path, world: World) -> Plan:
    """Play every wanted scenario without a fault, expand the matrix from what they reach, and write the plan.

    Raises ValueError, in one line, for words that name nothing and for a folder that holds other things.
    """
    target = target_named(spec)
    check_words(target, wanted)
    plan = begin(spec, target, wanted, out)
    fault_free: dict[str, tuple[Case, Judged]] = {}
    if wanted.case:
        cases = track_record.cases(target, wanted.case)
    else:
        fault_free = _fault_free(target, wanted, out, world)
        cases = matrix.expand(target, wanted, _reached(fault_free))
    if wanted.mutant:
        cases = [case.model_copy(update={"settle_s_max": mutants.SETTLE_S_MAX}) for case in cases]
    before = _beside(cases, fault_free)
    cases += list(matrix.disarmed(target, wanted, cases))
    if cases:
        cases.append(canary())
    cases = [*(case for case, _ in before), *cases]
    for case in cases:
        writer.atomic_write(case_path(out, case.id), case.to_json())
    for case, played in before:
        store_history(history_path(out, case.id), played.lines)
        script = script_of(out, case, played.cell, target, plan.versions, {})
        write_cell(out, case, played.cell, played.lines, plan.versions, script)
    plan.cases = [case_path(out, case.id).name for case in cases]
    plan.ids = [case.id for case in cases]
    plan.prepared = len(before)
    plan.save(out)
    return plan


def _beside(cases: Iterable[Case], fault_free: Mapping[str, tuple[Case, Judged]]) -> list[tuple[Case, Judged]]:
    """The fault-free plays with which these cases are to be compared and which are not among them, in a narrow run."""
    there = {case.id for case in cases}
    crossed = dict.fromkeys(case.scenario for case in cases if case.scenario in fault_free)
    return [fault_free[scenario] for scenario in crossed if fault_free[scenario][0].id not in there]


def _fault_free(target: Target, wanted: Wanted, out: Path, world: World) -> dict[str, tuple[Case, Judged]]:
    """Every wanted scenario, played on the sound target without a fault."""
    found: dict[str, tuple[Case, Judged]] = {}
    with Engine(target, out / "running", world) as engine:
        for scenario in matrix.scenarios_for(target, wanted.scenario):
            case = matrix.bare(target, scenario, wanted)
            found[scenario.name] = case, engine.play(case, record_all=True)
    return found


def _reached(fault_free: Mapping[str, tuple[Case, Judged]]) -> dict[str, matrix.Reached]:
    """What each of these plays reached, from where the scenario's own plan had been carried out."""
    return {
        name: History.join(played.lines).addresses(after=[str(each.at) for each in case.plan])
        for name, (case, played) in fault_free.items()
    }


def canary() -> Case:
    """A case that must fail: a mail is sent twice by a program without any fencing of its effects. A run in which it does
    not fail has not shown that anything can."""
    naive = target_named("naive")
    wanted = Wanted(scenario="mail", point="effect.applied", fault="worker-killed")
    found = matrix.expand(naive, wanted, {"mail": {"effect.applied": (1,)}})
    return found[0].model_copy(update={"id": CANARY_ID, "canary": True, "family": "canary"})


def keep_case(out: Path, plan: Plan, case: Case) -> None:
    """Make the case part of the run: its file and its place in the plan."""
    path = case_path(out, case.id)
    writer.atomic_write(path, case.to_json())
    plan.cases.append(path.name)
    plan.ids.append(case.id)
    plan.save(out)


def load_case(out: Path, name: str) -> Case:
    """The case of a run that is stored under this file name."""
    return load(out / "cases" / name)


def case_path(out: Path, case_id: str) -> Path:
    """Where the file of a case stands."""
    return out / "cases" / (writer.safe_name(case_id) + ".json")


def play_and_write(engine: Engine, case: Case, out: Path) -> Cell:
    """Play one case of a run, judge it, and write down everything that is known about it."""
    judged = engine.play(case)
    cell = judged.cell.model_copy(update={"mutant": engine.environment.get(mutants.VARIABLE)})
    store_history(history_path(out, case.id), judged.lines)
    script = script_of(out, case, cell, engine.target, engine.versions, engine.environment)
    return write_cell(out, case, cell, judged.lines, engine.versions, script)


def script_of(
    out: Path, case: Case, cell: Cell, target: Target, known: Mapping[str, str], environment: Mapping[str, str]
) -> Script:
    """The file that plays a failed cell by itself, or why there is none; empty for a cell that did not fail."""
    if not writer.has_repro(cell):
        return NO_SCRIPT
    if len(list((out / "repro").glob("*.py"))) >= SCRIPTS_MAX:
        return Script(why_not=f"this run has {SCRIPTS_MAX} of them already")
    try:
        text = reproducer.write(case, target, all_violations(cell), known, environment)
    except ValueError as error:
        return Script(why_not=str(error))
    return Script(text=text)


def write_cell(
    out: Path,
    case: Case,
    cell: Cell,
    lines: list[dict[str, Any]],
    known: Mapping[str, str] | None = None,
    script: Script | None = None,
) -> Cell:
    """Write the cell's data and page, and for a failed one its reproducer and the draft of a bug report.

    lines: the history in its joined order, so that a record's place is its `seq`. script: the file that plays it by
    itself; without one, that which was written before stays.
    """
    if script is None:
        before = out / "repro" / f"{writer.safe_name(case.id)}.py"
        script = Script(text=before.read_text("utf-8") if writer.has_repro(cell) and before.is_file() else None)
    cell = cell.model_copy(update={"case": f"cases/{case_path(out, case.id).name}"})
    records = [{"seq": place, **line} for place, line in enumerate(lines)]
    point = next((asdict_point(each) for each in POINTS if each.name == cell.point), None)
    cell = writer.write_cell(out, cell, records, case.data(), point, versions=known, script=script)
    writer.atomic_write(cell_path(out, case.id), cell.model_dump_json())
    return cell


def asdict_point(point: Any) -> dict[str, Any]:
    """A breakpoint as data for the reports, with its sentence."""
    return {**asdict(point), "sentence": point.sentence}


def keep_cell(out: Path, name: str, cell: Cell) -> None:
    """Store a cell of which nothing else could be read, under its file name."""
    writer.atomic_write(out / "cells" / name, cell.model_dump_json())


def cells_of(out: Path, plan: Plan) -> list[Cell]:
    """The cells that have been written so far, in the order of the plan. One that cannot be read is not there."""
    found = []
    for name in plan.cases:
        with contextlib.suppress(OSError, ValueError):
            found.append(Cell.model_validate_json((out / "cells" / name).read_bytes()))
    return found


def write_report(
    out: Path, plan: Plan, finished: bool, problems: Iterable[str] = (), target: Target | None = None
) -> Report:
    """Assemble the report of what has been written so far, and write its four files.

    A run that has come to its end has every cell compared with its fault-free and its disarmed play first; what that
    changes in a cell is written back.
    """
    target = target or target_named(plan.target)
    cells = cells_of(out, plan)
    if finished:
        cells = compare(out, cells, plan.versions)
    narrow = plan.wanted != Wanted(policy=plan.wanted.policy, cold=plan.wanted.cold)
    report = assemble.assemble(
        cells,
        assemble.Inputs(
            target=target.name,
            policy=plan.wanted.policy,
            clause_texts={clause.id: clause.text for clause in clauses().values()},
            claimed=target.claims,
            points=[asdict_point(each) for each in POINTS if each.name in target.points],
            planned=plan.ids,
            finished=finished,
            mutants=mutants.by_clause() if target.name == "reference" else None,
            excused=excused(target.name),
            today=datetime.now(UTC).date().isoformat(),
            selected_points={point for cell in cells if not cell.canary for point in cell.points_killed}
            if narrow
            else None,
            canary_expected=bool(plan.cases),
            versions=plan.versions,
            command=plan.command,
            started_at=plan.started_at,
            seconds=(plan.ended or time.time()) - plan.began,
            entrances=target.entrances,
            notes=[*problems, *_defect(plan.wanted), *blind_checks(cells)],
        ),
    )
    writer.write_index(out, report)
    return report


def compare(out: Path, cells: list[Cell], known: Mapping[str, str]) -> list[Cell]:
    """Compare the cells of a run with each other, and write back what that has changed: the data of a cell, and its page
    where it is now called vacuous."""
    compared = vacuity.compared(cells)
    for place, (before, cell) in enumerate(zip(cells, compared, strict=True)):
        if cell.vacuous != before.vacuous:
            compared[place] = _write_again(out, cell, known)
        elif cell != before:
            writer.atomic_write(cell_path(out, cell.id), cell.model_dump_json())
    return compared


def _write_again(out: Path, cell: Cell, known: Mapping[str, str]) -> Cell:
    """Write a cell with its page from what is stored of it; only its data, where its history cannot be read any more."""
    try:
        case, lines = load(case_path(out, cell.id)), load_history(history_path(out, cell.id)).lines()
    except (CaseError, OSError, ValueError, KeyError, TypeError, EOFError, zlib.error):
        keep_cell(out, cell_path(out, cell.id).name, cell)
        return cell
    return write_cell(out, case, cell, lines, known)


def _defect(wanted: Wanted) -> Iterator[str]:
    if wanted.mutant:
        yield f"played with the seeded defect {wanted.mutant}: {mutants.matching(wanted.mutant)[0].changes}"


def blind_checks(cells: Iterable[Cell]) -> Iterator[str]:
    """Checks that claim to depend on the kill and yet examined something where the kill had been taken out."""
    dependent = {name for name, check in checks.CHECKS.items() if check.depends_on_kill}
    for cell in cells:
        if cell.disarmed:
            for result in cell.checks:
                if result.check in dependent and result.examined:
                    yield f"{result.check} examined {result.examined} facts in {cell.id}, where nothing was killed"


def history_path(out: Path, case_id: str) -> Path:
    """Where the stored history of a case stands."""
    return out / "histories" / (writer.safe_name(case_id) + ".jsonl.gz")


def cell_path(out: Path, case_id: str) -> Path:
    """Where the data of a cell stands."""
    return out / "cells" / (writer.safe_name(case_id) + ".json")
