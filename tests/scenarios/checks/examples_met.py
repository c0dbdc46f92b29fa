"""Owns the examples for the checks that hold the right value of cases which people have met."""

from __future__ import annotations

from scenarios.case import Reply
from tests.scenarios.checks.builder import Scene, Tape, call, replies, turn
from tests.scenarios.checks.examples import EXAMPLES, Witnesses, breaks, change, good

TWO = {"first": replies(last="one"), "second": replies(last="two")}


@good("input-queued-not-refused")
def two_while_one_runs() -> Tape:
    scene = Scene(TWO)
    scene.open()
    scene.send("r1", "first")
    scene.send("r2", "second")
    return scene.run().tape()


@good("resumed-turn-goes-first")
def a_second_one_after_the_restart() -> Tape:
    scene = Scene(
        TWO,
        die={"attempt.stored#1": "worker"},
        held={"recovery.interface.restored#1": lambda s: s.send("r2", "second")},
    )
    scene.open()
    scene.send("r1", "first")
    return scene.run().tape()


@good("stop-covers-what-had-come")
def stopped_on_its_way() -> Tape:
    scene = Scene(held={"input.received#1": lambda s: s.control("stop")})
    scene.open()
    scene.reach("input.received", role="app", request_id="r1")
    scene.send("r1").update(state="cancelled", desired_state="cancelled", reason_code="user_stopped")
    return scene.run().tape()


@good("call-is-whole")
def a_call_asked_for_twice() -> Tape:
    on_my_way = Reply(text="on my way", calls=(call("charge", amount=3),))
    return turn(on_my_way, die="stream.text.committed#1")


@good("told-results-are-stored")
def a_placeholder_is_told() -> Tape:
    return turn(call("mail", to="ann"), die="effect.received#1")


@good("outcome-told-with-its-input")
def stopped_and_another_one() -> Tape:
    scene = Scene(
        {"first": replies(call("mail", to="ann"), last="one"), "second": replies(last="two")},
        held={"tool.intent.stored#1": lambda s: s.control("stop")},
    )
    scene.open()
    scene.send("r1", "first")
    scene.run()
    scene.send("r2", "second")
    return scene.run().tape()


def another_one_goes_first() -> Tape:
    held = {"recovery.repair.written#1": lambda s: s.send("r2", "second")}
    scene = Scene(TWO, die={"attempt.stored#1": "worker"}, held=held)
    scene.open()
    scene.send("r1", "first")
    return scene.run().tape()


@good("count-in-hand-kept", "result-in-hand-kept", "reply-told-once")
def one_charge() -> Tape:
    return turn(call("charge", amount=3))


def killed_with_its_reply_stored() -> Tape:
    return turn(die="reply.stored#1")


@breaks("input-queued-not-refused")
def the_second_is_refused_as_changed(t: Tape) -> Witnesses:
    sent, heard = t.get("client.invoked", -1, op="send"), t.get("client.heard", 2)
    return sent, change(heard, outcome="failed", status=409, body={"error": {"code": "session_changed"}})


@breaks("input-queued-not-refused")
def the_first_is_refused(t: Tape) -> Witnesses:
    sent, heard = t.get("client.invoked", op="send"), t.get("client.heard", 1)
    return sent, change(heard, outcome="failed", status=422, body=None)


@breaks("resumed-turn-goes-first")
def the_new_one_overtakes_it(t: Tape) -> Witnesses:
    heard, mine = t.get("client.heard", 2), t.get("provider.request", 1)
    return heard, t.move(mine, t.get("client.heard", 2))


@breaks("resumed-turn-goes-first")
def both_run_at_once(t: Tape) -> Witnesses:
    heard, mine = t.get("client.heard", 2), t.get("provider.request", 1)
    return heard, t.move(mine, t.get("provider.request", 0))


@breaks("stop-covers-what-had-come")
def it_runs_all_the_same(t: Tape) -> Witnesses:
    body = {"messages": [{"role": "user", "content": "hello"}]}
    at = t.put("provider.request", t.get("client.heard", -1), n=1, attempt="a_1", body=body)
    return t.get("point.reached", point="input.received"), at


@breaks("stop-covers-what-had-come")
def it_runs_after_a_restart(t: Tape) -> Witnesses:
    body = {"messages": [{"role": "user", "content": "hello"}]}
    started = t.put(
        "process.started", t.get("client.heard", -1), role="worker", life=2, pid=202, start_time=1.0, cold=False
    )
    at = t.put("provider.request", started, n=1, attempt="a_1", body=body)
    t.again(at, at, n=2, attempt="a_2")
    return t.get("point.reached", point="input.received"), at


@breaks("call-is-whole")
def half_of_it_is_stored(t: Tape) -> Witnesses:
    made = next(item for item in t.view()["transcript"] if item["calls"])
    made["calls"][0]["arguments"] = {"amou": ""}
    return t.get("provider.billed", complete=False), t.final


@breaks("call-is-whole")
def half_of_it_is_made(t: Tape) -> Witnesses:
    received = t.get("effect.received")
    return t.get("provider.billed", complete=False), change(received, arguments={"amount": 33})


@breaks("told-results-are-stored")
def it_is_only_told(t: Tape) -> Witnesses:
    view = t.view()
    view["transcript"] = [item for item in view["transcript"] if item["kind"] != "tool_result"]
    return t.get("provider.request", 1), t.final


@breaks("told-results-are-stored", of=one_charge)
def a_real_one_is_only_told(t: Tape) -> Witnesses:
    view = t.view()
    view["transcript"] = [item for item in view["transcript"] if item["call_id"] is None]
    return t.get("provider.request", 1), t.final


@breaks("outcome-told-with-its-input")
def nothing_is_told_of_its_end(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    messages = last["data"]["body"]["messages"]
    last["data"]["body"]["messages"] = [message for message in messages if message["role"] == "user"]
    return t.get("client.heard", 1), last


@breaks("outcome-told-with-its-input")
def it_is_told_twice(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    last["data"]["body"]["messages"].insert(0, {"role": "user", "content": "first"})
    return t.get("client.heard", 1), last


@breaks("outcome-told-with-its-input", of=another_one_goes_first)
def nothing_is_told_of_its_waiting(t: Tape) -> Witnesses:
    of_second = t.get("provider.request", 0)
    messages = of_second["data"]["body"]["messages"]
    of_second["data"]["body"]["messages"] = [message for message in messages if message["role"] == "user"]
    return t.get("client.heard", 1), of_second


UNKNOWN = {"state": "unknown", "input_tokens": None, "cached_tokens": None, "output_tokens": None}


@breaks("count-in-hand-kept")
def the_count_is_dropped(t: Tape) -> Witnesses:
    t.view()["attempts"][0].update(UNKNOWN)
    return t.get("point.reached", point="usage.receipt.received"), t.final


@breaks("count-in-hand-kept", of=killed_with_its_reply_stored)
def the_stored_count_is_given_up(t: Tape) -> Witnesses:
    t.view()["attempts"][0].update(UNKNOWN)
    return t.get("point.reached", point="reply.stored"), t.final


@breaks("count-in-hand-kept")
def another_count_is_stored(t: Tape) -> Witnesses:
    t.view()["attempts"][0]["output_tokens"] = 400
    return t.get("point.reached", point="usage.receipt.received"), t.final


@breaks("result-in-hand-kept")
def the_result_is_dropped(t: Tape) -> Witnesses:
    t.view()["effects"][0]["state"] = "outcome_unknown"
    return t.get("point.reached", point="tool.effect.done"), t.final


@breaks("result-in-hand-kept")
def the_call_counts_as_not_made(t: Tape) -> Witnesses:
    t.view()["effects"][0]["state"] = "not_started"
    return t.get("point.reached", point="tool.effect.done"), t.final


@breaks("reply-told-once")
def the_reply_is_told_to_nobody(t: Tape) -> Witnesses:
    t.drop(*t.all("client.event", type="reply"))
    return t.get("client.heard", 1), None


@breaks("reply-told-once")
def the_reply_is_told_under_another_number(t: Tape) -> Witnesses:
    last = t.get("client.event", -1, type="reply")
    return t.get("client.heard", 1), t.again(last, last, event=99)


def names() -> set[str]:
    """The checks that have their examples here: they look at the facts of other checks once more."""
    return {name for name, each in EXAMPLES.items() if each.good is not None and each.good.__module__ == __name__}
