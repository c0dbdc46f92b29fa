"""The checks of tool calls and their effects: they hold on generated right runs, and each breach of a promise is caught by
its own check, with the write, the kill or the result that shows it. What is lawful is not called broken."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.case import Reply
from scenarios.checks import effects
from scenarios.checks.evidence import RECEIVERS
from tests.scenarios.checks.builder import PLACEHOLDER, Line, Scene, Tape, call, replies, turn
from tests.scenarios.checks.plays import (
    FEW,
    MANY,
    SOME,
    WRITES,
    Breach,
    Breaches,
    Pick,
    Witnesses,
    after,
    caught,
    effects_of,
    everywhere,
    fair,
    held,
    invariant,
    not_examined,
    of_area,
    open_without_its_end,
    plays,
    reached,
    result,
    safe_when_cut,
    undisturbed,
)

CHECKS = of_area(effects)
BREACHES = Breaches()
BLIND = ("mail", "publish", "order")  # writes to receivers that deduplicate nothing, by tools that do not lie


def calling(*tools: str, **more: Any) -> st.SearchStrategy[Tape]:
    """Right runs in which one of these tools is called, for certain, by the first input."""
    return st.sampled_from(tools).flatmap(lambda tool: plays(must=(tool,), **more))


@st.composite
def late_receipts(draw: st.DrawFn) -> Tape:
    """Right runs in which the receipt of a mail comes after its turn, with more inputs before and after it."""
    texts = [f"text {i}" for i in range(draw(st.integers(1, 3)))]
    script = {"hello": replies(call("mail", to="bob"), last="sent, perhaps")}
    script |= {text: replies(*draw(st.lists(st.just(call("read", n=1)), max_size=1)), last=f"on {text}") for text in texts}
    scene = Scene(script, die={draw(st.sampled_from(["tool.effect.done#1", "effect.applied#1"])): "worker"})
    scene.open()
    scene.send("r0", "hello")
    scene.run()
    scene.look("before")
    early = draw(st.integers(0, len(texts) - 1))
    for i, text in enumerate(texts):
        if i == early:
            made = next(item for item in scene.sessions["s1"]["transcript"] if item["placeholder"])
            scene.store("s1", kind="reconciliation", turn_id=made["turn_id"], call_id=made["call_id"], text="rcpt_1")
        scene.send(f"r{i + 1}", text)
        scene.run()
    return scene.tape()


UNKNOWN = plays(must=("mail",), kills=("effect.applied#1",), tools=("read",), deaths=0)
UNSTARTED = calling(*WRITES, kills=("tool.intent.stored#1",), tools=("read", "charge"), deaths=1, sessions=1)

GOOD = {
    "no-duplicate-write": calling(*WRITES, equal=True),
    "unknown-never-resent": calling(*WRITES, equal=True),
    "effect-in-order": calling(*WRITES, equal=True),
    "not-started-is-called-once": UNSTARTED,
    "stored-result-reused": calling(*WRITES, deaths=1, equal=True),
    "unknown-operation-shown": calling(*WRITES),
    "unknown-outlives-its-turn": UNKNOWN,
    "tools-own-word-counts-nothing": calling("note_plugin", equal=True),
    "late-receipt-added": late_receipts(),
    "done-means-done": calling(*WRITES, equal=True),
}


def test_every_check_of_the_area_has_good_histories_and_breaches() -> None:
    assert {each.name for each in CHECKS} == set(GOOD) == BREACHES.names


@pytest.mark.parametrize("name", GOOD)
@SOME
@given(data=st.data())
def test_a_right_run_holds(name: str, data: st.DataObject) -> None:
    tape = data.draw(GOOD[name])
    found = result(tape, name)
    assert found.violations == []
    if reached(tape, "tool.result.stored") or name != "stored-result-reused":
        held(tape, name)


# How often a write happens ------------------------------------------------------------------------------------------


def write(tape: Tape, line: Line, **changes: Any) -> Line:
    """One more sending of a write, right behind a line."""
    sent = tape.get("effect.received")["data"]
    return tape.put("effect.received", line, **{**copy.deepcopy(sent), "n": 900, **changes})


def last_sending(tape: Tape, **match: Any) -> Line:
    return tape.get("effect.received", -1, **match)


@BREACHES.of("no-duplicate-write", calling(*WRITES))
def a_write_happens_once_more(t: Tape, pick: Pick) -> Witnesses:
    first = pick(t.all("effect.applied"))
    return first, t.again(first, pick(after(t, first)), n=900, duplicate_of=first["data"]["n"])


@BREACHES.of("no-duplicate-write", calling("charge", deaths=0))
def a_receiver_is_charged_under_a_second_key(t: Tape, pick: Pick) -> Witnesses:
    first = t.get("effect.applied", receiver="keyed")
    return first, t.again(first, pick(after(t, first)), n=900, key=None)


@BREACHES.of("no-duplicate-write", plays())
def a_write_happens_that_nobody_asked_for(t: Tape, pick: Pick) -> Witnesses:
    odd = {"n": 900, "receiver": pick(["keyed", "plain", "ambiguous"]), "key": None, "arguments": {"odd": True}}
    at = t.put("effect.applied", pick(t.all("provider.request")), **odd)
    return at, at


@FEW
@given(times=st.integers(1, 4), tool=st.sampled_from(["charge", "mail", "order"]), together=st.booleans())
def test_as_many_equal_writes_are_lawful_as_the_script_has_equal_calls(times: int, tool: str, together: bool) -> None:
    same = (call(tool, n=1),) * times
    tape = turn(Reply(calls=same)) if together else turn(*same)
    assert len(tape.all("effect.applied")) == times
    held(tape, "no-duplicate-write")
    last = tape.get("effect.applied", -1)
    over = tape.again(last, last, n=900)
    caught(tape, "no-duplicate-write", tape.get("effect.applied"), over)


@FEW
@given(sendings=st.integers(2, 4), tool=st.sampled_from(WRITES))
def test_an_input_that_is_sent_again_allows_no_second_write(sendings: int, tool: str) -> None:
    scene = Scene({"hello": replies(call(tool, n=1), last="done")})
    scene.open()
    for i in range(sendings):
        scene.send("r1", outcome="unknown" if i < sendings - 1 else "ok")
    tape = scene.run().tape()
    held(tape, "no-duplicate-write")
    first = tape.get("effect.applied")
    caught(tape, "no-duplicate-write", first, tape.again(first, first, n=900))


@FEW
@given(same=st.booleans(), tool=st.sampled_from(WRITES))
def test_two_inputs_with_one_text_ask_for_two_writes(same: bool, tool: str) -> None:
    scene = Scene({"hello": replies(call(tool, n=1), last="done")})
    for name in ("s1", "s2"):
        scene.open(name)
    scene.send("r1")
    scene.send("r2", session="s1" if same else "s2")
    tape = scene.run().tape()
    assert len(tape.all("effect.applied")) == 2
    held(tape, "no-duplicate-write")
    held(tape, "unknown-never-resent")


# What is sent again -------------------------------------------------------------------------------------------------


@BREACHES.of("unknown-never-resent", calling(*BLIND))
def a_write_is_sent_again_blindly(t: Tape, pick: Pick) -> Witnesses:
    sent = pick([x for x in t.all("effect.received") if x["data"]["receiver"] != "keyed" and _of_no_liar(t, x)])
    last = last_sending(t, key=sent["data"]["key"])
    return last, t.again(last, last, n=900)


def _of_no_liar(t: Tape, sent: Line) -> bool:
    return not effects_of(t, idempotency_key=sent["data"]["key"], tool="note_plugin")


@BREACHES.of("unknown-never-resent", calling("charge", tools=("read",)), "effect-in-order", "repair-runs-nothing")
def a_charge_is_sent_again_under_a_new_key(t: Tape, pick: Pick) -> Witnesses:
    last = last_sending(t, receiver="keyed")
    return last, t.again(last, last, n=900, key=pick(["k_new", "", "k_other"]))


@BREACHES.of("unknown-never-resent", calling("charge", tools=("read",)), "effect-in-order", "repair-runs-nothing")
def a_charge_is_sent_again_without_its_key(t: Tape, pick: Pick) -> Witnesses:
    last = last_sending(t, receiver="keyed")
    return last, t.again(last, last, n=900, key=None)


def asked(t: Tape, line: Line, key: str, found: bool) -> Line:
    return t.put("effect.queried", line, n=900, key=key, found=found)


@BREACHES.of("unknown-never-resent", calling("publish", "order", tools=("read",), deaths=0))
def it_was_found_and_is_sent_again(t: Tape, pick: Pick) -> Witnesses:
    last = last_sending(t)
    query = asked(t, last, last["data"]["key"], found=True)
    return last, t.again(last, query, n=901)


@BREACHES.of("unknown-never-resent", calling("publish", "order", tools=("read",), deaths=0))
def it_was_found_at_last_and_is_sent_again(t: Tape, pick: Pick) -> Witnesses:
    last = last_sending(t)
    first = asked(t, last, last["data"]["key"], found=False)
    second = asked(t, first, last["data"]["key"], found=True)
    return last, t.again(last, second, n=901)


@BREACHES.of("unknown-never-resent", calling("publish", "order", tools=("read",), deaths=0))
def another_write_was_asked_for(t: Tape, pick: Pick) -> Witnesses:
    last = last_sending(t)
    query = asked(t, last, pick(["k_other", "", f"{last['data']['key']}0"]), found=False)
    return last, t.again(last, query, n=901)


@BREACHES.of("unknown-never-resent", calling("publish", "order", tools=("read",), deaths=0))
def it_was_asked_for_before_it_was_sent(t: Tape, pick: Pick) -> Witnesses:
    last = last_sending(t)
    asked(t, t.get("process.started"), last["data"]["key"], found=False)
    return last, t.again(last, last, n=901)


@FEW
@given(tool=st.sampled_from(["publish", "order"]), times=st.integers(1, 3))
def test_a_write_that_certainly_did_not_happen_may_be_sent_again(tool: str, times: int) -> None:
    tape = turn(call(tool, n=1))
    line = tape.get("effect.received")
    for _ in range(times):
        line = tape.again(line, asked(tape, line, line["data"]["key"], found=False), n=900)
    assert held(tape, "unknown-never-resent").examined == times + 1


@FEW
@given(again=st.lists(st.sampled_from([0, 1]), max_size=4), second_first=st.booleans())
def test_a_deduplicating_receiver_may_get_each_first_key_any_number_of_times(again: list[int], second_first: bool) -> None:
    tape = turn(Reply(calls=(call("charge", n=1), call("charge", n=1))))
    first, second = tape.all("effect.received")
    for which in again:
        sent = (first, second)[which]
        tape.again(sent, sent if second_first else second, n=900)
    held(tape, "unknown-never-resent")


@FEW
@given(tool=st.sampled_from(BLIND))
def test_an_equal_call_that_was_not_made_excuses_no_second_sending_of_the_first(tool: str) -> None:
    tape = turn(Reply(calls=(call(tool, n=1), call(tool, n=1))))
    first, second = tape.all("effect.received")
    tape.drop(second, *tape.all("effect.applied", key=second["data"]["key"]))
    again = tape.again(first, first, n=900)
    found = result(tape, "unknown-never-resent")
    assert [(v.expected.seq, v.seen.seq) for v in found.violations] == [(tape.seq(first), tape.seq(again))]


@FEW
@given(tool=st.sampled_from(["publish", "order"]), other=st.sampled_from(["publish", "order"]))
def test_the_query_of_one_call_says_nothing_of_an_equal_one(tool: str, other: str) -> None:
    tape = turn(Reply(calls=(call(tool, n=1), call(tool, n=1))), call(other, n=2))
    first, second = tape.all("effect.received")[:2]
    query = asked(tape, second, second["data"]["key"], found=False)
    again = tape.again(first, query, n=901)
    caught(tape, "unknown-never-resent", first, again, ("stored-result-reused",))
    asked(tape, query, first["data"]["key"], found=False)
    fair(tape, "unknown-never-resent")


def test_a_target_without_keys_may_send_as_often_as_it_was_asked_and_no_more() -> None:
    tape = turn(Reply(calls=(call("charge", n=1), call("charge", n=1))))
    for line in tape.all("effect.received"):
        line["data"]["key"] = None
    held(tape, "unknown-never-resent")
    last = last_sending(tape)
    again = tape.again(last, last, n=900)
    found = result(tape, "unknown-never-resent")
    assert [(v.expected.seq, v.seen.seq) for v in found.violations] == [(tape.seq(last), tape.seq(again))]


# The order of intent, dispatch, call and result ---------------------------------------------------------------------


def points_of(t: Tape, sent: Line) -> dict[str, Line]:
    """The points of this write's call, by name."""
    key = sent["data"]["key"]
    return {x["data"]["point"]: x for x in t.all("point.reached") if (x["data"]["detail"] or {}).get("key") == key}


IN_ORDER = calling(*WRITES, deaths=0, tools=("read", "grep", "charge"))


@BREACHES.of("effect-in-order", IN_ORDER)
def no_dispatch_is_stored(t: Tape, pick: Pick) -> Witnesses:
    sent = pick(t.all("effect.received"))
    points = points_of(t, sent)
    t.drop(points["tool.dispatch.stored"])
    return points["tool.intent.stored"], sent


@BREACHES.of("effect-in-order", IN_ORDER)
def no_intent_is_stored(t: Tape, pick: Pick) -> Witnesses:
    sent = pick(t.all("effect.received"))
    t.drop(points_of(t, sent)["tool.intent.stored"])
    return None, sent


@BREACHES.of("effect-in-order", IN_ORDER)
def the_dispatch_is_stored_after_the_call(t: Tape, pick: Pick) -> Witnesses:
    sent = pick(t.all("effect.received"))
    points = points_of(t, sent)
    t.move(points["tool.dispatch.stored"], pick([sent, t.get("effect.applied", n=sent["data"]["n"])]))
    return points["tool.intent.stored"], sent


@BREACHES.of("effect-in-order", IN_ORDER)
def the_intent_is_stored_after_the_call(t: Tape, pick: Pick) -> Witnesses:
    sent = pick(t.all("effect.received"))
    t.move(points_of(t, sent)["tool.intent.stored"], pick(after(t, sent)))
    return None, sent


@BREACHES.of("effect-in-order", plays(must=("read",), deaths=0))
def a_result_is_stored_before_its_dispatch(t: Tape, pick: Pick) -> Witnesses:
    reads = {view["call_id"] for view in effects_of(t, tool="read")}
    result_of = pick([x for x in reached(t, "tool.result.stored") if x["data"]["detail"]["call"] in reads])
    name = result_of["data"]["detail"]["call"]
    intent = next(x for x in reached(t, "tool.intent.stored") if x["data"]["detail"]["call"] == name)
    return None, t.move(result_of, intent)


@SOME
@given(IN_ORDER, st.booleans())
def test_each_write_is_looked_at_once_and_each_result_too(tape: Tape, by_call: bool) -> None:
    for line in tape.all("point.reached") if by_call else []:
        (line["data"]["detail"] or {}).pop("key", None)  # then the key is read from the call's effect
    keys = {line["data"]["key"] for line in tape.all("effect.received")}
    stored = reached(tape, "tool.result.stored")
    assert held(tape, "effect-in-order").examined == len(keys) + len(stored)
    sent = tape.get("effect.received")
    tape.again(sent, sent, n=900)
    assert result(tape, "effect-in-order").examined == len(keys) + len(stored)


@SOME
@given(IN_ORDER, st.data())
def test_points_that_name_no_call_are_counted(tape: Tape, data: st.DataObject) -> None:
    for line in tape.all("point.reached"):
        line["data"]["detail"] = None
    remote = list(tape.all("effect.received"))
    local = [view for view in effects_of(tape) if view["tool"] not in WRITES]
    held(tape, "effect-in-order")
    dispatches = reached(tape, "tool.dispatch.stored")
    assert len(dispatches) == len(remote) + len(local)
    tape.drop(*dispatches[len(remote) - 1 :])
    found = result(tape, "effect-in-order").violations
    assert found and found[-1].seen.seq == tape.seq(remote[-1])


def kill_beside(tape: Tape, line: Line) -> Line:
    """A worker is killed that stands at no point."""
    return tape.put("kill", line, role="worker", life=1, pid=201, signal="SIGKILL", status=9, point=None, ordinal=None,
                    nonce="gone", proved=True, why=None)  # fmt: skip


@SOME
@given(
    plays(must=("charge",), tools=(), deaths=0, texts=1), st.sampled_from(["tool.intent.stored", "tool.dispatch.stored"])
)
def test_who_was_killed_between_two_points_may_have_stored_without_a_word(tape: Tape, point: str) -> None:
    tape.drop(*reached(tape, point))
    assert result(tape, "effect-in-order").status == "violated"
    kill_beside(tape, tape.get("effect.received"))
    assert result(tape, "effect-in-order").status == "violated", "it was killed too late to have stored it"
    kill_beside(tape, reached(tape, "attempt.stored")[0])
    held(tape, "effect-in-order")


def test_one_kill_excuses_one_write() -> None:
    tape = turn(call("charge", n=1), call("charge", n=2))
    tape.drop(*reached(tape, "tool.intent.stored"))
    kill_beside(tape, reached(tape, "attempt.stored")[0])
    second = tape.get("effect.received", 1)
    caught(tape, "effect-in-order", None, second)


@FEW
@given(IN_ORDER)
def test_a_target_without_points_shows_nothing_of_its_order(tape: Tape) -> None:
    tape.drop(*tape.all("point.reached"))
    not_examined(tape, "effect-in-order")


REPEAT = {"do": "answer", "how": "repeat"}

# Killed at its intent -----------------------------------------------------------------------------------------------


@BREACHES.of("not-started-is-called-once", UNSTARTED, "done-means-done")
def it_is_never_called(t: Tape, pick: Pick) -> Witnesses:
    applied = pick(t.all("effect.applied"))
    t.drop(applied)
    return t.get("kill", point="tool.intent.stored"), t.final


@FEW
@given(UNSTARTED)
def test_a_call_whose_arguments_came_twice_may_never_be_made(tape: Tape) -> None:
    tape.drop(*tape.all("effect.applied"))
    tape.put("point.fired", tape.get("case.opened"), point="provider.reply.chunk", ordinal=1, nonce="n", ops=[REPEAT])
    not_examined(tape, "not-started-is-called-once")


@BREACHES.of("not-started-is-called-once", UNSTARTED, "no-duplicate-write")
def it_is_called_twice(t: Tape, pick: Pick) -> Witnesses:
    applied = pick(t.all("effect.applied"))
    t.again(applied, pick(after(t, applied)), n=900)
    return t.get("kill", point="tool.intent.stored"), t.final


@SOME
@given(UNSTARTED, st.sampled_from(["beside", "another point", "controlled", "unknown", "excused"]))
def test_only_who_died_at_the_intent_itself_and_was_left_alone_is_judged(tape: Tape, why: str) -> None:
    for kill in tape.all("kill", point="tool.intent.stored"):
        if why == "beside":
            kill["data"]["pid"] += 50
        elif why == "another point":
            kill["data"]["point"] = "tool.dispatch.stored"
    if why == "controlled":
        tape.put("client.invoked", tape.get("kill"), call=900, client="c1", op="control", session="s1", action="pause")
    elif why == "unknown":
        view = tape.view()
        view["effects"].append({**view["effects"][0], "call_id": "other", "state": "outcome_unknown"})
    elif why == "excused":
        tape.put("store.broken", tape.get("kill"), how="torn", sha256="b")
        for view in everywhere(tape):
            for work in view["works"]:
                work.update(state="failed", reason_code="store_broken")
    not_examined(tape, "not-started-is-called-once")


# A stored result ----------------------------------------------------------------------------------------------------

STORED = plays(must=("charge",), tools=("read",), deaths=0)


def tells(request: Line, name: str) -> bool:
    """Whether a request tells the result of this call."""
    return any(message.get("tool_call_id") == name for message in request["data"]["body"]["messages"])


@BREACHES.of("stored-result-reused", STORED)
def it_is_called_after_its_result_was_stored(t: Tape, pick: Pick) -> Witnesses:
    sent = last_sending(t)
    stored = points_of(t, sent)["tool.result.stored"]
    return stored, t.again(sent, pick(after(t, stored)), n=900)


@BREACHES.of("stored-result-reused", STORED)
def its_stored_failure_is_tried_again(t: Tape, pick: Pick) -> Witnesses:
    sent = last_sending(t)
    stored = points_of(t, sent)["tool.result.stored"]
    stored["data"]["detail"].update(ok=False)
    effects_of(t, idempotency_key=sent["data"]["key"])[0]["state"] = "failed"
    t.drop(*t.all("effect.applied"))
    t.get("effect.answered", -1)["data"]["status"] = 500
    return stored, t.again(sent, pick(after(t, stored)), n=900)


@BREACHES.of("stored-result-reused", STORED, "unknown-never-resent", "effect-in-order")
def it_is_called_anew_after_the_model_was_told(t: Tape, pick: Pick) -> Witnesses:
    sent = last_sending(t)
    t.drop(points_of(t, sent)["tool.result.stored"])
    name = effects_of(t, idempotency_key=sent["data"]["key"])[0]["call_id"]
    told = next(x for x in after(t, sent) if x["kind"] == "provider.request" and tells(x, name))
    return told, t.again(sent, pick(after(t, told)), n=900, key="k_new")


@SOME
@given(STORED, st.data())
def test_what_is_sent_again_before_its_result_is_stored_is_no_call_for_it(tape: Tape, data: st.DataObject) -> None:
    sent = last_sending(tape)
    stored = points_of(tape, sent)["tool.result.stored"]
    between = [x for x in after(tape, sent) if x["t_ns"] < stored["t_ns"]]
    tape.again(sent, data.draw(st.sampled_from(between)), n=900)
    held(tape, "stored-result-reused")


@SOME
@given(STORED)
def test_a_placeholder_is_no_result(tape: Tape) -> None:
    sent = last_sending(tape)
    stored = points_of(tape, sent)["tool.result.stored"]
    stored["data"]["detail"]["state"] = "outcome_unknown"
    for view in everywhere(tape):
        for item in view["transcript"]:
            item["placeholder"] = item["kind"] == "tool_result"
    tape.again(sent, tape.final, n=900)
    not_examined(tape, "stored-result-reused")


@pytest.mark.parametrize("other", ["read", "charge", "order"])
@pytest.mark.parametrize("tool", ["mail", "publish"])
def test_the_result_of_another_tool_with_equal_arguments_is_none_of_this_call(tool: str, other: str) -> None:
    held(turn(call(other, n=1), call(tool, n=1)), "stored-result-reused")


@FEW
@given(plays(must=("read",), tools=("read", "grep"), deaths=1))
def test_results_of_reads_promise_nothing_to_the_world(tape: Tape) -> None:
    not_examined(tape, "stored-result-reused")


# What is shown of an unknown operation ------------------------------------------------------------------------------


@BREACHES.of("unknown-operation-shown", UNKNOWN)
def a_field_is_missing(t: Tape, pick: Pick) -> Witnesses:
    effect = pick(effects_of(t, state="outcome_unknown"))
    field = pick(["tool", "input_summary", "dispatched_at"])
    effect[field] = "" if field == "tool" else pick([None, 0 if field == "dispatched_at" else ""])
    return t.get("effect.received", key=effect["idempotency_key"]), t.final


@BREACHES.of("unknown-operation-shown", calling(*BLIND, "charge"), "done-means-done")
def a_write_that_happened_is_not_shown(t: Tape, pick: Pick) -> Witnesses:
    applied = pick(t.all("effect.applied"))
    effect = effects_of(t, idempotency_key=applied["data"]["key"])[0]
    for session in t.final["data"]["sessions"].values():
        session["effects"] = [each for each in session["effects"] if each is not effect]
    return applied, t.final


@BREACHES.of("unknown-operation-shown", calling(*BLIND, "charge"), "done-means-done")
def no_effect_is_shown_at_all(t: Tape, pick: Pick) -> Witnesses:
    for session in t.final["data"]["sessions"].values():
        session["effects"] = []
    return pick(t.all("effect.applied")), t.final


@FEW
@given(calling(*WRITES), st.booleans())
def test_a_write_without_a_key_cannot_be_found_among_the_effects(tape: Tape, shows: bool) -> None:
    for line in tape.all("effect.applied"):
        line["data"]["key"] = None
    for session in tape.final["data"]["sessions"].values():
        session["effects"] = session["effects"] if shows else []
    fair(tape, "unknown-operation-shown")


@FEW
@given(calling("charge", tools=("read",), deaths=0))
def test_a_target_that_stores_no_calls_has_none_to_show(tape: Tape) -> None:
    tape.drop(*tape.all("point.reached"))
    for session in tape.final["data"]["sessions"].values():
        session["effects"] = []
    not_examined(tape, "unknown-operation-shown")


@FEW
@given(UNKNOWN)
def test_an_operation_of_which_nothing_can_be_checked_needs_to_show_no_checks(tape: Tape) -> None:
    for effect in effects_of(tape, state="outcome_unknown"):
        effect["checks"] = []
    held(tape, "unknown-operation-shown")


# An unknown effect and its turn -------------------------------------------------------------------------------------


@BREACHES.of("unknown-outlives-its-turn", UNKNOWN)
def its_turn_never_ends(t: Tape, pick: Pick) -> Witnesses:
    effect = pick(effects_of(t, state="outcome_unknown"))
    for session in t.final["data"]["sessions"].values():
        for each in [each for work in session["works"] for each in work["turns"] if each["turn_id"] == effect["turn_id"]]:
            each["state"] = "running"
    return t.get("effect.received", key=effect["idempotency_key"]), t.final


@BREACHES.of("unknown-outlives-its-turn", UNKNOWN)
def its_result_is_made_up(t: Tape, pick: Pick) -> Witnesses:
    effect = pick(effects_of(t, state="outcome_unknown"))
    for view in everywhere(t):
        for item in [item for item in view["transcript"] if item["call_id"] == effect["call_id"]]:
            item["placeholder"] = False
    return t.get("effect.received", key=effect["idempotency_key"]), t.final


@SOME
@given(UNKNOWN, st.sampled_from(["abandoned", "succeeded", "no turn"]))
def test_what_is_resolved_or_names_no_turn_is_not_judged(tape: Tape, how: str) -> None:
    for effect in effects_of(tape, state="outcome_unknown"):
        effect.update(turn_id=None) if how == "no turn" else effect.update(state=how)
    not_examined(tape, "unknown-outlives-its-turn")


@SOME
@given(UNKNOWN, st.sampled_from(["done", "interrupted", "cancelled"]))
def test_a_turn_may_end_in_any_way_and_a_late_receipt_is_no_made_result(tape: Tape, state: str) -> None:
    effect = effects_of(tape, state="outcome_unknown")[0]
    view = next(v for v in tape.final["data"]["sessions"].values() if effect in v["effects"])
    for each in [each for work in view["works"] for each in work["turns"]]:
        each["state"] = state
    item = {"item": 99, "kind": "reconciliation", "call_id": effect["call_id"], "text": "rcpt_9"}
    view["transcript"].append(item)
    held(tape, "unknown-outlives-its-turn")


# A tool's own word --------------------------------------------------------------------------------------------------


@BREACHES.of("tools-own-word-counts-nothing", calling("note_plugin", deaths=0), "unknown-never-resent")
def the_liar_is_believed(t: Tape, pick: Pick) -> Witnesses:
    liar = pick(effects_of(t, tool="note_plugin"))
    sent = t.get("effect.received", key=liar["idempotency_key"])
    return sent, t.again(sent, sent, n=900)


@BREACHES.of("tools-own-word-counts-nothing", calling(*WRITES))
def nobody_knows_what_ran(t: Tape, pick: Pick) -> Witnesses:
    keys = {line["data"]["key"] for line in t.all("effect.received")}
    effect = pick([each for each in effects_of(t) if each["idempotency_key"] in keys])
    effect["implementation"] = pick([None, ""])
    return t.get("effect.received", key=effect["idempotency_key"]), t.final


@FEW
@given(times=st.integers(1, 3), mails=st.integers(0, 2))
def test_a_liar_may_be_called_as_often_as_it_was_asked_for_and_said_once(times: int, mails: int) -> None:
    tape = turn(*[call("note_plugin", n=1)] * times, *[call("mail", n=1)] * mails)
    held(tape, "tools-own-word-counts-nothing")
    last = last_sending(tape)
    again = tape.again(last, last, n=900)
    found = result(tape, "tools-own-word-counts-nothing").violations
    assert [(v.expected.seq, v.seen.seq) for v in found] == [(tape.seq(tape.get("effect.received")), tape.seq(again))]


@FEW
@given(plays(tools=("read", "grep")))
def test_where_nothing_was_called_no_implementation_is_asked_for(tape: Tape) -> None:
    for effect in effects_of(tape):
        effect["implementation"] = None
    not_examined(tape, "tools-own-word-counts-nothing")


# A late receipt -----------------------------------------------------------------------------------------------------


def placeholder_of(view: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in view["transcript"] if item["placeholder"])
    return found


@BREACHES.of("late-receipt-added", late_receipts(), "transcript-append-only", "results-match-their-calls")
def the_placeholder_is_rewritten(t: Tape, pick: Pick) -> Witnesses:
    placeholder_of(t.view()).update(pick([{"text": f"{PLACEHOLDER}!"}, {"complete": False}, {"call_id": "call_other"}]))
    return t.get("snapshot.taken", when="before"), t.final


@BREACHES.of("late-receipt-added", late_receipts(), "transcript-append-only", "results-match-their-calls")
def the_placeholder_is_taken_away(t: Tape, pick: Pick) -> Witnesses:
    view = t.view()
    view["transcript"] = [item for item in view["transcript"] if not item["placeholder"]]
    return pick([t.get("snapshot.taken", when="before"), None]), t.final


@BREACHES.of("late-receipt-added", late_receipts(), "results-match-their-calls", "finished-stays-finished")
def the_placeholder_is_told_again(t: Tape, pick: Pick) -> Witnesses:
    told = next(x for x in t.all("provider.request") if "rcpt_1" in str(x))
    at = t.again(told, pick(after(t, told)), n=900, attempt=None)
    next(m for m in at["data"]["body"]["messages"] if m["role"] == "tool")["content"] = PLACEHOLDER
    return told, at


@BREACHES.of("late-receipt-added", late_receipts())
def the_receipt_is_never_told(t: Tape, pick: Pick) -> Witnesses:
    unheard = [x for x in t.all("provider.request") if "rcpt_1" in str(x)]
    for line in unheard:
        for message in line["data"]["body"]["messages"]:
            message["content"] = PLACEHOLDER if message["content"] == "rcpt_1" else message["content"]
    return None, pick(unheard)


@SOME
@given(late_receipts(), st.data())
def test_a_request_made_before_the_receipt_tells_the_placeholder(tape: Tape, data: st.DataObject) -> None:
    early = [x for x in tape.all("provider.request") if PLACEHOLDER in str(x) and "rcpt_1" not in str(x)]
    assert early, "the mail's own turn goes on without its result"
    at = data.draw(st.sampled_from(early))
    tape.again(at, at, n=900, attempt=None)
    held(tape, "late-receipt-added")


@FEW
@given(UNKNOWN)
def test_a_placeholder_that_is_seen_once_cannot_have_changed(tape: Tape) -> None:
    tape.drop(*[x for x in tape.all("snapshot.taken") if x is not tape.final])
    not_examined(tape, "late-receipt-added")


# Done means done ----------------------------------------------------------------------------------------------------

DONE = calling("charge", "mail", "order", tools=("read", "charge"), deaths=0)


@BREACHES.of("done-means-done", DONE)
def the_world_never_applied_it(t: Tape, pick: Pick) -> Witnesses:
    applied = pick(t.all("effect.applied"))
    t.drop(applied)
    return t.get("effect.received", key=applied["data"]["key"]), t.final


@BREACHES.of("done-means-done", DONE, "usage-equals-billed", "totals-can-be-rebuilt")
def the_last_reply_was_never_sent_to_its_end(t: Tape, pick: Pick) -> Witnesses:
    billed = t.get("provider.billed", -1)
    session = next(name for name, v in t.final["data"]["sessions"].items() if _attempt(billed) in _attempts(v))
    work = t.view(session)["works"][-1]
    pick([lambda: t.drop(billed), lambda: billed["data"].update(complete=False)])()
    given = next(i for i in t.view(session)["inputs"] if i["work_id"] == work["work_id"])
    heard = [x for x in t.all("client.heard", outcome="ok") if x["data"]["body"].get("work_id") == work["work_id"]]
    assert given["consumed"]
    return heard[0], t.final


def _attempt(billed: Line) -> str:
    return str(billed["data"]["attempt"])


def _attempts(view: dict[str, Any]) -> set[str]:
    return {row["attempt"] for row in view["attempts"]}


@BREACHES.of("done-means-done", DONE)
def it_is_called_failed_or_not_started_though_it_happened(t: Tape, pick: Pick) -> Witnesses:
    applied = pick(t.all("effect.applied"))
    effects_of(t, idempotency_key=applied["data"]["key"])[0]["state"] = pick(["failed", "not_started"])
    return applied, t.final


@FEW
@given(DONE, st.booleans())
def test_a_piece_that_was_sent_twice_may_cost_the_script_its_place(tape: Tape, doubled: bool) -> None:
    """A later reply of it is then sent in place of an earlier one, whose calls nobody has asked for."""
    for view in everywhere(tape):
        view["effects"] = []
        view["transcript"] = [item for item in view["transcript"] if not item["calls"] and item["kind"] != "tool_result"]
    tape.drop(*tape.all("effect.received"), *tape.all("effect.applied"), *tape.all("effect.answered"))
    ops = [REPEAT] if doubled else []
    tape.put("point.fired", tape.get("case.opened"), point="provider.reply.chunk", ordinal=1, nonce="n", ops=ops)
    assert ("done-means-done" in tape.violated()) != doubled


@SOME
@given(DONE, st.sampled_from(["outcome_unknown", "abandoned", "failed"]))
def test_a_write_that_the_target_does_not_call_done_may_be_missing_or_have_happened(tape: Tape, state: str) -> None:
    for line in tape.all("effect.answered"):
        line["data"]["status"] = 503  # told that it failed, although it happened
    for effect in effects_of(tape):
        if effect["tool"] in RECEIVERS:
            effect["state"] = state
    fair(tape, "done-means-done")
    tape.drop(*tape.all("effect.applied"))
    fair(tape, "done-means-done")


@FEW
@given(DONE)
def test_a_call_that_was_answered_with_an_error_has_failed_and_is_not_one_that_never_started(tape: Tape) -> None:
    applied = tape.get("effect.applied")
    tape.get("effect.answered", n=applied["data"]["n"])["data"]["status"] = 503
    effects_of(tape, idempotency_key=applied["data"]["key"])[0]["state"] = "not_started"
    caught(tape, "done-means-done", applied, tape.final)


@FEW
@given(DONE)
def test_a_result_in_the_transcript_is_a_claim_also_without_an_effect(tape: Tape) -> None:
    for view in everywhere(tape):
        view["effects"] = []
    held(tape, "done-means-done")
    tape.drop(*tape.all("effect.applied"))
    found = result(tape, "done-means-done").violations
    assert len(found) == len({str(x["data"]["arguments"]) for x in tape.all("effect.received")})


@SOME
@given(DONE)
def test_works_that_nobody_calls_done_claim_nothing(tape: Tape) -> None:
    for view in everywhere(tape):
        for work in view["works"]:
            work["state"] = "failed"
        view["effects"] = []
    tape.drop(*tape.all("effect.applied"), *tape.all("provider.billed"))
    not_examined(tape, "done-means-done")


@FEW
@given(DONE)
def test_effects_without_a_key_or_inside_the_workspace_are_not_looked_for_in_the_world(tape: Tape) -> None:
    for view in everywhere(tape):
        for effect in view["effects"]:
            effect["idempotency_key"] = None if effect["tool"] in RECEIVERS else effect["idempotency_key"]
    held(tape, "done-means-done")


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
@given(calling(*WRITES, equal=True), st.integers(0, 300))
def test_no_beginning_of_a_right_run_is_violated(tape: Tape, length: int) -> None:
    safe_when_cut(tape, CHECKS, length)


@FEW
@given(plays(tools=(), deaths=1))
def test_a_run_without_tools_shows_nothing_of_effects(tape: Tape) -> None:
    for name in set(GOOD) - {"done-means-done"}:
        not_examined(tape, name)
