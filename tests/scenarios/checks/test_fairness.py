"""What is lawful is not called broken, and a target that cannot tell is not judged by what it does not tell."""

from __future__ import annotations

from scenarios.case import Reply
from scenarios.checks import CHECKS
from tests.scenarios.checks.builder import Scene, Tape, call, replies, turn
from tests.scenarios.checks.examples_intent import paused_in_a_turn
from tests.scenarios.checks.examples_ownership import frozen


def complaints(tape: Tape) -> dict[str, object]:
    return {n: (r.why, r.violations) for n, r in tape.results().items() if r.status not in {"held", "not run"}}


def thin(tape: Tape) -> Tape:
    """What is left of a history when the target has no points, no events, no works and names no attempts."""
    tape.lines = [x for x in tape.lines if x["kind"] not in {"client.event", "client.connected", "point.reached"}]
    for line in tape.lines:
        if line["kind"].startswith("provider.") and "attempt" in line["data"]:
            line["data"]["attempt"] = None
        if line["kind"].startswith("effect."):
            line["data"]["key"] = None
        if line["kind"] == "client.heard":
            line["data"]["body"] = {}
        if line["kind"] == "snapshot.taken":
            for view in line["data"]["sessions"].values():
                view.update(event=None, announced=None, works=[], effects=[], attempts=[], totals=None)
                for given in view["inputs"]:
                    given["work_id"] = None
    return tape


def test_a_thin_target_is_judged_only_by_what_client_and_world_saw() -> None:
    results = thin(turn(call("charge", amount=1))).results()
    assert {n for n, r in results.items() if r.status not in {"held", "not run"}} == set()
    held = {n for n, r in results.items() if r.status == "held"}
    assert held >= {"acknowledged-input-not-lost", "no-duplicate-write", "request-acceptable", "work-repeated-within-bound"}
    assert not held & {"one-owner", "usage-equals-billed", "events-only-grow", "effect-in-order", "user-control-obeyed"}


def test_a_thin_target_is_still_caught_when_the_world_saw_it() -> None:
    tape = thin(turn(call("mail", to="ann"), die="tool.effect.done#1"))
    sent = tape.get("effect.received")
    again = tape.again(sent, tape.get("process.started", -1), n=9)
    tape.again(tape.get("effect.applied"), again, n=9, duplicate_of=1)
    found = tape.violated()
    assert {"no-duplicate-write", "unknown-never-resent"} <= found


def test_a_target_without_attempts_is_held_to_the_sum_of_its_tokens() -> None:
    tape = thin(turn(call("read", path="a"), die="reply.received#1"))
    sums = [
        sum(x["data"][k] for x in tape.all("provider.billed")) for k in ("input_tokens", "cached_tokens", "output_tokens")
    ]
    names = ("input_tokens", "cached_tokens", "output_tokens")
    tape.view()["totals"] = dict(zip(names, sums, strict=True))
    assert "usage-equals-billed" not in tape.violated()
    tape.view()["totals"]["output_tokens"] -= 1
    assert "usage-equals-billed" in tape.violated()
    tape.view()["totals"]["unknown_attempts"] = 1
    assert "usage-equals-billed" not in tape.violated()


def test_a_target_that_does_nothing_is_never_held() -> None:
    scene = Scene()
    scene.open()
    scene.send("r1")
    assert "acknowledged-input-not-lost" in scene.tape().violated()


def test_a_liar_that_writes_twice_and_shows_one_is_caught() -> None:
    tape = turn(call("mail", to="ann"))
    first = tape.get("effect.received")
    tape.again(first, tape.get("effect.answered"), n=9)
    tape.again(tape.get("effect.applied"), tape.get("effect.received", 1), n=9, duplicate_of=1)
    assert {"no-duplicate-write", "unknown-never-resent"} <= tape.violated()


def test_the_same_write_asked_for_twice_is_no_duplicate() -> None:
    twice = Reply(calls=(call("mail", to="ann"), call("mail", to="ann")))
    assert complaints(turn(twice)) == {}


def test_the_same_text_sent_in_two_sessions_is_told_apart() -> None:
    scene = Scene({"hello": replies(call("charge", amount=1), last="paid")}, die={"reply.received#2": "worker"})
    for session in ("s1", "s2"):
        scene.open(session)
        scene.send(f"r_{session}", session=session)
    assert complaints(scene.run().tape()) == {}


def test_the_same_text_sent_twice_in_one_session_is_two_inputs() -> None:
    scene = Scene({"hello": replies(call("charge", amount=1), last="paid")})
    scene.open()
    scene.send("r1")
    scene.send("r2")
    assert complaints(scene.run().tape()) == {}


def test_a_request_that_crossed_the_pause_is_no_disobedience() -> None:
    scene = Scene(held={"attempt.stored#1": lambda scene: scene.control("pause")})
    scene.open()
    scene.send("r1")
    tape = scene.run().tape()
    assert tape.seq(tape.get("provider.request")) > tape.seq(tape.get("client.heard", 2))
    assert "user-control-obeyed" not in tape.violated()


def test_a_request_that_was_received_before_the_pause_may_be_answered_after_it() -> None:
    scene = Scene(held={"provider.request.received#1": lambda scene: scene.control("pause")})
    scene.open()
    scene.send("r1")
    assert "user-control-obeyed" not in scene.run().tape().violated()


def test_a_write_that_was_received_before_the_stop_is_no_disobedience() -> None:
    scene = Scene(
        {"hello": replies(call("charge", amount=1), last="paid")},
        held={"effect.received#1": lambda scene: scene.control("stop")},
    )
    scene.open()
    scene.send("r1")
    tape = scene.run().tape()
    assert "user-control-obeyed" not in tape.violated()


def test_a_resumed_work_may_go_on() -> None:
    scene = paused_in_a_turn()
    scene.control("resume")
    for work in scene.works.values():
        work["turns"][-1]["state"] = "interrupted"
    tape = scene.run().tape()
    assert "user-control-obeyed" not in tape.violated()
    assert tape.results()["done-means-done"].status == "held"


def test_a_new_input_after_a_stop_starts_normally() -> None:
    scene = Scene({"hello": replies(last="one"), "next": replies(last="two")})
    scene.open()
    scene.send("r1")
    scene.control("stop")
    scene.send("r2", "next")
    assert "user-control-obeyed" not in scene.run().tape().violated()


def test_an_input_of_unknown_outcome_may_be_there_or_not() -> None:
    scene = Scene()
    scene.open()
    scene.send("r1")
    scene.run()
    scene.invoke("send", "s1", {}, "unknown", request_id="r9", text="never arrived")
    assert complaints(scene.tape()) == {}


def test_a_frozen_owner_that_is_replaced_and_refused_breaks_nothing() -> None:
    for point in ("attempt.stored#1", "attempt.stored#2", "tool.intent.stored#1", "reply.stored#1"):
        tape = frozen(point)
        broken = tape.violated() & {"one-owner", "live-owner-kept", "old-generation-refused", "no-two-executions"}
        assert broken == set(), point


def test_a_model_call_may_be_paid_again_where_the_point_allows_it_and_no_more_often() -> None:
    tape = turn(last="one two", die="provider.reply.chunk#1")
    assert tape.results()["work-repeated-within-bound"].status == "held"
    tape = turn(last="one two", die="provider.request.received#1")
    assert tape.results()["work-repeated-within-bound"].status == "held"
    tape.again(tape.get("provider.request", -1), tape.get("provider.answered", -1), n=50, attempt="a_50")
    violation = tape.results()["work-repeated-within-bound"].violations[0]
    assert violation.kind == "repeated"
    assert "at most 1 repeated" in violation.expected.says


def test_checks_that_claim_to_depend_on_a_death_examine_nothing_without_one() -> None:
    results = turn(call("charge", amount=1), call("mail", to="ann")).results()
    for name, each in CHECKS.items():
        if each.depends_on_kill:
            assert results[name].status == "not run", name


def test_a_call_that_is_said_not_to_have_started_is_no_disagreement() -> None:
    tape = turn(call("mail", to="ann"))
    tape.drop(*tape.all("effect.applied"))
    tape.view()["effects"][0]["state"] = "not_started"
    assert "done-means-done" not in tape.violated()
    tape.view()["effects"] = []
    assert "done-means-done" in tape.violated()  # a real result without an effect is a claim
    next(i for i in tape.view()["transcript"] if i["kind"] == "tool_result")["placeholder"] = True
    assert "done-means-done" not in tape.violated()


def test_what_is_told_of_a_call_that_a_pause_has_left_to_later_is_no_result() -> None:
    tape = turn(call("mail", to="ann"), die="effect.received#1")
    tape.get("provider.answered")["data"]["call_ids"] = ["call_1_0"]
    view = tape.view()
    view["transcript"] = [item for item in view["transcript"] if item["kind"] != "tool_result"]
    view["works"][0]["state"] = "paused"
    assert "told-results-are-stored" in tape.violated()  # it was sent to its receiver: what is made of it has to be stored
    view["effects"][0]["state"] = "not_started"
    assert "told-results-are-stored" not in tape.violated()
    told = tape.get("provider.request", -1)["data"]["body"]["messages"][-1]
    unknown, told["content"] = told["content"], "it is sent"
    assert "told-results-are-stored" in tape.violated()  # a real result
    told["content"], view["works"][0]["state"] = unknown, "done"
    assert "told-results-are-stored" in tape.violated()


def test_a_piece_that_may_be_of_the_last_request_need_not_be_told_by_it() -> None:
    tape = turn(last="one two", die="stream.text.committed#1")
    view = tape.view()
    piece, last = next(i for i in view["transcript"] if not i["complete"]), tape.get("provider.request", -1)
    last["data"]["body"]["messages"] = [m for m in last["data"]["body"]["messages"] if m["role"] == "user"]
    view["attempts"][-1]["turn_id"] = piece["turn_id"]
    assert "partial-told-and-marked" in tape.violated()
    view["transcript"] = [i for i in view["transcript"] if i["kind"] != "assistant" or i is piece]
    assert "partial-told-and-marked" in tape.violated()  # it was stored before there was a last request
    tape.drop(*tape.all("point.reached", point="stream.text.committed"))
    assert "partial-told-and-marked" not in tape.violated()
    view["attempts"][-1]["turn_id"] = "another"
    assert "partial-told-and-marked" in tape.violated()
