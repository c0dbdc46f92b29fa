"""Owns the examples for the checks of tool calls and their effects."""

from __future__ import annotations

from tests.scenarios.checks.builder import PLACEHOLDER, Scene, Tape, call, replies, turn
from tests.scenarios.checks.examples import Witnesses, breaks, change, good


@good("no-duplicate-write", "unknown-never-resent", "effect-in-order", "stored-result-reused", "done-means-done")
def an_order_reconciled() -> Tape:
    return turn(call("order", item=7), die="tool.effect.done#1")


def a_charge_sent_again() -> Tape:
    return turn(call("charge", amount=7), die="tool.effect.done#1")


@good("not-started-is-called-once")
def killed_at_its_intent() -> Tape:
    return turn(call("mail", to="bob"), die="tool.intent.stored#1")


@good("unknown-operation-shown", "unknown-outlives-its-turn")
def a_mail_of_unknown_outcome() -> Tape:
    return turn(call("mail", to="bob"), die="effect.applied#1")


@good("tools-own-word-counts-nothing")
def a_lying_plugin() -> Tape:
    return turn(call("note_plugin", note="x"), die="tool.effect.done#1")


@good("late-receipt-added", "results-match-their-calls")
def a_late_receipt() -> Tape:
    script = {"hello": replies(call("mail", to="bob"), last="sent, perhaps"), "next": replies(last="sent indeed")}
    scene = Scene(script, die={"tool.effect.done#1": "worker"})
    scene.open()
    scene.send("r1")
    scene.run()
    scene.look("before")
    made = next(i for i in scene.sessions["s1"]["transcript"] if i["placeholder"])
    scene.store("s1", kind="reconciliation", turn_id=made["turn_id"], call_id=made["call_id"], text="rcpt_1")
    scene.send("r2", "next")
    return scene.run().tape()


def _resent(t: Tape, **changes: object) -> Witnesses:
    first = t.get("effect.received", -1)
    applied = t.get("effect.applied", -1)
    at = t.again(first, t.get("process.started", -1), n=80, **changes)
    t.again(applied, at, n=80, duplicate_of=1, **changes)
    return first, at


@breaks("no-duplicate-write")
def the_order_is_placed_twice(t: Tape) -> Witnesses:
    _resent(t)
    return t.get("effect.applied"), t.get("effect.applied", 1)


@breaks("no-duplicate-write", of=a_charge_sent_again)
def it_is_charged_under_a_new_key(t: Tape) -> Witnesses:
    _resent(t, key="k_new")
    return t.get("effect.applied"), t.get("effect.applied", 1)


@breaks("unknown-never-resent")
def it_is_sent_again_blindly(t: Tape) -> Witnesses:
    return _resent(t)


@breaks("unknown-never-resent", of=a_charge_sent_again)
def it_is_sent_again_under_a_new_key(t: Tape) -> Witnesses:
    first, again = t.all("effect.received")
    return first, change(again, key="k_new")


@breaks("unknown-never-resent", of=a_mail_of_unknown_outcome)
def a_mail_is_sent_again(t: Tape) -> Witnesses:
    return _resent(t)


@breaks("unknown-never-resent")
def the_query_found_it_and_it_is_sent_again(t: Tape) -> Witnesses:
    first = t.get("effect.received")
    return first, t.again(first, t.get("effect.queried"), n=80)


@breaks("effect-in-order")
def it_is_called_before_its_dispatch_is_stored(t: Tape) -> Witnesses:
    dispatch = t.get("point.reached", point="tool.dispatch.stored")
    received = t.get("effect.received")
    t.move(dispatch, received)
    return t.get("point.reached", point="tool.intent.stored"), received


@breaks("effect-in-order")
def no_dispatch_is_stored(t: Tape) -> Witnesses:
    t.drop(t.get("point.reached", point="tool.dispatch.stored"))
    return t.get("point.reached", point="tool.intent.stored"), t.get("effect.received")


@breaks("effect-in-order")
def no_intent_is_stored(t: Tape) -> Witnesses:
    t.drop(t.get("point.reached", point="tool.intent.stored"))
    return None, t.get("effect.received")


@breaks("not-started-is-called-once")
def it_is_never_called(t: Tape) -> Witnesses:
    t.drop(t.get("effect.applied"))
    return t.get("kill"), t.final


@breaks("not-started-is-called-once")
def it_is_called_twice(t: Tape) -> Witnesses:
    t.again(t.get("effect.applied"), t.get("effect.applied"), n=80)
    return t.get("kill"), t.final


@breaks("stored-result-reused")
def it_is_called_although_its_result_is_stored(t: Tape) -> Witnesses:
    stored = t.put("point.reached", t.get("effect.answered"), point="tool.result.stored", ordinal=9, role="worker", life=1,
                   pid=201, nonce="z", work="w_s1_r1", detail={"key": t.get("effect.received")["data"]["key"]})  # fmt: skip
    return stored, t.again(t.get("effect.received"), t.get("process.started", -1), n=80)


@breaks("stored-result-reused")
def it_is_called_although_the_result_of_its_call_is_stored(t: Tape) -> Witnesses:
    effect = t.view()["effects"][0]
    stored = t.put("point.reached", t.get("effect.answered"), point="tool.result.stored", ordinal=9, role="worker", life=1,
                   pid=201, nonce="z", work="w_s1_r1", detail={"call": effect["call_id"], "ok": True})  # fmt: skip
    return stored, t.again(t.get("effect.received"), t.get("process.started", -1), n=80)


@breaks("stored-result-reused")
def it_is_called_although_the_model_was_told(t: Tape) -> Witnesses:
    told = t.get("provider.request", -1)
    return told, t.again(t.get("effect.received"), told, n=80, key="k_new")


@breaks("unknown-operation-shown")
def its_summary_is_missing(t: Tape) -> Witnesses:
    t.view()["effects"][0].update(input_summary=None, dispatched_at=None)
    return t.get("effect.received"), t.final


@breaks("unknown-operation-shown")
def it_is_not_shown(t: Tape) -> Witnesses:
    t.view()["effects"] = [{**t.view()["effects"][0], "idempotency_key": "another"}]
    return t.get("effect.applied"), t.final


@breaks("unknown-operation-shown")
def nothing_is_shown(t: Tape) -> Witnesses:
    t.view()["effects"] = []
    return t.get("effect.applied"), t.final


@breaks("unknown-outlives-its-turn")
def its_turn_never_ends(t: Tape) -> Witnesses:
    t.view()["works"][0]["turns"][0]["state"] = "running"
    return t.get("effect.received"), t.final


@breaks("unknown-outlives-its-turn")
def its_result_is_made_up(t: Tape) -> Witnesses:
    made = next(i for i in t.view()["transcript"] if i["placeholder"])
    made.update(placeholder=False, text="sent")
    return t.get("effect.received"), t.final


@breaks("tools-own-word-counts-nothing")
def the_plugin_is_believed(t: Tape) -> Witnesses:
    first = t.get("effect.received")
    return first, t.again(first, t.get("process.started", -1), n=80)


@breaks("tools-own-word-counts-nothing")
def what_ran_is_not_known(t: Tape) -> Witnesses:
    t.view()["effects"][0]["implementation"] = None
    return t.get("effect.received"), t.final


@breaks("late-receipt-added")
def the_placeholder_is_overwritten(t: Tape) -> Witnesses:
    made = next(i for i in t.view()["transcript"] if i["placeholder"])
    made.update(text="rcpt_1", placeholder=False)
    return t.get("snapshot.taken", when="before"), t.final


@breaks("late-receipt-added")
def the_receipt_is_forgotten(t: Tape) -> Witnesses:
    told = t.get("provider.request", -1)
    at = t.again(told, told, n=81, attempt="a_81")
    next(m for m in at["data"]["body"]["messages"] if m["role"] == "tool")["content"] = PLACEHOLDER
    return told, at


@breaks("late-receipt-added")
def the_placeholder_was_never_there(t: Tape) -> Witnesses:
    t.view()["transcript"] = [i for i in t.view()["transcript"] if not i["placeholder"]]
    return None, t.final


@breaks("done-means-done")
def the_order_never_happened(t: Tape) -> Witnesses:
    t.drop(*t.all("effect.applied"))
    return t.get("client.heard", 1), t.final


@breaks("done-means-done")
def the_reply_was_never_sent(t: Tape) -> Witnesses:
    t.drop(t.get("provider.billed", -1))
    return t.get("client.heard", 1), t.final


@breaks("done-means-done")
def it_is_called_not_started_though_it_happened(t: Tape) -> Witnesses:
    t.view()["effects"][0]["state"] = "not_started"
    return t.get("effect.applied"), t.final


@breaks("done-means-done")
def nothing_was_done_at_all(t: Tape) -> Witnesses:
    t.drop(*t.all("provider.request"), *t.all("provider.billed"), *t.all("effect.received"), *t.all("effect.applied"))
    return t.get("client.heard", 1), t.final
