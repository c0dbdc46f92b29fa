"""Owns the examples for the checks of ownership."""

from __future__ import annotations

from tests.scenarios.checks.builder import Scene, Tape, call, replies, turn
from tests.scenarios.checks.examples import Witnesses, breaks, change, good

WORK = "w_s1_r1"


@good("one-owner", "owner-claims-first", "dead-owner-replaced", "no-two-executions")
def taken_over_after_a_death() -> Tape:
    return turn(call("charge", amount=1), die="tool.intent.stored#1")


def frozen(point: str) -> Tape:
    """The first worker stands at a point beyond its lease, another one takes the work and ends it, the first is let go."""

    def overtake(scene: Scene) -> None:
        scene.mark("freeze", **scene.who("worker"))
        scene.start("worker")
        work = next(iter(scene.works.values()))
        scene.loop(work, "s1", scene.recover(work))
        scene.mark("thaw", role="worker", life=1, pid=201)
        raise StopIteration

    scene = Scene({"hello": replies(call("charge", amount=1), last="paid")}, held={point: overtake})
    scene.open()
    scene.send("r1")
    try:
        scene.run()
    except StopIteration:
        fired = next(x for x in scene.lines if x["kind"] == "point.fired")["data"]
        scene.mark("point.released", **{k: fired[k] for k in ("point", "ordinal", "nonce")}, answer="go")
    return scene.tape()


@good("old-generation-refused")
def frozen_and_thawed() -> Tape:
    return frozen("attempt.stored#2")


def frozen_at_its_dispatch() -> Tape:
    return frozen("tool.dispatch.stored#1")


@good("live-owner-kept")
def the_clock_goes_back() -> Tape:
    scene = Scene(held={"reply.received#2": lambda scene: None})
    scene.open()
    scene.send("r1")
    scene.mark("clock.moved", by_s=-10800.0, offset_s=-10800.0, why="clock")
    scene.reach("work.claimed", "w_s1_r1", generation=1)
    scene.works["w_s1_r1"]["generation"] = 0
    scene.lines.pop()
    scene.counts.clear()
    tape = scene.run().tape()
    # An owner that is still at work when the case ends, beside the one that has given its work back.
    tape.drop(*tape.all("point.reached", point="work.released"), *tape.all("point.reached", point="turn.committed"))
    return tape


@good("no-repair-while-unreadable", "unreadable-store-refused")
def the_store_is_broken_and_mended() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1")
    scene.kill("worker")
    scene.mark("store.broken", how="torn", sha256="b" * 64)
    scene.restart()
    scene.mark("store.digest", when="broken", sha256="b" * 64)
    scene.mark("store.mended", sha256="b" * 64)
    return scene.run().tape()


@breaks("one-owner")
def the_generation_is_not_counted(t: Tape) -> Witnesses:
    taken = t.get("point.reached", point="recovery.ownership.taken")
    change(taken, detail={"generation": 1})
    return t.get("point.reached", point="work.claimed"), taken


@breaks("one-owner")
def two_claim_at_once(t: Tape) -> Witnesses:
    claim = t.get("point.reached", point="work.claimed")
    return claim, t.again(claim, claim, life=2, pid=777)


@breaks("one-owner", of=frozen_and_thawed)
def the_thawed_owner_asks_the_model(t: Tape) -> Witnesses:
    first = t.get("point.reached", point="attempt.stored", ordinal=2)
    attempt = first["data"]["detail"]["attempt"]
    at = t.again(t.get("provider.request", -1), t.get("point.released"), n=60, attempt=attempt)
    return t.get("point.reached", point="recovery.ownership.taken"), at


@breaks("one-owner", of=frozen_at_its_dispatch)
def the_thawed_owner_calls_the_tool(t: Tape) -> Witnesses:
    dispatch = t.get("point.reached", point="tool.dispatch.stored", life=1)
    at = t.again(t.get("effect.received"), t.get("point.released"), n=60)
    t.again(dispatch, at, point="tool.effect.done", nonce="late")
    return t.get("point.reached", point="recovery.ownership.taken"), at


@breaks("owner-claims-first")
def it_acts_without_a_claim(t: Tape) -> Witnesses:
    act = t.get("point.reached", point="attempt.stored")
    started = t.put("process.started", act, role="worker", life=9, pid=209, start_time=5.0, cold=False)
    return started, t.again(act, started, life=9, pid=209)


@breaks("owner-claims-first")
def a_recycled_pid_goes_on(t: Tape) -> Witnesses:
    t.drop(t.get("point.reached", point="recovery.ownership.taken"))
    return t.get("process.started", role="worker", life=2), t.get("point.reached", point="recovery.repair.written")


@breaks("live-owner-kept")
def the_clock_takes_it(t: Tape) -> Witnesses:
    claim = t.get("point.reached", point="work.claimed")
    return claim, t.again(claim, t.get("provider.request"), life=2, pid=9, detail={"generation": 2})


@breaks("live-owner-kept")
def it_is_taken_and_its_request_cut_by_that(t: Tape) -> Witnesses:
    change(t.get("provider.billed"), complete=False)
    return the_clock_takes_it(t)


@breaks("live-owner-kept")
def a_lost_connection_takes_it(t: Tape) -> Witnesses:
    claim = t.get("point.reached", point="work.claimed")
    gone = t.put("client.disconnected", t.get("provider.request"), client="c1", session="s1")
    at = t.again(claim, gone, point="recovery.ownership.taken", life=2, pid=9, detail={"generation": 2})
    return claim, at


@breaks("old-generation-refused")
def the_old_reply_is_stored(t: Tape) -> Witnesses:
    old = t.get("point.reached", point="attempt.stored", ordinal=2)
    at = t.again(old, t.get("point.released"), point="reply.stored", nonce="late")
    return t.get("point.reached", point="recovery.ownership.taken"), at


@breaks("old-generation-refused")
def the_old_turn_is_ended(t: Tape) -> Witnesses:
    old = t.get("point.reached", point="attempt.stored", ordinal=2)
    at = t.again(old, t.get("point.released"), point="turn.committed", nonce="late")
    return t.get("point.reached", point="recovery.ownership.taken"), at


@breaks("old-generation-refused", of=frozen_at_its_dispatch)
def the_old_result_is_stored(t: Tape) -> Witnesses:
    old = t.get("point.reached", point="tool.dispatch.stored", life=1)
    at = t.again(old, t.get("point.released"), point="tool.result.stored", nonce="late")
    return t.get("point.reached", point="recovery.ownership.taken"), at


@breaks("dead-owner-replaced")
def nobody_takes_it(t: Tape) -> Witnesses:
    t.drop(*t.all("point.reached", point="recovery.ownership.taken"))
    return t.get("kill"), t.final


@breaks("dead-owner-replaced")
def a_zombie_keeps_it(t: Tape) -> Witnesses:
    change(t.get("point.reached", point="recovery.ownership.taken"), life=1, pid=201)
    return t.get("kill"), t.final


@breaks("no-two-executions")
def two_recover_at_once(t: Tape) -> Witnesses:
    first = t.get("provider.request", -1)
    at = t.again(first, first, n=61, attempt="a_61")
    t.put("provider.billed", t.get("provider.billed", -1), n=61, attempt="a_61", complete=True)
    return first, at


@breaks("no-two-executions")
def two_are_admitted(t: Tape) -> Witnesses:
    admitted = t.get("point.reached", point="recovery.admitted")
    return admitted, t.again(admitted, admitted, nonce="x")


@breaks("no-repair-while-unreadable")
def it_is_made_anew(t: Tape) -> Witnesses:
    return t.get("store.broken"), change(t.get("store.mended"), sha256="c" * 64)


@breaks("no-repair-while-unreadable")
def it_is_repaired(t: Tape) -> Witnesses:
    return t.get("store.broken"), change(t.get("store.digest"), sha256="c" * 64)


@breaks("unreadable-store-refused")
def the_model_is_asked(t: Tape) -> Witnesses:
    return t.get("store.broken"), t.move(t.get("provider.request"), t.get("store.digest"))


@breaks("unreadable-store-refused")
def a_tool_is_called(t: Tape) -> Witnesses:
    effect = {"n": 1, "receiver": "plain", "key": "k", "arguments": {}}
    return t.get("store.broken"), t.put("effect.received", t.get("store.digest"), **effect)
