"""The checks that the harness makes at its own seams, on generated histories: stores at death, and that all ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.snapshot import AT_REST, TERMINAL
from tests.scenarios.checks.builder import Line, Scene, Tape, replies, turn
from tests.scenarios.checks.examples import Witnesses, change
from tests.scenarios.checks.generated_a import (
    ANYWHERE,
    FEW,
    QUICK,
    RECOVERY,
    SURE,
    Broken,
    Draw,
    breaks,
    broken_of,
    caught,
    evidence_of,
    good,
    heard_of,
    held,
    names_of,
    not_examined,
    number,
    one_of,
    runs,
    taken_out,
    try_broken,
    try_good,
    verdict,
    views,
)

NAMES = names_of("harness")
KILLED = runs(ANYWHERE, (*SURE, "mail"), (1, 2), then=RECOVERY, again=(0, 3))


def a_death(t: Tape, draw: Draw) -> tuple[Line, Line]:
    """The copy of the store at one death, and the kill before it."""
    copy = one_of(draw, t.all("store.at_death"))
    return [x for x in t.all("kill") if t.seq(x) < t.seq(copy)][-1], copy


# The store at death ----------------------------------------------------------------------------------------------------

good("store-whole-at-death", KILLED)


@breaks("store-whole-at-death")
def a_file_is_torn(t: Tape, draw: Draw) -> Witnesses:
    kill, copy = a_death(t, draw)
    name = one_of(draw, ["work.db", "usage.db", "later/another.db"])
    copy["data"]["files"][name] = {"ok": False, "detail": "database disk image is malformed", "sha256": "0" * 64}
    return kill, copy


@breaks("store-whole-at-death")
def a_file_was_not_looked_at(t: Tape, draw: Draw) -> Witnesses:
    """Evidence that lacks the answer is no answer that it is whole."""
    kill, copy = a_death(t, draw)
    copy["data"]["files"]["work.db"] = one_of(draw, [{}, {"ok": None, "detail": None}])
    return kill, copy


@QUICK
@given(KILLED, st.integers(0, 4))
def test_each_file_of_each_death_is_one_fact_and_a_death_without_files_none(t: Tape, more: int) -> None:
    for copy in t.all("store.at_death"):
        whole = {f"more{i}.db": {"ok": True, "detail": None, "sha256": "1" * 64} for i in range(more)}
        copy["data"]["files"] |= whole
    assert held(t, "store-whole-at-death") == (1 + more) * len(t.all("store.at_death"))
    for copy in t.all("store.at_death"):
        copy["data"]["files"] = {}
    not_examined(t, "store-whole-at-death")


@QUICK
@given(KILLED)
def test_each_torn_store_is_told_with_its_own_death(t: Tape) -> None:
    for copy in t.all("store.at_death"):
        copy["data"]["files"]["work.db"]["ok"] = False
    result = verdict(t, "store-whole-at-death")
    assert [v.expected.seq for v in result.violations] == [t.seq(x) for x in t.all("kill")]
    assert [v.seen.seq for v in result.violations] == [t.seq(x) for x in t.all("store.at_death")]


# Committed before accepted ---------------------------------------------------------------------------------------------

good("committed-before-accepted", KILLED)


def first_held(t: Tape, copy: Line) -> tuple[str, Line]:
    """An input that a client had heard to be accepted before this death."""
    kills = [x for x in t.all("kill") if t.seq(x) < t.seq(copy)]
    known = {x["data"]["request_id"]: heard_of(t, x["data"]["request_id"]) for x in t.all("client.invoked", op="send")}
    return next((name, heard) for name, heard in known.items() if t.seq(heard) < t.seq(kills[-1]))


@breaks("committed-before-accepted")
def what_was_accepted_was_in_memory_only(t: Tape, draw: Draw) -> Witnesses:
    _, copy = a_death(t, draw)
    name, heard = first_held(t, copy)
    copy["data"]["holds"][name] = False
    return heard, copy


@pytest.mark.parametrize("why", ["heard later", "never heard", "refused", "not asked for"])
@FEW
@given(t=KILLED)
def test_what_a_store_need_not_hold(t: Tape, why: str) -> None:
    """What nobody had heard to be accepted by then; and what the copy was not asked for says nothing."""
    for copy in t.all("store.at_death"):
        copy["data"]["holds"] = {} if why == "not asked for" else dict.fromkeys(copy["data"]["holds"], False)
    for heard in t.all("client.heard") if why != "not asked for" else []:
        if why == "heard later":
            t.move(heard, t.all("store.at_death")[-1])
        else:
            change(heard, outcome="unknown" if why == "never heard" else "failed")
    not_examined(t, "committed-before-accepted")


@QUICK
@given(KILLED)
def test_an_input_that_was_heard_between_the_kill_and_the_copy_is_not_judged(t: Tape) -> None:
    """The copy shows the store of the kill, so what was accepted by a process that lived on may be missing in it."""
    kill, copy = t.get("kill"), t.get("store.at_death")
    t.drop(*t.all("store.at_death")[1:], *t.all("kill")[1:])
    for heard in t.all("client.heard", outcome="ok"):
        t.move(heard, kill)
    copy["data"]["holds"] = dict.fromkeys(copy["data"]["holds"], False)
    assert t.seq(copy) > t.seq(t.all("client.heard")[-1]) > t.seq(kill)
    not_examined(t, "committed-before-accepted")


# Everything ends -------------------------------------------------------------------------------------------------------

good("everything-ends", st.one_of(KILLED, runs()))


@breaks("everything-ends")
def it_does_not_come_to_rest(t: Tape, draw: Draw) -> Witnesses:
    accepted = max((heard_of(t, x["data"]["request_id"]) for x in t.all("client.invoked", op="send")), key=t.seq)
    return accepted, change(t.get("case.settled"), settled=False, why="bound passed")


@breaks("everything-ends")
def a_work_is_not_at_rest_after_all(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        one_of(draw, view["works"])["state"] = one_of(draw, ["queued", "working", "recovering"])
    return t.get("case.settled"), t.final


@breaks("everything-ends")
def a_turn_of_an_ended_work_runs_on(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        one_of(draw, view["works"])["turns"][-1]["state"] = "running"
    return t.get("case.settled"), t.final


@pytest.mark.parametrize("state", sorted(AT_REST - TERMINAL))
@FEW
@given(t=runs())
def test_a_work_that_rests_unfinished_may_keep_its_turn_open(t: Tape, state: str) -> None:
    work = t.view()["works"][0]
    work.update(state=state, reason_code="given")
    work["turns"][-1]["state"] = "running"
    held(t, "everything-ends")


def fault(t: Tape, what: str) -> tuple[Line, str]:
    """A fault that still goes on at the end, put in before the case settled, and how it is told."""
    before = t.lines[t.lines.index(t.get("case.settled")) - 1]
    lives = {role: len(t.all("process.started", role=role)) for role in ("app", "worker")}
    worker = {"role": "worker", "life": lives["worker"], "pid": 200 + lives["worker"]}
    if what == "frozen":
        return t.put("freeze", before, **worker), f"worker {lives['worker']} was still frozen"
    if what == "broken":
        return t.put("store.broken", before, how="torn", sha256="b" * 64), "the store was still broken"
    if what == "held":
        data: dict[str, Any] = {"point": "worker.idle", "ordinal": 9, "nonce": "still"}
        at = t.put("point.reached", before, **data, **worker, local=9, work=None, detail=None)
        return t.put("point.fired", at, **data, ops=[]), "a process was still held at worker.idle#9"
    life = {"role": what, "life": lives[what], "pid": {"app": 100, "worker": 200}[what] + lives[what]}
    return t.put("process.exited", before, **life, status=9, signal=9, exit_code=None), f"no {what} was running"


FAULTS = ("frozen", "broken", "held", "app", "worker")


@pytest.mark.parametrize("what", FAULTS)
@FEW
@given(t=KILLED, data=st.data())
def test_while_a_fault_goes_on_it_is_open_and_once_it_is_over_it_is_not(t: Tape, what: str, data: st.DataObject) -> None:
    last, told = fault(t, what)
    change(t.get("case.settled"), settled=False, why="bound passed")
    result = verdict(t, "everything-ends")
    assert (result.status, result.why, result.violations) == ("inconclusive", f"the fault was not over: {told}", [])
    over = {"frozen": "thaw", "broken": "store.mended", "held": "point.released"}.get(what, "process.started")
    after = {**last["data"], "answer": "go", "start_time": 1.0, "cold": False}
    if over == "process.started":
        after["life"] += 1
    t.put(over, last, **after)
    assert verdict(t, "everything-ends").status == "violated"
    if what == "held":  # a process that stood at a point and was killed there holds nothing back any more
        t.drop(t.get("point.released", nonce="still"))
        t.put("kill", last, role="world", life=0, pid=1, nonce="still", point="worker.idle", ordinal=9, proved=True)
        assert verdict(t, "everything-ends").status == "violated"


@pytest.mark.parametrize("what", FAULTS)
@FEW
@given(t=KILLED)
def test_a_case_that_came_to_rest_is_judged_whatever_still_stands_in_the_way(t: Tape, what: str) -> None:
    fault(t, what)
    held(t, "everything-ends")


def test_of_two_roles_that_are_down_the_one_that_was_started_first_is_named() -> None:
    t = turn()
    for what in ("worker", "app"):
        fault(t, what)
    change(t.get("case.settled"), settled=False, why="bound passed")
    assert verdict(t, "everything-ends").why == "the fault was not over: no app was running"


def test_after_a_quit_nobody_has_to_run_and_yet_everything_has_to_end() -> None:
    scene = Scene({"hello": replies(last="x")})
    scene.open()
    scene.send("r1")
    scene.run()
    scene.mark("client.invoked", call=900, client="c1", op="quit", session=None)
    t = scene.tape()
    fault(t, "app")
    change(t.get("case.settled"), settled=False, why="bound passed")
    assert verdict(t, "everything-ends").status == "violated"


@pytest.mark.parametrize("settled", [True, False])
def test_the_last_word_on_rest_counts_and_without_one_it_is_open(settled: bool) -> None:
    t = turn()
    first = t.get("case.settled")
    change(first, settled=not settled)
    t.put("case.settled", first, within_s_max=15.0, settled=settled, why=None)
    assert verdict(t, "everything-ends").status == ("held" if settled else "violated")
    taken_out(t, "case.settled")
    result = verdict(t, "everything-ends")
    assert (result.status, result.examined) == ("inconclusive", 0)


@QUICK
@given(KILLED, st.data())
def test_a_history_that_breaks_off_before_the_rest_is_open(t: Tape, data: st.DataObject) -> None:
    """Evidence that was torn is no evidence: a harness that was itself killed has shown neither rest nor unrest."""
    lines = t.lines[: number(data.draw, 1, t.lines.index(t.get("case.settled")))]
    torn = Tape(t.case, lines)
    result = verdict(torn, "everything-ends")
    assert result.status == "inconclusive" and not result.violations
    assert len(evidence_of(t, lines).history.records) == len(lines)
    caught(t, "everything-ends", it_does_not_come_to_rest(t, data.draw))


# All of them -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(data=st.data())
def test_the_check_examines_right_histories_and_holds(name: str, data: st.DataObject) -> None:
    try_good(name, data.draw)


@pytest.mark.parametrize("broken", broken_of("harness"), ids=str)
@QUICK
@given(data=st.data())
def test_a_broken_promise_is_caught(broken: Broken, data: st.DataObject) -> None:
    try_broken(broken, data.draw)


@pytest.mark.parametrize("name", ["store-whole-at-death", "committed-before-accepted"])
def test_a_run_without_a_death_shows_nothing_of_the_store(name: str) -> None:
    not_examined(turn(), name)
