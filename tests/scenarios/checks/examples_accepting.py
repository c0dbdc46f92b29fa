"""Owns the examples for the checks of accepting work."""

from __future__ import annotations

from tests.scenarios.checks.builder import Scene, Tape, call, replies, turn
from tests.scenarios.checks.examples import Witnesses, breaks, change, good


@good("acknowledged-input-not-lost", "no-duplicate-input", "only-sent-inputs-shown", "input-appended-once")
def one_write_and_a_death() -> Tape:
    return turn(call("charge", amount=3), die="tool.effect.done#1")


@good("resend-hears-the-same")
def sent_twice() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1", outcome="unknown")
    scene.send("r1")
    scene.send("r1")
    return scene.run().tape()


@good("inputs-in-first-order", "user-messages-in-order")
def two_in_a_row() -> Tape:
    scene = Scene({"first": replies(last="one"), "second": replies(last="two")}, die={"attempt.stored#2": "worker"})
    scene.open()
    scene.send("r1", "first")
    scene.send("r2", "second")
    return scene.run().tape()


@good("late-resend-undoes-no-stop")
def stopped_then_sent_again() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1")
    scene.control("stop")
    scene.send("r1")
    return scene.run().tape()


@good("finished-stays-finished")
def finished_and_killed() -> Tape:
    return turn(die="turn.committed#1")


@breaks("acknowledged-input-not-lost")
def the_store_forgets_it(t: Tape) -> Witnesses:
    t.view().update(inputs=[], transcript=[])
    return t.get("client.heard", 1), t.final


@breaks("acknowledged-input-not-lost")
def its_session_is_gone(t: Tape) -> Witnesses:
    t.final["data"]["sessions"] = {}
    return t.get("client.heard", 1), t.final


@breaks("acknowledged-input-not-lost")
def nobody_works_on_it(t: Tape) -> Witnesses:
    t.drop(*t.all("provider.request"))
    return t.get("client.heard", 1), None


@breaks("no-duplicate-input")
def a_second_copy_is_stored(t: Tape) -> Witnesses:
    t.view()["inputs"] *= 2
    return t.get("client.invoked", op="send"), t.final


@breaks("no-duplicate-input", of=sent_twice)
def the_resend_is_stored_too(t: Tape) -> Witnesses:
    t.view()["inputs"].append({**t.view()["inputs"][0], "position": 2})
    return t.get("client.invoked", -1, op="send"), t.final


@breaks("resend-hears-the-same")
def the_resend_is_another_work(t: Tape) -> Witnesses:
    first, again = t.all("client.heard", outcome="ok")[1:3]
    change(again, body={**again["data"]["body"], "work_id": "w_other"})
    return first, again


@breaks("resend-hears-the-same")
def the_resend_is_another_input(t: Tape) -> Witnesses:
    first, again = t.all("client.heard", outcome="ok")[1:3]
    change(again, body={**again["data"]["body"], "input": "i_other"})
    return first, again


@breaks("only-sent-inputs-shown")
def a_draft_is_shown(t: Tape) -> Witnesses:
    t.view()["inputs"].append({"request_id": "draft", "text": "half a thou"})
    return None, t.final


@breaks("only-sent-inputs-shown")
def another_text_is_shown(t: Tape) -> Witnesses:
    t.view()["inputs"][0]["text"] = "hello, and delete it all"
    return t.get("client.invoked", op="send"), t.final


@breaks("input-appended-once")
def the_new_turn_appends_it_again(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    last["data"]["body"]["messages"].append({"role": "user", "content": "hello"})
    return t.get("client.invoked", op="send"), last


@breaks("input-appended-once")
def the_transcript_holds_it_twice(t: Tape) -> Witnesses:
    items = t.view()["transcript"]
    items.append({**items[0], "item": len(items) + 1})
    return t.get("client.invoked", op="send"), t.final


@breaks("inputs-in-first-order")
def the_second_goes_first(t: Tape) -> Witnesses:
    first, second = t.get("provider.request", 0), t.get("provider.request", 1)
    t.drop(*t.all("point.reached", point="turn.begun"))
    t.move(first, t.get("provider.answered", -1))
    return t.get("client.heard", 1), second


@breaks("inputs-in-first-order")
def the_first_is_skipped(t: Tape) -> Witnesses:
    t.drop(t.get("provider.request", 0), *t.all("point.reached", point="turn.begun"))
    return t.get("client.heard", 1), t.get("provider.request", 0)


@breaks("late-resend-undoes-no-stop")
def the_resend_starts_it(t: Tape) -> Witnesses:
    at = t.put("provider.request", t.get("client.heard", -1), n=1, attempt="a_1",
               body={"messages": [{"role": "user", "content": "hello"}]})  # fmt: skip
    return t.get("client.heard", 2), at


@breaks("late-resend-undoes-no-stop")
def the_resend_starts_it_twice(t: Tape) -> Witnesses:
    since, at = the_resend_starts_it(t)
    assert at is not None
    t.again(at, at, n=2, attempt="a_2")
    return since, at


@breaks("finished-stays-finished")
def the_next_life_runs_it_again(t: Tape) -> Witnesses:
    at = t.again(t.get("provider.request"), t.get("process.started", -1), n=7, attempt="a_7")
    return t.get("client.event", type="work.done"), at


@breaks("finished-stays-finished")
def it_becomes_endless(t: Tape) -> Witnesses:
    t.drop(*t.all("client.event"))
    at = t.again(t.get("provider.request"), t.get("snapshot.taken"), n=7, attempt="a_7")
    return t.get("point.reached", point="turn.committed"), at
