"""A harness of which some part does nothing never accepts: the cells of that part are inconclusive, the others are not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults.clock import CaseClock, HostBoot
from faults.controller import Held
from faults.errors import HarnessFault
from faults.plan import Address, Fault, Kill, Start
from faults.processes import Process, Sent
from reports.model import Cell, Report
from scenarios import campaign, checks, library, matrix, runner
from scenarios.case import Case, load
from scenarios.checks import Check, Evidence, Findings
from scenarios.cli import main
from scenarios.clients import _EventStream
from scenarios.matrix import Wanted
from scenarios.targets import TARGETS
from scenarios.world.handle import World
from tests.scenarios.conftest import Engines
from tests.scenarios.runs import ROOT, RUN_S_MAX, environment

REFERENCE = TARGETS["reference"]
SETTLE_S_MAX = 2.0


def in_plan() -> bool:
    """Whether this is asked from a part of a plan, and not from the workload or the end of the case."""
    return threading.current_thread().name.startswith("plan ")


def only_outside_of_plans(patch: pytest.MonkeyPatch, owner: type, name: str, result: Any = None) -> None:
    """Have a method do nothing where a plan calls it."""
    does = getattr(owner, name)
    patch.setattr(owner, name, lambda self, *given: result if in_plan() else does(self, *given))


def kills_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runner._Moment, "_kill", lambda self, life: None)


def starts_nothing(patch: pytest.MonkeyPatch) -> None:
    only_outside_of_plans(patch, runner.Stagehand, "_start")


def moves_no_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CaseClock, "move", lambda self, by_s: by_s)


def world_does_not_listen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Held, "answer", lambda self, how, status=500: self.go())


def stops_nobody(patch: pytest.MonkeyPatch) -> None:
    only_outside_of_plans(patch, Process, "freeze", True)


def wakes_nobody(patch: pytest.MonkeyPatch) -> None:
    only_outside_of_plans(patch, Process, "thaw", True)


def boots_nothing(patch: pytest.MonkeyPatch) -> None:
    boot_id = HostBoot.reboot
    patch.setattr(HostBoot, "reboot", lambda self: "new" if in_plan() else boot_id(self))


def users_do_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runner._Moment, "_user", lambda self, step: None)


def tells_nobody_to_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runner._Moment, "_terminate", lambda self, life, grace: None)


def copies_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runner._Moment, "_copy_store", lambda self, role, proof: None)


def breaks_no_store(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runner._Moment, "_store", lambda self, do: None)


Sabotage = Callable[[pytest.MonkeyPatch], None]
# What is broken, a cell that depends on it, what is then missing, and a cell that does not depend on it.
PARTS: list[tuple[Sabotage, str, str, str]] = [
    (kills_nobody, "turn.begun#1/worker-killed", "proved kills of the worker: 0 of 1", "turn.committed#1/app-exit"),
    (starts_nothing, "turn.begun#1/worker-killed", "lives begun of the worker: 0 of 1", "turn.begun#1/pause-at"),
    (moves_no_clock, "turn.begun#1/downtime-3h", "seconds of the clock, forward: 0 of 10800", "turn.begun#1/both-killed"),
    (world_does_not_listen, "provider.reply.chunk#1/stream-cut", "cut off: 0 of 1", "provider.reply.chunk#1/client-gone"),
    (world_does_not_listen, "effect.applied#1/reply-lost", "never answered: 0 of 1", "effect.applied#1/worker-killed"),
    (stops_nobody, "turn.begun#1/overtaken", "freezes of the worker, stopped by the kernel's word: 0 of 1", "none"),
    (boots_nothing, "turn.begun#1/both-killed", "new boot identities: 0 of 1", "turn.begun#1/worker-killed"),
    (users_do_nothing, "turn.begun#1/pause-at", "calls of a user to pause s1: 0 of 1", "turn.begun#1/worker-killed"),
    (users_do_nothing, "turn.begun#1/input-during", "user to send r-during s1: 0 of 1", "turn.begun#1/worker-killed"),
    (users_do_nothing, "event.sent#1/client-gone", "clients that left s1: 0 of 1", "turn.begun#1/worker-killed"),
    (tells_nobody_to_end, "turn.begun#1/graceful-restart", "ends of the worker: 0 of 1", "turn.begun#1/worker-killed"),
    (copies_nothing, "turn.begun#1/worker-killed", "copies of the store at a death: 0 of 1", "turn.begun#1/pause-at"),
    (breaks_no_store, "turn.begun#1/store-unreadable", "stores made unreadable: 0 of 1", "turn.begun#1/both-killed"),
]


def play(engines: Engines, cell: str) -> Cell:
    case = matrix.single(REFERENCE, f"mail/{cell}").model_copy(update={"settle_s_max": SETTLE_S_MAX})
    return engines("reference").play(case).cell


@pytest.mark.parametrize(("part", "cell", "missing", "other"), PARTS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_part_of_the_harness_that_does_nothing_makes_its_cells_vacuous(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, part: Sabotage, cell: str, missing: str, other: str
) -> None:
    part(monkeypatch)
    found = play(engines, cell)
    address = cell.partition("/")[0]
    assert found.status == "inconclusive", (found.why, found.evidence)
    assert (found.why or "").startswith(f"vacuous: at {address} the plan is: "), found.why
    assert any(missing in line for line in found.vacuous), found.vacuous
    bystander = play(engines, other)
    assert (bystander.status, bystander.vacuous) == ("held", []), bystander.why


def test_an_owner_that_is_never_woken_is_missed_and_nothing_comes_to_rest(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness waits for what the owner would do; that it never does weighs more than what is vacuous."""
    wakes_nobody(monkeypatch)
    cell = play(engines, "turn.begun#1/overtaken")
    assert cell.status == "violated" and {each.check for each in cell.violations} == {"everything-ends"}
    assert any("thaws of the worker: 0 of 1" in line for line in cell.vacuous)


def test_a_signal_that_is_not_sent_is_no_proof_so_its_cell_is_void(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worse than vacuous: the harness has said that it kills, and nobody died of it."""
    monkeypatch.setattr(runner, "EXIT_S_MAX", 0.5)
    sent = Sent("worker.1", 1, signal.SIGKILL, 0, True)
    only_outside_of_plans(monkeypatch, Process, "kill", sent)
    cell = play(engines, "turn.begun#1/worker-killed")
    assert cell.status == "void" and (cell.why or "").startswith("kill of worker.1 is not proved: ")
    assert any("proved kills of the worker: 0 of 1" in line for line in cell.vacuous)


def test_a_kill_that_finds_nobody_never_passes(engines: Engines) -> None:
    """The worker has been killed already when another part of the plan wants to kill it."""
    base = matrix.single(REFERENCE, "mail/turn.begun#1/worker-killed")
    twice = Fault(at=Address(point="turn.begun"), ops=(Kill(), Kill(role="worker"), Start(role="worker")))
    cell = engines("reference").play(base.model_copy(update={"plan": (twice,)})).cell
    assert cell.status == "inconclusive" and "proved kills of the worker: 1 of 2" in (cell.why or "")


def test_a_kill_of_the_one_at_the_point_without_anybody_there_is_a_fault_of_the_harness(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner._Moment, "_who_stands", lambda self: None)
    cell = play(engines, "turn.begun#1/worker-killed")
    assert cell.status == "void"
    assert (cell.why or "").startswith("fault of the harness: turn.begun#1: HarnessFault: no process of this case is known")
    assert issubclass(HarnessFault, RuntimeError)


# Whole runs ----------------------------------------------------------------------------------------------------------


def run(engines: Engines, world: World, out: Path, wanted: Wanted) -> Report:
    """A run from its plan to its report, in this process, so that parts of it can be broken."""
    plan = campaign.prepare("reference", wanted, out, world)
    for name in plan.open_cases:
        case = load(out / "cases" / name)
        campaign.play_and_write(engines(case.target), case, out)
    plan.ended = time.time()
    plan.save(out)
    return campaign.write_report(out, plan, finished=True)


def status(report: Report) -> dict[str, str]:
    return {cell.id: cell.status for cell in report.cells}


def judged_again(out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """What `killpoint report` says of the folder, which must leave its report as it was."""
    before = json.loads((out / "report.json").read_text())
    capsys.readouterr()
    ended = main(["report", str(out)])
    assert json.loads((out / "report.json").read_text()) == before
    return ended, capsys.readouterr().out


def test_a_sound_harness_accepts_and_has_compared_every_cell(
    engines: Engines, shared_world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = Wanted(scenario="recovery", point="recovery.ownership.taken", fault="pause-at")
    report = run(engines, shared_world, tmp_path / "out", wanted)
    assert report.verdict == "accepted", report.why
    assert (report.comparisons.compared, report.comparisons.lacking, report.comparisons.vacuous) == (2, 0, 0)
    armed = next(cell for cell in report.cells if cell.id == "recovery/recovery.ownership.taken#1/pause-at")
    assert armed.compared == ["recovery/none", f"{armed.id}/disarmed"] and armed.not_compared == []
    bare = next(cell for cell in report.cells if cell.id == "recovery/none")
    assert bare.evidence is not None and bare.evidence.planned == {"copy": 1, "kill worker": 1, "life worker": 1}
    page = (tmp_path / "out" / (armed.page or "")).read_text()
    assert "What the fault left behind" in page and "answered calls of a user to pause s1" in page
    assert "All differed where they should" in (tmp_path / "out" / "report.html").read_text()
    assert judged_again(tmp_path / "out", capsys)[0] == 0


def test_a_run_without_its_kills_is_incomplete_and_names_just_the_cells_that_needed_one(
    engines: Engines,
    shared_world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    kills_nobody(monkeypatch)
    report = run(engines, shared_world, out, Wanted(scenario="mail", point="turn.begun", fault="pause-a*"))
    vacuous = {"mail/turn.begun#1/pause-after", campaign.CANARY_ID}
    assert report.verdict == "incomplete"
    assert {name for name, found in status(report).items() if found == "inconclusive"} == vacuous
    assert {found for name, found in status(report).items() if name not in vacuous} == {"held"}
    named = "1 cell vacuous: the fault left nothing where it should have: mail/turn.begun#1/pause-after"
    assert named in report.why and any("the canary" in reason for reason in report.why)
    cell = next(each for each in report.cells if each.id in vacuous)
    assert len(cell.vacuous) >= 3, "its plan, the fault-free play and the disarmed one all say so"
    suites = ET.parse(out / "junit.xml").getroot()
    errors = {case.get("name") for case in suites.iter("testcase") if case.find("error") is not None}
    assert errors >= vacuous
    assert '<h2 id="vacuous">Vacuous</h2>' in (out / (cell.page or "")).read_text()
    assert "1 did not differ where they should" in (out / "report.html").read_text()
    ended, said = judged_again(out, capsys)
    assert ended == 3 and "altered" not in said
    assert "inconclusive: mail/turn.begun#1/pause-after: vacuous: at turn.begun#1 the plan is: " in said


@pytest.fixture(scope="module")
def lost_twice_once(engines: Engines, shared_world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which the reply of a receiver is lost that loses it by itself; the fault is carried out all the same."""
    out = tmp_path_factory.mktemp("lost") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(library.SCENARIOS, "order", replace(library.SCENARIOS["order"], faults=("reply-lost",)))
        run(engines, shared_world, out, Wanted(scenario="order", point="effect.applied"))
    return out


@pytest.fixture
def lost_twice(lost_twice_once: Path, tmp_path: Path) -> tuple[Path, Report]:
    """The folder of that run, to be broken, and its report."""
    out = tmp_path / "out"
    shutil.copytree(lost_twice_once, out)
    return out, Report.from_json(json.loads((out / "report.json").read_text()))


VACUOUS = "order/effect.applied#1/reply-lost"


def test_what_only_the_comparison_finds_is_written_into_cell_page_and_summaries(
    lost_twice: tuple[Path, Report], capsys: pytest.CaptureFixture[str]
) -> None:
    out, report = lost_twice
    assert report.verdict == "incomplete"
    assert {name for name, found in status(report).items() if found == "inconclusive"} == {VACUOUS}
    cell = next(each for each in report.cells if each.id == VACUOUS)
    assert cell.evidence is not None and cell.evidence.missing == [], "by itself it was held"
    assert cell.compared == ["order/none", f"{VACUOUS}/disarmed"]
    assert Cell.model_validate_json(campaign.cell_path(out, VACUOUS).read_bytes()) == cell
    for text in ((out / (cell.page or "")).read_text(), (out / "report.html").read_text()):
        assert "requests that the effect service never answered: 1, and 1 in the same scenario fault-free" in text
    assert "inconclusive: order/" in (out / "report.md").read_text()
    ended, said = judged_again(out, capsys)
    assert ended == 3 and "altered" not in said


def test_a_vacuous_cell_that_was_painted_over_is_found(
    lost_twice: tuple[Path, Report], capsys: pytest.CaptureFixture[str]
) -> None:
    out, report = lost_twice
    cell = next(each for each in report.cells if each.id == VACUOUS)
    painted = cell.model_copy(update={"status": "held", "why": None, "vacuous": []})
    campaign.cell_path(out, VACUOUS).write_text(painted.model_dump_json())
    cells = [painted if each.id == VACUOUS else each for each in report.cells]
    (out / "report.json").write_text(json.dumps(report.model_copy(update={"cells": cells}).to_json()))
    assert main(["report", str(out)]) == 3
    assert f"altered: {VACUOUS}: its stored verdict was held, its history says inconclusive" in capsys.readouterr().out


def test_a_cell_whose_partner_is_gone_is_not_said_to_be_altered(
    lost_twice: tuple[Path, Report], capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = lost_twice
    campaign.history_path(out, "order/none").unlink()
    for _ in range(2):
        assert main(["report", str(out)]) == 3
        said = capsys.readouterr().out
        altered = [line for line in said.splitlines() if line.startswith("altered: ")]
        assert altered == ["altered: order/none: its stored history cannot be read"]
    report = json.loads((out / "report.json").read_text())
    cell = next(each for each in report["cells"] if each["id"] == VACUOUS)
    assert cell["not_compared"] == ["the same scenario fault-free"] and cell["status"] == "inconclusive"
    assert any("could not be compared with the same scenario fault-free" in line for line in report["not_judged"])


@pytest.mark.parametrize("told", [True, False], ids=["before its report", "before its cells"])
def test_a_run_that_died_while_it_compared_has_altered_nothing(
    lost_twice: tuple[Path, Report], capsys: pytest.CaptureFixture[str], told: bool
) -> None:
    """The cells are written before the report is; a run that was killed in between leaves an older report."""
    out, report = lost_twice
    own = next(each for each in report.cells if each.id == VACUOUS)
    alone = own.model_copy(update={"status": "held", "why": None, "vacuous": [], "compared": []})
    cells = [alone if each.id == VACUOUS else each for each in report.cells]
    unfinished = report.model_copy(update={"cells": cells, "finished": False})
    (out / "report.json").write_text(json.dumps(unfinished.to_json()))
    if not told:
        campaign.cell_path(out, VACUOUS).write_text(alone.model_dump_json())
    assert main(["report", str(out)]) == 3
    assert "altered" not in capsys.readouterr().out
    assert json.loads((out / "report.json").read_text())["cells"] == [each.model_dump(mode="json") for each in report.cells]


def test_a_check_that_claims_to_depend_on_the_kill_and_does_not_spoils_every_cell_with_a_kill(
    engines: Engines, shared_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sees_something_anyway(_: Evidence, found: Findings) -> None:
        found.saw(3)

    blind = Check("blind", ("INT-2",), "it sees a death", sees_something_anyway, depends_on_kill=True)
    monkeypatch.setitem(checks.CHECKS, "blind", blind)
    wanted = Wanted(scenario="plain", point="turn.begun", fault="worker-killed")
    report = run(engines, shared_world, tmp_path / "out", wanted)
    assert report.verdict == "incomplete"
    assert status(report)["plain/turn.begun#1/worker-killed"] == "inconclusive"
    assert status(report)["plain/none"] == status(report)["plain/turn.begun#1/worker-killed/disarmed"] == "held"
    cell = next(each for each in report.cells if each.status == "inconclusive")
    assert (cell.why or "").startswith("vacuous: the check blind says that it depends on a kill, and examined 3 facts in")


def test_pytest_fails_too_though_each_of_its_tests_has_passed(tmp_path: Path) -> None:
    (tmp_path / "lost_twice.py").write_text(
        "from dataclasses import replace\n"
        "from scenarios import library\n"
        "library.SCENARIOS['order'] = replace(library.SCENARIOS['order'], faults=('reply-lost',))\n"
    )
    options = ["--killpoint-scenario", "order", "--killpoint-point", "effect.applied", "-p", "lost_twice"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--killpoint", *options, "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env={**environment(), "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 passed" in done.stdout and f"inconclusive: {VACUOUS}: vacuous: " in done.stdout


def test_a_case_that_is_played_alone_is_held_against_its_plan(engines: Engines) -> None:
    case: Case = matrix.single(REFERENCE, "plain/turn.begun#1/worker-killed")
    cell = engines("reference").play(case).cell
    assert cell.evidence is not None
    assert cell.evidence.planned == {"copy": 1, "kill worker": 1, "life worker": 1}
    assert {place: cell.evidence.seen[place] for place in ("kill worker", "life worker", "copy", "end worker")} == {
        "kill worker": 1,
        "life worker": 2,
        "copy": 1,
        "end worker": 1,
    }
    assert (cell.compared, cell.not_compared, cell.vacuous) == ([], [], [])


def test_a_client_that_leaves_has_been_there(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with more to do than it can, the plan may act while the client's first connection is being made."""
    connect = _EventStream._read

    def late(stream: _EventStream, after: int | None) -> None:
        fired.wait(5.0)
        connect(stream, after)

    def fires(moment: runner._Moment, plan: tuple[Any, ...]) -> None:
        fired.set()
        carry_out(moment, plan)

    fired, carry_out = threading.Event(), runner._Moment.carry_out
    monkeypatch.setattr(_EventStream, "_read", late)
    monkeypatch.setattr(runner._Moment, "carry_out", fires)
    cell = engines("reference").play(matrix.single(REFERENCE, "mail/input.committed#1/client-gone")).cell
    assert (cell.status, cell.why) == ("held", None)
    assert cell.evidence is not None and cell.evidence.seen["watch s1"] == 2
