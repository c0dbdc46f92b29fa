"""Owns the examples for the checks of recovery."""

from __future__ import annotations

from scenarios.case import Reply
from tests.scenarios.checks.builder import Line, Scene, Tape, call, replies, turn
from tests.scenarios.checks.examples import Witnesses, breaks, good


@good("recovery-in-order", "continuation-once", "decision-stored", "repair-is-stable")
def a_mail_of_unknown_outcome() -> Tape:
    return turn(call("mail", to="ann"), die="tool.effect.done#1")


@good("checkpoint-covers-effects")
def a_charge_sent_again() -> Tape:
    return turn(call("charge", amount=5), die="effect.received#1")


@good("reason-for-every-rest", "stored-reply-reused", "work-repeated-within-bound")
def killed_behind_its_reply() -> Tape:
    return turn(call("read", path="a"), die="reply.stored#1")


@good("fair-among-sessions")
def three_sessions() -> Tape:
    scene = Scene({t: replies(last=f"done {t}") for t in ("a", "b", "c")}, die={"attempt.stored#1": "worker"})
    for session, text in (("s1", "a"), ("s2", "b"), ("s3", "c")):
        scene.open(session)
        scene.send(f"r_{text}", text, session)
    return scene.run().tape()


@good("retries-wait-their-time")
def an_overloaded_provider() -> Tape:
    tape = turn(last="at last")
    request = tape.get("provider.request")
    row = tape.view()["attempts"][0]
    for n, at_ms in ((30, 300), (31, 150)):
        tape.lines.insert(tape.lines.index(request), line := {**request, "t_ns": request["t_ns"] - at_ms * 1_000_000})
        line["data"] = {**request["data"], "n": n, "attempt": f"a_{n}"}
        answered: Line = {"t_ns": line["t_ns"] + 1000, "kind": "provider.answered", "data": {"n": n, "status": 503}}
        tape.lines.insert(tape.lines.index(line) + 1, answered)
        reached = next(x for x in tape.lines if x["data"].get("point") == "attempt.stored")
        early = {**reached["data"], "detail": {"attempt": f"a_{n}"}, "nonce": f"n{n}"}
        tape.lines.insert(tape.lines.index(line), {"t_ns": line["t_ns"] - 1, "kind": "point.reached", "data": early})
        for when in ("final", "again"):
            unknown = {**row, "attempt": f"a_{n}", "state": "unknown"}
            unknown.update(input_tokens=None, cached_tokens=None, output_tokens=None)
            tape.view(when=when)["attempts"].append(unknown)
            tape.view(when=when)["totals"]["unknown_attempts"] += 1
    begin = [x for x in tape.lines if x["kind"] in {"process.started", "client.invoked", "client.heard", "case.opened"}]
    for x in (*begin, *tape.all("point.reached", point="work.claimed"), *tape.all("point.reached", point="turn.begun")):
        x["t_ns"] -= 1_000_000_000
    return tape


@good("killed-again-same-outcome")
def killed_in_its_recovery() -> Tape:
    die = {"tool.dispatch.stored#1": "worker", "recovery.decision.stored#1": "both", "recovery.admitted#1": "worker"}
    return turn(call("publish", page=1), die=die)


@good("partial-marked-incomplete", "committed-partial-kept")
def cut_in_its_text() -> Tape:
    return turn(last="one two three four", die="stream.text.committed#2")


@breaks("recovery-in-order")
def it_repairs_before_it_owns(t: Tape) -> Witnesses:
    repaired = t.get("point.reached", point="recovery.repair.written")
    t.move(t.get("point.reached", point="recovery.ownership.taken"), repaired)
    return t.get("process.started", role="worker", life=2), repaired


@breaks("recovery-in-order")
def it_admits_without_a_decision(t: Tape) -> Witnesses:
    t.drop(t.get("point.reached", point="recovery.decision.stored"))
    return t.get("process.started", role="worker", life=2), t.get("point.reached", point="recovery.admitted")


@breaks("recovery-in-order")
def it_takes_what_it_has_not_read(t: Tape) -> Witnesses:
    t.drop(t.get("point.reached", point="recovery.facts.loaded"))
    return t.get("process.started", role="worker", life=2), t.get("point.reached", point="recovery.ownership.taken")


@breaks("continuation-once")
def two_turns_continue_it(t: Tape) -> Witnesses:
    turns = t.view()["works"][0]["turns"]
    turns.append({**turns[-1], "turn_id": "t_99"})
    return None, t.final


@breaks("continuation-once")
def a_checkpoint_and_a_new_turn(t: Tape) -> Witnesses:
    decisions = t.view()["works"][0]["recoveries"]
    decisions.append({**decisions[0], "way": "checkpoint", "key": "other"})
    return t.get("point.reached", point="recovery.ownership.taken"), t.final


@breaks("continuation-once")
def one_key_twice(t: Tape) -> Witnesses:
    decisions = t.view()["works"][0]["recoveries"]
    decisions.append({**decisions[0], "generation": 3})
    return t.get("point.reached", point="recovery.ownership.taken"), t.final


@breaks("decision-stored")
def no_decision_is_stored(t: Tape) -> Witnesses:
    t.view()["works"][0]["recoveries"] = []
    return t.get("point.reached", point="recovery.admitted"), t.final


@breaks("decision-stored")
def another_decision_is_stored(t: Tape) -> Witnesses:
    t.view()["works"][0]["recoveries"][0]["key"] = "another"
    return t.get("point.reached", point="recovery.admitted"), t.final


@breaks("checkpoint-covers-effects")
def it_stays_unknown(t: Tape) -> Witnesses:
    t.view()["effects"][0]["state"] = "outcome_unknown"
    return t.get("effect.received"), t.get("point.reached", point="recovery.ownership.taken")


@breaks("checkpoint-covers-effects", of=a_mail_of_unknown_outcome)
def an_unknown_mail_is_passed_over(t: Tape) -> Witnesses:
    t.view()["works"][0]["recoveries"][0]["way"] = "checkpoint"
    return t.get("effect.received"), t.get("point.reached", point="recovery.ownership.taken")


@breaks("repair-is-stable")
def each_repair_adds_one(t: Tape) -> Witnesses:
    items = t.view()["transcript"]
    made = next(i for i in items if i["placeholder"])
    items.append({**made, "item": len(items) + 1})
    return t.get("point.reached", point="recovery.repair.written"), t.final


@breaks("repair-is-stable")
def looking_repairs(t: Tape) -> Witnesses:
    t.view(when="again")["transcript"].append({"item": 99, "kind": "note", "text": "repaired"})
    return t.final, t.get("snapshot.taken", when="again")


@breaks("repair-is-stable")
def the_second_repair_writes(t: Tape) -> Witnesses:
    first = t.put("store.digest", t.get("point.reached", point="recovery.repair.written"), when="repair.1", sha256="d" * 64)
    return first, t.put("store.digest", first, when="repair.2", sha256="e" * 64)


@breaks("reason-for-every-rest")
def it_failed_without_a_word(t: Tape) -> Witnesses:
    t.view()["works"][0].update(state="failed", reason_code=None)
    return t.get("case.settled"), t.final


@breaks("reason-for-every-rest")
def it_cancels_itself(t: Tape) -> Witnesses:
    t.view()["works"][0].update(state="cancelled", reason_code="lost")
    return None, t.final


@breaks("fair-among-sessions")
def one_is_overtaken(t: Tape) -> Witnesses:
    early = t.get("point.reached", work="w_s2_r_b", point="work.claimed")
    t.drop(early)
    requests = [x for x in t.all("provider.request") if x["data"]["body"]["messages"][-1]["content"] == "b"]
    t.move(requests[0], t.end)
    return t.get("client.heard", 3), t.get("point.reached", work="w_s3_r_c", point="work.claimed")


@breaks("fair-among-sessions")
def one_starves(t: Tape) -> Witnesses:
    t.drop(*[x for x in t.all("provider.request") if x["data"]["body"]["messages"][-1]["content"] == "b"])
    t.drop(*t.all("point.reached", work="w_s2_r_b"))
    return t.get("client.heard", 3), t.get("point.reached", work="w_s3_r_c", point="work.claimed")


@breaks("retries-wait-their-time")
def it_asks_again_at_once(t: Tape) -> Witnesses:
    failed = t.get("provider.answered")
    request = t.get("provider.request", 1)
    request["t_ns"] = failed["t_ns"] + 1000
    return failed, request


@breaks("retries-wait-their-time")
def it_gives_no_reason(t: Tape) -> Witnesses:
    t.drop(t.get("provider.request", -1))
    t.view()["works"][0].update(state="failed", reason_code=None)
    return t.get("provider.request", -1), t.final


@breaks("killed-again-same-outcome")
def the_second_crash_loses_it(t: Tape) -> Witnesses:
    t.view()["works"][0].update(state="recovery_failed", reason_code="crashed twice")
    return t.get("kill", -1), t.final


@breaks("killed-again-same-outcome")
def the_second_crash_doubles_it(t: Tape) -> Witnesses:
    items = t.view()["transcript"]
    items.append({**items[-1], "item": len(items) + 1})
    return t.get("kill", -1), t.final


@breaks("partial-marked-incomplete")
def the_piece_looks_whole(t: Tape) -> Witnesses:
    next(i for i in t.view()["transcript"] if not i["complete"])["complete"] = True
    return t.get("provider.billed", 0), t.final


@breaks("partial-marked-incomplete")
def the_pieces_are_joined(t: Tape) -> Witnesses:
    items = t.view()["transcript"]
    piece = next(i for i in items if not i["complete"])
    items[-1]["text"] = piece["text"] + " " + items[-1]["text"]
    return t.get("provider.billed", 0), t.final


@breaks("partial-marked-incomplete")
def the_piece_is_another_text(t: Tape) -> Witnesses:
    next(i for i in t.view()["transcript"] if not i["complete"])["text"] = "three one"
    return t.get("provider.billed", 0), t.final


@breaks("committed-partial-kept")
def the_piece_is_thrown_away(t: Tape) -> Witnesses:
    items = t.view()["transcript"]
    t.view()["transcript"] = [i for i in items if i["complete"]]
    return t.get("point.reached", point="stream.text.committed", ordinal=2), t.final


@breaks("committed-partial-kept")
def the_piece_is_emptied(t: Tape) -> Witnesses:
    next(i for i in t.view()["transcript"] if not i["complete"])["text"] = ""
    return t.get("point.reached", point="stream.text.committed", ordinal=2), t.final


@breaks("stored-reply-reused")
def the_stored_reply_is_asked_for_again(t: Tape) -> Witnesses:
    at = t.again(t.get("provider.request"), t.get("process.started", -1), n=70, attempt="a_70")
    return t.get("point.reached", point="reply.stored"), at


@breaks("stored-reply-reused")
def it_is_announced_by_running_again(t: Tape) -> Witnesses:
    last = t.get("provider.request", -1)
    at = t.again(last, t.get("point.reached", point="work.released"), n=70, attempt="a_70")
    return t.get("point.reached", -1, point="reply.stored"), at


@breaks("work-repeated-within-bound")
def one_call_is_paid_twice(t: Tape) -> Witnesses:
    at = t.again(t.get("provider.request"), t.get("process.started", -1), n=70, attempt="a_70")
    return t.get("kill"), at


def cut_once() -> Tape:
    return turn(Reply(text="thinking aloud", calls=(call("read", path="a"),)), die="provider.reply.chunk#1", last="end")


@breaks("work-repeated-within-bound")
def everything_starts_over(t: Tape) -> Witnesses:
    first = t.again(t.get("provider.request"), t.end, n=70, attempt="a_70")
    t.again(t.get("provider.request", 1), first, n=71, attempt="a_71")
    return t.get("kill"), first
