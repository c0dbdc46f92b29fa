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
from reports import repro
from reports.assemble import EXIT_STATUS
from reports.model import Cell
from scenarios import campaign, mutants, progress
from scenarios.case import PLANNED, Case, CaseError, load, parse, read
from scenarios.engine import Engine, load_history
from scenarios.history import History
from scenarios.judge import broken_off, judge
from scenarios.target import Target
from scenarios.targets import in_file as target_in_file
from scenarios.targets import target as target_named
from scenarios.versions import versions

EXIT = {"held": 0, "violated": 1}
ALTERED = "its evidence was altered: "


def replay(file: Path, times: int, target: str | None, mutant: str | None, cold: bool, console: Console) -> int:
    """Play a stored case so many times and say whether the same violation came, another one, or none.

    Raises CaseError for a file that is none.
    """
    case, expected, recorded = _read(file, target)
    chosen = target_named(target) if target else target_in_file(case.target)
    if mutant is not None:
        mutants.matching(mutant)
    case = case.model_copy(update={"target": chosen.name, "cold": cold or case.cold})
    environment = {"REFERENCE_MUTANT": mutant} if mutant else {}
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()
    last: Cell | None = None
    _tell_changes(recorded, versions(chosen), console)
    with (
        tempfile.TemporaryDirectory(prefix="killpoint-") as scratch,
        Engine(chosen, Path(scratch), environment=environment) as engine,
    ):
        for _ in range(times):
            last = engine.play(case).cell
            found[last.status, tuple(sorted({each.check for each in last.violations}))] += 1
    if last is None:
        raise HarnessFault("nothing was played")
    _tell(case, last, found, expected, times, console)
    return EXIT.get(last.status, 3) if len(found) == 1 else 3


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
    told = _told(folder)
    altered: list[str] = []
    for case_id, name in zip(plan.ids, plan.cases, strict=True):
        evidence = _Evidence(folder, name, case_id, told.get(case_id), plan.ended is not None)
        if not evidence.there:
            continue
        problem, cell = evidence.judge_again(judged, plan.versions)
        if problem:
            altered.append(f"{case_id}: {problem}")
            cell = cell.model_copy(update={"status": "void", "why": f"{ALTERED}{problem}"})
        if evidence.case is not None:
            campaign.write_cell(folder, evidence.case, cell, evidence.lines)
        else:
            campaign.keep_cell(folder, name, cell)
    report = campaign.write_report(folder, plan, finished=plan.ended is not None, problems=altered, target=judged)
    for line in altered:
        console.print(f"altered: {line}", markup=False)
    progress.tell(report, folder, console)
    return EXIT_STATUS[report.verdict]


def _target_of(plan: campaign.Plan, spec: str | None) -> Target:
    if spec is not None:
        return target_named(spec)
    try:
        return target_in_file(plan.target)
    except ValueError:
        raise ValueError(
            f"this is a run of {plan.target!r}, which is not of the list; give it with --target if you trust it"
        ) from None


def _told(folder: Path) -> dict[str, dict[str, Any]]:
    """The cells as the report on disk has them, by id; none if there is no report."""
    try:
        return {cell["id"]: cell for cell in json.loads((folder / "report.json").read_bytes())["cells"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


class _Evidence:
    """What a run has stored of one case: the case file, the history, the cell, and the cell as the report tells it."""

    def __init__(self, folder: Path, name: str, case_id: str, told: dict[str, Any] | None, ended: bool) -> None:
        self._case, self._cell = folder / "cases" / name, folder / "cells" / name
        self._history = campaign.history_path(folder, case_id)
        self._id, self._told, self._ended = case_id, told, ended
        self.case: Case | None = None
        self.lines: list[dict[str, Any]] = []

    @property
    def there(self) -> bool:
        """Whether this case was played at all, or must have been, since the run came to its end."""
        return self._ended or self._cell.exists()

    def judge_again(self, judged: Target, recorded: dict[str, str]) -> tuple[str | None, Cell]:
        """What is wrong with the evidence, if anything, and the cell that follows from it."""
        with contextlib.suppress(CaseError):
            self.case = load(self._case)
        try:
            before = Cell.model_validate_json(self._cell.read_text("utf-8"))
        except (OSError, ValueError):
            return "its stored cell cannot be read", self._nothing()
        if self.case is None:
            return "its case file cannot be read", before
        try:
            history = load_history(self._history)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error):
            return "its stored history cannot be read", before
        self.lines = history.lines()
        if self._told is not None and self._told != before.model_dump(mode="json"):
            return "its stored cell is not the one that the report has", before
        if before.digest is None:
            # The harness could not play it, so nothing was judged and there is nothing to judge again.
            said = (before.why or "").partition(ALTERED)[2]
            return (said or None if before.status == "void" else "its stored cell has lost its digest"), before
        return self._compare(before, self._judged(history, before, judged, recorded))

    def _nothing(self) -> Cell:
        if self.case is not None:
            return broken_off(self.case, "")
        return Cell(id=self._id, scenario="", family="", point=None, ordinal=None, fault="", entrance="", status="void")

    def _judged(self, history: History, before: Cell, judged: Target, recorded: dict[str, str]) -> Cell:
        assert self.case is not None
        target = judged if self.case.target == judged.name else target_in_file(self.case.target)
        known = {**recorded, "target": f"{target.name} {target.version()}"} if target is not judged else recorded
        return judge(self.case, history, target.claims, known, before.phases, before.seconds)

    @staticmethod
    def _compare(before: Cell, cell: Cell) -> tuple[str | None, Cell]:
        if cell.digest != before.digest:
            return f"its digest was {_brief(before.digest)}, is {_brief(cell.digest)}", before
        if cell.status != before.status:
            return f"its stored verdict was {before.status}, its history says {cell.status}", before
        places = {name: getattr(before, name) for name in ("case", "page", "repro")}
        cell = cell.model_copy(update=places)
        differs = [name for name in Cell.model_fields if getattr(cell, name) != getattr(before, name)]
        return (f"its stored cell differs from what its history says: {', '.join(differs)}" if differs else None), cell


def _brief(digest: str | None) -> str:
    return (digest or "none").removeprefix("sha256:")[:12]
