"""The harness distrusts itself: what it did not do, did not see or could not decide is never a pass, and nothing stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from faults.plan import Address, Fault, Kill, Start, User
from faults.stores import CaseFolder
from scenarios import campaign, checks, library, matrix, runner
from scenarios.case import Case
from scenarios.checks import CHECKS, Check
from scenarios.clients import HttpClient
from scenarios.engine import Engine, Judged
from scenarios.history import History, read_lines
from scenarios.judge import judge
from scenarios.matrix import Wanted
from scenarios.target import Stage
from scenarios.targets import TARGETS
from tests.scenarios.conftest import Engines

REFERENCE = TARGETS["reference"]
NOT_REACHED = Address(point="effect.applied", ordinal=9)
ENDED_S_MAX = 10.0


def bare(name: str, target: str = "reference", **changes: Any) -> Case:
    """A scenario without a fault, and with as little waiting as the test needs."""
    (scenario,) = library.matching(name)
    return matrix.bare(TARGETS[target], scenario, Wanted()).model_copy(update=changes)


def kinds(judged: Judged) -> list[str]:
    return [line["kind"] for line in judged.lines]


# A right run --------------------------------------------------------------------------------------------------------


def test_a_cell_is_held_when_its_point_was_reached_the_kill_proved_and_every_promise_kept(engines: Engines) -> None:
    judged = engines("reference").play(matrix.single(REFERENCE, "mail/tool.effect.done#1/worker-killed"))
    cell = judged.cell
    assert (cell.status, cell.why) == ("held", None)
    (kill,) = cell.kills
    assert kill.proved and kill.signal == "SIGKILL" and os.WTERMSIG(kill.status or 0) == signal.SIGKILL
    reached = [line["data"] for line in judged.lines if line["kind"] == "point.reached"]
    assert (kill.point, kill.ordinal) == ("tool.effect.done", 1)
    assert kill.nonce in {each["nonce"] for each in reached if each["pid"] == kill.pid}
    assert cell.fired == 1 and cell.points_killed == ["tool.effect.done"]
    assert {"EFF-3", "INT-2", "OWN-1", "USE-4"} <= set(cell.clauses)
    assert kinds(judged).count("effect.applied") == 1


def test_judging_the_stored_history_gives_the_same_cell(engines: Engines) -> None:
    engine = engines("reference")
    case = matrix.single(REFERENCE, "plain/turn.begun#1/worker-killed")
    judged = engine.play(case)
    again = judge(case, History.join(judged.lines), REFERENCE.claims, engine.versions, judged.cell.phases, 0.0)
    assert again.model_copy(update={"phases": {}, "seconds": 0.0}) == judged.cell.model_copy(
        update={"phases": {}, "seconds": 0.0}
    )


# Deaths that are not ours -------------------------------------------------------------------------------------------


def worker_pid(stage: Stage) -> int:
    """The pid of the worker that was started last, as the history of the running case tells it."""
    started = [line["data"] for line in read_lines(stage.history.path) if line["kind"] == "process.started"]
    return int([each for each in started if each["role"] == "worker"][-1]["pid"])


class Sniper(HttpClient):
    """A user who, instead of pausing, kills the worker from outside of everything the harness knows."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._case = stage

    def control(self, session: str, action: str, version: int | None) -> bool:
        pid = worker_pid(self._case)
        handle = os.pidfd_open(pid)
        try:
            os.kill(pid, signal.SIGKILL)
            with suppress(psutil.NoSuchProcess):  # it was reaped already
                psutil.Process(pid).wait(ENDED_S_MAX)
        finally:
            os.close(handle)
        return True


@pytest.fixture
def sniped(engines: Engines) -> Iterator[Engine]:
    engine = engines("reference")
    engine.target = replace(REFERENCE, client=Sniper)
    yield engine
    engine.target = REFERENCE


SHOT = User(step={"do": "control", "session": "s1", "action": "pause"})


def test_a_sigkill_from_elsewhere_makes_the_cell_void(sniped: Engine) -> None:
    fault = Fault(at=Address(point="turn.begun"), ops=(SHOT, Start(role="worker")))
    cell = sniped.play(bare("plain", plan=(fault,), fault="worker-killed", settle_s_max=1.0)).cell
    assert cell.status == "void" and cell.why == "worker.1 died by itself with signal SIGKILL"
    assert cell.kills == []


def test_a_kill_that_finds_the_process_dead_already_is_not_proved_and_the_cell_void(sniped: Engine) -> None:
    fault = Fault(at=Address(point="turn.begun"), ops=(SHOT, Kill(), Start(role="worker")))
    cell = sniped.play(bare("plain", plan=(fault,), fault="worker-killed", settle_s_max=1.0)).cell
    why = cell.why or ""
    assert cell.status == "void" and why.startswith(("kill of worker.1 is not proved: ", "worker.1 died by itself with "))
    assert not any(kill.proved for kill in cell.kills) and cell.points_killed == []


def test_a_process_that_ends_by_itself_makes_the_cell_void_and_its_last_words_are_told(
    shared_world: Any, tmp_path: Path
) -> None:
    with Engine(REFERENCE, tmp_path, shared_world, {"REFERENCE_MUTANT": "no-such-mutant"}) as engine:
        cell = engine.play(bare("plain", settle_s_max=0.5)).cell
    assert cell.status == "void"
    assert "died by itself with status" in (cell.why or "") and "no-such-mutant" in (cell.why or "")


def test_a_fault_of_the_harness_makes_the_cell_void_and_keeps_what_was_logged(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(runner, "inspect", breaks)
    judged = engines("reference").play(matrix.single(REFERENCE, "plain/turn.begun#1/worker-killed"))
    assert judged.cell.status == "void" and "fault of the harness" in (judged.cell.why or "")
    assert "a bug of ours" in (judged.cell.why or "")
    assert "kill" in kinds(judged)


# What did not happen ------------------------------------------------------------------------------------------------


def test_a_plan_whose_address_is_never_reached_is_inconclusive(engines: Engines) -> None:
    plan = (Fault(at=NOT_REACHED, ops=(Kill(), Start(role="worker"))),)
    cell = engines("reference").play(bare("plain", plan=plan, fault="worker-killed")).cell
    assert (cell.status, cell.why) == ("inconclusive", "not reached: effect.applied#9")


def test_a_disarmed_case_reaches_its_point_and_nothing_is_killed(engines: Engines) -> None:
    case = matrix.single(REFERENCE, "mail/tool.effect.done#1/worker-killed")
    judged = engines("reference").play(case.model_copy(update={"disarmed": True}))
    assert judged.cell.status == "held" and judged.cell.fired == 1
    assert judged.cell.kills == [] and "kill" not in kinds(judged)
    dependent = {name for name, check in CHECKS.items() if check.depends_on_kill}
    assert dependent and all(not each.examined for each in judged.cell.checks if each.check in dependent)
    assert list(campaign.blind_checks([judged.cell])) == []


def test_a_check_that_claims_to_need_the_kill_and_does_not_is_reported(engines: Engines) -> None:
    case = matrix.single(REFERENCE, "plain/turn.begun#1/worker-killed").model_copy(update={"disarmed": True})
    cell = engines("reference").play(case).cell
    blind = next(each for each in cell.checks if CHECKS[each.check].depends_on_kill)
    seen = blind.model_copy(update={"examined": 3, "status": "held"})
    told = list(campaign.blind_checks([cell.model_copy(update={"checks": [seen]})]))
    assert told == [f"{blind.check} examined 3 facts in {case.id}, where nothing was killed"]


def test_a_check_that_crashes_is_inconclusive_and_so_is_its_cell(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    def crashes(*_: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setitem(checks.CHECKS, "crashes", Check("crashes", ("ADM-1",), "it does not crash", crashes))
    cell = engines("reference").play(bare("plain")).cell
    assert cell.status == "inconclusive"
    assert cell.why == "crashes: the check itself failed: ZeroDivisionError: a bug of ours"


def test_a_history_without_anything_to_examine_is_no_pass() -> None:
    case = bare("plain")
    nothing = judge(case, History(), REFERENCE.claims, {})
    assert nothing.status == "inconclusive"
    unclaimed = judge(case, History(), (), {})
    assert (unclaimed.status, unclaimed.why) == ("inconclusive", "no check found anything to examine")


# Targets that must not pass -----------------------------------------------------------------------------------------


def test_the_canary_fails(engines: Engines) -> None:
    cell = engines("naive").play(campaign.canary()).cell
    assert cell.canary and cell.status == "violated"
    assert "no-duplicate-write" in {each.check for each in cell.violations}


def test_the_naive_target_is_right_when_nothing_breaks_and_writes_twice_when_it_is_killed(engines: Engines) -> None:
    assert engines("naive").play(bare("mail", "naive")).cell.status == "held"
    cell = engines("naive").play(matrix.single(TARGETS["naive"], "mail/effect.applied#1/worker-killed")).cell
    assert cell.status == "violated"
    found = next(each for each in cell.violations if each.check == "no-duplicate-write")
    assert found.clauses and found.promise and found.expected.seq is not None and found.seen.seq is not None


@pytest.mark.parametrize("name", [each.name for each in matrix.scenarios_for(TARGETS["idle"])])
def test_a_liar_that_does_nothing_is_never_held(engines: Engines, name: str) -> None:
    cell = engines("idle").play(bare(name, "idle", settle_s_max=2.0)).cell
    assert cell.status != "held", cell.id


@pytest.mark.parametrize("name", ["charge", "mail", "publish", "chain", "two-sessions", "after-the-mail"])
def test_a_liar_that_writes_twice_and_records_one_is_never_held(engines: Engines, name: str) -> None:
    cell = engines("twice").play(bare(name, "twice")).cell
    assert cell.status == "violated", cell.id
    assert "no-duplicate-write" in {each.check for each in cell.violations}


# Nothing stays ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["reference", "naive"])
def test_after_a_case_no_process_no_socket_and_no_folder_of_it_is_left(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    roots: list[Path] = []

    class Noted(CaseFolder):
        def __init__(self) -> None:
            super().__init__()
            roots.append(self.root)

    engine = engines(target)
    engine.play(bare("plain", target))  # whatever stays for the next case is there now
    monkeypatch.setattr(runner, "CaseFolder", Noted)
    me = psutil.Process()
    before = {each.pid for each in me.children(recursive=True)}, sockets(me)
    judged = engine.play(matrix.single(TARGETS[target], "mail/effect.applied#1/worker-killed"))
    started = {line["data"]["pid"] for line in judged.lines if line["kind"] == "process.started"}
    assert len(started) >= 2 and len(roots) == 1
    assert ({each.pid for each in me.children(recursive=True)}, sockets(me)) == before
    assert not roots[0].exists()
    assert not any(str(roots[0]) in line for line in Path("/proc/net/unix").read_text().splitlines())
    assert list(engine.scratch.iterdir()) == []


def sockets(process: psutil.Process) -> int:
    """How many ports its family listens on."""
    family = [process, *process.children(recursive=True)]
    return sum(each.status == "LISTEN" for one in family for each in one.net_connections())
