"""The checks of accepting work: they hold on generated right runs, and an input that is lost, doubled, made up, overtaken,
taken up after a Stop or served after its end is caught by its own check."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.case import Reply
from scenarios.checks import accepting
from tests.scenarios.checks.builder import Line, Scene, Tape, call, replies
from tests.scenarios.checks.examples_met import stopped_on_its_way
from tests.scenarios.checks.plays import (
    FEW,
    MANY,
    SOME,
    TEXTS,
    Breach,
    Breaches,
    Pick,
    Witnesses,
    after,
    everywhere,
    fair,
    held,
    invariant,
    not_examined,
    of_area,
    open_without_its_end,
    plays,
    queued,
    reached,
    result,
    safe_when_cut,
    undisturbed,
)

CHECKS = of_area(accepting)
BREACHES = Breaches()


@st.composite
def resent(draw: st.DrawFn) -> Tape:
    """Right runs in which inputs are sent several times, with any outcome, before, while and after they are served."""
    scene = Scene({text: replies(last=f"on {text}") for text in TEXTS})
    scene.open()
    for i in range(draw(st.integers(1, 3))):
        for outcome in [*draw(st.lists(st.sampled_from(["ok", "unknown"]), max_size=2)), "ok", "ok"]:
            scene.send(f"r{i}", TEXTS[i], outcome=outcome)
            if draw(st.booleans()):
                scene.run()
    return scene.run().tape()


@st.composite
def stopped(draw: st.DrawFn, action: str = "stop", resends: int = 1) -> Tape:
    """Right runs in which a user stops a session, before its turn or in the middle of it, and sends its input again."""
    script = {"hello": replies(call("read", n=1), last="one two"), "next": replies(last="two")}
    points = [
        "turn.begun",
        "attempt.stored",
        "provider.request.received",
        "reply.received",
        "reply.stored",
        "tool.result.stored",
    ]
    point = draw(st.sampled_from(["before", *points]))
    scene = Scene(script, held={f"{point}#1": lambda scene: scene.control(action)})
    scene.open()
    scene.send("r0", "hello")
    if point == "before":
        scene.control(action)
    scene.run()
    for outcome in ["ok", *draw(st.lists(st.sampled_from(["ok", "unknown"]), max_size=2))][:resends]:
        scene.send("r0", "hello", outcome=outcome)
    if draw(st.booleans()):
        scene.send("r1", "next")
    return scene.run().tape()


GOOD = {
    "acknowledged-input-not-lost": plays(),
    "no-duplicate-input": resent(),
    "resend-hears-the-same": resent(),
    "only-sent-inputs-shown": plays(),
    "input-appended-once": queued(inputs=1),
    "inputs-in-first-order": queued(),
    "late-resend-undoes-no-stop": stopped(),
    "finished-stays-finished": plays(),
}


def test_every_check_of_the_area_has_good_histories_and_breaches() -> None:
    assert {each.name for each in CHECKS} == set(GOOD) == BREACHES.names


@pytest.mark.parametrize("name", GOOD)
@SOME
@given(data=st.data())
def test_a_right_run_holds(name: str, data: st.DataObject) -> None:
    tape = data.draw(GOOD[name])
    if name == "inputs-in-first-order" and len(reached(tape, "turn.begun")) > len(tape.view()["inputs"]):
        fair(tape, name)  # all of its turns may have begun without a request
    else:
        held(tape, name)


def sent(t: Tape, request: str, session: str | None = None, nth: int = 0) -> Line:
    """The sending of an input."""
    match = {"op": "send", "request_id": request} | ({"session": session} if session else {})
    return t.get("client.invoked", nth, **match)


def accepted(t: Tape, request: str) -> Line:
    """Where a client first heard that an input was accepted."""
    calls = {line["data"]["call"] for line in t.all("client.invoked", op="send", request_id=request)}
    return next(line for line in t.all("client.heard", outcome="ok") if line["data"]["call"] in calls)


def inputs_of(t: Tape) -> list[tuple[str, dict[str, Any]]]:
    """The inputs of the final snapshot, each with the name of its session."""
    return [(name, given) for name, view in t.final["data"]["sessions"].items() for given in view["inputs"]]


def forget(t: Tape, session: str, request: str) -> None:
    for view in [view for view in everywhere(t) if view["session"] == session]:
        view["inputs"] = [each for each in view["inputs"] if each["request_id"] != request]
        view["transcript"] = [item for item in view["transcript"] if item["request_id"] != request]


# What was acknowledged ----------------------------------------------------------------------------------------------


@BREACHES.of("acknowledged-input-not-lost", plays(sessions=2, texts=3))
def it_is_nowhere_in_the_store(t: Tape, pick: Pick) -> Witnesses:
    session, given = pick(inputs_of(t))
    forget(t, session, given["request_id"])
    return accepted(t, given["request_id"]), t.final


@BREACHES.of("acknowledged-input-not-lost", queued(deaths=0, same=True))
def one_of_two_equal_texts_is_lost(t: Tape, pick: Pick) -> Witnesses:
    session, given = pick(inputs_of(t))
    forget(t, session, given["request_id"])
    return accepted(t, given["request_id"]), t.final


@SOME
@given(plays(sessions=2, texts=3), st.data())
def test_a_session_that_is_gone_takes_its_inputs_with_it(tape: Tape, data: st.DataObject) -> None:
    session, given = data.draw(st.sampled_from(inputs_of(tape)))
    lost = [name for name, _ in inputs_of(tape)].count(session)
    del tape.final["data"]["sessions"][session]
    violations = result(tape, "acknowledged-input-not-lost").violations
    assert len(violations) == lost
    witnesses = {(v.expected.seq, v.seen.seq) for v in violations}
    assert (tape.seq(accepted(tape, given["request_id"])), tape.seq(tape.final)) in witnesses


@SOME
@given(queued(deaths=0), st.data())
def test_an_input_that_the_model_never_hears_of_is_not_worked_on(tape: Tape, data: st.DataObject) -> None:
    _, given = data.draw(st.sampled_from(inputs_of(tape)))
    for request in tape.all("provider.request"):
        messages = request["data"]["body"]["messages"]
        messages[:] = [m for m in messages if m["content"] != given["text"]]
    violations = result(tape, "acknowledged-input-not-lost").violations
    assert [(v.expected.seq, v.seen.seq) for v in violations] == [(tape.seq(accepted(tape, given["request_id"])), None)]


def test_a_request_for_another_session_serves_no_input_of_this_one() -> None:
    scene = Scene()
    for name in ("s1", "s2"):
        scene.open(name)
        scene.send(f"r_{name}", session=name)
    tape = scene.run().tape()
    held(tape, "acknowledged-input-not-lost")
    tape.drop(tape.get("provider.request"))
    violations = result(tape, "acknowledged-input-not-lost").violations
    assert [(v.expected.seq, v.seen.seq) for v in violations] == [(tape.seq(accepted(tape, "r_s1")), None)]


@SOME
@given(plays(), st.sampled_from(["unknown", "failed"]))
def test_an_input_that_was_never_acknowledged_may_be_lost(tape: Tape, outcome: str) -> None:
    for line in tape.all("client.heard"):
        line["data"]["outcome"] = outcome
    for view in everywhere(tape):
        view.update(inputs=[], transcript=[], works=[])
    tape.drop(*tape.all("provider.request"))
    not_examined(tape, "acknowledged-input-not-lost")


@SOME
@given(plays(sessions=1), st.sampled_from(["controlled", "excused"]))
def test_an_input_that_a_user_or_the_surroundings_held_back_need_not_be_worked_on(tape: Tape, why: str) -> None:
    tape.drop(*tape.all("provider.request"))
    if why == "controlled":
        tape.put("client.invoked", tape.get("case.opened"), call=900, client="c1", op="quit", session=None)
    else:
        tape.put("store.broken", tape.get("case.opened"), how="torn", sha256="b")
        for work in tape.view()["works"]:
            work.update(state="recovery_failed", reason_code="store_unreadable")
    held(tape, "acknowledged-input-not-lost")
    session, given = inputs_of(tape)[0]
    forget(tape, session, given["request_id"])
    assert result(tape, "acknowledged-input-not-lost").status == "violated", "lost it may not be all the same"


# Once ---------------------------------------------------------------------------------------------------------------


@BREACHES.of("no-duplicate-input", resent())
def the_resend_is_stored_as_another_one(t: Tape, pick: Pick) -> Witnesses:
    session, given = pick(inputs_of(t))
    t.view(session)["inputs"].insert(0, {**given, "position": 9, "work_id": pick(["w_new", given["work_id"]])})
    return sent(t, given["request_id"], nth=-1), t.final


@FEW
@given(resent(), st.data())
def test_equal_request_ids_in_two_sessions_are_two_inputs(tape: Tape, data: st.DataObject) -> None:
    _, given = data.draw(st.sampled_from(inputs_of(tape)))
    line = tape.get("client.invoked", -1)
    tape.put(
        "client.invoked", line, call=900, client="c1", op="send", session="s2", request_id=given["request_id"], text="x"
    )
    tape.final["data"]["sessions"]["s2"] = {"session": "s2", "inputs": [{**given, "text": "x"}]}
    held(tape, "no-duplicate-input")


@FEW
@given(resent())
def test_a_target_that_shows_no_inputs_is_not_judged_by_them(tape: Tape) -> None:
    for view in everywhere(tape):
        view["inputs"] = []
    not_examined(tape, "no-duplicate-input")
    not_examined(tape, "only-sent-inputs-shown")


@BREACHES.of("resend-hears-the-same", resent())
def the_resend_hears_of_another_one(t: Tape, pick: Pick) -> Witnesses:
    _, given = pick(inputs_of(t))
    calls = {x["data"]["call"] for x in t.all("client.invoked", op="send", request_id=given["request_id"])}
    first, *later = [x for x in t.all("client.heard", outcome="ok") if x["data"]["call"] in calls]
    again = pick(later)
    again["data"]["body"] = {**again["data"]["body"], **pick([{"input": "i_x"}, {"work_id": "w_x"}, {"work_id": None}])}
    return first, again


@SOME
@given(resent(), st.data())
def test_what_was_not_heard_or_not_named_cannot_differ(tape: Tape, data: st.DataObject) -> None:
    answers = [x for x in tape.all("client.heard", outcome="ok") if "input" in x["data"]["body"]]
    if data.draw(st.booleans()):
        for line in answers:
            line["data"]["body"] = data.draw(st.sampled_from([{}, {"status": "accepted"}, None]))
    else:
        for line in answers:
            line["data"].update(outcome="unknown", body={"input": str(line["t_ns"])})
    not_examined(tape, "resend-hears-the-same")


@SOME
@given(resent(), st.data())
def test_position_and_status_of_a_resend_may_differ(tape: Tape, data: st.DataObject) -> None:
    for line in tape.all("client.heard", outcome="ok"):
        line["data"]["body"].update(status=data.draw(st.sampled_from(["accepted", "duplicate"])), position=None)
    held(tape, "resend-hears-the-same")


# Only what was sent -------------------------------------------------------------------------------------------------


@BREACHES.of("only-sent-inputs-shown", plays())
def a_draft_is_shown(t: Tape, pick: Pick) -> Witnesses:
    at = pick(t.all("snapshot.taken"))
    view = at["data"]["sessions"][pick(sorted(at["data"]["sessions"]))]
    view["inputs"].append({"request_id": pick(["draft", ""]), "text": pick(["half a thou", ""])})
    return None, at


@BREACHES.of("only-sent-inputs-shown", plays())
def another_text_is_shown(t: Tape, pick: Pick) -> Witnesses:
    at = pick(t.all("snapshot.taken"))
    session, given = pick([(n, i) for n, view in at["data"]["sessions"].items() for i in view["inputs"]])
    given["text"] = pick([given["text"].upper(), f"{given['text']} ", ""])
    return sent(t, given["request_id"], session), at


@BREACHES.of("only-sent-inputs-shown", plays(deaths=0))
def it_is_shown_before_it_is_sent(t: Tape, pick: Pick) -> Witnesses:
    session, given = pick(inputs_of(t))
    shown = {"sessions": {session: {"session": session, "inputs": [copy.deepcopy(given)]}}}
    at = t.put("snapshot.taken", t.get("process.started", 1), when="early", **shown)
    return sent(t, given["request_id"], session), at


@BREACHES.of("only-sent-inputs-shown", plays(sessions=1))
def it_is_shown_in_a_session_to_which_nobody_sent_it(t: Tape, pick: Pick) -> Witnesses:
    _, given = pick(inputs_of(t))
    at = pick(t.all("snapshot.taken"))
    at["data"]["sessions"]["elsewhere"] = {"session": "elsewhere", "inputs": [copy.deepcopy(given)]}
    return None, at


# Appended once ------------------------------------------------------------------------------------------------------


@BREACHES.of("input-appended-once", queued(inputs=1))
def a_request_holds_it_twice(t: Tape, pick: Pick) -> Witnesses:
    at = pick(t.all("provider.request"))
    messages = at["data"]["body"]["messages"]
    users = [m for m in messages if m["role"] == "user"]
    messages.insert(messages.index(users[-1]), copy.deepcopy(users[-1]))
    given = next(i for _, i in inputs_of(t) if i["text"] == users[-1]["content"])
    return sent(t, given["request_id"]), at


@BREACHES.of("input-appended-once", queued(inputs=1))
def the_transcript_holds_it_twice(t: Tape, pick: Pick) -> Witnesses:
    items = t.view()["transcript"]
    item = pick([item for item in items if item["kind"] == "user"])
    items.append({**item, "item": len(items) + 1, "text": pick([item["text"], "reworded"])})
    t.drop(t.get("snapshot.taken", when="again"))
    return sent(t, item["request_id"]), t.final


def test_a_copy_of_an_input_that_is_sent_again_only_later_is_one_too_many() -> None:
    scene = Scene()
    scene.open()
    scene.send("r0")
    scene.run()
    scene.send("r1")
    tape = scene.run().tape()
    held(tape, "input-appended-once")
    first = tape.get("provider.request")
    first["data"]["body"]["messages"] *= 2
    found = result(tape, "input-appended-once").violations
    assert [(v.expected.seq, v.seen.seq) for v in found] == [(tape.seq(sent(tape, "r0")), tape.seq(first))]


@FEW
@given(queued(same=True))
def test_an_equal_text_may_be_told_as_often_as_it_was_sent(tape: Tape) -> None:
    held(tape, "input-appended-once")


@FEW
@given(queued(inputs=1), st.data())
def test_a_note_may_quote_the_input_any_number_of_times(tape: Tape, data: st.DataObject) -> None:
    for line in tape.all("provider.request"):
        messages = line["data"]["body"]["messages"]
        texts = [m["content"] for m in messages if m["role"] == "user"]
        messages.insert(0, {"role": "system", "content": " ".join(texts * data.draw(st.integers(1, 3)))})
    held(tape, "input-appended-once")


# In their first order -----------------------------------------------------------------------------------------------


def without_begun(t: Tape) -> None:
    t.drop(*reached(t, "turn.begun"))


@BREACHES.of("inputs-in-first-order", queued(deaths=0))
def a_later_one_is_begun_first(t: Tape, pick: Pick) -> Witnesses:
    without_begun(t)
    given = pick([i for _, i in inputs_of(t)][1:])
    ahead = {"messages": [{"role": "user", "content": given["text"]}]}
    at = t.put("provider.request", t.get("client.heard", -1), n=900, attempt=None, body=ahead)
    return accepted(t, pick([i["request_id"] for _, i in inputs_of(t) if i["position"] < given["position"]])), at


@SOME
@given(queued(deaths=0), st.data())
def test_one_that_is_skipped_is_begun_too_late(tape: Tape, data: st.DataObject) -> None:
    without_begun(tape)
    inputs = [given for _, given in inputs_of(tape)]
    skipped = data.draw(st.sampled_from(inputs[:-1]))
    for line in tape.all("provider.request"):
        messages = line["data"]["body"]["messages"]
        if [m["content"] for m in messages if m["role"] == "user"][-1] == skipped["text"]:
            tape.drop(line)
    found = {(v.expected.seq, v.expected.says.split()[1]) for v in result(tape, "inputs-in-first-order").violations}
    assert (tape.seq(accepted(tape, skipped["request_id"])), skipped["request_id"]) in found


@SOME
@given(queued(deaths=0), st.sampled_from(["stop", "pause", "quit"]))
def test_a_user_who_holds_the_first_back_lets_the_later_ones_go_first(tape: Tape, action: str) -> None:
    without_begun(tape)
    inputs = [given for _, given in inputs_of(tape)]
    for line in tape.all("provider.request"):
        messages = line["data"]["body"]["messages"]
        messages[:] = [m for m in messages if m["content"] != inputs[0]["text"]]
    assert result(tape, "inputs-in-first-order").status == "violated"
    op = {"op": "quit"} if action == "quit" else {"op": "control", "action": action}
    held_back = tape.put("client.invoked", tape.get("client.heard", -1), call=900, client="c1", session="s1", **op)
    fair(tape, "inputs-in-first-order")
    if action == "pause":
        tape.put("client.invoked", held_back, call=901, client="c1", session="s1", op="control", action="resume")
        assert result(tape, "inputs-in-first-order").status == "violated", "resumed, the first one goes first again"


def test_inputs_that_were_in_flight_together_have_no_order() -> None:
    scene = Scene({text: replies(last=f"on {text}") for text in TEXTS})
    scene.open()
    scene.send("r0", "first")
    scene.send("r1", "second")
    tape = scene.run().tape()
    held(tape, "inputs-in-first-order")
    heard = accepted(tape, "r0")
    tape.move(heard, sent(tape, "r1"))
    not_examined(tape, "inputs-in-first-order")


def test_inputs_of_two_sessions_have_no_order() -> None:
    scene = Scene({text: replies(last=f"on {text}") for text in TEXTS})
    for i, name in enumerate(("s1", "s2")):
        scene.open(name)
        scene.send(f"r{i}", TEXTS[i], name)
    not_examined(scene.run().tape(), "inputs-in-first-order")


@FEW
@given(queued(deaths=0))
def test_a_turn_that_was_begun_and_died_without_a_request_is_another_matter(tape: Tape) -> None:
    first = tape.all("provider.request")
    tape.drop(*[x for x in first if x["data"]["body"]["messages"][-1]["content"] == TEXTS[0]])
    for line in tape.all("provider.request"):
        messages = line["data"]["body"]["messages"]
        messages[:] = [m for m in messages if m["content"] != TEXTS[0]]
    found = result(tape, "inputs-in-first-order")
    assert all("r0 is begun first" not in v.expected.says for v in found.violations)


# After a Stop -------------------------------------------------------------------------------------------------------


def asks(t: Tape, line: Line, text: str, **more: Any) -> Line:
    """The model is asked to serve this text, behind a line."""
    body = {"messages": [{"role": "user", "content": text}]}
    return t.put("provider.request", line, **{"n": 900, "attempt": None, "body": body, **more})


@BREACHES.of("late-resend-undoes-no-stop", stopped(resends=3))
def the_resend_starts_it(t: Tape, pick: Pick) -> Witnesses:
    stop = t.get("client.invoked", op="control")
    heard = t.get("client.heard", call=stop["data"]["call"])
    resend = next(x for x in t.all("client.invoked", op="send", request_id="r0") if x["t_ns"] > heard["t_ns"])
    return heard, asks(t, pick(after(t, resend)), "hello")


@SOME
@given(stopped(resends=0), st.data())
def test_without_a_resend_there_is_nothing_that_could_undo_a_stop(tape: Tape, data: st.DataObject) -> None:
    asks(tape, tape.get("client.heard", -1), "hello")
    not_examined(tape, "late-resend-undoes-no-stop")


@SOME
@given(stopped("pause"))
def test_a_pause_is_no_stop(tape: Tape) -> None:
    not_examined(tape, "late-resend-undoes-no-stop")


@SOME
@given(stopped(), st.sampled_from(["unknown", "failed"]))
def test_a_stop_that_nobody_heard_of_forbids_nothing(tape: Tape, outcome: str) -> None:
    number = tape.get("client.invoked", op="control")["data"]["call"]
    tape.get("client.heard", call=number)["data"]["outcome"] = outcome
    asks(tape, tape.get("client.heard", -1), "hello")
    not_examined(tape, "late-resend-undoes-no-stop")


@SOME
@given(stopped())
def test_a_request_that_was_on_its_way_when_the_stop_came_is_no_new_start(tape: Tape) -> None:
    stored = {"point": "attempt.stored", "ordinal": 9, "nonce": "early", "work": None, "detail": {"attempt": "a_early"}}
    tape.put("point.reached", tape.get("process.started", -1), role="worker", life=1, pid=201, **stored)
    at = asks(tape, tape.get("client.heard", -1), "hello", attempt="a_early")
    held(tape, "late-resend-undoes-no-stop")
    at["data"]["attempt"] = "a_new"
    assert result(tape, "late-resend-undoes-no-stop").status == "violated"


def test_an_input_that_the_target_first_saw_after_the_stop_is_a_new_one() -> None:
    scene = Scene()
    scene.open()
    scene.invoke("send", "s1", {}, "unknown", request_id="r0", text="hello")  # it never arrived
    scene.control("stop")
    scene.send("r0")
    tape = scene.run().tape()
    assert tape.all("provider.request")
    not_examined(tape, "late-resend-undoes-no-stop")
    tape.put("store.at_death", tape.get("client.heard", 1), point=None, ordinal=None, files={}, holds={"r0": True})
    assert result(tape, "late-resend-undoes-no-stop").status == "violated", "the store of a death shows that it had arrived"


# After the end ------------------------------------------------------------------------------------------------------


def end_of(t: Tape, session: str, work: str) -> Line:
    """What first said that this work is done."""
    said = [x for x in t.all("client.event", type="work.done") if x["data"]["data"]["work_id"] == work]
    said += [x for x in reached(t, "turn.committed") if x["data"]["work"] == work]
    said += [t.final]
    return min(said, key=lambda line: line["t_ns"])


@BREACHES.of("finished-stays-finished", plays())
def it_is_served_after_its_end(t: Tape, pick: Pick) -> Witnesses:
    session, given = pick(inputs_of(t))
    end = end_of(t, session, given["work_id"])
    later = [x for x in after(t, end) if x is not end] or [t.final]
    return end, asks(t, pick([end, *later]), given["text"])


@BREACHES.of("finished-stays-finished", plays())
def it_is_served_again_and_only_the_snapshot_knew_its_end(t: Tape, pick: Pick) -> Witnesses:
    _session, given = pick(inputs_of(t))
    t.drop(*t.all("client.event"), *reached(t, "turn.committed"))
    return t.final, asks(t, t.final, given["text"])


@SOME
@given(plays(), st.sampled_from(["failed", "waiting", "paused"]))
def test_a_work_that_never_ended_may_be_served(tape: Tape, state: str) -> None:
    tape.drop(*tape.all("client.event"))
    for view in everywhere(tape):
        for work in view["works"]:
            work["state"] = state
    for _, each in inputs_of(tape):
        asks(tape, tape.final, each["text"])
    not_examined(tape, "finished-stays-finished")


def test_an_equal_input_sent_after_the_end_is_served_once_more() -> None:
    scene = Scene()
    scene.open()
    for i in range(3):
        scene.send(f"r{i}")
        scene.run()
    assert held(scene.tape(), "finished-stays-finished").examined == 3


@FEW
@given(st.integers(1, 4))
def test_a_request_with_many_steps_goes_on_until_it_is_finished(steps: int) -> None:
    scene = Scene({"hello": (*(Reply(calls=(call("read", n=n),)) for n in range(steps)), Reply(text="done"))})
    scene.open()
    scene.send("r0")
    tape = scene.run().tape()
    assert len(tape.all("provider.request")) == steps + 1
    held(tape, "finished-stays-finished")


# All of them --------------------------------------------------------------------------------------------------------


@BREACHES.each
@FEW
@given(data=st.data())
def test_a_breach_is_caught_by_its_check_and_by_no_other(breach: Breach, data: st.DataObject) -> None:
    breach.is_caught(data)


@MANY
@given(st.sampled_from(BREACHES.rows), st.integers(0, 10**15), st.integers(1, 5), st.data())
def test_a_verdict_does_not_depend_on_names_clocks_neighbours_or_repetition(
    breach: Breach, offset_ns: int, scale: int, data: st.DataObject
) -> None:
    tape, _ = breach.draw(data)
    invariant(tape, CHECKS, offset_ns, scale)
    undisturbed(tape, breach.check)
    open_without_its_end(tape, CHECKS)


@MANY
@given(st.one_of(plays(), resent(), queued(), stopped()), st.integers(0, 200))
def test_no_beginning_of_a_right_run_is_violated(tape: Tape, length: int) -> None:
    safe_when_cut(tape, CHECKS, length)


@pytest.mark.parametrize("accepted_before", [True, False])
def test_an_input_that_another_sending_has_brought_in_is_stopped_as_what_runs(accepted_before: bool) -> None:
    """A request of it may be under way when the Stop is heard."""
    tape = stopped_on_its_way()
    heard, stopped = tape.get("client.heard", -1), tape.get("client.invoked", op="control")
    if accepted_before:
        sent = tape.again(
            tape.get("client.invoked", op="send"), tape.get("point.reached", point="input.received"), call=900
        )
        tape.put("client.heard", sent, call=900, outcome="ok", status=202, body={"status": "accepted"})
        assert tape.seq(sent) < tape.seq(stopped)
    body = {"messages": [{"role": "user", "content": "hello"}]}
    tape.put("provider.request", heard, n=1, attempt="a_1", body=body)
    assert ("stop-covers-what-had-come" in tape.violated()) != accepted_before
