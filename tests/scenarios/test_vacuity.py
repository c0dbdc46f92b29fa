"""A fault that did nothing is seen, whichever operation it was; and one that did all of it is not called vacuous."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults.plan import (
    Address,
    Answer,
    Await,
    AwaitRefusal,
    BreakStore,
    Fault,
    Freeze,
    Kill,
    LockStore,
    MoveClock,
    Op,
    Raise,
    Reboot,
    Release,
    Settle,
    Start,
    Terminate,
    User,
)
from faults.table import FAULTS
from reports import words
from reports.model import Cell, CheckResult, Evidence
from scenarios import checks, matrix, vacuity
from scenarios.case import Case, Reply, Script
from scenarios.checks import Check
from scenarios.history import History
from scenarios.matrix import Wanted
from scenarios.targets import TARGETS
from tests.scenarios.test_matrix import EVERYWHERE

POINT = "tool.effect.done"
ROLES = ("app", "worker")
PAUSE = User(step={"do": "control", "session": "s1", "action": "pause"})
QUIT = User(step={"do": "quit"})
Line = dict[str, Any]


def a_case(*ops: Op, at: str = f"{POINT}#1", then: tuple[Fault, ...] = (), **changes: Any) -> Case:
    """A case of one address with these operations, and of what comes `then`."""
    plan = (Fault(at=Address.parse(at), ops=ops), *then) if ops else ()
    made: dict[str, Any] = {"fault": "made-up" if plan else "none", "id": "s/none" if not plan else "s/x/made-up"}
    script = Script(replies={"hello": (Reply(text="Hello."),)})
    return Case(target="made", scenario="s", script=script, steps=(), plan=plan, **(made | changes))


class Honest:
    """A harness that does what a plan says, as the records that it leaves. leaves_out: which operation of the whole plan,
    counted from 0, it does not carry out."""

    def __init__(self, case: Case, leaves_out: int | None = None) -> None:
        self.lines: list[Line] = []
        self._numbers = itertools.count(1)
        self._leaves_out = leaves_out
        self._lives = dict.fromkeys(ROLES, 0)
        self._alive = dict.fromkeys(ROLES, 0)
        self._stopped = self._quitting = False
        self._clock = 0.0
        for role in ROLES:
            self._start(role)
        self._mark("provider.request", n=1)
        self._mark("effect.received", n=1)
        places = itertools.count()
        for fault in case.plan:
            self._fire(case, fault, places)
        if not any(line["kind"] == "world.told" for line in self.lines):
            self._world("go", "effect.received")
        self._mark("case.settled", settled=True, within_s_max=1.0, why=None)
        self._mark("case.closed")
        for role in ROLES:
            self._exit(role)

    @property
    def history(self) -> History:
        return History.join(self.lines)

    def _mark(self, kind: str, **data: Any) -> Line:
        line = {"t_ns": next(self._numbers), "kind": kind, "data": data}
        self.lines.append(line)
        return line

    def _fire(self, case: Case, fault: Fault, places: itertools.count[int]) -> None:
        name, ordinal, nonce = fault.at.point, fault.at.ordinal, f"n{next(self._numbers)}"
        self._own = "worker" if not name.startswith("input") else "app"
        about = {"point": name, "ordinal": ordinal, "nonce": nonce}
        self._mark("point.reached", **about, role=self._own, life=1, pid=1, local=1, work=None, detail={"n": 1})
        self._mark("point.fired", **about, ops=[])
        answer = "go"
        for op in () if case.disarmed else fault.ops:
            if next(places) != self._leaves_out:
                answer = self._do(op, fault.at) or answer
        self._mark("point.released", **about, answer=answer)
        self._world(answer, name)

    def _do(self, op: Op, at: Address) -> str | None:
        role = getattr(op, "role", self._own)
        role = self._own if role == "self" else role
        match op:
            case Kill() | Terminate(grace=False):
                if self._alive[role]:
                    self._exit(role)
                    self._mark("kill", role=role, life=1, pid=1, point=at.point, ordinal=at.ordinal, proved=True)
                    self._mark("store.at_death", role=role, point=at.point, ordinal=at.ordinal, files={"db": {"ok": True}})
            case Terminate():
                self._exit(role)
            case Start():
                if self._quitting:
                    self._exit(role)
                if op.extra or not self._alive[role]:
                    self._start(role)
            case Freeze():
                self._stopped = op.do == "freeze"
                self._mark(op.do, role=role, life=1, pid=1, stopped=self._stopped)
            case Raise():
                return "raise"
            case Answer():
                return op.how
            case MoveClock():
                self._clock += op.by_s
                self._mark("clock.moved", by_s=op.by_s, offset_s=self._clock, why="the plan")
            case Reboot():
                self._mark("host.rebooted", before=f"b{next(self._numbers)}", boot=f"b{next(self._numbers)}")
            case User():
                self._user(op.step)
            case BreakStore():
                self._mark("store.broken" if op.do == "break_store" else "store.mended", sha256="x")
            case LockStore():
                self._mark("store.locked", databases=2, for_s=op.for_s)
                return "go"
            case AwaitRefusal():
                self._mark("process.refused", role=role, life=1, said=True, exited=False)
        return None

    def _user(self, step: dict[str, Any]) -> None:
        if step["do"] in ("watch", "unwatch"):
            kind = "client.connected" if step["do"] == "watch" else "client.disconnected"
            self._mark(kind, client="user", session=step["session"])
            return
        self._quitting = step["do"] == "quit"
        call = next(self._numbers)
        about = {name: step[name] for name in ("session", "action") if name in step}
        if "request" in step:
            about["request_id"] = step["request"]
        self._mark("client.invoked", call=call, client="user", op=step["do"], **about)
        self._mark("client.heard", call=call, outcome="ok", status=200, body=None)

    def _world(self, how: str, name: str) -> None:
        """The end of the one request that each half of the world has, told once."""
        if any(line["kind"] == "world.told" for line in self.lines):
            return
        self._mark("world.told")
        early, kind = name.endswith("received"), name.partition(".")[0]
        mine = how if kind == "effect" else "go"
        if not (early and mine in ("cut", "error")):
            self._mark("effect.applied", n=1)
        if mine not in ("cut", "drop"):
            self._mark("effect.answered", n=1, status=500 if mine == "error" else 200)
        mine = how if kind == "provider" else "go"
        if mine == "repeat":
            self._mark("provider.repeated", n=1, i=0)
        ended = mine in ("cut", "drop") or (mine == "error" and not early)
        self._mark("provider.billed", n=1, complete=mine in ("go", "drop", "repeat"))
        if not ended:
            self._mark("provider.answered", n=1, status=500 if mine == "error" else 200)

    def _start(self, role: str) -> None:
        self._lives[role] += 1
        self._alive[role] += 1
        self._mark("process.started", role=role, life=self._lives[role], pid=1)

    def _exit(self, role: str) -> None:
        if self._alive[role]:
            self._alive[role] -= 1
            self._mark("process.exited", role=role, life=self._lives[role], pid=1)


def shown(case: Case, leaves_out: int | None = None) -> Evidence:
    return vacuity.evidence(case, Honest(case, leaves_out).history)


def a_cell(case: Case, evidence: Evidence, **changes: Any) -> Cell:
    about = {"id": case.id, "scenario": case.scenario, "family": "f", "point": None, "ordinal": None, "fault": case.fault}
    status = "inconclusive" if evidence.missing else "held"
    why = vacuity.why(evidence.missing) if evidence.missing else None
    made = about | {"entrance": "http", "status": status, "why": why, "evidence": evidence, "disarmed": case.disarmed}
    return Cell.model_validate(made | {"vacuous": evidence.missing} | changes)


BARE = a_case()


def beside(case: Case, evidence: Evidence, *partners: Cell) -> Cell:
    """The cell of this case, compared with honest plays of its partners, or with these."""
    disarmed = case.model_copy(update={"id": f"{case.id}/disarmed", "disarmed": True})
    honest = [a_cell(each, shown(each)) for each in (BARE, disarmed)]
    return vacuity.compared([a_cell(case, evidence), *(partners or honest)])[0]


# Each operation by itself --------------------------------------------------------------------------------------------

EACH: dict[str, tuple[tuple[Op, ...], str, str]] = {
    "kill": ((Kill(),), f"{POINT}#1", "proved kills of the worker: 0"),
    "kill of another": ((Kill(role="app"),), f"{POINT}#1", "proved kills of the app: 0"),
    "kill at a point of the app": ((Kill(),), "input.committed#1", "proved kills of the app: 0"),
    "kill at a point of the world": ((Kill(),), "effect.applied#1", "proved kills of the worker: 0"),
    "terminate": ((Terminate(),), f"{POINT}#1", "ends of the worker: 0"),
    "terminate without grace": ((Terminate(grace=False),), f"{POINT}#1", "proved kills of the worker: 0"),
    "extra start": ((Start(role="worker", extra=True),), f"{POINT}#1", "lives begun of the worker: "),
    "freeze": ((Freeze(do="freeze"),), f"{POINT}#1", "freezes of the worker, stopped by the kernel's word: 0"),
    "thaw": ((Freeze(do="thaw"),), f"{POINT}#1", "thaws of the worker: 0"),
    "clock": ((MoveClock(by_s=60.0),), f"{POINT}#1", "seconds of the clock, forward: 0"),
    "clock back": ((MoveClock(by_s=-0.5),), f"{POINT}#1", "seconds of the clock, back: 0"),
    "reboot": ((Reboot(),), f"{POINT}#1", "new boot identities: 0"),
    "pause": ((PAUSE,), f"{POINT}#1", "answered calls of a user to pause s1: 0"),
    "quit": ((QUIT,), f"{POINT}#1", "answered calls of a user to quit: 0"),
    "send": (
        (User(step={"do": "send", "session": "s1", "request": "r9", "text": "more"}),),
        f"{POINT}#1",
        "answered calls of a user to send r9 s1: 0",
    ),
    "leave": ((User(step={"do": "unwatch", "session": "s1"}),), f"{POINT}#1", "clients that left s1: 0"),
    "come": ((User(step={"do": "watch", "session": "s1"}),), f"{POINT}#1", "clients that came to s1: 0"),
    "break": ((BreakStore(do="break_store"),), f"{POINT}#1", "stores made unreadable: 0"),
    "mend": ((BreakStore(do="mend_store"),), f"{POINT}#1", "stores put back: 0"),
    "lock": ((LockStore(for_s=1.0),), f"{POINT}#1", "stores locked from outside: 0"),
    "refusal": ((AwaitRefusal(),), f"{POINT}#1", "refusals of the worker to go on: 0"),
    "raise": ((Raise(),), f"{POINT}#1", "errors raised there: 0"),
    "drop a write": ((Answer(how="drop"),), "effect.received#1", "carried out and never answered: 0"),
    "drop a write's reply": ((Answer(how="drop"),), "effect.applied#1", "carried out and never answered: 0"),
    "cut a write": ((Answer(how="cut"),), "effect.received#1", "that the world cut off: 0"),
    "fail a write": ((Answer(how="error"),), "effect.received#1", "answered with an error: 0"),
    "drop a reply": ((Answer(how="drop"),), "provider.request.received#1", "carried out and never answered: 0"),
    "fail a request": ((Answer(how="error", status=503),), "provider.request.received#1", "answered with an error: 0"),
    "fail a stream": ((Answer(how="error"),), "provider.reply.chunk#1", "answered with an error: 0"),
    "cut a stream": ((Answer(how="cut"),), "provider.reply.chunk#1", "that the world cut off: 0"),
    "repeat a piece": ((Answer(how="repeat"),), "provider.reply.chunk#1", "that the world sent twice: 0"),
}


@pytest.mark.parametrize("name", EACH)
def test_an_operation_that_was_carried_out_is_seen_and_one_that_was_not_is_missed(name: str) -> None:
    ops, at, says = EACH[name]
    case = a_case(*ops, at=at)
    done = shown(case)
    assert done.missing == [] and beside(case, done).vacuous == []
    assert (beside(case, done).status, beside(case, done).not_compared) == ("held", [])
    left_out = shown(case, leaves_out=0)
    assert any(says in line and line.startswith(f"at {at} the plan is: ") for line in left_out.missing), left_out
    cell = beside(case, left_out)
    assert cell.status == "inconclusive" and (cell.why or "").startswith(f"vacuous: at {at} the plan is: ")


@pytest.mark.parametrize("name", [name for name in EACH if name not in ("extra start",)])
def test_the_comparison_alone_misses_it_too(name: str) -> None:
    """As if the records of another part of the case had passed for those of the plan."""
    ops, at, _ = EACH[name]
    case = a_case(*ops, at=at)
    evidence = shown(case, leaves_out=0).model_copy(update={"missing": []})
    cell = beside(case, evidence)
    assert cell.status == "inconclusive" and {"s/none", "s/x/made-up/disarmed"} == set(cell.compared)
    assert any("in the same scenario fault-free (s/none); " in line for line in cell.vacuous)
    assert any("in the same play disarmed (s/x/made-up/disarmed); " in line for line in cell.vacuous)


def test_every_operation_of_a_plan_is_known_here() -> None:
    known = {type(op) for ops, _, _ in EACH.values() for op in ops} | {Await, Release, Settle}
    assert known == set(get_args(get_args(Op)[0]))
    waits = (Settle(), Await(at=Address(point=POINT, ordinal=2)))
    assert vacuity.due(Fault(at=Address(point=POINT), ops=waits)) == []


def test_each_cell_of_the_matrix_has_something_that_must_differ() -> None:
    for target in ("reference", "naive"):
        for case in matrix.expand(TARGETS[target], Wanted(), EVERYWHERE):
            for fault in case.plan:
                assert vacuity.due(fault) or all(op.do in ("await", "settle") for op in fault.ops), case.id
                places = {each.place for each in vacuity.due(fault)}
                assert all(words.place_in_words(place) != place for place in places), places


def test_every_fault_of_the_table_is_missed_if_nothing_of_it_is_done() -> None:
    for case in matrix.expand(TARGETS["reference"], Wanted(scenario="mail"), EVERYWHERE):
        if case.fault != "none":
            idle = Honest(case.model_copy(update={"disarmed": True})).history
            evidence = vacuity.evidence(case, idle)
            assert evidence.missing and all("the plan is: " in line for line in evidence.missing), case.id
    assert set(FAULTS) > {"worker-killed", "overtaken", "reply-lost"}


# What passes for a deed and is none ----------------------------------------------------------------------------------


def changed(case: Case, kind: str, **data: Any) -> Evidence:
    """What is shown where the first record of this kind says something else."""
    honest = Honest(case)
    next(line for line in honest.lines if line["kind"] == kind)["data"].update(data)
    return vacuity.evidence(case, honest.history)


NONE: dict[str, tuple[Case, str, dict[str, Any]]] = {
    "a kill without proof": (a_case(Kill()), "kill", {"proved": False}),
    "a kill at another address": (a_case(Kill()), "kill", {"ordinal": 2}),
    "a kill of another role": (a_case(Kill()), "kill", {"role": "app"}),
    "a copy of nothing": (a_case(Kill()), "store.at_death", {"files": {}}),
    "a process that goes on": (a_case(Freeze(do="freeze")), "freeze", {"stopped": False}),
    "a process that stays stopped": (a_case(Freeze(do="thaw")), "thaw", {"stopped": True}),
    "a clock that says what it said": (a_case(MoveClock(by_s=5.0)), "clock.moved", {"offset_s": 0.0}),
    "a clock that went half way": (a_case(MoveClock(by_s=5.0)), "clock.moved", {"offset_s": 2.5}),
    "the same boot identity": (a_case(Reboot()), "host.rebooted", {"before": "b", "boot": "b"}),
    "a call that was not heard": (a_case(PAUSE), "client.heard", {"outcome": "unknown", "status": None}),
    "a call while the app goes": (a_case(PAUSE), "client.heard", {"outcome": "failed", "status": 503}),
    "a call to nobody": (a_case(PAUSE), "client.heard", {"outcome": "failed", "status": None}),
    "another user's act": (a_case(PAUSE), "client.invoked", {"action": "stop"}),
    "an act in another session": (a_case(PAUSE), "client.invoked", {"session": "s2"}),
    "no refusal": (a_case(AwaitRefusal()), "process.refused", {"said": False, "exited": False}),
    "a request that was answered": (
        a_case(Answer(how="error"), at="effect.received#1"),
        "effect.answered",
        {"status": 200},
    ),
    "a drop that carried out nothing": (
        a_case(Answer(how="drop"), at="provider.reply.chunk#1"),
        "provider.billed",
        {"complete": False},
    ),
    "a cut that came after all": (
        a_case(Answer(how="cut"), at="provider.reply.chunk#1"),
        "provider.billed",
        {"complete": True},
    ),
    "a piece of another request": (
        a_case(Answer(how="repeat"), at="provider.reply.chunk#1"),
        "provider.repeated",
        {"n": 2},
    ),
}


@pytest.mark.parametrize("name", NONE)
def test_what_only_looks_like_it_does_not_count(name: str) -> None:
    case, kind, data = NONE[name]
    assert shown(case).missing == []
    assert changed(case, kind, **data).missing


def test_an_act_is_heard_also_if_the_answer_is_no() -> None:
    assert changed(a_case(PAUSE), "client.heard", outcome="failed", status=409).missing == []


@pytest.mark.parametrize(("accepted", "counts"), [("r9", True), ("r8", False)])
def test_an_input_that_was_accepted_late_was_accepted(accepted: str, counts: bool) -> None:
    case = a_case(User(step={"do": "send", "session": "s1", "request": "r9", "text": "more"}))
    honest = Honest(case)
    heard = next(line for line in honest.lines if line["kind"] == "client.heard")
    heard["data"].update(outcome="unknown", status=None)
    told = {"client": "user", "session": "", "event": None, "type": "accepted", "data": {"accepted": accepted}}
    honest.lines.append({"t_ns": heard["t_ns"], "kind": "client.event", "data": told})
    assert (vacuity.evidence(case, honest.history).missing == []) is counts


def test_what_happened_before_the_address_was_reached_is_not_of_the_plan() -> None:
    case = a_case(MoveClock(by_s=5.0))
    honest = Honest(case)
    moved = next(line for line in honest.lines if line["kind"] == "clock.moved")
    moved["t_ns"] = -1
    assert vacuity.evidence(case, honest.history).missing


def test_processes_that_end_with_the_case_are_no_ends_of_the_plan() -> None:
    assert "end worker" not in shown(BARE).seen and shown(a_case(Kill())).seen["end worker"] == 1


def test_a_plan_that_leaves_nothing_shows_nothing() -> None:
    assert shown(a_case(Settle())).missing == ["the plan holds nothing of which a history could show that it was done"]


def test_an_address_that_nobody_reached_leaves_nothing_due() -> None:
    case = a_case(Kill())
    honest = Honest(BARE)
    evidence = vacuity.evidence(case, honest.history)
    assert (evidence.planned, evidence.missing) == ({}, [])
    assert beside(case, evidence).compared == []


def test_a_disarmed_play_is_due_nothing() -> None:
    evidence = shown(a_case(Kill(), Start(role="worker"), disarmed=True))
    assert (evidence.planned, evidence.missing) == ({}, [])


# Several parts -------------------------------------------------------------------------------------------------------


def test_a_role_that_has_ended_by_a_quit_need_not_be_told_to() -> None:
    case = a_case(QUIT, Kill(), Terminate(role="worker"), Start(role="app"), Start(role="worker"))
    assert shown(case).missing == [] and beside(case, shown(case)).status == "held"


def test_a_kill_after_the_death_of_the_role_is_missed() -> None:
    """A kill may not pass because another one killed: nobody was there."""
    case = a_case(Kill(), Kill(role="worker"))
    assert any("proved kills of the worker: 1 of 2" in line for line in shown(case).missing)


def test_what_the_scenario_brings_is_not_due_a_second_time() -> None:
    own = Fault(at=Address(point="tool.dispatch.stored"), ops=(Kill(), Start(role="worker")))
    scenario = a_case().model_copy(update={"plan": (own,)})
    bare = a_cell(scenario, shown(scenario))
    case = a_case(Kill(), Start(role="worker")).model_copy(
        update={"plan": (own, *a_case(Kill(), Start(role="worker")).plan)}
    )
    sound = beside(case, shown(case), bare)
    assert (sound.status, sound.compared, sound.not_compared) == ("held", ["s/none"], ["the same play disarmed"])
    idle = shown(case, leaves_out=2).model_copy(update={"missing": []})
    assert any("proved kills of the worker: 1, and 1 in" in line for line in beside(case, idle, bare).vacuous)


def test_two_parts_may_start_the_same_life() -> None:
    """A worker that is killed on its way out ends once, and is started once, by whichever part comes first."""
    own = Fault(at=Address(point="tool.dispatch.stored"), ops=(Terminate(), Start(role="worker")))
    scenario = a_case().model_copy(update={"plan": (own,)})
    bare = a_cell(scenario, shown(scenario))
    case = scenario.model_copy(
        update={"id": "s/x/made-up", "fault": "made-up", "plan": (own, *a_case(Kill(), Start(role="worker")).plan)}
    )
    evidence = Evidence(
        seen={"kill worker": 1, "copy": 1, "end worker": 1, "life worker": 2, "life app": 1},
        planned=shown(case).planned,
    )
    assert evidence.planned["life worker"] == 2
    assert beside(case, evidence, bare).vacuous == []
    evidence.seen["life worker"] = 1
    evidence.seen["end worker"] = 2
    assert any("lives begun of the worker: 1, and 2 in" in line for line in beside(case, evidence, bare).vacuous)


def test_a_fault_that_happens_without_it_too_is_vacuous() -> None:
    """A receiver that loses its reply by itself: each part of the plan was carried out, and nothing differs."""
    case = a_case(Answer(how="drop"), at="effect.applied#1")
    evidence = shown(case)
    loses = shown(BARE).model_copy(update={"seen": {**shown(BARE).seen, "lost effect": 1}})
    cell = beside(case, evidence, a_cell(BARE, loses))
    assert evidence.missing == [] and cell.status == "inconclusive"
    assert cell.why == (
        "vacuous: requests that the effect service never answered: 1, and 1 in the same scenario fault-free (s/none);"
        " 1 more were due"
    )


# Checks that say that they depend on a kill --------------------------------------------------------------------------


def with_check(cell: Cell, examined: int) -> Cell:
    said = CheckResult(check="blind", clauses=["INT-2"], status="held", examined=examined)
    return cell.model_copy(update={"checks": [said]})


@pytest.mark.parametrize(("here", "there", "found"), [(3, 3, True), (0, 3, True), (4, 3, False), (3, 0, False)])
def test_a_check_that_examines_as_much_where_nothing_died_is_found(
    monkeypatch: pytest.MonkeyPatch, here: int, there: int, found: bool
) -> None:
    monkeypatch.setitem(checks.CHECKS, "blind", Check("blind", ("INT-2",), "", lambda *_: None, depends_on_kill=True))
    case = a_case(Kill())
    cells = [with_check(a_cell(case, shown(case)), here), with_check(a_cell(BARE, shown(BARE)), there)]
    cell = vacuity.compared(cells)[0]
    assert bool(cell.vacuous) is found
    if found:
        assert (
            f"examined {there} facts in the same scenario fault-free (s/none), no fewer than the {here}" in cell.vacuous[0]
        )
    monkeypatch.setitem(checks.CHECKS, "blind", Check("blind", ("INT-2",), "", lambda *_: None, depends_on_kill=False))
    assert vacuity.compared(cells)[0].vacuous == [], "a check that depends on nothing may examine what it likes"


def test_a_scenario_in_which_something_dies_anyway_says_nothing_of_such_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checks.CHECKS, "blind", Check("blind", ("INT-2",), "", lambda *_: None, depends_on_kill=True))
    case = a_case(Kill())
    armed = with_check(a_cell(case, shown(case)), 1)
    for seen, found in (({"end worker": 1}, False), ({"act pause s1": 1}, False), ({"act send r1 s1": 1}, True)):
        bare = with_check(a_cell(BARE, Evidence(seen=seen)), 9)
        assert bool(vacuity.compared([armed, bare])[0].vacuous) is found, seen


# What becomes of the verdict -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["violated", "void"])
def test_what_is_worse_stays(status: str) -> None:
    case = a_case(Kill())
    cells = [a_cell(case, shown(case, leaves_out=0), status=status, why="a reason"), a_cell(BARE, shown(BARE))]
    cell = vacuity.compared(cells)[0]
    assert (cell.status, cell.why) == (status, "a reason") and cell.vacuous


def test_comparing_twice_changes_nothing_more() -> None:
    for leaves_out in (None, 0):
        case = a_case(Kill(), Start(role="worker"))
        cells = [a_cell(case, shown(case, leaves_out)), a_cell(BARE, shown(BARE))]
        once = vacuity.compared(cells)
        assert vacuity.compared(once) == once


@pytest.mark.parametrize("change", [{"status": "void"}, {"evidence": None}, {"canary": True}])
def test_a_partner_that_shows_nothing_is_none(change: dict[str, Any]) -> None:
    case = a_case(Kill())
    cell = beside(case, shown(case), a_cell(BARE, shown(BARE)).model_copy(update=change))
    assert (cell.compared, cell.status) == ([], "held")
    assert cell.not_compared == ["the same scenario fault-free", "the same play disarmed"]


def test_a_canary_and_a_cell_without_a_plan_are_left_as_they_are() -> None:
    case = a_case(Kill())
    cells = [a_cell(case, shown(case, leaves_out=0), canary=True), a_cell(BARE, shown(BARE))]
    assert vacuity.compared(cells) == cells


def test_a_scenario_with_a_plan_of_its_own_is_compared_with_any_disarmed_play_of_it() -> None:
    scenario = a_case().model_copy(update={"plan": a_case(Kill()).plan})
    disarmed = a_case(Kill(), disarmed=True, id="s/y/other/disarmed", fault="other")
    cells = [a_cell(scenario, shown(scenario)), a_cell(disarmed, shown(disarmed))]
    assert vacuity.compared(cells)[0].compared == ["s/y/other/disarmed"]
    idle = shown(scenario, leaves_out=0).model_copy(update={"missing": []})
    assert vacuity.compared([a_cell(scenario, idle), cells[1]])[0].status == "inconclusive"


# Any plan ------------------------------------------------------------------------------------------------------------

SURE: tuple[Callable[[], Op], ...] = (
    Kill,
    lambda: Kill(role="app"),
    Terminate,
    lambda: Terminate(role="app"),
    lambda: Terminate(grace=False),
    lambda: Start(role="app"),
    lambda: Start(role="worker"),
    lambda: Start(role="worker", extra=True),
    lambda: Freeze(do="freeze"),
    lambda: Freeze(do="thaw"),
    lambda: MoveClock(by_s=60.0),
    lambda: MoveClock(by_s=-3.5),
    Reboot,
    lambda: PAUSE,
    lambda: User(step={"do": "send", "session": "s1", "request": "r9", "text": "more"}),
    lambda: User(step={"do": "unwatch", "session": "s1"}),
    lambda: AwaitRefusal(role="worker"),
)


def sound(wanted: list[Op]) -> list[Op]:
    """Those of the operations that find what they act on: no death of the dead, no start of the living."""
    alive, kept, extra = {"app": True, "worker": True}, [], False
    for op in wanted:
        role = getattr(op, "role", "worker")
        role = "worker" if role == "self" else role
        if isinstance(op, Kill | Terminate):
            if not alive[role] or (extra and role == "worker"):
                continue
            alive[role] = False
        elif isinstance(op, Start):
            if alive[role] != op.extra:
                continue
            extra = extra or op.extra
            alive[role] = True
        elif isinstance(op, Freeze) and not alive[role]:
            continue
        kept.append(op)
    return kept


PLANS = st.lists(st.sampled_from(SURE).map(lambda make: make()), min_size=1, max_size=9).map(sound).filter(bool)


@given(PLANS)
def test_whatever_was_all_carried_out_is_never_called_vacuous(plan: list[Op]) -> None:
    case = a_case(*plan)
    evidence = shown(case)
    assert evidence.missing == []
    cell = beside(case, evidence)
    assert (cell.status, cell.vacuous, len(cell.compared)) == ("held", [], 2)


@given(PLANS, st.data())
def test_whichever_operation_is_left_out_it_is_missed(plan: list[Op], data: st.DataObject) -> None:
    case = a_case(*plan)
    left_out = data.draw(st.integers(0, len(plan) - 1))
    evidence = shown(case, left_out)
    assert evidence.missing, plan[left_out]
    cell = beside(case, evidence)
    assert cell.status == "inconclusive" and (cell.why or "").startswith("vacuous: ")


@given(PLANS, PLANS)
def test_a_fault_on_top_of_a_scenario_with_a_plan_is_seen_and_missed_alike(own: list[Op], plan: list[Op]) -> None:
    own = [op for op in own if not isinstance(op, Kill | Terminate | Start | Freeze)]
    first = (Fault(at=Address(point="tool.dispatch.stored"), ops=tuple(own)),) if own else ()
    scenario = a_case().model_copy(update={"plan": first})
    case = a_case(*plan)
    case = case.model_copy(update={"plan": (*first, *case.plan)})
    bare = a_cell(scenario, shown(scenario))
    assert beside(case, shown(case), bare).vacuous == []
    idle = Honest(case, len(own)).history
    assert beside(case, vacuity.evidence(case, idle), bare).vacuous
