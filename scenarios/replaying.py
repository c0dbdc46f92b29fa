"""Owns playing stored cases again, and judging stored histories again."""

from __future__ import annotations

import contextlib
import json
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console

from faults.errors import HarnessFault
from faults.table import fault as fault_named
from reports import repro, writer
from reports.assemble import EXIT_STATUS
from reports.model import Cell, worst
from reports.pages import all_violations
from scenarios import campaign, mutants, progress, reproducer, vacuity
from scenarios.case import PLANNED, Case, CaseError, load, parse, read
from scenarios.engine import Engine, load_history
from scenarios.history import History
from scenarios.judge import broken_off, judge
from scenarios.target import Target
from scenarios.targets import in_file as target_in_file
from scenarios.targets import target as target_named
from scenarios.versions import versions

EXIT = {"held": 0, "violated": 1}
SCRIPT_TIMES = 50
ALTERED = "its evidence was altered: "

# What a cell has from a comparison with other cells, not from its own history.
_OF_OTHERS = frozenset({"status", "why", "compared", "not_compared", "vacuous"})


def replay(
    file: Path,
    times: int,
    target: str | None,
    mutant: str | None,
    cold: bool,
    console: Console,
    script: Path | None = None,
) -> int:
    """Play a stored case so many times and say whether the same violation came, another one, or none.

    script: where to write a file that plays it by itself, if it is violated; where that cannot be written, it is said.
    Raises CaseError for a file that is none, ValueError for a script that is there already or whose folder is not.
    """
    case, expected, recorded = _read(file, target)
    if script is not None and (script.exists() or not script.parent.is_dir()):
        raise ValueError(f"{script}: {'is there already' if script.exists() else 'has no such folder'}; give another name")
    chosen = target_named(target) if target else target_in_file(case.target)
    if mutant is not None:
        mutants.matching(mutant)
    case = case.model_copy(update={"target": chosen.name, "cold": cold or case.cold})
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()
    last: Cell | None = None
    failed: Cell | None = None
    now, environment = versions(chosen), mutants.environment(mutant)
    _tell_changes(recorded, now, console)
    with (
        tempfile.TemporaryDirectory(prefix="killpoint-") as scratch,
        Engine(chosen, Path(scratch), environment=environment) as engine,
    ):
        for _ in range(times):
            last = engine.play(case).cell
            failed = last if last.violations else failed
            found[last.status, tuple(sorted({each.check for each in last.violations}))] += 1
    if last is None:
        raise HarnessFault("nothing was played")
    _tell(case, last, found, expected, times, console)
    if script is not None:
        _write_script(script, case, failed, chosen, now, environment, console)
    return EXIT.get(last.status, 3) if len(found) == 1 else 3


def _write_script(
    script: Path,
    case: Case,
    failed: Cell | None,
    target: Target,
    known: dict[str, str],
    environment: dict[str, str],
    console: Console,
) -> None:
    """Write it, or say why there is none."""
    try:
        text = reproducer.write(case, target, all_violations(failed) if failed else (), known, environment)
        writer.atomic_write(script, text)
    except (ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        console.print(f"{script}: not written: {why}", markup=False)
    else:
        console.print(f"{script}: plays it by itself; python3 {script} --times {SCRIPT_TIMES}", markup=False)


class _Expected(BaseModel):
    model_config = ConfigDict(extra="ignore")
    check: str


class _Repro(BaseModel):
    """What is read of a repro.json."""

    model_config = ConfigDict(extra="ignore")
    case: dict[str, Any]
    expected_violations: list[_Expected]
    versions: dict[str, str] = {}


def _known(case: Case, file: Path, target: str | None) -> Case:
    """The case, if its fault and target are known here by name; the plan has been looked at when it was parsed."""
    try:
        if case.fault not in ("none", PLANNED):
            fault_named(case.fault)
        if target is None:
            target_in_file(case.target)
    except ValueError as error:
        raise CaseError(f"{file}: {error}") from None
    return case


def _read(file: Path, target: str | None) -> tuple[Case, list[str] | None, dict[str, str]]:
    """The case in the file, the checks that it is expected to violate (None: nobody said), the versions it was seen on."""
    data = read(file)
    if isinstance(data, dict) and data.get("schema") == repro.SCHEMA:
        try:
            kept = _Repro.model_validate(data)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise CaseError(f"{file}: {where}: is not as killpoint run wrote it; take the case file instead") from None
        return (
            _known(parse(kept.case, str(file)), file, target),
            sorted({e.check for e in kept.expected_violations}),
            kept.versions,
        )
    case = _known(parse(data, str(file)), file, target)
    stored = file.parent.parent / "cells" / file.name
    if file.parent.name == "cases" and stored.is_file():
        cell = Cell.model_validate_json(stored.read_text("utf-8"))
        return case, sorted({each.check for each in cell.violations}), _versions_beside(stored.parent.parent)
    return case, None, {}


def _versions_beside(folder: Path) -> dict[str, str]:
    """What the run in this folder was played with; nothing if it does not say."""
    for name in ("plan.json", "explore.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return dict(json.loads((folder / name).read_bytes())["versions"])
    return {}


def _tell_changes(recorded: dict[str, str], now: dict[str, str], console: Console) -> None:
    for name, value in recorded.items():
        if now.get(name) != value:
            console.print(f"changed since it was recorded: {name} was {value}, is {now.get(name)}", markup=False)


def _tell(
    case: Case,
    last: Cell,
    found: Counter[tuple[str, tuple[str, ...]]],
    expected: list[str] | None,
    times: int,
    console: Console,
) -> None:
    for (status, checks), count in found.most_common():
        named = f" by {', '.join(checks)}" if checks else ""
        console.print(f"{count} of {times}: {status}{named}{_against(checks, expected, count, times)}", markup=False)
    for violation in last.violations:
        console.print(f"  {violation.check} ({', '.join(violation.clauses)}): {violation.promise}", markup=False)
        console.print(f"    expected: {violation.expected.says}", markup=False)
        console.print(f"    seen:     {violation.seen.says}", markup=False)
    if last.status != "held" and last.why:
        console.print(f"  {last.why}", markup=False)
    same = "equal" if len(found) == 1 else "different"
    console.print(f"{case.id} on {case.target}: {times} plays, {same} verdicts", style="bold")


def _against(checks: tuple[str, ...], expected: list[str] | None, count: int, times: int) -> str:
    if expected is None:
        return ""
    if list(checks) == expected:
        return ": the same as recorded" if checks else ""
    if not checks:
        return f": no longer reproduced{_bound(count, times)}"
    return f": another violation, recorded was {', '.join(expected) or 'none'}"


def _bound(count: int, times: int) -> str:
    """What so many plays without the violation say about its rate: the rule of three, with 95 % confidence."""
    return f" (0 of {times}, below 3/{times} = {min(1.0, 3 / times):.0%})" if count == times > 1 else ""


def judge_again(folder: Path, spec: str | None, console: Console) -> int:
    """Judge the stored histories of a run again, write its report, and say so if a history, a cell or a case was altered.

    A cell whose evidence was altered is `void` from then on. Nothing is imported because a stored file says so: a target
    that is not of the list must be given again as `spec`.
    """
    try:
        plan = campaign.Plan.load(folder)
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder}: holds no run; give a folder that `killpoint run` wrote") from None
    judged = _target_of(plan, spec)
    told = _Told(folder)
    stored = [_Evidence(folder, name, case_id, told) for case_id, name in zip(plan.ids, plan.cases, strict=True)]
    if plan.ended is None:  # what was never played is no loss of evidence
        stored = [each for each in stored if each.there]
    altered = _again(stored, judged, plan, told)
    report = campaign.write_report(folder, plan, finished=plan.ended is not None, problems=altered, target=judged)
    for line in altered:
        console.print(f"altered: {line}", markup=False)
    progress.tell(report, folder, console)
    return EXIT_STATUS[report.verdict]


def _again(stored: list[_Evidence], judged: Target, plan: campaign.Plan, told: _Told) -> list[str]:
    """Judge these again, each from its own history, and write it; say which was altered, and how.

    What a comparison with other cells had made of a cell is made again from what their histories say now. Where the
    evidence of some cell is gone, nobody can say what that had been, and only the rest of each cell is looked at.
    """
    for each in stored:
        each.judge_again(judged, plan.versions)
    sound = told.finished and not any(each.problem for each in stored)
    compared = vacuity.compared(each.cell for each in stored) if plan.ended is not None else [e.cell for e in stored]
    for each, cell in zip(stored, compared, strict=True):
        each.measure(cell if sound else None)
    return [f"{each.id}: {each.problem}" for each in stored if each.problem]


def _target_of(plan: campaign.Plan, spec: str | None) -> Target:
    if spec is not None:
        return target_named(spec)
    try:
        return target_in_file(plan.target)
    except ValueError:
        raise ValueError(
            f"this is a run of {plan.target!r}, which is not of the list; give it with --target if you trust it"
        ) from None


class _Told:
    """The report as it is on disk: its cells by id, none if there is no report, and whether its run had finished."""

    def __init__(self, folder: Path) -> None:
        self.cells: dict[str, dict[str, Any]] = {}
        self.finished = False
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            report = json.loads((folder / "report.json").read_bytes())
            self.cells = {cell["id"]: cell for cell in report["cells"]}
            self.finished = bool(report["finished"])

    def contradicts(self, cell: Cell) -> bool:
        """Whether the report tells another cell. A run may have died after it compared its cells and before it told so."""
        told, stored = self.cells.get(cell.id), cell.model_dump(mode="json")
        if told is None or told == stored:
            return False
        return self.finished or any(told.get(name) != stored[name] for name in stored if name not in _OF_OTHERS)


class _Evidence:
    """What a run has stored of one case: the case file, the history, the cell, and the cell as the report tells it.

    cell: what follows from it now. problem: what is wrong with it, if anything.
    """

    def __init__(self, folder: Path, name: str, case_id: str, told: _Told) -> None:
        self._folder, self._name, self._told, self.id = folder, name, told, case_id
        self._case, self._cell = folder / "cases" / name, folder / "cells" / name
        self._history = campaign.history_path(folder, case_id)
        self._before: Cell | None = None
        self.case: Case | None = None
        self.cell = self._nothing()
        self.problem: str | None = None

    @property
    def there(self) -> bool:
        """Whether this case was played at all."""
        return self._cell.exists()

    def judge_again(self, judged: Target, recorded: dict[str, str]) -> None:
        """Judge it from its own history alone, and write what follows."""
        lines: list[dict[str, Any]] = []
        with contextlib.suppress(CaseError):
            self.case = load(self._case)
        try:
            self._before = Cell.model_validate_json(self._cell.read_text("utf-8"))
            self.cell = self._before
        except (OSError, ValueError):
            self.cell = self._nothing()
            return self._settle("its stored cell cannot be read", lines)
        if self.case is None:
            return self._settle("its case file cannot be read", lines)
        try:
            history = load_history(self._history)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error):
            return self._settle("its stored history cannot be read", lines)
        lines = history.lines()
        if self._told.contradicts(self._before):
            return self._settle("its stored cell is not the one that the report has", lines)
        if self._before.digest is None:
            # The harness could not play it, so nothing was judged and there is nothing to judge again.
            said = (self._before.why or "").partition(ALTERED)[2]
            lost = said or None if self._before.status == "void" else "its stored cell has lost its digest"
            return self._settle(lost, lines)
        cell = self._judged(history, self._before, judged, recorded)
        if cell.digest != self._before.digest:
            return self._settle(f"its digest was {_brief(self._before.digest)}, is {_brief(cell.digest)}", lines)
        places = {name: getattr(self._before, name) for name in ("case", "page", "repro", "mutant")}
        self.cell = cell.model_copy(update=places)
        return self._settle(None, lines)

    def measure(self, compared: Cell | None) -> None:
        """Find out whether the stored cell is the one that its history gives, and, where it is given, the comparison with
        other cells; write it again if it is not."""
        before = self._before
        if self.problem or before is None or before.digest is None:
            return
        cell = compared or self.cell
        if before.status != cell.status and (compared or before.status != worst((cell.status, "inconclusive"))):
            problem = f"its stored verdict was {before.status}, its history says {cell.status}"
        elif differs := [
            name
            for name in Cell.model_fields
            if getattr(cell, name) != getattr(before, name) and (compared or name not in _OF_OTHERS)
        ]:
            problem = f"its stored cell differs from what its history says: {', '.join(differs)}"
        else:
            return
        self._settle(problem, load_history(self._history).lines())

    def _settle(self, problem: str | None, lines: list[dict[str, Any]]) -> None:
        """Write the cell as it now is: `void`, if there is a problem."""
        self.problem = problem
        if problem:
            self.cell = self.cell.model_copy(update={"status": "void", "why": f"{ALTERED}{problem}"})
        if self.case is not None:
            campaign.write_cell(self._folder, self.case, self.cell, lines)
        else:
            campaign.keep_cell(self._folder, self._name, self.cell)

    def _nothing(self) -> Cell:
        if self.case is not None:
            return broken_off(self.case, "")
        return Cell(id=self.id, scenario="", family="", point=None, ordinal=None, fault="", entrance="", status="void")

    def _judged(self, history: History, before: Cell, judged: Target, recorded: dict[str, str]) -> Cell:
        assert self.case is not None
        target = judged if self.case.target == judged.name else target_in_file(self.case.target)
        known = {**recorded, "target": f"{target.name} {target.version()}"} if target is not judged else recorded
        return judge(self.case, history, target.claims, known, before.phases, before.seconds)


def _brief(digest: str | None) -> str:
    return (digest or "none").removeprefix("sha256:")[:12]
