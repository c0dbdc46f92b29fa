"""Owns the examples for the checks of requests to the model, of the ledger, of the interface and of the harness."""

from __future__ import annotations

from scenarios.case import Reply
from tests.scenarios.checks.builder import PLACEHOLDER, Scene, Tape, call, turn
from tests.scenarios.checks.examples import Witnesses, breaks, change, good
from tests.scenarios.checks.examples_accepting import two_in_a_row


@good("request-acceptable", "transcript-append-only", "history-told-as-stored", "repair-runs-nothing")
def two_calls_in_one_reply() -> Tape:
    both = Reply(text="let me see", calls=(call("read", path="a"), call("charge", amount=2)))
    return turn(both, last="paid", die="tool.result.stored#1")


@good("partial-told-and-marked", "retry-is-a-new-attempt", "usage-equals-billed", "attempt-fixed-before-request")
def cut_in_its_text() -> Tape:
    return turn(last="one two three four", die="stream.text.committed#2")


@good("same-call-id-twice-is-an-error")
def one_id_for_two_calls() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1")
    tape = scene.run().tape()
    change(tape.get("provider.answered"), call_ids=["call_1", "call_1"])
    told = [x for x in tape.lines if x["kind"] in {"client.connected", "client.event"}]
    tape.drop(*told, *tape.all("point.reached", point="turn.committed"))
    for when in ("final", "again"):
        tape.view(when=when)["works"][0].update(state="failed", reason_code="duplicate_call_id")
    return tape


@good("streamed-count-is-a-watermark")
def counts_in_every_chunk() -> Tape:
    scene = Scene(
        {"hello": (Reply(text="one two three four", usage="every"),)},
        die={"stream.text.committed#2": "worker"},
    )
    scene.open()
    scene.send("r1")
    return scene.run().tape()


@good("totals-can-be-rebuilt")
def two_replies() -> Tape:
    return turn(call("read", path="a"), die="usage.receipt.stored#1")


@good("late-receipt-attributed")
def a_late_receipt() -> Tape:
    tape = two_in_a_row()
    for when in ("final", "again"):
        tape.view(when=when)["attempts"][0]["late"] = True
    return tape


@good("events-only-grow", "events-equal-snapshot", "snapshot-never-goes-back", "reconnect-is-silent")
def both_killed_and_followed() -> Tape:
    return turn(call("read", path="a"), die={"reply.stored#1": "both"})


@good("store-whole-at-death", "committed-before-accepted", "everything-ends")
def killed_once() -> Tape:
    return turn(die="turn.begun#1")


# The history that is sent --------------------------------------------------------------------------------------------


@breaks("request-acceptable")
def the_provider_refuses(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    return None, t.put("provider.refused", last, n=last["data"]["n"], why="tool message missing")


@breaks("request-acceptable")
def a_result_is_missing(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    messages = last["data"]["body"]["messages"]
    messages.remove(next(m for m in messages if m["role"] == "tool"))
    return None, last


@breaks("request-acceptable")
def a_result_has_no_call(t: Tape) -> Witnesses:
    first = t.get("provider.request")
    first["data"]["body"]["messages"].append({"role": "tool", "tool_call_id": "gone", "content": "x"})
    return None, first


@breaks("request-acceptable")
def call_and_result_are_apart(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    messages = last["data"]["body"]["messages"]
    messages.insert(2, {"role": "user", "content": "hello"})
    return None, last


@breaks("request-acceptable")
def it_ends_with_a_reply(t: Tape) -> Witnesses:
    first = t.get("provider.request")
    first["data"]["body"]["messages"].append({"role": "assistant", "content": "and so"})
    return None, first


@breaks("request-acceptable")
def half_a_call_is_sent(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    reply = next(m for m in last["data"]["body"]["messages"] if m.get("tool_calls"))
    reply["tool_calls"][0]["function"]["arguments"] = '{"path": '
    return None, last


@breaks("user-messages-in-order")
def the_messages_change_places(t: Tape) -> Witnesses:
    last = next(x for x in t.all("provider.request") if x["data"]["body"]["messages"][-1]["content"] == "second")
    messages = last["data"]["body"]["messages"]
    messages[0], messages[-1] = messages[-1], messages[0]
    return t.get("client.heard", 1), last


@breaks("user-messages-in-order")
def the_second_is_put_before_the_first(t: Tape) -> Witnesses:
    first = t.get("provider.request")
    first["data"]["body"]["messages"].insert(0, {"role": "user", "content": "second"})
    return t.get("client.heard", 1), first


@breaks("results-match-their-calls")
def another_result_is_told(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    next(m for m in last["data"]["body"]["messages"] if m["role"] == "tool")["content"] = "of another call"
    return None, last


@breaks("results-match-their-calls")
def the_placeholder_wins_over_the_real_one(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    at = t.again(last, last, n=81, attempt="a_81")
    next(m for m in at["data"]["body"]["messages"] if m["role"] == "tool")["content"] = PLACEHOLDER
    return last, at


@breaks("results-match-their-calls", of=two_calls_in_one_reply)
def a_stored_result_is_told_as_unknown(t: Tape) -> Witnesses:
    at = t.get("provider.request", -1)
    stored = t.get("point.reached", point="tool.result.stored")
    stored["data"]["detail"]["ok"] = True
    name = stored["data"]["detail"]["call"]
    holder = {"item": 98, "kind": "tool_result", "call_id": name, "text": PLACEHOLDER, "placeholder": True}
    t.view()["transcript"].append(holder)
    told = next(m for m in at["data"]["body"]["messages"] if m.get("tool_call_id") == name)
    told["content"] = PLACEHOLDER
    return stored, at


@breaks("results-match-their-calls")
def each_placeholder_reads_differently(t: Tape) -> Witnesses:
    other = {"item": 99, "kind": "tool_result", "call_id": "c", "text": "unknown", "placeholder": True}
    t.view()["transcript"].append(other)
    t.view()["effects"].append({"call_id": "c", "tool": "mail", "state": "outcome_unknown"})
    return None, t.final


@breaks("results-match-their-calls")
def the_placeholder_says_that_it_failed(t: Tape) -> Witnesses:
    for when in ("before", "final", "again"):
        next(i for i in t.view(when=when)["transcript"] if i["placeholder"])["text"] = "The call was aborted."
    return None, t.final


@breaks("transcript-append-only")
def an_item_is_rewritten(t: Tape) -> Witnesses:
    t.view(when="again")["transcript"][-1]["text"] = "rewritten"
    return t.final, t.get("snapshot.taken", when="again")


@breaks("transcript-append-only")
def an_item_is_taken_away(t: Tape) -> Witnesses:
    t.view(when="again")["transcript"].pop(0)
    return t.final, t.get("snapshot.taken", when="again")


@breaks("history-told-as-stored")
def the_replies_change_places(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    last["data"]["body"]["messages"].insert(1, {"role": "assistant", "content": "paid"})
    return last, t.final


@breaks("history-told-as-stored")
def a_reply_is_made_up(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    last["data"]["body"]["messages"].insert(1, {"role": "assistant", "content": "I was never said"})
    return last, t.final


@breaks("partial-told-and-marked")
def the_piece_is_told_as_whole(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    messages = last["data"]["body"]["messages"]
    messages[1]["content"] = messages[1]["content"].removesuffix(" [interrupted]")
    messages.pop()
    return t.get("provider.billed", 0), last


@breaks("partial-told-and-marked")
def the_piece_is_not_told(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    last["data"]["body"]["messages"].pop(1)
    return t.get("provider.billed", 0), last


@breaks("same-call-id-twice-is-an-error")
def it_guesses(t: Tape) -> Witnesses:
    t.view()["works"][0].update(state="done", reason_code=None)
    return t.get("provider.answered"), t.final


@breaks("same-call-id-twice-is-an-error")
def one_of_them_runs(t: Tape) -> Witnesses:
    t.view()["effects"] = [{"call_id": "call_1", "tool": "read", "state": "succeeded", "dispatches": 1}]
    return t.get("provider.answered"), t.final


@breaks("repair-runs-nothing")
def the_repair_asks_the_model(t: Tape) -> Witnesses:
    taken = t.get("point.reached", point="recovery.ownership.taken")
    return taken, t.again(t.get("provider.request"), taken, n=82, attempt="a_82")


@breaks("repair-runs-nothing")
def the_repair_writes(t: Tape) -> Witnesses:
    taken = t.get("point.reached", point="recovery.ownership.taken")
    effect = {"n": 83, "receiver": "keyed", "key": "made-up", "arguments": {"amount": 2}}
    return taken, t.put("effect.received", taken, **effect)


# The ledger ----------------------------------------------------------------------------------------------------------


@breaks("usage-equals-billed")
def unknown_is_stored_as_zero(t: Tape) -> Witnesses:
    t.view()["attempts"][0].update(state="known", input_tokens=0, cached_tokens=0, output_tokens=0)
    return t.get("provider.billed", 0), t.final


@breaks("usage-equals-billed")
def an_attempt_is_lost(t: Tape) -> Witnesses:
    t.view()["attempts"].pop(0)
    return t.get("provider.billed", 0), t.final


@breaks("usage-equals-billed")
def an_attempt_is_counted_twice(t: Tape) -> Witnesses:
    t.view()["attempts"].append(t.view()["attempts"][-1])
    return t.get("provider.billed", 1), t.final


@breaks("usage-equals-billed")
def an_attempt_stays_open(t: Tape) -> Witnesses:
    t.view()["attempts"][0]["state"] = "open"
    return t.get("provider.billed", 0), t.final


@breaks("usage-equals-billed")
def usage_is_invented(t: Tape) -> Witnesses:
    t.view()["attempts"].append({"attempt": "a_99", "state": "known", "input_tokens": 5, "output_tokens": 5})
    return None, t.final


@breaks("attempt-fixed-before-request")
def it_is_stored_afterwards(t: Tape) -> Witnesses:
    request = t.get("provider.request")
    return t.move(t.get("point.reached", point="attempt.stored"), request), request


@breaks("attempt-fixed-before-request")
def it_belongs_to_no_turn(t: Tape) -> Witnesses:
    t.view()["attempts"][0]["turn_id"] = None
    return t.get("point.reached", point="attempt.stored"), t.get("provider.request")


@breaks("attempt-fixed-before-request")
def it_belongs_to_another_work(t: Tape) -> Witnesses:
    t.view()["attempts"][0]["work_id"] = "w_other"
    return t.get("point.reached", point="attempt.stored"), t.get("provider.request")


@breaks("retry-is-a-new-attempt")
def the_retry_reuses_its_attempt(t: Tape) -> Witnesses:
    first, again = t.all("provider.request")
    return first, change(again, attempt=first["data"]["attempt"])


@breaks("retry-is-a-new-attempt", of=two_replies)
def the_next_request_reuses_it(t: Tape) -> Witnesses:
    first, again = t.all("provider.request")
    return first, change(again, attempt=first["data"]["attempt"])


@breaks("streamed-count-is-a-watermark")
def the_counts_are_summed(t: Tape) -> Witnesses:
    t.view()["attempts"][1]["output_tokens"] = 1 + 2 + 3 + 4
    return t.get("provider.billed", 1), t.final


@breaks("streamed-count-is-a-watermark")
def the_watermark_is_a_sum(t: Tape) -> Witnesses:
    t.view()["attempts"][0]["watermark_tokens"] = 1 + 2 + 3
    return t.get("provider.billed", 0), t.final


@breaks("totals-can-be-rebuilt")
def the_total_counts_one_twice(t: Tape) -> Witnesses:
    t.view()["totals"]["output_tokens"] += 1
    return t.get("provider.billed", -1), t.final


@breaks("totals-can-be-rebuilt")
def the_total_hides_an_unknown(t: Tape) -> Witnesses:
    t.view()["attempts"][0].update(state="unknown", input_tokens=None, output_tokens=None)
    return t.get("provider.billed", -1), t.final


@breaks("late-receipt-attributed")
def it_goes_to_the_current_work(t: Tape) -> Witnesses:
    t.view()["attempts"][0]["work_id"] = "w_s1_r2"
    return t.get("provider.request"), t.final


@breaks("late-receipt-attributed")
def it_goes_to_nobody(t: Tape) -> Witnesses:
    t.view()["attempts"][0]["work_id"] = None
    return t.get("provider.request"), t.final


# What a user sees ----------------------------------------------------------------------------------------------------


@breaks("events-only-grow")
def a_number_goes_back(t: Tape) -> Witnesses:
    first, second = t.all("client.event", client="c1")[:2]
    return second, t.again(first, second)


@breaks("events-only-grow")
def one_number_tells_two_things(t: Tape) -> Witnesses:
    first = t.get("client.event", client="c1")
    return first, change(t.get("client.event", client="c2"), type="text")


@breaks("events-only-grow")
def one_is_left_out(t: Tape) -> Witnesses:
    first, second, third = t.all("client.event", client="c2")[:3]
    t.drop(second)
    return first, third


@breaks("events-equal-snapshot")
def the_last_event_never_comes(t: Tape) -> Witnesses:
    last = max(t.all("client.event"), key=lambda x: x["data"]["event"])
    t.drop(*t.all("client.event", event=last["data"]["event"]))
    return t.get("client.connected", -1, client="c1"), t.final


@breaks("events-equal-snapshot")
def the_snapshot_is_behind(t: Tape) -> Witnesses:
    early = t.all("client.event", client="c1")
    t.view()["event"] = early[-2]["data"]["event"]
    return early[-1], t.final


@breaks("events-equal-snapshot")
def the_snapshot_says_otherwise(t: Tape) -> Witnesses:
    t.view()["works"][0].update(state="failed", reason_code="x")
    return t.get("client.event", type="work.done"), t.final


@breaks("snapshot-never-goes-back")
def the_number_goes_back(t: Tape) -> Witnesses:
    t.view(when="again")["event"] = 1
    return t.final, t.get("snapshot.taken", when="again")


@breaks("snapshot-never-goes-back")
def the_session_is_gone(t: Tape) -> Witnesses:
    t.get("snapshot.taken", when="again")["data"]["sessions"] = {}
    return t.final, t.get("snapshot.taken", when="again")


@breaks("reconnect-is-silent")
def opening_asks_the_model(t: Tape) -> Witnesses:
    look = t.get("client.connected", client="c2")
    return look, t.again(t.get("provider.request"), look, n=84, attempt="a_84")


@breaks("reconnect-is-silent")
def looking_calls_a_tool(t: Tape) -> Witnesses:
    look = t.get("snapshot.taken", when="again")
    return look, t.put("effect.received", look, n=85, receiver="plain", key="k", arguments={})


# The harness's own ---------------------------------------------------------------------------------------------------


@breaks("store-whole-at-death")
def a_database_is_torn(t: Tape) -> Witnesses:
    at = t.get("store.at_death")
    at["data"]["files"]["work.db"].update(ok=False, detail="malformed")
    return t.get("kill"), at


@breaks("store-whole-at-death")
def a_second_database_is_torn(t: Tape) -> Witnesses:
    at = t.get("store.at_death")
    at["data"]["files"]["usage.db"] = {"ok": False, "detail": "not a database", "sha256": "0"}
    return t.get("kill"), at


@breaks("committed-before-accepted")
def it_was_only_in_memory(t: Tape) -> Witnesses:
    at = t.get("store.at_death")
    at["data"]["holds"]["r1"] = False
    return t.get("client.heard", 1), at


@breaks("committed-before-accepted", of=two_in_a_row)
def the_second_was_only_in_memory(t: Tape) -> Witnesses:
    at = t.get("store.at_death")
    at["data"]["holds"]["r2"] = False
    return t.get("client.heard", 2), at


@breaks("everything-ends")
def it_never_settles(t: Tape) -> Witnesses:
    return t.get("client.heard", 1), change(t.get("case.settled"), settled=False, why="w_s1_r1 is working")


@breaks("everything-ends")
def it_settles_and_works_on(t: Tape) -> Witnesses:
    t.view()["works"][0]["state"] = "working"
    return t.get("case.settled"), t.final


@breaks("everything-ends")
def a_turn_never_ends(t: Tape) -> Witnesses:
    t.view()["works"][0]["turns"][0]["state"] = "running"
    return t.get("case.settled"), t.final
