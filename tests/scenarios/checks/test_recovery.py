"""The checks of recovery, on generated histories: its order, its one way, its repeatability, and what it may cost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.case import Reply
from scenarios.checks.recovery import BACKOFF_MS_MIN, STEPS, TRIES_IN_A_ROW_MAX
from tests.scenarios.checks.builder import MS, Line, Scene, Tape, call, replies, turn
from tests.scenarios.checks.examples import Witnesses, change
from tests.scenarios.checks.generated_a import (
    ANYWHERE,
    FEW,
    QUICK,
    RECOVERY,
    SURE,
    Broken,
    Draw,
    answers,
    ask,
    birth,
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
    try_broken,
    try_good,
    verdict,
    views,
)

NAMES = names_of("recovery")
UNSURE = runs(("effect.applied", "tool.effect.done"), ("mail",), (1, 1), sessions=1)
CHECKPOINT = runs(("effect.received", "tool.effect.done"), ("charge", "publish"), (1, 2), sessions=1)
CUT = runs(("stream.text.committed",), SURE, (0, 0), words=3, sessions=1)


def recoveries(t: Tape) -> list[dict[str, Any]]:
    """Every decision of the final snapshot, in its order."""
    return [
        decision for view in t.final["data"]["sessions"].values() for w in view["works"] for decision in w["recoveries"]
    ]


def in_final(t: Tape, draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """A work of the final snapshot that was recovered, and one of its decisions."""
    works = [w for view in t.final["data"]["sessions"].values() for w in view["works"] if w["recoveries"]]
    work = one_of(draw, works)
    return work, one_of(draw, work["recoveries"])


def taken_for(t: Tape, work: dict[str, Any], decision: dict[str, Any]) -> Line:
    found = t.all("point.reached", point="recovery.ownership.taken", work=work["work_id"])
    return next(x for x in found if x["data"]["detail"]["generation"] == decision["generation"])


# The order of the steps ------------------------------------------------------------------------------------------------

good("recovery-in-order", recovered())


def one_recovery(t: Tape, draw: Draw) -> list[Line]:
    """The steps of one recovery that came to its end, without the reading of the facts."""
    end = one_of(draw, t.all("point.reached", point=STEPS[-1]))
    mine = {"life": end["data"]["life"], "work": end["data"]["work"]}
    return [t.get("point.reached", -1, point=step, **mine) for step in STEPS]


@breaks("recovery-in-order")
def two_steps_change_places(t: Tape, draw: Draw) -> Witnesses:
    steps = one_recovery(t, draw)
    i = number(draw, 0, len(steps) - 2)
    moved = t.move(steps[i], steps[i + 1])
    return birth(t, moved), moved if i else steps[1]


@breaks("recovery-in-order")
def the_repair_comes_last(t: Tape, draw: Draw) -> Witnesses:
    steps = one_recovery(t, draw)
    repaired = t.again(steps[1], steps[number(draw, 2, len(steps) - 1)], nonce="late")
    return birth(t, repaired), repaired


@breaks("recovery-in-order", of=recovered(again=(0, 0)))
def what_the_next_step_needs_is_left_out(t: Tape, draw: Draw) -> Witnesses:
    steps = one_recovery(t, draw)
    i = one_of(draw, [2, 3])
    t.drop(steps[i])
    return birth(t, steps[i]), steps[i + 1]


@breaks("recovery-in-order", of=recovered(again=(0, 0)))
def the_facts_are_of_another_work(t: Tape, draw: Draw) -> Witnesses:
    taken = one_recovery(t, draw)[0]
    for loaded in t.all("point.reached", point="recovery.facts.loaded", life=taken["data"]["life"]):
        change(loaded, work="w_another")
    return birth(t, taken), taken


@breaks("recovery-in-order", "decision-stored")
def another_decision_is_admitted_than_was_stored(t: Tape, draw: Draw) -> Witnesses:
    admitted = one_recovery(t, draw)[3]
    admitted["data"]["detail"]["key"] = "never decided"
    return birth(t, admitted), admitted


@breaks("recovery-in-order", "decision-stored")
def a_process_that_owns_nothing_recovers(t: Tape, draw: Draw) -> Witnesses:
    steps = one_recovery(t, draw)
    started = t.put("process.started", steps[0], role="worker", life=77, pid=977, start_time=9.0, cold=False)
    repaired = t.again(steps[1], started, life=77, pid=977, nonce="foreign")
    return started, repaired


@QUICK
@given(recovered(again=(0, 0)))
def test_a_target_may_load_facts_once_for_all_and_name_no_keys(t: Tape) -> None:
    before = held(t, "recovery-in-order")
    for loaded in t.all("point.reached", point="recovery.facts.loaded"):
        loaded["data"]["work"] = None
    for step in STEPS:
        for line in t.all("point.reached", point=step):
            line["data"]["detail"].pop("key", None)
    assert held(t, "recovery-in-order") == before


@QUICK
@given(runs(("attempt.stored",), sessions=1, then=("recovery.decision.stored", "recovery.admitted"), again=(1, 1)))
def test_the_next_owner_may_follow_the_decision_of_the_one_that_was_killed(t: Tape) -> None:
    first, second = t.all("point.reached", point="recovery.decision.stored")
    for step in STEPS[3:5]:
        reached(t, step, -1)["data"]["detail"]["key"] = first["data"]["detail"]["key"]
    t.drop(second)
    held(t, "recovery-in-order")
    change(first, detail={"key": "of another commit"})
    caught(t, "recovery-in-order", (birth(t, reached(t, "recovery.admitted", -1)), reached(t, "recovery.admitted", -1)))


def test_a_recovery_that_had_nothing_to_repair_and_gave_way_to_a_stop_is_in_order() -> None:
    scene = Scene(die={"attempt.stored#1": "worker"}, held={"recovery.decision.stored#1": lambda s: s.control("stop")})
    scene.open()
    scene.send("r1")
    t = scene.run().tape()
    t.drop(reached(t, "recovery.repair.written"))
    assert not t.all("point.reached", point="recovery.admitted")
    held(t, "recovery-in-order")


# One way, once ---------------------------------------------------------------------------------------------------------

good("continuation-once", recovered())


@breaks("continuation-once", of=UNSURE)
def two_turns_continue_one(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        turns = next(w for w in view["works"] if w["recoveries"])["turns"]
        turns.append({**turns[-1], "turn_id": "t_901"})
    return None, t.final


@breaks("continuation-once", "checkpoint-covers-effects")
def another_way_is_taken_too(t: Tape, draw: Draw) -> Witnesses:
    work, decision = in_final(t, draw)
    other = "new_turn" if decision["way"] == "checkpoint" else "checkpoint"
    work["recoveries"].append({**decision, "way": other, "key": "of the other way"})
    return taken_for(t, work, decision), t.final


@breaks("continuation-once")
def one_key_stands_under_two_generations(t: Tape, draw: Draw) -> Witnesses:
    work, decision = in_final(t, draw)
    work["recoveries"].append({**decision, "generation": 900})
    return taken_for(t, work, decision), t.final


@breaks("continuation-once", "decision-stored")
def a_decision_has_no_key(t: Tape, draw: Draw) -> Witnesses:
    work, decision = in_final(t, draw)
    decision["key"] = ""
    return taken_for(t, work, decision), t.final


@breaks("continuation-once", of=CHECKPOINT)
def a_new_turn_is_made_though_a_checkpoint_was_decided(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        work = next(w for w in view["works"] if w["recoveries"])
        work["turns"].append({**work["turns"][0], "turn_id": "t_902", "predecessor": work["turns"][0]["turn_id"]})
    work = next(w for w in t.view()["works"] if w["recoveries"])
    return taken_for(t, work, work["recoveries"][-1]), t.final


@QUICK
@given(recovered(), st.data())
def test_a_void_decision_beside_the_one_that_stands_is_no_second_way(t: Tape, data: st.DataObject) -> None:
    work, decision = in_final(t, data.draw)
    before = held(t, "continuation-once")
    work["recoveries"].insert(0, {**decision, "way": "new_turn", "void": True})
    assert held(t, "continuation-once") == before


@QUICK
@given(runs(("attempt.stored",), SURE, sessions=1), st.data())
def test_the_witness_is_the_taking_of_the_same_work(t: Tape, data: st.DataObject) -> None:
    work, decision = in_final(t, data.draw)
    taken = taken_for(t, work, decision)
    t.again(taken, t.lines[0], work="w_elsewhere", nonce="elsewhere")  # the same generation of another work, before it
    work["recoveries"].append({**decision, "key": "second"})
    caught(t, "continuation-once", (taken, t.final))


# The decision is stored ------------------------------------------------------------------------------------------------

good("decision-stored", recovered())


@breaks("decision-stored")
def the_admitted_decision_is_not_stored(t: Tape, draw: Draw) -> Witnesses:
    admitted = one_of(draw, t.all("point.reached", point="recovery.admitted"))
    for view in t.final["data"]["sessions"].values():
        for work in view["works"]:
            work["recoveries"] = [d for d in work["recoveries"] if d["key"] != admitted["data"]["detail"]["key"]]
    return admitted, t.final


@breaks("decision-stored")
def its_key_was_changed_afterwards(t: Tape, draw: Draw) -> Witnesses:
    line = one_of(draw, t.all("point.reached", point="recovery.admitted"))
    next(d for d in recoveries(t) if d["key"] == line["data"]["detail"]["key"])["key"] += " changed"
    return line, t.final


@QUICK
@given(recovered())
def test_an_admission_of_a_work_that_is_not_shown_or_without_a_key_is_judged_by_what_there_is(t: Tape) -> None:
    for admitted in t.all("point.reached", point="recovery.admitted"):
        admitted["data"]["detail"] = {}
    held(t, "decision-stored")
    for view in t.final["data"]["sessions"].values():
        view["works"] = []
    not_examined(t, "decision-stored")


# Checkpoints -----------------------------------------------------------------------------------------------------------

good("checkpoint-covers-effects", CHECKPOINT)


@breaks("checkpoint-covers-effects")
def an_effect_stays_open(t: Tape, draw: Draw) -> Witnesses:
    taken = reached(t, "recovery.ownership.taken")
    asked = [x for x in t.all("effect.received") if t.seq(x) < t.seq(taken)]
    line = one_of(draw, asked)
    state = one_of(draw, ["outcome_unknown", "not_started"])
    for view in views(t):
        next(x for x in view["effects"] if x["idempotency_key"] == line["data"]["key"])["state"] = state
    return line, taken


@breaks("checkpoint-covers-effects", "continuation-once", of=UNSURE)
def a_mail_is_passed_over(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        for work in view["works"]:
            for decision in work["recoveries"]:
                decision["way"] = "checkpoint"
    key = next(x["idempotency_key"] for x in t.view()["effects"] if x["state"] == "outcome_unknown")
    return t.get("effect.received", key=key), reached(t, "recovery.ownership.taken")


@pytest.mark.parametrize("why", ["void", "later", "another turn", "never asked"])
@FEW
@given(t=CHECKPOINT)
def test_what_a_checkpoint_need_not_cover(t: Tape, why: str) -> None:
    """A decision that is void; a write asked for after it; an effect of another turn; one that nobody asked the world."""
    taken = reached(t, "recovery.ownership.taken")
    for effect in t.view()["effects"]:
        effect["state"] = "outcome_unknown"
        effect["turn_id"] = "t_before" if why == "another turn" else effect["turn_id"]
    for decision in recoveries(t):
        decision["void"] = why == "void"
    early = [x for x in t.all("effect.received") if t.seq(x) < t.seq(taken)]
    if why == "later":
        for line in early:
            t.move(line, taken)
    if why == "never asked":
        t.drop(*early)
    not_examined(t, "checkpoint-covers-effects")


@FEW
@given(t=CHECKPOINT, before=st.booleans())
def test_an_effect_that_its_own_turn_has_stored_as_unknown_is_covered(t: Tape, before: bool) -> None:
    """The turn went on with that, so a checkpoint after it holds it; a placeholder of the recovery itself is none."""
    taken = reached(t, "recovery.ownership.taken")
    for effect in t.view()["effects"]:
        effect["state"] = "outcome_unknown"
        at = t.get("case.opened") if before else t.end
        said = {"call": effect["call_id"], "state": "outcome_unknown"}
        t.put("point.reached", at, **{**taken["data"], "point": "tool.result.stored", "nonce": "p", "detail": said})
    if before:
        not_examined(t, "checkpoint-covers-effects")
    else:
        assert "checkpoint-covers-effects" in t.violated()


@FEW
@given(t=CHECKPOINT, action=st.sampled_from(["stop", "quit", "pause"]), asked=st.booleans())
def test_a_write_that_a_user_kept_from_being_sent_again_may_stay_open(t: Tape, action: str, asked: bool) -> None:
    """The work was held before it went on from its checkpoint; not so, if the model was asked all the same."""
    taken = reached(t, "recovery.ownership.taken")
    for effect in t.view()["effects"]:
        effect["state"] = "outcome_unknown"
    after = next(line for line in t.lines if t.seq(line) > t.seq(taken))
    op = "quit" if action == "quit" else "control"
    about = {} if action == "quit" else {"session": "s1", "action": action}
    t.put("client.invoked", after, call=900, client="c1", op=op, **about)
    if not asked:
        t.drop(*(line for line in t.all("provider.request") if t.seq(line) > t.seq(taken)))
        not_examined(t, "checkpoint-covers-effects")
    else:
        asked_before = next(line for line in t.all("effect.received") if t.seq(line) < t.seq(taken))
        caught(t, "checkpoint-covers-effects", (asked_before, taken))


def test_a_checkpoint_without_any_write_shows_nothing() -> None:
    not_examined(turn(call("read", path="a"), die="reply.stored#1"), "checkpoint-covers-effects")


# Repair ----------------------------------------------------------------------------------------------------------------

good("repair-is-stable", recovered())


@breaks("repair-is-stable", of=UNSURE)
def the_second_repair_adds_a_placeholder(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        made = next(i for i in view["transcript"] if i["placeholder"])
        view["transcript"].append({**made, "item": 900})
    return reached(t, "recovery.repair.written"), t.final


@breaks("repair-is-stable", of=CUT)
def the_second_repair_adds_the_piece_again(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        piece = next(i for i in view["transcript"] if not i["complete"])
        view["transcript"] += [{**piece, "item": 900 + i} for i in range(len(view["works"]))]
    return reached(t, "recovery.repair.written"), t.final


@breaks("repair-is-stable")
def looking_changes_what_is_stored(t: Tape, draw: Draw) -> Witnesses:
    items = t.view(when="again")["transcript"]
    change = one_of(draw, ["drop", "double", "rewrite"])
    i = number(draw, 0, len(items) - 1)
    if change == "drop":
        items.pop(i)
    elif change == "double":
        items.append({**items[i], "item": 900})
    else:
        items[i]["text"] += " rewritten"
    return t.final, t.get("snapshot.taken", when="again")


@breaks("repair-is-stable")
def the_second_repair_changes_the_store(t: Tape, draw: Draw) -> Witnesses:
    repaired = one_of(draw, t.all("point.reached", point="recovery.repair.written"))
    first = t.put("store.digest", repaired, when="repair.1", sha256="d" * 64)
    same = t.put("store.digest", first, when="repair.2", sha256="d" * 64)
    return same, t.put("store.digest", same, when="repair.3", sha256="e" * 64)


@QUICK
@given(CUT)
def test_each_cut_reply_may_leave_its_piece_and_another_digest_is_no_repair(t: Tape) -> None:
    pieces = [i for i in t.view()["transcript"] if not i["complete"]]
    assert len(pieces) == 1 and t.get("provider.billed")["data"]["complete"] is False
    repaired = reached(t, "recovery.repair.written")
    first = t.put("store.digest", repaired, when="broken", sha256="d" * 64)
    t.put("store.digest", first, when="mended", sha256="e" * 64)
    held(t, "repair-is-stable")


def test_without_a_repair_nothing_is_examined() -> None:
    not_examined(turn(last="one two"), "repair-is-stable")


# Reasons ---------------------------------------------------------------------------------------------------------------


@st.composite
def ended(draw: st.DrawFn) -> Tape:
    """Runs that end as they may: done, paused or stopped by a user somewhere on the way, or waiting for a stated reason."""
    how = one_of(draw, ["done", "pause", "stop"])
    point = one_of(draw, [p for p in ANYWHERE if p != "effect.received"])
    held_at = {} if how == "done" else {f"{point}#1": lambda scene: scene.control(how)}
    scene = Scene({"alpha": answers(draw, "alpha", SURE, (1, 2)), "beta": replies(last="two")}, held=held_at)
    send_all(draw, scene, number(draw, 1, 2))
    t = scene.run().tape()
    if draw(st.booleans()):
        for view in views(t, "s1"):
            work = view["works"][0]
            if work["state"] == "done":
                work.update(state="waiting", reason_code="provider_unavailable", desired_state="run")
        taken_out(t, "client.event", "client.connected")
    return t


good("reason-for-every-rest", ended())
DONE = runs(sessions=1)


@breaks("reason-for-every-rest", of=DONE)
def it_rests_without_a_reason(t: Tape, draw: Draw) -> Witnesses:
    state = one_of(draw, ["failed", "waiting", "recovery_failed"])
    for view in views(t):
        view["works"][0].update(state=state, reason_code=one_of(draw, [None, ""]))
    return t.get("case.settled"), t.final


@breaks("reason-for-every-rest", of=DONE)
def it_does_not_rest(t: Tape, draw: Draw) -> Witnesses:
    state = one_of(draw, ["queued", "working", "recovering"])
    for view in views(t):
        view["works"][0].update(state=state, reason_code="busy")
    return t.get("case.settled"), t.final


@breaks("reason-for-every-rest", of=DONE)
def it_is_paused_or_cancelled_by_nobody(t: Tape, draw: Draw) -> Witnesses:
    state = one_of(draw, ["paused", "cancelled"])
    for view in views(t):
        view["works"][0].update(state=state, reason_code="crashed", desired_state=state)
    return None, t.final


@breaks("reason-for-every-rest", of=DONE)
def only_a_resume_or_the_wrong_word_was_given(t: Tape, draw: Draw) -> Witnesses:
    state, action = one_of(
        draw, [("paused", "resume"), ("paused", "stop"), ("cancelled", "pause"), ("cancelled", "resume")]
    )
    asked = t.put("client.invoked", heard_of(t, "r1"), call=900, client="c1", op="control", session="s1", action=action)
    t.put("client.heard", asked, call=900, outcome="failed", status=409, body={})
    for view in views(t):
        view["works"][0].update(state=state, reason_code="user", desired_state=state)
    return None, t.final


@pytest.mark.parametrize("outcome", ["ok", "unknown", "failed", None])
@FEW
@given(t=DONE)
def test_a_word_that_may_have_been_heard_is_a_word(t: Tape, outcome: str | None) -> None:
    asked = t.put("client.invoked", heard_of(t, "r1"), call=900, client="c1", op="quit", session=None)
    if outcome:
        t.put("client.heard", asked, call=900, outcome=outcome, status=None, body={})
    t.view()["works"][0].update(state="cancelled", desired_state="cancelled", reason_code="user_stopped")
    held(t, "reason-for-every-rest")


# Fairness among sessions -----------------------------------------------------------------------------------------------


@st.composite
def queues(draw: st.DrawFn) -> Tape:
    """Some sessions that wait for one worker, which dies at its first one."""
    texts = [f"text{i}" for i in range(number(draw, 3, 5))]
    die = {f"{one_of(draw, ['turn.begun', 'attempt.stored', 'reply.received'])}#1": one_of(draw, ["worker", "both"])}
    scene = Scene({text: answers(draw, text, SURE, (0, 1)) for text in texts}, die=die)
    for i, text in enumerate(texts):
        scene.open(f"s{i}")
        scene.send(f"r{i}", text, f"s{i}")
    return scene.run().tape()


good("fair-among-sessions", queues())


def acts(t: Tape, i: int) -> list[Line]:
    """Everything that was done for the i-th session of a queue."""
    asked = [x for x in t.all("provider.request") if user(f"text{i}") in x["data"]["body"]["messages"]]
    return [*t.all("point.reached", work=f"w_s{i}_r{i}"), *asked]


@breaks("fair-among-sessions")
def one_waits_for_ever(t: Tape, draw: Draw) -> Witnesses:
    t.drop(*[x for x in t.lines if x in acts(t, 1)])
    return heard_of(t, "r1"), reached(t, "work.claimed", work="w_s2_r2")


@pytest.mark.parametrize("two", [True, False])
@FEW
@given(t=queues())
def test_a_late_beginning_is_unfair_under_one_worker_and_a_crossing_under_two(t: Tape, two: bool) -> None:
    start = t.get("process.started", -1, role="worker")
    if two:
        t.put("process.started", start, role="worker", life=9, pid=209, start_time=1.0, cold=False)
    last = acts(t, 2)[0]
    for line in [x for x in acts(t, 1) if t.seq(x) < t.seq(last)]:
        last = t.move(line, last)
    first = reached(t, "work.claimed", work="w_s2_r2")
    if two:
        assert verdict(t, "fair-among-sessions").violations == []
    else:
        caught(t, "fair-among-sessions", (heard_of(t, "r1"), first))


@pytest.mark.parametrize("finished", [True, False])
@FEW
@given(t=queues())
def test_a_newer_input_may_go_in_the_place_of_an_interrupted_one_of_its_session(t: Tape, finished: bool) -> None:
    """INT-13 puts it before the continuation, and that one came before the other session's input."""
    ended = reached(t, "turn.committed", work="w_s0_r0")
    waits, start = acts(t, 1)[0], t.get("process.started", -1, role="worker")
    sent = t.put("client.invoked", start, call=950, client="c1", op="send", session="s0", request_id="r9", text="late")
    body = {"status": "accepted", "work_id": "w_s0_r9"}
    heard = t.put("client.heard", sent, call=950, outcome="ok", status=202, body=body)
    for view in views(t):
        view["inputs"].append({**view["inputs"][0], "request_id": "r9", "work_id": "w_s0_r9", "text": "late"})
    claim = t.put("point.reached", heard, **{**waits["data"], "point": "work.claimed", "work": "w_s0_r9", "nonce": "r9"})
    assert t.seq(claim) < t.seq(waits)
    if finished:
        t.move(ended, sent)
        caught(t, "fair-among-sessions", (heard_of(t, "r1"), claim))
    else:
        assert verdict(t, "fair-among-sessions").violations == []


@pytest.mark.parametrize("why", ["controlled", "excused", "no death"])
@FEW
@given(t=queues())
def test_one_that_was_stopped_or_waits_for_the_surroundings_may_be_passed(t: Tape, why: str) -> None:
    taken_out_of = [x for x in t.lines if x in acts(t, 1)]
    t.drop(*taken_out_of)
    if why == "controlled":
        t.put("client.invoked", heard_of(t, "r1"), call=900, client="c1", op="control", session="s1", action="stop")
    elif why == "excused":
        t.view("s1")["works"][0].update(state="waiting", reason_code="workspace_missing")
        change(t.get("provider.answered", -1), status=503)
    else:
        for kind in ("kill", "process.exited"):
            t.drop(*[x for x in t.all(kind) if t.seq(x) < t.seq(t.end)])
    assert verdict(t, "fair-among-sessions").violations == []


# Waiting after a failure -----------------------------------------------------------------------------------------------


@st.composite
def failures(draw: st.DrawFn, tries: tuple[int, int] = (1, 4)) -> Tape:
    """A provider that fails some times in a row before it answers, and a worker that waits each time, longer and longer."""
    scene = Scene({"alpha": replies(last="at last")})
    scene.open()
    scene.send("r1", "alpha")
    failed = number(draw, *tries)
    scene.reach("work.claimed", "w_s1_r1", generation=1)
    for n in range(failed):
        scene.reach("attempt.stored", "w_s1_r1", attempt=f"a_9{n}")
        scene.mark("provider.request", n=900 + n, attempt=f"a_9{n}", headers={}, body={"messages": [user("alpha")]})
        scene.wait(number(draw, 0, 30))
        scene.mark("provider.answered", n=900 + n, status=one_of(draw, [429, 500, 502, 503]))
        scene.reach("work.released", "w_s1_r1")
        scene.wait(BACKOFF_MS_MIN * 2**n)
        row = {"attempt": f"a_9{n}", "work_id": "w_s1_r1", "turn_id": "t_1", "state": "unknown"}
        scene.sessions["s1"]["attempts"].append({**row, "input_tokens": None, "cached_tokens": None, "output_tokens": None})
    scene.works["w_s1_r1"]["generation"] = 1
    return scene.run().tape()


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


good("retries-wait-their-time", failures())


@breaks("retries-wait-their-time")
def it_asks_again_before_its_time(t: Tape, draw: Draw) -> Witnesses:
    failed = one_of(draw, [x for x in t.all("provider.answered") if x["data"]["status"] >= 400])
    again = t.get("provider.request", t.all("provider.answered").index(failed) + 1)
    sooner = again["t_ns"] - failed["t_ns"] - number(draw, 1, int(BACKOFF_MS_MIN) - 1) * MS
    for line in t.lines:
        line["t_ns"] -= sooner if t.lines.index(line) >= t.lines.index(again) else 0
    return failed, again


@breaks("retries-wait-their-time", of=failures((1, 1)))
def it_tries_for_ever(t: Tape, draw: Draw) -> Witnesses:
    first, answered = t.get("provider.request"), t.get("provider.answered")
    gap = 10**9
    for n in range(TRIES_IN_A_ROW_MAX):
        for line, change_of in ((first, {"attempt": f"a_8{n}"}), (answered, {})):
            made = {**copy.deepcopy(line), "t_ns": line["t_ns"] - (n + 1) * gap}
            made["data"] |= {"n": 800 + n, **change_of}
            t.lines.insert(t.lines.index(t.get("client.heard", -1)) + 1, made)
    for line in t.lines[: t.lines.index(t.get("client.heard", -1)) + 1]:
        line["t_ns"] -= (TRIES_IN_A_ROW_MAX + 2) * gap
    return answered, t.get("provider.request", n=1)


@breaks("retries-wait-their-time", "reason-for-every-rest", "partial-marked-incomplete")
def the_last_failure_leaves_no_reason(t: Tape, draw: Draw) -> Witnesses:
    t.drop(*[x for kind in ("request", "billed", "answered", "chunk") for x in t.all(f"provider.{kind}", n=1)])
    for view in views(t):
        view["works"][0].update(one_of(draw, [{"state": "done"}, {"state": "failed", "reason_code": None}]))
    return t.get("provider.request", -1), t.final


@pytest.mark.parametrize("what", ["clock", "resume", "death", "stored", "app"])
@FEW
@given(t=failures(), data=st.data())
def test_what_may_cut_a_wait_short(t: Tape, what: str, data: st.DataObject) -> None:
    """A clock that was moved, a user's word, and the death of a worker that had not yet stored its wait; nothing else."""
    failed = one_of(data.draw, [x for x in t.all("provider.answered") if x["data"]["status"] >= 400])
    i = t.all("provider.answered").index(failed)
    again, waits = t.get("provider.request", i + 1), t.get("point.reached", i, point="work.released")
    again_at = again["t_ns"] = failed["t_ns"] + 50
    t.drop(*[x for x in t.all("point.reached", point="attempt.stored") if failed["t_ns"] < x["t_ns"] < again_at])
    caught(t, "retries-wait-their-time", (failed, again))
    if what == "clock":
        t.put("clock.moved", failed, by_s=3600.0, offset_s=3600.0, why="downtime")
    elif what == "resume":
        t.put("client.invoked", failed, call=900, client="c1", op="control", session="s1", action="resume")
    else:
        role = "app" if what == "app" else "worker"
        waits["t_ns"] = failed["t_ns"] + (5 if what == "stored" else 60)
        t.put("process.exited", failed, role=role, life=1, pid=201, status=9, signal=9, exit_code=None)["t_ns"] += 9
    expected = "violated" if what in {"stored", "app"} else "held"
    assert verdict(t, "retries-wait-their-time").status in {expected, "not run" if expected == "held" else expected}


@pytest.mark.parametrize("settled", [True, False])
@FEW
@given(t=failures())
def test_a_case_that_never_rested_says_nothing_of_how_it_ends(t: Tape, settled: bool) -> None:
    t.drop(*[x for kind in ("request", "billed", "answered", "chunk") for x in t.all(f"provider.{kind}", n=1)])
    t.view()["works"][0]["state"] = "working"
    change(t.get("case.settled"), settled=settled)
    assert bool(verdict(t, "retries-wait-their-time").violations) == settled


def test_a_lasting_failure_is_not_one_to_wait_for() -> None:
    t = turn(last="one")
    change(t.get("provider.answered"), status=400)
    not_examined(t, "retries-wait-their-time")


# Killed again ----------------------------------------------------------------------------------------------------------

AGAIN = runs(ANYWHERE, (*SURE, "mail"), (1, 2), then=RECOVERY[:-1], again=(1, 3))
good("killed-again-same-outcome", AGAIN)


def killed_work(t: Tape) -> tuple[str, Line, str]:
    """The session and input of the work that was recovered when the last kill in recovery came, and that kill."""
    kill = [x for x in t.all("kill") if str(x["data"]["point"]).startswith("recovery.")][-1]
    work = next(x for x in t.all("point.reached") if x["data"]["nonce"] == kill["data"]["nonce"])["data"]["work"]
    _, session, request = work.split("_")
    return session, kill, request


@breaks("killed-again-same-outcome", "fair-among-sessions")
def the_second_crash_gives_up(t: Tape, draw: Draw) -> Witnesses:
    session, kill, request = killed_work(t)
    for view in views(t, session):
        work = next(w for w in view["works"] if w["work_id"].endswith(request))
        work.update(state=one_of(draw, ["failed", "recovery_failed", "waiting"]), reason_code="crashed twice")
    return kill, t.final


@breaks("killed-again-same-outcome")
def the_last_reply_is_lost_or_doubled(t: Tape, draw: Draw) -> Witnesses:
    session, kill, request = killed_work(t)
    lose = draw(st.booleans())
    for view in views(t, session):
        turns = {x["turn_id"] for w in view["works"] if w["work_id"].endswith(request) for x in w["turns"]}
        last = [i for i in view["transcript"] if i["turn_id"] in turns and i["kind"] == "assistant"][-1]
        if lose:
            view["transcript"].remove(last)
        else:
            view["transcript"].append({**last, "item": 900})
    return kill, t.final


@pytest.mark.parametrize("why", ["controlled", "excused", "doubled", "once", "accepted later"])
@FEW
@given(t=AGAIN)
def test_when_another_outcome_than_that_of_one_crash_is_lawful(t: Tape, why: str) -> None:
    for view in t.final["data"]["sessions"].values():
        for work in view["works"]:
            work.update(state="waiting", reason_code="provider_unavailable")
    kills = t.all("kill")
    if why == "controlled":
        t.put("client.invoked", t.lines[3], call=900, client="c1", op="quit", session=None)
    elif why == "excused":
        change(t.get("provider.answered", -1), status=503)
    elif why == "doubled":
        t.put("point.fired", t.lines[3], point="x", ordinal=1, nonce="x", ops=[{"do": "answer", "how": "repeat"}])
    elif why == "once":
        t.drop(*kills[1:])
    else:
        for line in t.all("client.heard", outcome="ok"):
            line["t_ns"] = kills[-1]["t_ns"] + 5
    not_examined(t, "killed-again-same-outcome")


# Cut replies -----------------------------------------------------------------------------------------------------------

good("partial-marked-incomplete", runs((*ANYWHERE, "stream.text.committed"), steps=(1, 2), words=3))


@breaks("partial-marked-incomplete", "committed-partial-kept", of=CUT)
def a_piece_is_shown_as_whole(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        next(i for i in view["transcript"] if not i["complete"])["complete"] = True
    return t.get("provider.billed", complete=False), t.final


@breaks("partial-marked-incomplete", "killed-again-same-outcome", of=CUT)
def pieces_are_joined_into_one_reply(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        piece = next(i for i in view["transcript"] if not i["complete"])
        whole = next(i for i in view["transcript"] if i["complete"] and i["kind"] == "assistant")
        whole["text"] = f"{piece['text']} {whole['text']}"
    return t.get("provider.billed", complete=False), t.final


@breaks("partial-marked-incomplete", of=CUT)
def a_piece_says_what_nobody_said(t: Tape, draw: Draw) -> Witnesses:
    for view in views(t):
        piece = next(i for i in view["transcript"] if not i["complete"])
        words = piece["text"].split()
        piece["text"] = " ".join([*words, "invented"]) if draw(st.just(True)) else ""
    return t.get("provider.billed", complete=False), t.final


@QUICK
@given(CUT)
def test_a_piece_may_be_the_whole_text_or_nothing_and_doubled_pieces_are_not_judged(t: Tape) -> None:
    piece = next(i for i in t.view()["transcript"] if not i["complete"])
    whole = next(i for i in t.view()["transcript"] if i["complete"] and i["kind"] == "assistant")
    examined = held(t, "partial-marked-incomplete")
    for text in (whole["text"], ""):
        piece["text"] = text
        assert held(t, "partial-marked-incomplete") == examined
    piece["text"] = "alpha0alpha0"
    t.put("point.fired", t.lines[3], point="x", ordinal=1, nonce="x", ops=[{"do": "answer", "how": "repeat"}])
    not_examined(t, "partial-marked-incomplete")


CUT_TWICE = st.integers(2, 3).map(
    lambda n: turn(
        Reply(text="let me think of it", calls=(call("read", path="a"),)),
        last="one two three four five",
        die={f"stream.text.committed#{i * 2 + 1}": "worker" for i in range(n)},
    )
)
good("committed-partial-kept", st.one_of(CUT, CUT_TWICE))


@breaks("committed-partial-kept", of=CUT_TWICE)
def one_of_the_pieces_is_dropped(t: Tape, draw: Draw) -> Witnesses:
    pieces = [i for i in t.view()["transcript"] if not i["complete"]]
    gone = one_of(draw, pieces)
    for view in views(t):
        view["transcript"] = [i for i in view["transcript"] if i["item"] != gone["item"]]
    kill = t.all("kill", point="stream.text.committed")[-1]
    return next(x for x in t.all("point.reached") if x["data"]["nonce"] == kill["data"]["nonce"]), t.final


@breaks("committed-partial-kept", "partial-marked-incomplete", "repair-is-stable", of=CUT)
def the_rest_is_never_asked_for(t: Tape, draw: Draw) -> Witnesses:
    cut = reached(t, "stream.text.committed")
    alpha = [x for x in t.all("provider.request") if "alpha" in str(x["data"]["body"])]
    t.drop(*[x for x in alpha if t.seq(x) > t.seq(t.get("kill"))])
    return cut, None


@breaks("committed-partial-kept", "stored-reply-reused", of=CUT)
def the_rest_comes_under_the_old_attempt(t: Tape, draw: Draw) -> Witnesses:
    cut = reached(t, "stream.text.committed")
    for request in t.all("provider.request"):
        change(request, attempt=cut["data"]["detail"]["attempt"])
    return cut, None


@pytest.mark.parametrize("why", ["another died", "stopped", "no attempts"])
@FEW
@given(t=CUT)
def test_what_a_death_behind_a_committed_piece_does_not_ask_for(t: Tape, why: str) -> None:
    cut, kill = reached(t, "stream.text.committed"), t.get("kill")
    if why == "another died":
        for line in t.all("kill"):
            line["data"]["pid"] += 1
        not_examined(t, "committed-partial-kept")
        return
    if why == "stopped":
        t.put("client.invoked", kill, call=900, client="c1", op="control", session="s1", action="stop")
        t.drop(*[x for x in t.all("provider.request") if t.seq(x) > t.seq(kill)])
    else:
        cut["data"]["detail"] = {}
        for request in t.all("provider.request"):
            change(request, attempt=None)
    held(t, "committed-partial-kept")


# Stored replies, and what is paid twice --------------------------------------------------------------------------------

good("stored-reply-reused", runs((*ANYWHERE, "turn.committed"), SURE, (1, 2)))
STORED = runs(("reply.stored", "tool.intent.stored", "tool.result.stored"), SURE, (1, 2), sessions=1)


@breaks("stored-reply-reused", "work-repeated-within-bound", of=STORED)
def a_stored_reply_is_asked_for_again(t: Tape, draw: Draw) -> Witnesses:
    stored = one_of(draw, [x for x in t.all("point.reached", point="reply.stored") if t.seq(x) < t.seq(t.final)])
    mine = t.get("provider.request", attempt=stored["data"]["detail"]["attempt"])
    later = one_of(draw, [x for x in t.all("point.reached") if t.seq(stored) <= t.seq(x)])
    return stored, t.again(mine, later, n=700, attempt="a_700")


@pytest.mark.parametrize("why", ["cut", "other step", "before", "senseless"])
@FEW
@given(t=STORED)
def test_what_is_no_second_asking(t: Tape, why: str) -> None:
    """A reply that never came whole, or made no sense; a later step of the script; a request from before the storing."""
    stored = reached(t, "reply.stored")
    mine = t.get("provider.request", attempt=stored["data"]["detail"]["attempt"])
    if why in ("cut", "senseless"):
        if why == "cut":
            change(t.get("provider.billed", n=mine["data"]["n"]), complete=False)
        else:
            change(t.get("provider.answered", n=mine["data"]["n"]), call_ids=["call_1", "call_1"])
            t.put(
                "client.invoked", stored, call=970, client="c1", op="control", session="s1", action="resume", version=None
            )
        t.again(mine, t.get("kill"), n=700, attempt="a_700")
    elif why == "before":
        t.again(mine, mine, n=700, attempt="a_700")
    else:
        called = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        done = [{"role": "assistant", "content": "", "tool_calls": [called]}, {"role": "tool", "tool_call_id": "c"}]
        ask(t, t.get("kill"), "alpha", body={"messages": [user("alpha"), *done * 9]})
    assert verdict(t, "stored-reply-reused").violations == []


good(
    "work-repeated-within-bound",
    runs((*ANYWHERE, "stream.text.committed"), steps=(1, 2), words=2, then=RECOVERY, again=(0, 2)),
)


@breaks("work-repeated-within-bound", "stored-reply-reused")
def more_is_paid_than_the_deaths_allow(t: Tape, draw: Draw) -> Witnesses:
    bound, kills = t.evidence().repeats_allowed, t.all("kill")
    request, last = one_of(draw, t.all("provider.request")), t.get("provider.request", -1)
    for n in range(bound + 1):
        assert verdict(t, "work-repeated-within-bound").violations == []  # as many as the deaths allow are no violation
        t.again(request, last, n=700 + n, attempt=f"a_7{n}")
        if len(again := repeated(t)) > bound:
            break
    return kills[-1] if kills else None, again[bound]


def repeated(t: Tape) -> list[Line]:
    """The requests that ask for a step of an input which an earlier one had asked for, in order."""
    e, lines = t.evidence(), t.all("provider.request")
    asked = [(id(e.input_of(request)), request.step) for request in e.requests]
    return [lines[i] for i, step in enumerate(asked) if step in asked[:i]]


@pytest.mark.parametrize("what", ["cut", "freeze", "graceful", "failed", "word"])
@FEW
@given(t=runs(steps=(0, 2), sessions=2), data=st.data())
def test_without_any_death_nothing_is_paid_twice_and_each_allowance_buys_one(
    t: Tape, what: str, data: st.DataObject
) -> None:
    request = one_of(data.draw, t.all("provider.request"))
    again = t.again(request, request, n=700, attempt="a_700")
    caught(t, "work-repeated-within-bound", (None, again))
    if what == "cut":
        t.put("point.fired", t.lines[3], point="x", ordinal=1, nonce="x", ops=[{"do": "answer", "how": "cut"}])
    elif what == "freeze":
        t.put("freeze", t.lines[3], role="worker", life=1, pid=201)
    elif what == "graceful":
        t.put("process.exited", again, role="worker", life=1, pid=201, status=0, signal=None, exit_code=0)
    elif what == "failed":
        t.put("provider.refused", again, n=700, why="overloaded")
    else:
        t.put("client.invoked", again, call=900, client="c1", op="control", session="s1", action="resume")
    held(t, "work-repeated-within-bound")


# All of them -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(data=st.data())
def test_the_check_examines_right_histories_and_holds(name: str, data: st.DataObject) -> None:
    try_good(name, data.draw)


@pytest.mark.parametrize("broken", broken_of("recovery"), ids=str)
@QUICK
@given(data=st.data())
def test_a_broken_promise_is_caught(broken: Broken, data: st.DataObject) -> None:
    try_broken(broken, data.draw)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in {"reason-for-every-rest", "stored-reply-reused"}])
def test_a_run_without_anything_to_recover_from_shows_nothing_of_it(name: str) -> None:
    t = turn(last="one")
    taken_out(t, "provider.request", "provider.billed", "provider.answered")
    not_examined(t, name)
