"""The checks of run intent and control, on generated histories: a user's word holds, and nothing else changes anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scenarios.checks.evidence import RECEIVERS
from scenarios.checks.intent import RECOVERY_WINDOW, TWO_HOURS_S
from tests.scenarios.checks.builder import Line, Scene, Tape, replies, turn
from tests.scenarios.checks.examples import Witnesses, change
from tests.scenarios.checks.generated_a import (
    ANYWHERE,
    BEFORE_THE_REPLY,
    FEW,
    QUICK,
    SURE,
    Broken,
    Draw,
    answers,
    ask,
    breaks,
    broken_of,
    caught,
    good,
    heard_of,
    held,
    names_of,
    not_examined,
    number,
    one_of,
    reached,
    recovered,
    runs,
    send_all,
    taken_out,
    tools_at,
    try_broken,
    try_good,
    verdict,
    views,
)

NAMES = names_of("intent")
KILLED_EARLY = runs(BEFORE_THE_REPLY[:3], SURE, (0, 1), dies=("worker",), sessions=1)


def of_input(t: Tape, text: str) -> list[Line]:
    """The requests to the model that serve this text, in a history in which each text was sent once."""
    return [x for x in t.all("provider.request") if text in str(x["data"]["body"]["messages"][-1]["content"])]


def said(t: Tape, action: str, after: Line, outcome: str | None = "ok", version: int | None = 1, **data: object) -> Line:
    """A control of the first session right after a line; the line in which it was heard, or asked if it never was."""
    asked = t.put("client.invoked", after, call=950, client="c1", op="control", session="s1", action=action, **data)
    if outcome is None:
        return asked
    return t.put("client.heard", asked, call=950, outcome=outcome, status=None, body={"control_version": version})


# The whole intent ------------------------------------------------------------------------------------------------------

good("run-intent-complete", recovered())


@breaks("run-intent-complete")
def a_part_of_the_intent_is_missing(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        view["works"][0][one_of(draw, ["permission_scope", "host", "recovery_policy", "first_input", "progress"])] = None
    return heard_of(t, "r1"), t.final


@breaks("run-intent-complete", "control-is-durable")
def the_whole_work_is_missing(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        view["works"] = view["works"][1:]
    return heard_of(t, "r1"), t.final


@QUICK
@given(recovered())
def test_a_work_without_a_done_turn_needs_no_progress_and_one_never_named_is_not_judged(t: Tape) -> None:
    work = t.view()["works"][0]
    work["progress"] = None
    for each in work["turns"]:
        each["state"] = "interrupted"
    held(t, "run-intent-complete")
    for line in t.all("client.heard"):
        line["data"]["body"].pop("work_id", None)
    not_examined(t, "run-intent-complete")


# Going on by itself ----------------------------------------------------------------------------------------------------

good("goes-on-by-itself", KILLED_EARLY)


@breaks("goes-on-by-itself", "client-gone-work-goes-on")
def it_waits_for_somebody(t: Tape, draw: Draw) -> Witnesses:
    kill = t.get("kill")
    t.drop(*[x for x in t.all("provider.request") if "alpha" in str(x["data"]["body"]) and t.seq(x) > t.seq(kill)])
    return heard_of(t, "r1"), ended(t, kill)


def ended(t: Tape, kill: Line) -> Line:
    """Where the killed process ended: the kill or its exit, whichever stands first."""
    mine = {"role": kill["data"]["role"], "life": kill["data"]["life"]}
    return min(kill, t.get("process.exited", **mine), key=lambda x: x["t_ns"])


@pytest.mark.parametrize("why", ["sent late", "controlled", "excused", "billed", "in flight", "only the app"])
@FEW
@given(t=KILLED_EARLY)
def test_when_a_death_asks_for_no_new_request(t: Tape, why: str) -> None:
    """Accepted after it; controlled by a user; kept by an outer fault; already answered; held by a live neighbour."""
    kill = t.get("kill")
    later = [x for x in t.all("provider.request") if t.seq(x) > t.seq(kill)]
    if why == "sent late":
        for line in t.all("client.heard"):
            t.move(line, later[0])
    elif why == "controlled":
        said(t, "pause", kill, None)
    elif why == "excused":
        for view in t.final["data"]["sessions"].values():
            for work in view["works"]:
                work.update(state="waiting", reason_code="disk_full")
        t.put("point.released", kill, point="x", ordinal=1, nonce="x", answer={"do": "raise", "errno": "ENOSPC"})
    elif why == "billed":
        for line in [*t.all("provider.request"), *t.all("provider.billed")]:
            line["t_ns"] = t.get("point.reached")["t_ns"] + line["data"]["n"] * 10 + (line["kind"] == "provider.billed")
    elif why == "in flight":
        for line in t.all("provider.request"):
            line["t_ns"] = t.get("point.reached")["t_ns"] + line["data"]["n"]
        start = t.get("process.started", role="worker")
        t.put("process.started", start, role="worker", life=8, pid=208, start_time=1.0, cold=False)
    else:
        for line in (*t.all("kill"), *t.all("process.exited")):
            change(line, role="app")
    t.drop(*(later if why not in {"sent late", "billed", "in flight"} else []))
    assert verdict(t, "goes-on-by-itself").violations == []


@FEW
@given(t=KILLED_EARLY)
def test_what_has_begun_was_accepted_also_where_its_client_hears_so_after_the_death(t: Tape) -> None:
    kill = t.get("kill")
    t.move(heard_of(t, "r1"), next(line for line in t.lines if line["t_ns"] > ended(t, kill)["t_ns"]))
    t.drop(*[x for x in t.all("provider.request") if "alpha" in str(x["data"]["body"]) and t.seq(x) > t.seq(kill)])
    begun = [x for x in t.all("point.reached", point="turn.begun") if t.seq(x) < t.seq(kill)]
    assert bool(verdict(t, "goes-on-by-itself").violations) == bool(begun)


# A restart is no pause -------------------------------------------------------------------------------------------------

good("restart-is-no-pause", recovered())


@breaks("restart-is-no-pause", "terminal-never-changes")
def the_restart_paused_or_cancelled_it(t: Tape, draw: Draw) -> Witnesses:
    wrong = [{"desired_state": "paused"}, {"desired_state": "cancelled"}, {"state": "paused"}, {"state": "cancelled"}]
    for view in views(t):
        view["works"][0].update(one_of(draw, wrong))
    return heard_of(t, "r1"), t.final


@pytest.mark.parametrize("why", ["pause", "quit", "failed"])
@FEW
@given(t=recovered())
def test_a_users_word_and_a_failure_are_no_pause_of_the_restart(t: Tape, why: str) -> None:
    if why == "failed":
        t.view()["works"][0].update(state="failed", desired_state="run", reason_code="provider_refused")
    else:
        data = {"op": "quit", "session": None} if why == "quit" else {"op": "control", "session": "s1", "action": "pause"}
        t.put("client.invoked", heard_of(t, "r1"), call=950, client="c1", **data)
        t.view()["works"][0].update(state="paused", desired_state="paused")
    assert verdict(t, "restart-is-no-pause").violations == []


# Controls are obeyed ---------------------------------------------------------------------------------------------------


@st.composite
def controlled(draw: st.DrawFn, actions: tuple[str, ...] = ("pause", "stop"), at: tuple[str, ...] = ANYWHERE) -> Tape:
    """A user pauses or stops the first of some inputs while its worker stands at a point. A write or request that crossed
    the control on its way is lawful, and a stop or pause is given once only."""
    action = one_of(draw, actions)
    point = one_of(draw, at)
    tools = tools_at(point)
    script = {text: answers(draw, text, tools, (1, 2)) for text in ("alpha", "beta")[: number(draw, 1, 2)]}
    scene = Scene(script, held={f"{point}#1": lambda scene: scene.control(action)})
    send_all(draw, scene, len(script))
    return scene.run().tape()


good("user-control-obeyed", controlled())


def acknowledged(t: Tape, nth: int = 0) -> Line:
    asked = t.get("client.invoked", nth, op="control")
    return t.get("client.heard", call=asked["data"]["call"])


@breaks("user-control-obeyed", "control-wins-over-recovery")
def the_model_is_asked_although_a_user_said_no(t: Tape, draw: Draw) -> Witnesses:
    since = acknowledged(t)
    late = [
        x for x in t.lines if t.seq(since) < t.seq(x) < t.seq(t.end) and x["kind"].startswith(("point", "case", "snap"))
    ]
    taken_out_of_the_way(t, since)
    return since, ask(t, one_of(draw, late), "alpha")


def taken_out_of_the_way(t: Tape, since: Line) -> None:
    """What had crossed the control is left out, so that the witness is the one that is put in."""
    kinds = ("provider.request", "effect.received", "effect.applied")
    t.drop(*[x for kind in kinds for x in t.all(kind) if t.seq(x) > t.seq(since) and "beta" not in str(x["data"])])


@breaks("user-control-obeyed", of=controlled(at=("reply.stored", "tool.intent.stored")))
def a_tool_is_called_although_a_user_said_no(t: Tape, draw: Draw) -> Witnesses:
    since = acknowledged(t)
    wanted = t.case.script.replies["alpha"][0].calls[0]
    assume(wanted.tool in RECEIVERS)
    late = [
        x for x in t.lines if t.seq(since) < t.seq(x) < t.seq(t.end) and x["kind"].startswith(("point", "case", "snap"))
    ]
    effect = {"n": 700, "receiver": RECEIVERS[wanted.tool], "key": "k_700", "arguments": dict(wanted.arguments)}
    return since, t.put("effect.received", one_of(draw, late), **effect)


@breaks("user-control-obeyed", of=controlled(("pause",)))
def a_pause_ends_before_anybody_resumes(t: Tape, draw: Draw) -> Witnesses:
    since = acknowledged(t)
    taken_out_of_the_way(t, since)
    resumed = said(t, "resume", t.final, version=2)
    ask(t, resumed, "alpha", n=701)
    return since, ask(t, since, "alpha")


@pytest.mark.parametrize("why", ["resumed", "not heard", "new input", "other session", "unknown input", "crossed"])
@FEW
@given(t=controlled())
def test_what_may_follow_a_control(t: Tape, why: str) -> None:
    """A resumed pause, one that nobody heard to hold, a newer input, another session, an attempt already on its way."""
    since = acknowledged(t)
    taken_out_of_the_way(t, since)
    asked = t.get("client.invoked", op="control")
    if why == "resumed":
        change(asked, action="pause")
        ask(t, said(t, "resume", since, version=2), "alpha")
    elif why == "not heard":
        change(since, outcome="unknown")
        ask(t, since, "alpha")
    elif why in {"new input", "other session"}:
        room = "s9" if why == "other session" else "s1"
        new = t.put("client.invoked", since, call=960, client="c1", op="send", session=room, request_id="r9", text="new")
        ask(t, new, "new")
    elif why == "unknown input":
        taken_out(t, "provider.request", "store.at_death", "effect.received")
        for line in t.all("client.heard", outcome="ok"):
            if line is not since:
                change(line, outcome="unknown")
        ask(t, since, "alpha")
    else:
        worker = {"role": "worker", "life": 1, "pid": 201, "ordinal": 90, "local": 90, "work": "w_s1_r1"}
        stored = t.put("point.reached", asked, point="attempt.stored", nonce="x", detail={"attempt": "a_700"}, **worker)
        assert t.seq(stored) < t.seq(since)
        ask(t, since, "alpha")
    assert verdict(t, "user-control-obeyed").violations == []


@pytest.mark.parametrize("why", ["stored late", "died", "another attempt"])
@FEW
@given(t=controlled(at=("reply.stored",)))
def test_what_was_not_on_its_way_when_the_user_was_heard(t: Tape, why: str) -> None:
    """Stored after the acknowledgement, sent by a process that had died since, or named as another one than was stored."""
    since, asked = acknowledged(t), t.get("client.invoked", op="control")
    worker = {"role": "worker", "life": 1, "pid": 201, "ordinal": 90, "local": 90, "work": "w_s1_r1"}
    name = "a_another" if why == "another attempt" else "a_700"
    place = since if why == "stored late" else asked
    stored = t.put("point.reached", place, point="attempt.stored", nonce="x", detail={"attempt": name}, **worker)
    if why == "died":
        t.put("process.exited", stored, role="worker", life=1, pid=201, status=9, signal=9, exit_code=None)
    older = [x for x in t.all("point.reached", point="attempt.stored") if x is not stored]
    t.drop(*older)
    late = ask(t, stored if why == "stored late" else since, "alpha")
    caught(t, "user-control-obeyed", (since, late))


def test_the_order_of_violations_is_that_of_the_inputs() -> None:
    scene = Scene({text: replies(last="x") for text in ("one", "two", "three", "four")})
    for i, text in enumerate(scene.script):
        scene.open(f"s{i}")
        scene.send(f"r{i}", text, f"s{i}")
        scene.control("stop", f"s{i}")
    t = scene.run().tape()
    for n, text in enumerate(scene.script):
        ask(t, t.final, text, n=700 + n)
    result = verdict(t, "user-control-obeyed")
    assert [each.expected.says.split(":")[0] for each in result.violations] == ["s0", "s1", "s2", "s3"]


# Controls are durable --------------------------------------------------------------------------------------------------

good("control-is-durable", controlled())


@breaks("control-is-durable")
def the_final_state_forgets_it(t: Tape, draw: Draw) -> Witnesses:
    stopped = t.get("client.invoked", op="control")["data"]["action"] == "stop"
    for view in views(t):
        view["works"][0]["desired_state"] = one_of(draw, ["run", "paused"]) if stopped else "run"
    return acknowledged(t), t.final


@pytest.mark.parametrize("why", ["resume", "unknown", "after the end"])
@FEW
@given(t=controlled())
def test_a_control_that_was_taken_back_or_never_heard_leaves_nothing_to_keep(t: Tape, why: str) -> None:
    t.view()["works"][0]["desired_state"] = "run"
    if why == "resume":
        change(t.get("client.invoked", op="control"), action="pause")
        said(t, "resume", acknowledged(t), None)
    elif why == "unknown":
        change(acknowledged(t), outcome="unknown")
    else:
        t.view()["works"][0]["desired_state"] = "done"  # it had finished before the control could do anything
    assert verdict(t, "control-is-durable").violations == []


# Versions --------------------------------------------------------------------------------------------------------------


@st.composite
def worded(draw: st.DrawFn) -> Tape:
    """A user gives several words in a row; some name the version that they had seen."""
    scene = Scene()
    scene.open()
    scene.send("r1")
    for n in range(number(draw, 2, 4)):
        scene.control(["pause", "resume"][n % 2], version=one_of(draw, [None, n]))
    if scene.works["w_s1_r1"]["desired_state"] != "run":
        scene.control("resume")
    return scene.run().tape()


good("newest-control-decides", worded())


def two_words(t: Tape, draw: Draw) -> tuple[Line, Line, Line]:
    """Where one word was heard, and where a later one was asked and heard."""
    asked = t.all("client.invoked", op="control")
    i = number(draw, 1, len(asked) - 1)
    heard = [t.get("client.heard", call=x["data"]["call"]) for x in asked]
    return heard[i - 1], asked[i], heard[i]


@breaks("newest-control-decides", "user-control-obeyed")
def a_version_stands_still_or_goes_back(t: Tape, draw: Draw) -> Witnesses:
    before, _, heard = two_words(t, draw)
    heard["data"]["body"]["control_version"] = before["data"]["body"]["control_version"] - number(draw, 0, 1)
    return before, heard


@breaks("newest-control-decides", "user-control-obeyed")
def a_word_for_an_older_version_is_accepted(t: Tape, draw: Draw) -> Witnesses:
    before, asked, heard = two_words(t, draw)
    change(asked, version=before["data"]["body"]["control_version"] - 1)
    return before, heard


@pytest.mark.parametrize("why", ["crossed", "said twice", "refused", "other session"])
@FEW
@given(t=worded())
def test_which_versions_need_not_grow(t: Tape, why: str) -> None:
    """Words that crossed, one said twice and stored once, a stale one that was refused, those of other sessions."""
    first, second = t.all("client.invoked", op="control")[:2]
    heard, again = acknowledged(t), acknowledged(t, 1)
    if why == "crossed":
        t.move(heard, again)
        change(second, version=0)
    elif why == "said twice":
        change(second, action=first["data"]["action"], version=None)
        change(again, body=heard["data"]["body"])
    elif why == "refused":
        change(second, version=0)
        change(again, outcome="failed", status=409, body={})
        assert verdict(t, "newest-control-decides").examined > 0
    else:
        change(second, session="s2", version=0)
    broken = [v for v in verdict(t, "newest-control-decides").violations if v.seen.seq == t.seq(again)]
    assert broken == []


# What has ended --------------------------------------------------------------------------------------------------------

good("terminal-never-changes", st.one_of(recovered(), controlled(("stop",))))


@breaks("terminal-never-changes")
def an_end_is_taken_back(t: Tape, draw: Draw) -> Witnesses:
    work = t.view(when="again")["works"][0]
    ended = [turn for turn in work["turns"] if turn["state"] != "running"]
    if ended and draw(st.booleans()):
        one_of(draw, ended)["state"] = "running"
    else:
        work["state"] = one_of(draw, ["working", "failed", "queued"])
    return t.final, t.get("snapshot.taken", when="again")


@breaks("terminal-never-changes", of=recovered())
def an_event_tells_of_another_end(t: Tape, draw: Draw) -> Witnesses:
    done = t.all("client.event", type="work.done", client="c1")[-1]
    data = {**done["data"]["data"], "state": one_of(draw, ["failed", "cancelled", "working"])}
    newest = max(x["data"]["event"] for x in t.all("client.event"))
    return done, t.again(done, done, event=newest + 1, type=f"work.{data['state']}", data=data)


@pytest.mark.parametrize("numbered", [True, False])
@FEW
@given(t=recovered())
def test_an_event_that_is_told_again_or_late_takes_nothing_back(t: Tape, numbered: bool) -> None:
    """Every reconnection tells the first events again; and a target that numbers nothing is judged all the same."""
    done = t.get("client.event", type="work.done", client="c1")
    work = done["data"]["data"]["work_id"]
    early = next(x for x in t.all("client.event", type="work.working") if x["data"]["data"]["work_id"] == work)
    again = t.again(early, done)
    held(t, "terminal-never-changes")
    if not numbered:
        for line in t.all("client.event"):
            line["data"]["event"] = None
        caught(t, "terminal-never-changes", (done, again))


def test_a_failed_work_has_not_ended_and_may_be_tried_again() -> None:
    t = turn()
    taken_out(t, "client.event")
    t.view()["works"][0].update(state="failed", reason_code="provider_refused")
    assert verdict(t, "terminal-never-changes").violations == []


# A window that is closed -----------------------------------------------------------------------------------------------


@st.composite
def left(draw: st.DrawFn) -> Tape:
    """The only client leaves while the worker is on its way to the first reply."""
    scene = Scene(
        {"alpha": answers(draw, "alpha", SURE, (0, 2))},
        held={f"{one_of(draw, ['work.claimed', *BEFORE_THE_REPLY[:3]])}#1": leave},
    )
    send_all(draw, scene, 1)
    return scene.run().tape()


def leave(scene: Scene) -> None:
    scene.mark("client.disconnected", client="c1", session="s1")
    scene.watching.clear()


good("client-gone-work-goes-on", left())


@breaks("client-gone-work-goes-on")
def the_work_ends_with_its_window(t: Tape, draw: Draw) -> Witnesses:
    for line in t.all("provider.billed"):
        if draw(st.booleans()):
            change(line, complete=False)
        else:
            t.drop(line)
    return heard_of(t, "r1"), t.get("client.disconnected")


@pytest.mark.parametrize("why", ["finished", "other session", "later", "controlled", "excused"])
@FEW
@given(t=left())
def test_when_a_window_that_is_closed_says_nothing(t: Tape, why: str) -> None:
    gone = t.get("client.disconnected")
    if why == "finished":
        t.move(gone, t.get("provider.billed", -1))
    else:
        taken_out(t, "provider.billed")
    if why == "other session":
        change(gone, session="s2")
    elif why == "later":
        t.move(heard_of(t, "r1"), gone)
    elif why == "controlled":
        said(t, "stop", gone, None)
    elif why == "excused":
        change(t.get("provider.answered", -1), status=500)
        t.view()["works"][0].update(state="failed", reason_code="provider_unavailable")
    assert verdict(t, "client-gone-work-goes-on").violations == []
    assert t.seq(t.get("client.disconnected", -1)) > t.seq(t.end)  # the harness clearing up is no window that was closed


# Graceful exits --------------------------------------------------------------------------------------------------------

WORKERS = ("exit.admission.closed", "exit.controls.stored", "exit.checkpoint.stored")
APPS = ("app.exit.closed", "app.exit.stored")


@st.composite
def exits(draw: st.DrawFn, roles: tuple[str, ...] = ("worker", "app")) -> Tape:
    """Worker, app or both are told to go, before or after the input came, and are started again."""
    scene = Scene({"alpha": answers(draw, "alpha", SURE, (0, 1))})
    scene.open()
    early = draw(st.booleans())
    if early:
        scene.send("r1", "alpha")
    for role in draw(st.permutations(roles)):
        scene.mark("terminate", **scene.who(role), grace=True)
        for point in APPS if role == "app" else WORKERS:
            scene.reach(point, role=role)
        scene.mark("process.exited", **scene.who(role), status=0, signal=None, exit_code=0)
        if role == "app":
            leave(scene)
    scene.restart()
    if not early:
        scene.send("r1", "alpha")
    return scene.run().tape()


good("graceful-exit-order", exits())


@breaks("graceful-exit-order")
def two_steps_of_an_exit_change_places(t: Tape, draw: Draw) -> Witnesses:
    role, order = one_of(draw, [("worker", WORKERS), ("app", APPS)])
    i = number(draw, 0, len(order) - 2)
    moved = t.move(reached(t, order[i]), reached(t, order[i + 1]))
    return moved if i == 0 else reached(t, order[0]), t.get("process.exited", role=role)


@breaks("graceful-exit-order")
def a_step_of_an_exit_is_left_out(t: Tape, draw: Draw) -> Witnesses:
    role, order = one_of(draw, [("worker", WORKERS), ("app", APPS)])
    i = number(draw, 0, len(order) - 1)
    t.drop(reached(t, order[i]))
    return reached(t, order[0]) if i else None, t.get("process.exited", role=role)


@breaks("graceful-exit-order")
def a_worker_that_goes_claims_something(t: Tape, draw: Draw) -> Witnesses:
    closed = reached(t, WORKERS[0])
    claim = reached(t, "work.claimed")
    after = reached(t, one_of(draw, WORKERS))
    return closed, t.again(claim, after, life=1, pid=201, work="w_new", nonce="late")


@breaks("graceful-exit-order", "client-gone-work-goes-on", "goes-on-by-itself")
def an_app_that_goes_accepts_something(t: Tape, draw: Draw) -> Witnesses:
    closed = reached(t, APPS[0])
    sent = t.put("client.invoked", closed, call=980, client="c1", op="send", session="s1", request_id="r9", text="late")
    return closed, t.put("client.heard", sent, call=980, outcome="ok", status=202, body={})


@breaks("graceful-exit-order")
def a_process_that_was_told_to_go_stays(t: Tape, draw: Draw) -> Witnesses:
    role = one_of(draw, ["worker", "app"])
    told = t.get("terminate", role=role)
    after = one_of(draw, [told, reached(t, (WORKERS if role == "worker" else APPS)[0])])
    return told, t.put("process.stayed", after, role=role, life=1, pid=told["data"]["pid"])


@pytest.mark.parametrize(
    "why", ["quit", "quit stored", "quit unheard", "another's", "frozen", "thawed", "held", "let go", "answer held"]
)
@FEW
@given(t=exits(("worker",)))
def test_who_has_to_end_and_who_cannot(t: Tape, why: str) -> None:
    """A quit that was stored or acknowledged tells everybody to go. Whoever the harness has frozen, holds or
    keeps waiting for an answer cannot end."""
    told, who = t.get("terminate"), {"role": "worker", "life": 1, "pid": 201}
    if why.startswith("quit"):
        t.drop(told)
        told = said(t, "quit", t.get("case.opened"), "ok" if why == "quit" else None)
    if why == "quit stored":
        stored = {"point": "control.stored", "ordinal": 9, "nonce": "there", "detail": {"action": "quit"}}
        told = t.put("point.reached", told, **stored, role="app", life=1, pid=101, local=1, work=None)
    if why == "another's":
        change(told, role="app", pid=101)
    after = told
    if why in ("frozen", "thawed"):
        after = t.put("freeze", after, **who, stopped=True)
    if why == "thawed":
        after = t.put("thaw", after, **who, stopped=False)
    if why in ("held", "let go"):
        held_at = {"point": "reply.stored", "ordinal": 9, "nonce": "here"}
        after = t.put("point.reached", after, **held_at, **who, local=1, work=None, detail=None)
        after = t.put("point.fired", after, **held_at, ops=[])
    if why == "let go":
        after = t.put("point.released", after, **held_at, answer="go")
    if why == "answer held":
        held_at = {"point": "effect.applied", "ordinal": 9, "nonce": "there"}
        after = t.put("point.reached", after, **held_at, role="world", life=0, pid=1, local=1, work=None, detail=None)
        after = t.put("point.fired", after, **held_at, ops=[])
    stayed = t.put("process.stayed", after, **who)
    if why in ("frozen", "held", "quit unheard", "another's", "answer held"):
        held(t, "graceful-exit-order")
    else:
        caught(t, "graceful-exit-order", (told, stayed))


@pytest.mark.parametrize("killed", [True, False])
@FEW
@given(t=exits(("worker",)), steps=st.integers(1, 2))
def test_an_exit_that_was_cut_short_owes_only_what_it_came_to(t: Tape, steps: int, killed: bool) -> None:
    t.drop(*[reached(t, point) for point in WORKERS[steps:]])
    exited = t.get("process.exited", role="worker")
    if killed:
        t.put("kill", reached(t, WORKERS[steps - 1]), role="worker", life=1, pid=201, signal="SIGKILL", proved=True)
        held(t, "graceful-exit-order")
    else:
        caught(t, "graceful-exit-order", (reached(t, WORKERS[0]), exited))


@pytest.mark.parametrize("why", ["under way", "another app", "refused", "unknown"])
@FEW
@given(t=exits(("app",)))
def test_what_an_app_that_goes_may_still_hear(t: Tape, why: str) -> None:
    """An input that was under way when it closed; one that another live app took; one that it refused or never answered."""
    closed = reached(t, APPS[0])
    sent = t.put("client.invoked", closed, call=980, client="c1", op="send", session="s1", request_id="r9", text="late")
    outcome = {"refused": "failed", "unknown": "unknown"}.get(why, "ok")
    t.put("client.heard", sent, call=980, outcome=outcome, status=None, body={})
    if why == "under way":
        t.move(sent, t.lines[2])
    elif why == "another app":
        t.put("process.started", t.lines[2], role="app", life=9, pid=109, start_time=1.0, cold=False)
    assert verdict(t, "graceful-exit-order").violations == []


# Downtime --------------------------------------------------------------------------------------------------------------


@st.composite
def downtimes(draw: st.DrawFn, hours: tuple[float, float] = (2.0, 9000.0), how: tuple[str, ...] = ("run", "held")) -> Tape:
    """A worker dies, hours or weeks pass, and its work goes on; or a work that a user paused or stopped stays so."""
    script = {"alpha": answers(draw, "alpha", SURE, (1, 1))}
    by_s = 3600.0 * draw(st.floats(*hours))
    if one_of(draw, how) == "held":
        action = one_of(draw, ["pause", "stop"])
        scene = Scene(script, held={f"{one_of(draw, ['reply.stored', 'turn.begun'])}#1": lambda s: s.control(action)})
        send_all(draw, scene, 1)
        scene.run()
        scene.mark("clock.moved", by_s=by_s, offset_s=by_s, why="downtime")
        return scene.tape()
    scene = Scene(script)
    send_all(draw, scene, 1)
    scene.kill("worker")
    scene.mark("clock.moved", by_s=by_s, offset_s=by_s, why="downtime")
    scene.restart()
    return scene.run().tape()


good("no-hidden-expiry", downtimes())


@breaks("no-hidden-expiry", "control-is-durable", "goes-on-by-itself", of=downtimes(how=("run",)))
def it_expires(t: Tape, draw: Draw) -> Witnesses:
    if draw(st.booleans()):
        taken_out(t, "provider.request")
    else:
        for view in views(t):
            view["works"][0].update(state=one_of(draw, ["failed", "waiting"]), reason_code="expired")
    return heard_of(t, "r1"), t.get("clock.moved")


@breaks("no-hidden-expiry", "control-is-durable", "user-control-obeyed", of=downtimes(how=("held",)))
def what_a_user_held_is_let_go_by_age(t: Tape, draw: Draw) -> Witnesses:
    if draw(st.booleans()):
        ask(t, t.get("clock.moved"), "alpha")
    else:
        for view in views(t):
            view["works"][0]["desired_state"] = "run"
    return acknowledged(t), t.get("clock.moved")


@QUICK
@given(downtimes((0.0, TWO_HOURS_S / 3600 - 0.01), ("run",)))
def test_a_downtime_that_is_shorter_is_not_examined(t: Tape) -> None:
    assert t.get("clock.moved")["data"]["by_s"] < TWO_HOURS_S
    not_examined(t, "no-hidden-expiry")
    t.view()["works"][0].update(state="failed", reason_code="expired")
    not_examined(t, "no-hidden-expiry")
    change(t.get("clock.moved"), by_s=TWO_HOURS_S)
    caught(t, "no-hidden-expiry", (heard_of(t, "r1"), t.get("clock.moved")))


@FEW
@given(t=downtimes(how=("run",)))
def test_a_request_that_outlasts_the_time_goes_on_by_itself(t: Tape) -> None:
    asked = t.get("provider.request", -1)
    t.move(t.get("clock.moved"), asked)
    held(t, "no-hidden-expiry")
    billed = t.get("provider.billed", n=asked["data"]["n"])
    dead = t.put("process.exited", asked, role="worker", life=2, pid=202, status=9, signal="SIGKILL", exit_code=None)
    assert t.seq(asked) < t.seq(dead) < t.seq(billed)
    caught(t, "no-hidden-expiry", (heard_of(t, "r1"), t.get("clock.moved")))
    t.drop(dead)
    change(billed, complete=False)
    caught(t, "no-hidden-expiry", (heard_of(t, "r1"), t.get("clock.moved")))


@pytest.mark.parametrize("why", ["accepted later", "finished before", "excused", "resumed"])
@FEW
@given(t=downtimes(how=("run",)))
def test_what_a_downtime_need_not_have_kept(t: Tape, why: str) -> None:
    moved = t.get("clock.moved")
    t.view()["works"][0].update(state="failed", reason_code="other")
    if why == "accepted later":
        for line in t.all("client.heard"):
            t.move(line, moved)
    elif why == "finished before":
        t.move(moved, t.get("provider.answered", -1))
    elif why == "excused":
        change(t.get("provider.answered", -1), status=503)
    else:
        said(t, "resume", moved)
    not_examined(t, "no-hidden-expiry")


# Words and inputs that come while recovery runs --------------------------------------------------------------------------


@st.composite
def disturbed(draw: st.DrawFn, disturbance: str, at: tuple[str, ...] = RECOVERY_WINDOW) -> Tape:
    """Recovery stands still before its admission while a user speaks or sends another input."""

    def disturb(scene: Scene) -> None:
        scene.send("r2", "beta") if disturbance == "input" else scene.control(disturbance)

    scene = Scene(
        {"alpha": answers(draw, "alpha", SURE, (0, 0)), "beta": replies(last="two")},
        die={f"{one_of(draw, BEFORE_THE_REPLY[1:])}#1": "worker"},
        held={f"{one_of(draw, at)}#1": disturb},
    )
    scene.open()
    scene.send("r1", "alpha")
    return scene.run().tape()


INPUT = disturbed("input", RECOVERY_WINDOW[:2])
good("user-input-goes-first", INPUT)


@breaks("user-input-goes-first", "control-wins-over-recovery")
def the_continuation_goes_first(t: Tape, draw: Draw) -> Witnesses:
    new = heard_of(t, "r2")
    first = of_input(t, "beta")[0]
    between = [x for x in t.all("point.reached") if t.seq(new) < t.seq(x) < t.seq(first)]
    return new, ask(t, one_of(draw, between), "alpha")


@pytest.mark.parametrize("why", ["never served", "heard late", "died there", "another session"])
@FEW
@given(t=INPUT)
def test_an_input_that_need_not_go_first(t: Tape, why: str) -> None:
    """One that is not served at all, that was accepted after recovery went on, or that another session sent."""
    new, released = heard_of(t, "r2"), t.get("point.released")
    ask(t, released, "alpha")
    if why == "never served":
        t.drop(*of_input(t, "beta"))
    elif why == "heard late":
        t.move(new, released)
    elif why == "died there":
        t.drop(released)
    else:
        change(t.get("client.invoked", op="send", request_id="r2"), session="s2")
    not_examined(t, "user-input-goes-first")


good("control-wins-over-recovery", st.one_of(disturbed("stop"), disturbed("pause"), INPUT))


@breaks("control-wins-over-recovery", "user-control-obeyed", of=st.one_of(disturbed("stop"), disturbed("pause")))
def the_old_version_goes_on(t: Tape, draw: Draw) -> Witnesses:
    since = acknowledged(t)
    later = [x for x in t.lines if t.seq(t.get("point.released")) <= t.seq(x) < t.seq(t.end)]
    return since, ask(t, one_of(draw, later), "alpha")


@breaks("control-wins-over-recovery", of=disturbed("stop", ("recovery.decision.stored",)))
def the_old_decision_still_stands(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        view["works"][0]["recoveries"][0]["void"] = False
    return acknowledged(t), t.final


@breaks("control-wins-over-recovery", "user-input-goes-first", of=INPUT)
def the_new_input_makes_nothing_void(t: Tape, draw: Draw) -> Witnesses:
    return heard_of(t, "r2"), ask(t, t.get("point.released"), "alpha")


@pytest.mark.parametrize("why", ["newer", "other key", "no version", "admitted before", "perhaps admitted before"])
@FEW
@given(t=disturbed("stop", ("recovery.decision.stored",)))
def test_a_decision_that_may_stand_beside_a_control(t: Tape, why: str) -> None:
    """One that was made under the control's own version, one of another recovery, one whose version nobody told, and one
    that an earlier recovery has admitted, or may have."""
    decision = t.view()["works"][0]["recoveries"][0]
    decision["void"] = False
    if why == "newer":
        decision["control_version"] = 1
    elif why == "other key":
        decision["key"] = "of another recovery"
    elif why == "admitted before":
        stored = t.get("point.reached", point="recovery.decision.stored")
        t.again(stored, t.get("process.started", role="worker"), point="recovery.admitted", nonce="before")
    elif why == "perhaps admitted before":
        began, stored = t.get("case.opened"), t.get("point.reached", point="recovery.decision.stored")
        killed = t.again(t.get("kill"), t.again(stored, began, nonce="before"), role="worker")
        change(killed, point=None, ordinal=None, nonce=None)
    else:
        acknowledged(t)["data"]["body"] = {}
    held(t, "control-wins-over-recovery")


# All of them -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(data=st.data())
def test_the_check_examines_right_histories_and_holds(name: str, data: st.DataObject) -> None:
    try_good(name, data.draw)


@pytest.mark.parametrize("broken", broken_of("intent"), ids=str)
@QUICK
@given(data=st.data())
def test_a_broken_promise_is_caught(broken: Broken, data: st.DataObject) -> None:
    try_broken(broken, data.draw)


NOTHING: dict[str, Callable[[Tape], Tape]] = {
    "run-intent-complete": lambda t: taken_out(t, "client.heard"),
    "terminal-never-changes": lambda t: taken_out(t, "client.event", "snapshot.taken"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_without_anything_that_concerns_it_shows_nothing(name: str) -> None:
    not_examined(NOTHING.get(name, lambda t: t)(turn(last="one")), name)
