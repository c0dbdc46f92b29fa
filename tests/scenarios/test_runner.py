"""What a plan orders is what is done, in that order, by real processes; what the history says happened did happen."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from faults.controller import Controller, Held
from faults.plan import Address, Await, Fault, Freeze, Kill, LockStore, Release, Settle, Start, Terminate, User
from faults.processes import Keeper, Process
from scenarios import matrix, runner
from scenarios.case import Bounce, Look, Open, Send, SettleStep
from scenarios.clients import HttpClient
from scenarios.engine import Judged
from scenarios.history import History, read_lines
from scenarios.judge import judge
from scenarios.targets import TARGETS
from scenarios.world.handle import World
from tests.scenarios.conftest import Engines
from tests.scenarios.plans import moment

REFERENCE = TARGETS["reference"]


def play(engines: Engines, cell: str, **changes: Any) -> Judged:
    judged = engines("reference").play(matrix.single(REFERENCE, cell).model_copy(update=changes))
    assert (judged.cell.status, judged.cell.why) == ("held", None)
    return judged


def told(judged: Judged, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
    return [(line["kind"], line["data"]) for line in judged.lines if line["kind"] in kinds]


def lives(judged: Judged) -> list[str]:
    return [f"{data['role']}.{data['life']}" for _, data in told(judged, "process.started")]


def test_both_killed_means_two_proofs_a_new_boot_and_two_new_lives(engines: Engines) -> None:
    judged = play(engines, "plain/turn.begun#1/both-killed")
    assert [(kill.role, kill.proved) for kill in judged.cell.kills] == [("worker", True), ("app", True)]
    assert lives(judged) == ["app.1", "worker.1", "app.2", "worker.2"]
    order = [kind for kind, _ in told(judged, "kill", "store.at_death", "host.rebooted", "process.started")]
    assert order[2:] == ["kill", "store.at_death", "kill", "store.at_death", "host.rebooted", *2 * ["process.started"]]


def test_the_store_is_copied_at_the_death_and_is_whole(engines: Engines) -> None:
    judged = play(engines, "mail/tool.dispatch.stored#1/worker-killed")
    ((_, copied),) = told(judged, "store.at_death")
    assert copied["files"] and all(file["ok"] for file in copied["files"].values())
    assert copied["holds"] == {"r1": True}


def test_an_overtaken_owner_is_frozen_replaced_and_thawed(engines: Engines) -> None:
    judged = play(engines, "plain/turn.begun#1/overtaken")
    assert judged.cell.kills == []
    order = [kind for kind, _ in told(judged, "freeze", "clock.moved", "thaw", "point.released")]
    assert order == ["freeze", "clock.moved", "thaw", "point.released"]
    assert lives(judged) == ["app.1", "worker.1", "worker.2"]


def test_thirty_days_pass_by_the_clock_of_the_case_alone(engines: Engines) -> None:
    judged = play(engines, "plain/turn.begun#1/downtime-30d")
    ((_, moved),) = told(judged, "clock.moved")
    assert moved["by_s"] == moved["offset_s"] == 30 * 86400
    assert judged.cell.seconds < 60


def test_a_stop_at_a_point_is_acknowledged_before_the_point_is_released(engines: Engines) -> None:
    judged = play(engines, "mail/tool.intent.stored#1/stop-at")
    order = [
        kind
        for kind, data in told(judged, "client.heard", "point.fired", "point.released", "effect.applied")
        if kind != "client.heard" or "cancelled" in str(data["body"])
    ]
    assert order[:3] == ["point.fired", "client.heard", "point.released"]
    assert judged.cell.kills == []


@pytest.mark.parametrize("role", ["app", "worker"])
def test_a_workload_may_restart_a_role_and_look_afterwards(engines: Engines, role: str) -> None:
    case = matrix.single(REFERENCE, "plain/none")
    judged = play(engines, "plain/none", steps=(*case.steps, SettleStep(), Bounce(role=role), Look(name="after")))
    assert lives(judged) == ["app.1", "worker.1", f"{role}.2"]
    assert {data["when"] for _, data in told(judged, "snapshot.taken")} == {"after", "final", "again"}
    ends = [data for kind, data in told(judged, "process.exited") if data["role"] == role]
    assert ends[0]["exit_code"] == 0, "an ordinary exit"


def test_a_restart_brings_back_its_own_role_alone(engines: Engines) -> None:
    """The app was killed and nobody has started it again when the worker is restarted."""
    gone = moment("work.released#1", Kill(role="app"))
    case = matrix.single(REFERENCE, "plain/none")
    changes = {"steps": (*case.steps, SettleStep(), Bounce(role="worker")), "plan": (gone,), "settle_s_max": 1.0}
    judged = engines("reference").play(case.model_copy(update=changes))
    assert lives(judged) == ["app.1", "worker.1", "worker.2"]


def test_a_process_that_does_not_end_when_told_to_is_written_down_and_killed(engines: Engines) -> None:
    """Frozen, it does not hear of it; and whoever told it goes on after a part of the case's bound."""
    ops = (Freeze(do="freeze"), Terminate(), Freeze(do="thaw"), Start(role="worker"))
    case = matrix.single(REFERENCE, "plain/none")
    changes = {"plan": (moment("attempt.stored#1", *ops),), "settle_s_max": 2.0}
    judged = engines("reference").play(case.model_copy(update=changes))
    kinds = [(kind, data["life"]) for kind, data in told(judged, "terminate", "process.stayed", "kill", "process.started")]
    assert kinds[2:] == [("terminate", 1), ("process.stayed", 1), ("kill", 1), ("process.started", 2)]
    assert "graceful-exit-order" not in {each.check for each in judged.cell.violations}, "it could not"
    ((_, kill),) = told(judged, "kill")
    assert (kill["proved"], kill["point"]) == (True, None), "killed wherever it was, and so no death at a point"
    ((_, copy),) = told(judged, "store.at_death")
    assert (copy["point"], copy["ordinal"]) == (None, None)
    assert judged.cell.status == "inconclusive" and "worker.1 was told to end and did not" in str(judged.cell.why)


def test_nobody_owes_an_end_by_a_quit_that_nobody_heard(engines: Engines) -> None:
    """The app dies when it has received the quit and not stored it, and who sent it stands in that app's way itself."""
    quits = moment("event.cursor.stored#1", User(step={"do": "quit"}), Release(), Start(role="app"), Start(role="worker"))
    dies = moment("control.received#1", Kill(), Start(role="app"))
    case = matrix.single(REFERENCE, "plain/none")
    judged = engines("reference").play(case.model_copy(update={"plan": (quits, dies)}))
    assert told(judged, "client.gave_up") and not told(judged, "process.stayed", "rest.missed")
    assert lives(judged) == ["app.1", "worker.1", "app.2"] and not judged.cell.violations


def test_a_process_that_goes_as_it_was_told_to_before_a_kill_can_strike_was_not_killed(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    strike = Process.kill

    def late(process: Process) -> Any:
        monkeypatch.setattr(Process, "kill", strike)
        process.wait(runner.EXIT_S_MAX)
        return strike(process)

    monkeypatch.setattr(runner, "EXPIRED_GRACE_S", 0.0)
    monkeypatch.setattr(Process, "kill", late)
    ops = (Terminate(role="app", grace=False), Start(role="app"), Release())
    case = matrix.single(REFERENCE, "plain/none")
    judged = engines("reference").play(case.model_copy(update={"plan": (moment("provider.request.received#1", *ops),)}))
    assert lives(judged) == ["app.1", "worker.1", "app.2"] and not told(judged, "kill")
    assert judged.cell.status != "void"


def test_a_wait_for_rest_whose_bound_passed_is_written_down(engines: Engines) -> None:
    """A frozen worker has work in hand: neither who froze it nor the workload sees rest before it is thawed."""
    ops = (Freeze(do="freeze"), Settle(), Freeze(do="thaw"), Release())
    case = matrix.single(REFERENCE, "plain/none")
    changes = {"steps": (*case.steps, SettleStep()), "plan": (moment("turn.begun#1", *ops),), "settle_s_max": 1.5}
    judged = engines("reference").play(case.model_copy(update=changes))
    missed = [data for _, data in told(judged, "rest.missed")]
    assert sorted(data["by"] for data in missed) == ["a step of the workload", "the plan"]
    assert {data["within_s_max"] for data in missed} == {1.5}
    assert not told(play(engines, "plain/none", steps=(*case.steps, SettleStep())), "rest.missed")


def test_a_cold_start_gives_the_same_verdict(engines: Engines) -> None:
    judged = play(engines, "plain/turn.begun#1/worker-killed", cold=True)
    assert all(data["cold"] for _, data in told(judged, "process.started"))
    assert judged.cell.kills[0].proved


def test_nobody_acts_at_a_point_before_it_is_known_who_stands_there(
    shared_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine with more to do than it can, a worker may be at its point before the word that it was started."""
    acting = threading.Event()

    class Moment(runner._Moment):
        def __init__(self, hand: runner.Stagehand, held: Held) -> None:
            super().__init__(hand, held)
            if held.process == "worker.2":
                acting.set()

    class LateKeeper(Keeper):
        def start(self, label: str, *arguments: Any, **named: Any) -> Process:
            process = super().start(label, *arguments, **named)
            if label == "worker.2":
                assert hand.controller.wait_for("recovery.facts.loaded", 1, 10.0)
                assert not acting.wait(0.5)
            return process

    monkeypatch.setattr(runner, "_Moment", Moment)
    case = matrix.single(REFERENCE, "recovery-stream/recovery.facts.loaded#1/killed-again")
    with LateKeeper(REFERENCE.python, REFERENCE.preload, dict(os.environ)) as keeper:
        hand = runner.Stagehand(case, REFERENCE, keeper, shared_world, tmp_path / "logs")
        played = hand.play()
    cell = judge(case, History.join(read_lines(played.history), read_lines(played.world)), REFERENCE.claims, {})
    assert (cell.status, cell.why) == ("held", None)
    assert [(kill.role, kill.life) for kill in cell.kills] == [("worker", 1), ("worker", 2)]


# Orders of several processes, and what other programs do to a store -------------------------------------------------


def test_a_process_waits_at_its_point_until_another_has_come_to_one(engines: Engines) -> None:
    judged = play(engines, "met-two-recoverers/none")
    at = [(kind, data["point"], data["ordinal"]) for kind, data in told(judged, "point.released", "point.reached")]
    order = [
        ("point.reached", "recovery.facts.loaded", 2),
        ("point.released", "recovery.facts.loaded", 1),
        ("point.reached", "recovery.ownership.taken", 1),
        ("point.released", "recovery.facts.loaded", 2),
    ]
    assert [each for each in at if each in order] == order
    assert [data["came"] for _, data in told(judged, "point.awaited")] == [True, True]


def test_whoever_stands_at_a_point_goes_on_when_a_second_worker_has_looked_for_work(engines: Engines) -> None:
    second = moment("provider.request.received#1", Start(role="worker", extra=True))
    judged = play(engines, "plain/none", plan=(second,))
    order = [(kind, data.get("role"), data.get("life")) for kind, data in told(judged, "point.reached", "point.released")]
    assert order.index(("point.reached", "worker", 2)) < order.index(("point.released", None, None))


def test_a_worker_that_delivers_for_another_one_says_afterwards_that_it_has_nothing_to_do(engines: Engines) -> None:
    """A work that fails is given back before its last receipt is delivered, and whoever rests may be first to do so."""
    second = moment("turn.begun#1", Start(role="worker", extra=True))
    judged = play(engines, "same-call-id/none", plan=(second,))
    ((_, settled),) = told(judged, "case.settled")
    assert settled["settled"]


def test_a_case_that_waited_in_vain_is_inconclusive(engines: Engines) -> None:
    never = Fault(at=Address(point="turn.begun"), ops=(Await(at=Address(point="effect.applied", ordinal=7)),))
    case = matrix.single(REFERENCE, "plain/none").model_copy(update={"plan": (never,), "settle_s_max": 6.0})
    judged = engines("reference").play(case)
    assert (judged.cell.status, judged.cell.why) == ("inconclusive", "not reached: effect.applied#7")


def test_a_locked_store_is_let_go_after_its_time_and_meanwhile_the_process_goes_on(engines: Engines) -> None:
    held = Fault(at=Address(point="reply.received"), ops=(LockStore(for_s=0.5),))
    judged = play(engines, "plain/none", plan=(held,))
    kinds = [line["kind"] for line in judged.lines]
    locked, unlocked = kinds.index("store.locked"), kinds.index("store.unlocked")
    stored = next(i for i, line in enumerate(judged.lines) if line["data"].get("point") == "reply.stored")
    assert locked < kinds.index("point.released") < unlocked < stored
    assert judged.lines[unlocked]["t_ns"] - judged.lines[locked]["t_ns"] >= 0.5e9
    assert judged.lines[locked]["data"] == {"databases": 2, "for_s": 0.5}


def test_a_zombie_is_there_until_the_case_ends_and_not_longer(engines: Engines) -> None:
    judged = play(engines, "met-zombie/none")
    (kill,) = judged.cell.kills
    assert kill.proved and kill.signal == "SIGKILL"
    assert not Path(f"/proc/{kill.pid}").exists()


def test_a_page_that_is_opened_anew_asks_for_every_event(engines: Engines) -> None:
    judged = play(engines, "met-came-back/none")
    after = [data["after"] for _, data in told(judged, "client.connected")]
    assert after[0] is None and after[1] and after[2] is None
    numbers = [data["event"] for _, data in told(judged, "client.event")]
    assert numbers[: max(numbers)] == numbers[max(numbers) :] == list(range(1, max(numbers) + 1))


def test_a_client_that_leaves_is_gone_before_anything_else_comes(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = HttpClient.gone

    def late(client: HttpClient, stream: Any) -> None:
        time.sleep(0.1)  # as if the thread that reads the stream did not get its turn
        gone(client, stream)

    monkeypatch.setattr(HttpClient, "gone", late)
    judged = play(engines, "met-came-back/none")
    order = [kind for kind, _ in told(judged, "client.connected", "client.disconnected")]
    assert order == ["client.connected", "client.disconnected"] * 3


def test_who_leaves_has_been_told_what_was_there_to_tell(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = HttpClient.told

    def late(self: HttpClient, *event: Any) -> None:
        time.sleep(0.1)  # what was told is still on its way when its client leaves
        heard(self, *event)

    monkeypatch.setattr(HttpClient, "told", late)
    judged = play(engines, "plain/input.acknowledged#1/client-gone")
    kinds = [kind for kind, _ in told(judged, "point.fired", "client.event", "client.disconnected")]
    assert kinds[kinds.index("point.fired") : kinds.index("client.disconnected")][1:2] == ["client.event"]


@pytest.mark.parametrize("name", ["event.committed", "event.sent"])
def test_who_leaves_while_the_telling_is_held_leaves_at_once(engines: Engines, name: str) -> None:
    judged = play(engines, f"plain/{name}#1/client-gone")
    at = {line["kind"]: line["t_ns"] for line in reversed(judged.lines)}
    assert at["client.disconnected"] - at["point.fired"] < runner.TIDY_S_MAX * 1e9


def test_who_leaves_is_told_although_the_telling_passes_a_point_where_nobody_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about: dict[str, Any] = {"work": None, "detail": None, "reached_ns": 0}
    passing = Held(point="event.sent", ordinal=1, nonce="n", process="app.1", role="app", life=1, pid=1, local=1, **about)
    monkeypatch.setattr(Controller, "held", lambda self: [passing])
    hand = runner.Stagehand.__new__(runner.Stagehand)
    hand.controller = Controller.__new__(Controller)
    assert not hand._telling_is_held()
    passing.keep()
    assert hand._telling_is_held()


def test_the_workload_waits_for_a_part_of_the_plan_that_waits_for_rest_itself(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that is thawed when its successor has finished has things to do yet; the case is not over before."""
    tidy = runner.Stagehand._tidy

    def until_the_plan_is_over(hand: runner.Stagehand) -> bool:
        tidied = tidy(hand)
        if threading.current_thread() is threading.main_thread():
            with hand._condition:
                assert hand._condition.wait_for(lambda: not hand._pending, 10.0)
        return tidied

    monkeypatch.setattr(runner.Stagehand, "_tidy", until_the_plan_is_over)
    judged = play(engines, "mail/reply.received#1/overtaken")
    kinds = [line["kind"] for line in judged.lines]
    thaw = kinds.index("thaw")
    idle = [
        place
        for place, line in enumerate(judged.lines)
        if line["kind"] == "point.reached" and line["data"]["point"] == "worker.idle" and line["data"]["life"] == 1
    ]
    assert thaw < idle[-1] < kinds.index("case.settled") < kinds.index("snapshot.taken")


def test_a_stop_that_meets_a_pause_being_obeyed_is_told_to_the_model(engines: Engines) -> None:
    """The turn had been set aside for the pause already; the next request still says what became of its input (C04)."""
    steps: list[dict[str, Any]] = [{"do": "control", "session": "s1", "action": each} for each in ("pause", "stop")]
    plan = (
        moment("provider.request.received#1", User(step=steps[0]), Release()),
        moment("control.applied#1", User(step=steps[1]), Release()),
    )
    sends = (Send(request="r1", text="hello"), SettleStep(), Send(request="r2", text="and now"))
    judged = play(engines, "plain/none", plan=plan, steps=(Open(), *sends))
    told = [check for check in judged.cell.checks if check.check == "outcome-told-with-its-input"]
    assert [(check.status, check.examined) for check in told] == [("held", 1)]


def test_a_user_asks_once_where_nobody_could_bring_the_entrance_back(engines: Engines) -> None:
    """The app stands on its way out, so no other one comes before the plan goes on: there is nothing to wait for."""
    again: dict[str, Any] = {"do": "send", "session": "s1", "request": "r1", "text": "hello"}
    plan = (
        moment("input.acknowledged#1", Terminate(), Start(role="app")),
        moment("app.exit.closed#1", User(step=again), User(step=again)),
    )
    judged = engines("reference").play(matrix.single(REFERENCE, "plain/none").model_copy(update={"plan": plan}))
    assert len(told(judged, "client.gave_up")) == 2
    assert judged.cell.phases["play"] < matrix.single(REFERENCE, "plain/none").settle_s_max


def test_an_entrance_that_goes_before_its_address_is_read_is_not_up(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    await_ready = runner.Stagehand._await_ready

    def gone_again(hand: runner.Stagehand, life: runner.Life, ready: Path | None) -> bool:
        found = await_ready(hand, life, ready)
        if life.label == "app.2":
            life.process.terminate()
            assert life.process.wait(10.0) is not None and ready is not None and not ready.exists()
        return found

    monkeypatch.setattr(runner.Stagehand, "_await_ready", gone_again)
    steps = (*matrix.single(REFERENCE, "plain/none").steps, SettleStep(), Bounce(role="app"), Bounce(role="app"))
    judged = play(engines, "plain/none", steps=steps)
    assert lives(judged) == ["app.1", "worker.1", "app.2", "app.3"]


def test_a_worker_that_may_have_begun_after_a_quit_is_told_to_go_itself(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins behind the commit of the quit and before the word of that, and is idle by then: nobody told it to go."""
    reached = runner.Stagehand._on_reached

    def begun_between(self: runner.Stagehand, held: Held) -> None:
        if held.point == "control.stored":
            self._start("worker")
            assert self._until(lambda: "worker.2" in self._idled, time.monotonic() + 10.0)
        reached(self, held)

    monkeypatch.setattr(runner.Stagehand, "_on_reached", begun_between)
    plan = (moment("turn.begun#1", User(step={"do": "quit"}), Start(role="app"), Start(role="worker")),)
    judged = play(engines, "plain/none", plan=plan)
    assert lives(judged) == ["app.1", "worker.1", "worker.2", "app.2", "worker.3"]
    assert [(data["role"], data["life"]) for _, data in told(judged, "terminate")] == [("worker", 2)]
    assert not told(judged, "process.stayed", "rest.missed") and not judged.cell.violations


def test_a_worker_that_was_started_after_a_quit_was_stored_owes_no_end(engines: Engines) -> None:
    """Two parts of the plan meet: one quits and wants everything back, the other has brought the worker back already."""
    plan = (
        moment("turn.begun#1", User(step={"do": "quit"}), Start(role="app"), Start(role="worker")),
        moment("control.stored#1", Kill(role="worker"), Start(role="worker")),
    )
    judged = play(engines, "plain/none", plan=plan)
    assert lives(judged) == ["app.1", "worker.1", "worker.2", "app.2"]
    (settled,) = [data for _, data in told(judged, "case.settled")]
    assert settled["settled"]
