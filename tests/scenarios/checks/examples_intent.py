"""Owns the examples for the checks of run intent and control."""

from __future__ import annotations

from tests.scenarios.checks.builder import Scene, Tape, call, replies, turn
from tests.scenarios.checks.examples import Witnesses, breaks, change, good

HOURS_3 = 10800.0


@good("run-intent-complete", "goes-on-by-itself", "restart-is-no-pause", "terminal-never-changes")
def killed_in_a_turn() -> Tape:
    return turn(call("publish", page=1), die="reply.received#1")


def paused_in_a_turn() -> Scene:
    held = {"reply.stored#1": lambda scene: scene.control("pause")}
    scene = Scene({"hello": replies(call("charge", amount=1), last="paid")}, held=held)
    scene.open()
    scene.send("r1")
    return scene.run()


@good("user-control-obeyed", "control-is-durable")
def paused_and_left() -> Tape:
    return paused_in_a_turn().tape()


def stopped_before_it_began() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1")
    scene.control("stop")
    return scene.run().tape()


@good("newest-control-decides")
def paused_and_resumed() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1")
    scene.control("pause")
    scene.control("resume", version=1)
    return scene.run().tape()


@good("client-gone-work-goes-on")
def the_client_leaves() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1")
    scene.mark("client.disconnected", client="c1", session="s1")
    scene.watching.clear()
    return scene.run().tape()


@good("graceful-exit-order")
def a_graceful_restart() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1")
    for role, points in (
        ("worker", ("exit.admission.closed", "exit.controls.stored", "exit.checkpoint.stored")),
        ("app", ("app.exit.closed", "app.exit.stored")),
    ):
        scene.mark("terminate", **scene.who(role), grace=True)
        for point in points:
            scene.reach(point, role=role)
        scene.mark("process.exited", **scene.who(role), status=0, signal=None, exit_code=0)
        if role == "app":
            scene.mark("client.disconnected", client="c1", session="s1")
            scene.watching.clear()
    scene.restart()
    return scene.run().tape()


@good("no-hidden-expiry")
def three_hours_later() -> Tape:
    scene = Scene()
    scene.open()
    scene.send("r1")
    scene.kill("worker")
    scene.mark("clock.moved", by_s=HOURS_3, offset_s=HOURS_3, why="downtime")
    scene.restart()
    return scene.run().tape()


def paused_for_a_month() -> Tape:
    scene = paused_in_a_turn()
    scene.mark("clock.moved", by_s=2592000.0, offset_s=2592000.0, why="downtime")
    return scene.tape()


def _second_input(scene: Scene) -> None:
    scene.send("r2", "second")


@good("user-input-goes-first")
def an_input_during_recovery() -> Tape:
    script = {"hello": replies(last="good day to you"), "second": replies(last="two")}
    scene = Scene(script, die={"reply.received#1": "worker"}, held={"recovery.repair.written#1": _second_input})
    scene.open()
    scene.send("r1")
    return scene.run().tape()


@good("control-wins-over-recovery")
def a_stop_during_recovery() -> Tape:
    scene = Scene(
        die={"reply.received#1": "worker"},
        held={"recovery.decision.stored#1": lambda scene: scene.control("stop")},
    )
    scene.open()
    scene.send("r1")
    return scene.run().tape()


@breaks("run-intent-complete")
def the_scope_is_missing(t: Tape) -> Witnesses:
    t.view()["works"][0]["permission_scope"] = None
    return t.get("client.heard", 1), t.final


@breaks("run-intent-complete")
def the_host_is_missing(t: Tape) -> Witnesses:
    t.view()["works"][0].update(host=None, recovery_policy=None)
    return t.get("client.heard", 1), t.final


@breaks("run-intent-complete")
def the_work_is_missing(t: Tape) -> Witnesses:
    t.view()["works"] = []
    return t.get("client.heard", 1), t.final


@breaks("goes-on-by-itself")
def it_waits_for_a_resume(t: Tape) -> Witnesses:
    t.drop(*t.all("provider.request")[1:])
    return t.get("client.heard", 1), t.get("kill")


@breaks("goes-on-by-itself")
def it_never_begins(t: Tape) -> Witnesses:
    t.drop(*t.all("provider.request"), *t.all("provider.billed"))
    return t.get("client.heard", 1), t.get("kill")


@breaks("restart-is-no-pause")
def the_restart_paused_it(t: Tape) -> Witnesses:
    t.view()["works"][0].update(state="paused", desired_state="paused", reason_code="restart")
    return t.get("client.heard", 1), t.final


@breaks("restart-is-no-pause")
def the_restart_cancelled_it(t: Tape) -> Witnesses:
    t.view()["works"][0].update(state="cancelled", desired_state="run")
    return t.get("client.heard", 1), t.final


@breaks("user-control-obeyed")
def the_pause_was_in_memory_only(t: Tape) -> Witnesses:
    at = t.again(t.get("provider.request"), t.get("point.reached", -1), n=9, attempt="a_9")
    return t.get("client.heard", 2), at


@breaks("user-control-obeyed")
def the_tool_runs_after_the_pause(t: Tape) -> Witnesses:
    at = t.put("effect.received", t.get("point.released"), n=1, receiver="keyed", key="k", arguments={"amount": 1})
    return t.get("client.heard", 2), at


@breaks("user-control-obeyed", of=stopped_before_it_began)
def the_stopped_input_begins(t: Tape) -> Witnesses:
    at = t.put("provider.request", t.get("client.heard", -1), n=1, attempt="a_1",
               body={"messages": [{"role": "user", "content": "hello"}]})  # fmt: skip
    return t.get("client.heard", -1), at


@breaks("control-is-durable")
def the_final_state_forgets_the_pause(t: Tape) -> Witnesses:
    t.view()["works"][0]["desired_state"] = "run"
    return t.get("client.heard", 2), t.final


@breaks("control-is-durable", of=stopped_before_it_began)
def the_stop_became_a_pause(t: Tape) -> Witnesses:
    t.view()["works"][0]["desired_state"] = "paused"
    return t.get("client.heard", 2), t.final


@breaks("newest-control-decides")
def the_version_does_not_grow(t: Tape) -> Witnesses:
    pause, resume = t.all("client.heard")[2:4]
    resume["data"]["body"]["control_version"] = 1
    return pause, resume


@breaks("newest-control-decides")
def a_stale_control_is_accepted(t: Tape) -> Witnesses:
    pause, resume = t.all("client.heard")[2:4]
    change(t.get("client.invoked", op="control", action="resume"), version=0)
    return pause, resume


@breaks("terminal-never-changes")
def done_becomes_failed(t: Tape) -> Witnesses:
    t.view(when="again")["works"][0]["state"] = "failed"
    return t.final, t.get("snapshot.taken", when="again")


@breaks("terminal-never-changes")
def an_ended_turn_runs_again(t: Tape) -> Witnesses:
    t.view(when="again")["works"][0]["turns"][-1]["state"] = "running"
    return t.final, t.get("snapshot.taken", when="again")


@breaks("terminal-never-changes")
def an_event_takes_it_back(t: Tape) -> Witnesses:
    done = t.get("client.event", type="work.done")
    work = done["data"]["data"]["work_id"]
    at = t.again(
        done, done, event=done["data"]["event"] + 1, type="work.working", data={"work_id": work, "state": "working"}
    )
    return done, at


@breaks("client-gone-work-goes-on")
def the_run_dies_with_its_window(t: Tape) -> Witnesses:
    t.drop(*t.all("provider.billed"))
    return t.get("client.heard", 1), t.get("client.disconnected")


@breaks("client-gone-work-goes-on")
def the_reply_is_cut_with_its_window(t: Tape) -> Witnesses:
    change(t.get("provider.billed"), complete=False)
    return t.get("client.heard", 1), t.get("client.disconnected")


@breaks("graceful-exit-order")
def it_checkpoints_before_it_closes(t: Tape) -> Witnesses:
    closed = t.move(
        t.get("point.reached", point="exit.admission.closed"), t.get("point.reached", point="exit.checkpoint.stored")
    )
    return closed, t.get("process.exited", role="worker")


@breaks("graceful-exit-order")
def it_ends_without_a_checkpoint(t: Tape) -> Witnesses:
    t.drop(t.get("point.reached", point="exit.checkpoint.stored"))
    return t.get("point.reached", point="exit.admission.closed"), t.get("process.exited", role="worker")


@breaks("graceful-exit-order")
def it_does_not_end(t: Tape) -> Witnesses:
    told = t.get("terminate", role="worker")
    return told, t.put("process.stayed", told, role="worker", life=1, pid=201)


@breaks("graceful-exit-order")
def it_claims_while_it_drains(t: Tape) -> Witnesses:
    claim = t.get("point.reached", point="work.claimed")
    at = t.again(claim, t.get("point.reached", point="exit.controls.stored"), life=1)
    return t.get("point.reached", point="exit.admission.closed"), at


@breaks("graceful-exit-order")
def the_app_accepts_while_it_drains(t: Tape) -> Witnesses:
    closed = t.get("point.reached", point="app.exit.closed")
    sent = t.put("client.invoked", closed, call=90, client="c1", op="send", session="s1", request_id="r9", text="late")
    return closed, t.put("client.heard", sent, call=90, outcome="ok", status=202, body={})


@breaks("no-hidden-expiry")
def it_expired(t: Tape) -> Witnesses:
    t.drop(*t.all("provider.request"))
    t.view()["works"][0].update(state="failed", reason_code="expired")
    return t.get("client.heard", 1), t.get("clock.moved")


@breaks("no-hidden-expiry")
def it_was_cancelled_by_age(t: Tape) -> Witnesses:
    t.view()["works"][0].update(state="cancelled")
    return t.get("client.heard", 1), t.get("clock.moved")


@breaks("no-hidden-expiry", of=paused_for_a_month)
def the_pause_expired(t: Tape) -> Witnesses:
    t.view()["works"][0].update(desired_state="run")
    return t.get("client.heard", 2), t.get("clock.moved")


@breaks("user-input-goes-first")
def the_continuation_goes_first(t: Tape) -> Witnesses:
    mine = next(x for x in t.all("provider.request") if x["data"]["body"]["messages"][-1]["content"] == "second")
    at = t.again(t.get("provider.request"), t.get("point.released"), n=50, attempt="a_50")
    assert t.seq(at) < t.seq(mine)
    return t.get("client.heard", 2), at


@breaks("user-input-goes-first")
def the_new_input_comes_last(t: Tape) -> Witnesses:
    mine = next(x for x in t.all("provider.request") if x["data"]["body"]["messages"][-1]["content"] == "second")
    t.move(mine, t.get("provider.answered", -1))
    return t.get("client.heard", 2), t.get("provider.request", 1)


@breaks("control-wins-over-recovery")
def the_old_decision_goes_on(t: Tape) -> Witnesses:
    at = t.again(t.get("provider.request"), t.get("point.released"), n=50, attempt="a_50")
    return t.get("client.heard", 2), at


@breaks("control-wins-over-recovery")
def the_old_decision_stands(t: Tape) -> Witnesses:
    t.view()["works"][0]["recoveries"][0]["void"] = False
    return t.get("client.heard", 2), t.final


@breaks("control-wins-over-recovery", of=an_input_during_recovery)
def recovery_ignores_the_new_input(t: Tape) -> Witnesses:
    at = t.again(t.get("provider.request"), t.get("point.released"), n=50, attempt="a_50")
    return t.get("client.heard", 2), at
