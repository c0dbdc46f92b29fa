"""The checks of the history that is sent to a model: they hold on generated right runs, and a body that is garbled, a
message that is moved, a result that is mixed up or a repair that runs something is caught by its own check."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.case import Reply, Script
from scenarios.checks import request_history
from scenarios.checks.request_history import REPAIR_ENDS
from scenarios.world.strict import problems
from tests.scenarios.checks.builder import PLACEHOLDER, Line, Scene, Tape, call, replies, turn
from tests.scenarios.checks.plays import (
    FEW,
    MANY,
    SOME,
    TEXTS,
    WRITES,
    Breach,
    Breaches,
    Pick,
    Witnesses,
    after,
    effects_of,
    everywhere,
    fair,
    held,
    invariant,
    not_examined,
    of_area,
    open_without_its_end,
    plays,
    queued,
    reached,
    result,
    results,
    safe_when_cut,
    undisturbed,
)

CHECKS = of_area(request_history)
BREACHES = Breaches()

TOLD = plays(must=("read", "charge"), deaths=1, sessions=1)
CUT = plays(must=("read",), kills=("stream.text.committed#1",), tools=("read",), deaths=0, sessions=1, words=3)
RECOVERED = st.sampled_from(["attempt.stored#1", "reply.stored#1", "tool.intent.stored#1", "tool.result.stored#1"]).flatmap(
    lambda address: plays(must=("charge", "read"), kills=(address,), tools=("read", "order"), deaths=1)
)


@st.composite
def senseless(draw: st.DrawFn) -> Tape:
    """Runs in which the provider gives two calls of one reply the same id, and the work fails with that reason."""
    calls = draw(st.lists(st.sampled_from(WRITES), min_size=2, max_size=3))
    scene = Scene({"hello": replies(last="done")})
    scene.open()
    scene.send("r0", "hello")
    tape = scene.run().tape()
    script = {
        "hello": replies(Reply(calls=tuple(call(tool, n=i) for i, tool in enumerate(calls)), same_ids=True), last="done")
    }
    tape.case = tape.case.model_copy(update={"script": Script(replies=script)})
    tape.get("provider.answered")["data"]["call_ids"] = ["call_1"] * len(calls)
    tape.drop(*tape.all("client.event"), *reached(tape, "turn.committed"))
    state = draw(st.sampled_from(["failed", "recovery_failed"]))
    for view in everywhere(tape):
        view["works"][0].update(state=state, reason_code="duplicate_call_id")
        view["transcript"] = [item for item in view["transcript"] if item["kind"] == "user"]
    return tape


GOOD = {
    "request-acceptable": plays(),
    "user-messages-in-order": queued(deaths=1),
    "results-match-their-calls": TOLD,
    "transcript-append-only": plays(),
    "history-told-as-stored": plays(),
    "partial-told-and-marked": CUT,
    "same-call-id-twice-is-an-error": senseless(),
    "repair-runs-nothing": RECOVERED,
}


def test_every_check_of_the_area_has_good_histories_and_breaches() -> None:
    assert {each.name for each in CHECKS} == set(GOOD) == BREACHES.names


@pytest.mark.parametrize("name", GOOD)
@SOME
@given(data=st.data())
def test_a_right_run_holds(name: str, data: st.DataObject) -> None:
    held(data.draw(GOOD[name]), name)


def messages(line: Line) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = line["data"]["body"]["messages"]
    return found


def requests_with(t: Tape, role: str, **match: Any) -> list[Line]:
    """The requests that hold a message of this role."""
    return [
        x for x in t.all("provider.request") if any(m["role"] == role and match.items() <= m.items() for m in messages(x))
    ]


def first_of(line: Line, role: str) -> dict[str, Any]:
    return next(m for m in messages(line) if m["role"] == role)


def calling_message(line: Line) -> dict[str, Any]:
    return next(m for m in messages(line) if m.get("tool_calls"))


# Bodies that a strict provider takes ----------------------------------------------------------------------------------

ODD_MESSAGES = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, st.sampled_from(["hello", "", "more"])),
    st.builds(
        lambda role: {"role": role, "content": "text"}, st.sampled_from(["system", "assistant", "developer", "robot"])
    ),
    st.builds(lambda name: {"role": "tool", "tool_call_id": name, "content": "result"}, st.sampled_from(["c1", "c2"])),
    st.builds(
        lambda names, arguments: {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": name, "type": "function", "function": {"name": "read", "arguments": arguments}} for name in names
            ],
        },
        st.lists(st.sampled_from(["c1", "c2"]), min_size=1, max_size=2),
        st.sampled_from(["{}", '{"path": "a"}', '{"path": ', "[]", ""]),
    ),
)


@MANY
@given(st.lists(ODD_MESSAGES, max_size=6))
def test_it_asks_for_what_the_world_asks_for(made: list[dict[str, Any]]) -> None:
    tape = turn()
    line = tape.get("provider.request")
    line["data"]["body"]["messages"] = made
    wrong = problems({"model": "m", "messages": made})
    found = result(tape, "request-acceptable")
    assert (found.status == "violated") == bool(wrong)
    if wrong:
        assert found.violations[0].seen.seq == tape.seq(line)
        assert wrong[0] in found.violations[0].seen.says


OTHERS = ("history-told-as-stored", "results-match-their-calls", "partial-told-and-marked", "stored-result-reused")


@BREACHES.of("request-acceptable", TOLD, *OTHERS)
def a_result_is_left_out(t: Tape, pick: Pick) -> Witnesses:
    at = pick(requests_with(t, "tool"))
    messages(at).remove(pick([m for m in messages(at) if m["role"] == "tool"]))
    return None, at


@BREACHES.of("request-acceptable", TOLD, *OTHERS)
def a_result_is_told_twice(t: Tape, pick: Pick) -> Witnesses:
    at = pick(requests_with(t, "tool"))
    told = pick([m for m in messages(at) if m["role"] == "tool"])
    messages(at).insert(messages(at).index(told), dict(told))
    return None, at


@BREACHES.of("request-acceptable", TOLD, *OTHERS)
def a_result_stands_apart_from_its_call(t: Tape, pick: Pick) -> Witnesses:
    at = pick(requests_with(t, "tool"))
    place = messages(at).index(calling_message(at)) + 1
    messages(at).insert(place, {"role": "system", "content": "by the way"})
    return None, at


@BREACHES.of("request-acceptable", TOLD, *OTHERS)
def a_result_has_no_call(t: Tape, pick: Pick) -> Witnesses:
    at = pick(t.all("provider.request"))
    place = pick(range(len(messages(at)) + 1))
    messages(at).insert(place, {"role": "tool", "tool_call_id": "gone", "content": "x"})
    return None, at


@BREACHES.of("request-acceptable", TOLD, *OTHERS)
def half_a_call_is_sent(t: Tape, pick: Pick) -> Witnesses:
    at = pick(requests_with(t, "tool"))
    function = pick(calling_message(at)["tool_calls"])["function"]
    function["arguments"] = function["arguments"][: pick(range(len(function["arguments"])))]
    return None, at


@BREACHES.of("request-acceptable", TOLD, *OTHERS)
def a_reply_comes_last(t: Tape, pick: Pick) -> Witnesses:
    at = pick(t.all("provider.request"))
    messages(at).append({"role": "assistant", "content": "and so"})
    return None, at


@BREACHES.of("request-acceptable", plays())
def the_provider_refuses_it(t: Tape, pick: Pick) -> Witnesses:
    line = pick(t.all("provider.request"))
    return None, t.put("provider.refused", line, n=line["data"]["n"], why=pick(["too long", "no model", None]))


@FEW
@given(st.sampled_from([7, "calls", ["call"], [{}], [{"id": "c", "function": 3}], [{"id": "c", "function": {}}]]))
def test_a_body_that_no_provider_would_take_is_judged_all_the_same(calls: Any) -> None:
    tape = turn()
    line = tape.get("provider.request")
    messages(line).insert(0, {"role": "assistant", "content": "", "tool_calls": calls})
    assert result(tape, "request-acceptable").status == "violated"
    assert all(found.status != "inconclusive" for found in results(tape).values())


@FEW
@given(plays())
def test_each_request_is_looked_at_as_text_or_as_data(tape: Tape) -> None:
    for line in tape.all("provider.request"):
        line["data"]["body"] = json.dumps(line["data"]["body"])
    assert held(tape, "request-acceptable").examined == len(tape.all("provider.request"))
    tape.get("provider.request")["data"]["body"] = "{no json"
    assert result(tape, "request-acceptable").status == "violated"


def test_without_a_request_nothing_is_said_of_requests() -> None:
    tape = turn()
    tape.drop(*tape.all("provider.request"))
    for name in ("request-acceptable", "user-messages-in-order", "history-told-as-stored", "partial-told-and-marked"):
        not_examined(tape, name)


# The order of users' messages -----------------------------------------------------------------------------------------


@BREACHES.of("user-messages-in-order", queued(inputs=3, deaths=0))
def two_messages_change_places(t: Tape, pick: Pick) -> Witnesses:
    line = t.get("provider.request", -1)
    users = [m for m in messages(line) if m["role"] == "user"]
    first, second = users[0], pick(users[1:-1])
    first["content"], second["content"] = second["content"], first["content"]
    since = t.get("client.heard", call=t.get("client.invoked", text=second["content"])["data"]["call"])
    return since, line


@SOME
@given(queued(inputs=3, deaths=0), st.booleans())
def test_what_stands_between_two_messages_hides_nothing(tape: Tape, stranger: bool) -> None:
    line = tape.get("provider.request", -1)
    users = [m for m in messages(line) if m["role"] == "user"]
    users[0]["content"], users[2]["content"] = users[2]["content"], users[0]["content"]
    if stranger:
        users[1]["content"] = "a message of which no client had heard"
    found = [(v.expected.seq, v.seen.seq) for v in result(tape, "user-messages-in-order").violations]
    heard = tape.get("client.heard", call=tape.get("client.invoked", text=TEXTS[0])["data"]["call"])
    assert (tape.seq(heard), tape.seq(line)) in found


@FEW
@given(queued(inputs=3, deaths=0))
def test_one_that_was_in_flight_all_the_time_hides_no_order_of_the_others(tape: Tape) -> None:
    sendings = tape.all("client.invoked", op="send")
    heard = [tape.get("client.heard", call=line["data"]["call"]) for line in sendings]
    tape.move(sendings[1], tape.get("case.opened"))
    tape.move(heard[1], heard[-1])
    line = tape.get("provider.request", -1)
    users = [m for m in messages(line) if m["role"] == "user"]
    users[0]["content"], users[2]["content"] = users[2]["content"], users[0]["content"]
    found = [(v.expected.seq, v.seen.seq) for v in result(tape, "user-messages-in-order").violations]
    assert (tape.seq(heard[0]), tape.seq(line)) in found


@SOME
@given(queued(inputs=2, deaths=0))
def test_messages_that_were_in_flight_together_may_stand_either_way(tape: Tape) -> None:
    heard = [x for x in tape.all("client.heard") if "input" in x["data"]["body"]]
    for line in heard:
        tape.move(line, tape.get("client.invoked", -1, op="send"))
    line = tape.get("provider.request", -1)
    users = [m for m in messages(line) if m["role"] == "user"]
    texts = [m["content"] for m in users]
    for message, text in zip(users[:-1], reversed(texts[:-1]), strict=True):
        message["content"] = text
    fair(tape, "user-messages-in-order")


@FEW
@given(queued(same=True))
def test_equal_texts_have_no_order_that_could_be_seen(tape: Tape) -> None:
    not_examined(tape, "user-messages-in-order")


@FEW
@given(plays(texts=1))
def test_one_message_has_no_order(tape: Tape) -> None:
    not_examined(tape, "user-messages-in-order")


# Results and their calls ----------------------------------------------------------------------------------------------

UNKNOWN = plays(must=("mail",), kills=("effect.applied#1",), tools=("read",), deaths=0)
ANY_RESULT = plays(must=("read", "charge", "read"), tools=("read", "charge"), deaths=0, sessions=1)


@BREACHES.of("results-match-their-calls", ANY_RESULT, "stored-result-reused")
def another_text_is_told(t: Tape, pick: Pick) -> Witnesses:
    line = pick(requests_with(t, "tool"))
    message = pick([m for m in messages(line) if m["role"] == "tool"])
    text = message["content"]
    message["content"] = pick(["something else", "", f"{text}0", f"x{text}", text[:-1]])
    return _since(t, message["tool_call_id"]), line


def _since(t: Tape, name: str) -> Line:
    """Where the real result of a call was stored."""
    return next(x for x in reached(t, "tool.result.stored") if x["data"]["detail"]["call"] == name)


@BREACHES.of("results-match-their-calls", ANY_RESULT, "stored-result-reused")
def two_results_change_places(t: Tape, pick: Pick) -> Witnesses:
    lines = [x for x in t.all("provider.request") if len({m["content"] for m in messages(x) if m["role"] == "tool"}) > 1]
    line = pick(lines)
    told = [m for m in messages(line) if m["role"] == "tool"]
    first, second = next((a, b) for a in told for b in told if a["content"] != b["content"])
    first["content"], second["content"] = second["content"], first["content"]
    return _since(t, first["tool_call_id"]), line


@BREACHES.of("results-match-their-calls", ANY_RESULT)
def a_real_result_is_forgotten(t: Tape, pick: Pick) -> Witnesses:
    line = t.get("provider.request", -1)
    message = pick([m for m in messages(line) if m["role"] == "tool"])
    name = message["tool_call_id"]
    at = t.again(line, line, n=900, attempt=None)
    next(m for m in messages(at) if m.get("tool_call_id") == name)["content"] = PLACEHOLDER
    for view in everywhere(t):
        made = {"item": 90, "kind": "tool_result", "call_id": name, "text": PLACEHOLDER, "placeholder": True}
        view["transcript"].append(made)
    return _since(t, name), at


@BREACHES.of("results-match-their-calls", UNKNOWN)
def the_placeholder_does_not_say_that_it_is_unknown(t: Tape, pick: Pick) -> Witnesses:
    said = pick(["The call failed.", "", "aborted", "interrupted by the user"])
    for view in everywhere(t):
        for item in view["transcript"]:
            item["text"] = said if item["placeholder"] else item["text"]
    for line in requests_with(t, "tool", content=PLACEHOLDER):
        for message in messages(line):
            message["content"] = said if message["content"] == PLACEHOLDER else message["content"]
    return None, t.final


@BREACHES.of("results-match-their-calls", UNKNOWN, "unknown-operation-shown")
def each_unknown_outcome_has_its_own_words(t: Tape, pick: Pick) -> Witnesses:
    other = {"item": 91, "kind": "tool_result", "call_id": "call_x", "text": "unknown", "placeholder": True}
    for view in everywhere(t):
        view["transcript"].append(other)
        view["effects"].append({"call_id": "call_x", "tool": "mail", "state": pick(["outcome_unknown", "abandoned"])})
    return None, t.final


@pytest.mark.parametrize("alike", ["{}0", "x{}", "{}_2"])
@FEW
@given(tape=ANY_RESULT)
def test_a_text_that_only_holds_the_letters_of_a_result_is_another(tape: Tape, alike: str) -> None:
    line = requests_with(tape, "tool")[-1]
    message = next(m for m in messages(line) if m["role"] == "tool")
    message["content"] = alike.format(message["content"])
    found = [(v.expected.seq, v.seen.seq) for v in result(tape, "results-match-their-calls").violations]
    assert found == [(tape.seq(_since(tape, message["tool_call_id"])), tape.seq(line))]


@SOME
@given(ANY_RESULT, st.sampled_from(["[late] {}", "{} (asked for)", "It says: {}."]))
def test_a_remark_around_a_result_changes_nothing(tape: Tape, remark: str) -> None:
    for line in requests_with(tape, "tool"):
        for message in [m for m in messages(line) if m["role"] == "tool"]:
            message["content"] = remark.format(message["content"])
    held(tape, "results-match-their-calls")


@SOME
@given(ANY_RESULT, st.data())
def test_a_call_whose_result_is_known_only_later_is_told_as_unknown(tape: Tape, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from(requests_with(tape, "tool")))
    name = data.draw(st.sampled_from([m["tool_call_id"] for m in messages(line) if m["role"] == "tool"]))
    telling = requests_with(tape, "tool", tool_call_id=name)
    for other in telling:
        next(m for m in messages(other) if m.get("tool_call_id") == name)["content"] = "The outcome is unknown."
    stored = _since(tape, name)
    found = [(v.expected.seq, v.seen.seq) for v in result(tape, "results-match-their-calls").violations]
    assert found == [(tape.seq(stored), tape.seq(other)) for other in telling], "its result had been stored before"
    tape.move(stored, telling[-1])
    held(tape, "results-match-their-calls")


@FEW
@given(ANY_RESULT)
def test_results_of_calls_that_the_target_does_not_store_are_not_judged(tape: Tape) -> None:
    for view in everywhere(tape):
        view["transcript"] = [item for item in view["transcript"] if item["kind"] != "tool_result"]
    not_examined(tape, "results-match-their-calls")


# What is committed ----------------------------------------------------------------------------------------------------


def transcripts(t: Tape, when: str = "again") -> list[list[dict[str, Any]]]:
    return [
        view["transcript"] for view in t.get("snapshot.taken", when=when)["data"]["sessions"].values() if view["transcript"]
    ]


@BREACHES.of("transcript-append-only", plays(), "input-appended-once")
def an_item_changes(t: Tape, pick: Pick) -> Witnesses:
    item = pick(pick(transcripts(t)))
    item.update(pick([{"text": item["text"] + "!"}, {"item": 99}, {"kind": "note"}, {"request_id": "r99"}]))
    return t.final, t.get("snapshot.taken", when="again")


@BREACHES.of("transcript-append-only", plays())
def an_item_is_taken_away(t: Tape, pick: Pick) -> Witnesses:
    items = pick(transcripts(t))
    items.remove(pick(items))
    return t.final, t.get("snapshot.taken", when="again")


@BREACHES.of("transcript-append-only", plays())
def an_item_is_put_in_between(t: Tape, pick: Pick) -> Witnesses:
    items = pick(transcripts(t))
    items.insert(pick(range(len(items))), {"item": 99, "kind": "note", "text": "summary"})
    return t.final, t.get("snapshot.taken", when="again")


@BREACHES.of("transcript-append-only", plays(sessions=1))
def the_session_is_gone(t: Tape, pick: Pick) -> Witnesses:
    at = t.get("snapshot.taken", when="again")
    del at["data"]["sessions"][pick(sorted(at["data"]["sessions"]))]
    return t.final, at


@SOME
@given(plays(), st.integers(1, 3))
def test_a_transcript_may_grow_at_its_end(tape: Tape, more: int) -> None:
    for items in transcripts(tape):
        items.extend({"item": 100 + i, "kind": "note", "text": f"note {i}"} for i in range(more))
    assert held(tape, "transcript-append-only").examined == sum(len(items) for items in transcripts(tape, "final"))


@SOME
@given(CUT, st.sampled_from(["", " four five"]), st.booleans())
def test_a_reply_that_is_still_streamed_may_grow_and_be_whole(tape: Tape, more: str, whole: bool) -> None:
    partial = next(item for item in transcripts(tape)[0] if not item["complete"])
    partial.update(text=partial["text"] + more, complete=whole)
    held(tape, "transcript-append-only")
    partial["text"] = partial["text"][:-1] + "#"
    rewritten = result(tape, "transcript-append-only").status == "violated"
    assert rewritten == (more == ""), "what had been committed of it is no longer there"


def test_one_snapshot_shows_no_change() -> None:
    tape = turn()
    tape.drop(tape.get("snapshot.taken", when="again"))
    not_examined(tape, "transcript-append-only")


# What is told of earlier replies --------------------------------------------------------------------------------------

LONG = queued(inputs=2, deaths=0)


@BREACHES.of("history-told-as-stored", LONG)
def a_reply_is_made_up(t: Tape, pick: Pick) -> Witnesses:
    line = pick(t.all("provider.request"))
    messages(line).insert(0, {"role": "assistant", "content": pick(["I was never said", "x", "on nothing"])})
    return line, t.final


@BREACHES.of("history-told-as-stored", LONG)
def a_reply_is_cut_short(t: Tape, pick: Pick) -> Witnesses:
    line = t.get("provider.request", -1)
    told = next(m for m in messages(line) if m["role"] == "assistant" and m["content"])
    told["content"] = told["content"][: pick(range(1, len(told["content"])))]
    return line, t.final


@BREACHES.of("history-told-as-stored", queued(inputs=3, deaths=0))
def the_first_reply_is_forgotten(t: Tape, pick: Pick) -> Witnesses:
    line = t.get("provider.request", -1)
    spoken = [m for m in messages(line) if m["role"] == "assistant" and m["content"]]
    messages(line).remove(spoken[0])
    return line, t.final


@BREACHES.of("history-told-as-stored", queued(inputs=3, deaths=0))
def two_replies_change_places(t: Tape, pick: Pick) -> Witnesses:
    line = t.get("provider.request", -1)
    first, second = [m for m in messages(line) if m["role"] == "assistant" and m["content"]][:2]
    first["content"], second["content"] = second["content"], first["content"]
    return line, t.final


@SOME
@given(plays(deaths=3), st.sampled_from(["{} [cut off]", "{}\n(interrupted)", "so far: {}"]))
def test_each_told_reply_may_bear_a_mark(tape: Tape, mark: str) -> None:
    for line in tape.all("provider.request"):
        for message in [m for m in messages(line) if m["role"] == "assistant" and m["content"]]:
            message["content"] = mark.format(message["content"])
    fair(tape, "history-told-as-stored")


@MANY
@given(
    st.lists(st.sampled_from(["", "a", "b", "a b"]), max_size=5),
    st.lists(st.sampled_from(["a", "b", "a b", "b!", "[mark]"]), max_size=5),
)
def test_the_told_replies_are_the_first_of_the_stored_ones(stored: list[str], told: list[str]) -> None:
    scene = Scene()
    scene.open()
    scene.send("r0")
    tape = scene.run().tape()
    for view in everywhere(tape):
        view["transcript"] = [{"item": i, "kind": "assistant", "text": text} for i, text in enumerate(stored, start=1)]
    line = tape.get("provider.request")
    messages(line)[:0] = [{"role": "assistant", "content": text} for text in told]
    found = result(tape, "history-told-as-stored")
    assert found.status == ("not run" if not stored else "held" if _matches(told, stored) else "violated")


def _matches(told: list[str], stored: list[str]) -> bool:
    """By trying each way: a stored text is told in its turn, an empty one may be left out, and the rest comes later."""
    if not told:
        return True
    if not stored:
        return False
    taken = stored[0] in told[0] and _matches(told[1:], stored[1:])
    return taken or (stored[0] == "" and _matches(told, stored[1:]))


# Partial replies ------------------------------------------------------------------------------------------------------


def told_partial(t: Tape) -> tuple[Line, dict[str, Any]]:
    line = t.get("provider.request", -1)
    return line, next(m for m in messages(line) if str(m.get("content")).endswith(" [interrupted]"))


def cut_off(t: Tape) -> Line:
    return t.get("provider.billed", complete=False)


@BREACHES.of("partial-told-and-marked", CUT, "request-acceptable")
def the_piece_is_told_as_whole(t: Tape, pick: Pick) -> Witnesses:
    line, told = told_partial(t)
    told["content"] = told["content"].removesuffix(" [interrupted]")
    messages(line)[:] = [m for m in messages(line) if m["role"] != "system"]
    return cut_off(t), line


@BREACHES.of("partial-told-and-marked", CUT, "history-told-as-stored")
def the_piece_is_not_told(t: Tape, pick: Pick) -> Witnesses:
    line, told = told_partial(t)
    messages(line).remove(told)
    return cut_off(t), line


@SOME
@given(CUT)
def test_a_piece_is_to_be_told_also_where_the_stream_had_been_sent_to_its_end(tape: Tape) -> None:
    """The worker died over the first pieces; the provider was faster."""
    cut_off(tape)["data"]["complete"] = True
    assert result(tape, "partial-told-and-marked").status == "held"
    line, told = told_partial(tape)
    messages(line).remove(told)
    assert result(tape, "partial-told-and-marked").status == "violated"


@SOME
@given(CUT, st.booleans())
def test_a_piece_is_no_request_s_that_was_of_another_turn_or_not_answered(tape: Tape, another: bool) -> None:
    """Paused before the first word, then begun anew: the piece is of the second request, and told after that one."""
    line, told = told_partial(tape)
    messages(line).remove(told)
    cut = cut_off(tape)
    if another:
        for view in (line["data"]["sessions"]["s1"] for line in tape.all("snapshot.taken")):
            for attempt in view["attempts"]:
                attempt["turn_id"] = "t_before"
    else:
        cut["data"]["output_tokens"] = 0
    not_examined(tape, "partial-told-and-marked")


@SOME
@given(CUT)
def test_more_than_a_request_sent_came_with_another_one(tape: Tape) -> None:
    """The last request is cut off too, further on, and nothing was asked after it."""
    text = next(reply.text for found in tape.case.script.replies.values() for reply in found if len(reply.text.split()) > 1)
    cut = cut_off(tape)
    cut["data"]["output_tokens"] = len(text.split()) - 1
    for view in everywhere(tape):
        of_cut = next(item for item in view["transcript"] if not item["complete"])
        of_cut["text"] = text
    not_examined(tape, "partial-told-and-marked")
    cut["data"]["output_tokens"] += 1
    assert "partial-told-and-marked" in tape.violated()


@SOME
@given(CUT, st.sampled_from(["{} …", "[interrupted] {}", "{}\n[This reply was cut off here.]"]))
def test_any_mark_will_do(tape: Tape, mark: str) -> None:
    for line in tape.all("provider.request"):
        for message in messages(line):
            if str(message.get("content")).endswith(" [interrupted]"):
                message["content"] = mark.format(message["content"].removesuffix(" [interrupted]"))
    held(tape, "partial-told-and-marked")


@SOME
@given(CUT)
def test_a_note_behind_it_marks_it_too(tape: Tape) -> None:
    line, told = told_partial(tape)
    told["content"] = told["content"].removesuffix(" [interrupted]")
    place = messages(line).index(told) + 1
    messages(line).insert(place, {"role": "system", "content": "The reply above was cut off."})
    held(tape, "partial-told-and-marked")


@SOME
@given(CUT)
def test_where_nothing_was_asked_after_the_cut_nothing_can_be_told(tape: Tape) -> None:
    end = cut_off(tape)
    tape.drop(*[x for x in tape.all("provider.request") if x["t_ns"] > end["t_ns"]])
    not_examined(tape, "partial-told-and-marked")


@FEW
@given(plays(deaths=0))
def test_whole_replies_need_no_mark(tape: Tape) -> None:
    not_examined(tape, "partial-told-and-marked")


# What became of another input -----------------------------------------------------------------------------------------

OUTCOME = "outcome-told-with-its-input"
SET_ASIDE = st.sampled_from(["attempt.stored#1", "turn.begun#1", "reply.received#1"]).map(
    lambda address: overtaken_at(address, "second")
)


def overtaken_at(address: str, text: str, first: tuple[Reply, ...] = replies(last="one")) -> Tape:
    """A first input whose turn is broken off there, and a second one that comes while recovery runs and goes first."""
    script = {"first": first, text: replies(last="two")}
    come = {"recovery.repair.written#1": lambda scene: scene.send("r2", text)}
    scene = Scene(script, die={address: "worker"}, held=come)
    scene.open()
    scene.send("r1", "first")
    return scene.run().tape()


@SOME
@given(
    st.sampled_from(["mail", "read"]),
    st.sampled_from(["tool.intent.stored#1", "tool.dispatch.stored#1"]),
    st.sampled_from(["made", "never made", "none was ever made"]),
)
def test_a_call_that_is_left_to_the_turn_that_goes_on_is_open_until_then(tool: str, address: str, later: str) -> None:
    """The newer input's request tells it without a result; one is stored when the older input goes on, of a call that may
    never be made."""
    two = Reply(text="", calls=(call(tool, n=1), call("read", n=2)))
    tape = overtaken_at(address, "second", first=replies(two, last="one"))
    told = [message for message in messages(of_the_second(tape)) if message["role"] == "tool"]
    of_this = [x for x in tape.all("point.reached") if (x["data"]["detail"] or {}).get("call") == told[-1]["tool_call_id"]]
    tape.drop(*[x for x in of_this if later != "made" or x["data"]["point"] == "tool.dispatch.stored"])
    if later == "none was ever made":
        tape.drop(*reached(tape, "tool.intent.stored"), *reached(tape, "tool.dispatch.stored"))
    assert told[-1]["content"] == PLACEHOLDER and held(tape, "results-match-their-calls")
    told[-1]["content"] = "another"
    assert "results-match-their-calls" in tape.violated()


def of_the_second(tape: Tape) -> Line:
    return next(line for line in tape.all("provider.request") if messages(line)[-1]["content"] == "second")


@SOME
@given(SET_ASIDE, st.data())
def test_an_input_that_waits_behind_another_is_told_with_that(tape: Tape, data: st.DataObject) -> None:
    line = of_the_second(tape)
    note = next(message for message in messages(line) if message["role"] == "system")
    if data.draw(st.booleans()):
        messages(line).remove(note)
    else:
        messages(line).insert(0, {"role": "user", "content": "first"})
    assert OUTCOME in tape.violated()


@SOME
@given(SET_ASIDE)
def test_an_input_without_a_turn_of_its_own_has_no_outcome_apart(tape: Tape) -> None:
    """One that is taken into another's turn is served with it."""
    line = of_the_second(tape)
    first = [each for each in tape.all("provider.request") if each is not line]
    messages(line)[:] = [message for message in messages(line) if message["role"] == "user"]
    tape.drop(*first, *tape.all("point.reached", point="turn.begun", work=tape.view()["works"][0]["work_id"]))
    not_examined(tape, OUTCOME)


@FEW
@given(st.sampled_from(["attempt.stored#1", "turn.begun#1"]))
def test_two_inputs_of_one_text_cannot_be_told_apart(address: str) -> None:
    tape = overtaken_at(address, "first")
    for line in tape.all("provider.request"):
        messages(line)[:] = [message for message in messages(line) if message["role"] != "system"]
    not_examined(tape, OUTCOME)


# One id for two calls -------------------------------------------------------------------------------------------------

FAILED = ("done-means-done", "unknown-operation-shown")


@BREACHES.of("same-call-id-twice-is-an-error", senseless(), *FAILED)
def it_guesses(t: Tape, pick: Pick) -> Witnesses:
    how = pick([{"state": "done"}, {"state": "waiting"}, {"reason_code": None}, {"reason_code": ""}])
    for view in everywhere(t):
        view["works"][0].update(how)
    return t.get("provider.answered"), t.final


@BREACHES.of("same-call-id-twice-is-an-error", senseless(), *FAILED)
def one_of_them_runs(t: Tape, pick: Pick) -> Witnesses:
    ran = {"call_id": "call_1", "tool": "read", "state": "succeeded", "dispatches": pick([1, 2])}
    for view in everywhere(t):
        view["effects"] = [ran]
    return t.get("provider.answered"), t.final


@BREACHES.of("same-call-id-twice-is-an-error", senseless(), "effect-in-order", "unknown-never-resent")
def one_of_them_writes_and_nobody_says_so(t: Tape, pick: Pick) -> Witnesses:
    calls = list(enumerate(t.case.script.replies["hello"][0].calls))
    place, made = pick(calls)
    receivers = {"charge": "keyed", "order": "ambiguous"}
    write = {"n": 900, "receiver": receivers.get(made.tool, "plain"), "key": None, "arguments": {"n": place}}
    return t.get("provider.answered"), t.put("effect.received", t.get("provider.answered"), **write)


@SOME
@given(senseless(), st.sampled_from(["controlled", "ids differ", "no answer", "another input"]))
def test_it_is_no_error_where_ids_differ_and_no_guess_where_a_user_decided(tape: Tape, why: str) -> None:
    for view in everywhere(tape):
        view["works"][0].update(state="cancelled", reason_code=None)
    answered = tape.get("provider.answered")
    if why == "controlled":
        tape.put("client.invoked", answered, call=900, client="c1", op="control", session="s1", action="stop")
    elif why == "ids differ":
        answered["data"]["call_ids"] = [f"call_{i}" for i in range(3)]
    elif why == "no answer":
        tape.drop(answered)
    else:
        tape.get("provider.request")["data"]["body"]["messages"][0]["content"] = "what nobody sent"
    not_examined(tape, "same-call-id-twice-is-an-error")


def test_a_write_of_another_input_is_none_of_these_calls() -> None:
    both = Reply(calls=(call("charge", n=1), call("charge", n=2)))
    scene = Scene({"hello": replies(both, last="done"), "next": replies(call("charge", n=1), last="done")})
    scene.open()
    scene.send("r0")
    scene.send("r1", "next")
    tape = scene.run().tape()
    tape.get("provider.answered")["data"]["call_ids"] = ["c", "c"]
    found = result(tape, "same-call-id-twice-is-an-error").violations
    second = tape.get("effect.received", arguments={"n": 2})
    assert [v.seen.seq for v in found] == [tape.seq(second)], "n=1 may be the next input's"


# Repair runs nothing --------------------------------------------------------------------------------------------------


def repair(t: Tape) -> tuple[Line, Line]:
    """Where a work was taken for recovery, and where its continuation was admitted."""
    taken = reached(t, "recovery.ownership.taken")[-1]
    work = taken["data"]["work"]
    admitted = next(x for x in reached(t, "recovery.admitted") if x["data"]["work"] == work and x["t_ns"] > taken["t_ns"])
    return taken, admitted


def inside(t: Tape, pick: Pick) -> tuple[Line, Line]:
    taken, admitted = repair(t)
    return taken, pick([x for x in after(t, taken) if x["t_ns"] < admitted["t_ns"]])


def text_of(t: Tape, work: str) -> str:
    inputs = [given for view in t.final["data"]["sessions"].values() for given in view["inputs"]]
    return next(str(each["text"]) for each in inputs if each["work_id"] == work)


ASKED = ("history-told-as-stored", "inputs-in-first-order", "partial-told-and-marked", "retry-is-a-new-attempt")


@BREACHES.of("repair-runs-nothing", RECOVERED, *ASKED)
def the_repair_asks_the_model(t: Tape, pick: Pick) -> Witnesses:
    taken, line = inside(t, pick)
    body = {"messages": [{"role": "user", "content": text_of(t, taken["data"]["work"])}]}
    return taken, t.put("provider.request", line, n=900, attempt=None, body=body)


def fresh_write(t: Tape, line: Line, work: str, key: str | None) -> Line:
    """A write that the work's script asks for, received behind a line."""
    made = next(
        c for reply in t.case.script.replies[text_of(t, work)] for c in reply.calls if c.tool in {"charge", "order"}
    )
    receiver = {"charge": "keyed", "order": "ambiguous"}[made.tool]
    return t.put("effect.received", line, n=900, receiver=receiver, key=key, tool_key=key, arguments=dict(made.arguments))


OF_ALPHA = plays(must=("charge",), kills=("attempt.stored#1",), tools=("read",), deaths=0, texts=1)
WRITTEN = ("effect-in-order", "unknown-never-resent", "stored-result-reused")


@BREACHES.of("repair-runs-nothing", OF_ALPHA, *WRITTEN)
def the_repair_writes(t: Tape, pick: Pick) -> Witnesses:
    taken, line = inside(t, pick)
    return taken, fresh_write(t, line, taken["data"]["work"], "k_made_up")


@BREACHES.of("repair-runs-nothing", OF_ALPHA, *WRITTEN)
def the_repair_dispatches_a_call_of_its_own(t: Tape, pick: Pick) -> Witnesses:
    taken, line = inside(t, pick)
    effect = effects_of(t, tool="charge")[0]
    effect["dispatches"] = 1  # it is the target's own word that it dispatched it, and that was in the repair
    point = next(x for x in reached(t, "tool.dispatch.stored") if x["data"]["detail"]["key"] == effect["idempotency_key"])
    moved = t.move(point, line)
    return taken, fresh_write(t, moved, taken["data"]["work"], effect["idempotency_key"])


@BREACHES.of("repair-runs-nothing", OF_ALPHA, *WRITTEN)
def a_repair_that_comes_to_no_end_writes(t: Tape, pick: Pick) -> Witnesses:
    taken, line = inside(t, pick)
    t.drop(*[x for end in REPAIR_ENDS for x in reached(t, end) if x["t_ns"] > taken["t_ns"]])
    return taken, fresh_write(t, line, taken["data"]["work"], "k_made_up")


@SOME
@given(RECOVERED, st.data())
def test_before_the_repair_and_after_the_admission_a_call_may_run(tape: Tape, data: st.DataObject) -> None:
    taken, admitted = repair(tape)
    body = {"messages": [{"role": "user", "content": text_of(tape, taken["data"]["work"])}]}
    tape.put("provider.request", data.draw(st.sampled_from(after(tape, admitted))), n=900, attempt=None, body=body)
    earlier = [x for x in tape.lines if x["t_ns"] < reached(tape, "recovery.ownership.taken")[0]["t_ns"]]
    tape.put("provider.request", data.draw(st.sampled_from(earlier)), n=901, attempt=None, body=body)
    held(tape, "repair-runs-nothing")


@SOME
@given(plays(must=("charge",), kills=("tool.dispatch.stored#1",), tools=("read",), deaths=0, texts=1), st.data())
def test_a_call_that_had_been_dispatched_may_be_asked_for_again(tape: Tape, data: st.DataObject) -> None:
    effect = effects_of(tape, tool="charge")[0]
    taken, _ = repair(tape)
    sent = tape.get("effect.received", key=effect["idempotency_key"])
    assert sent["t_ns"] > taken["t_ns"], "it was dispatched, never sent, and goes out in the repair under its key"
    held(tape, "repair-runs-nothing")


@SOME
@given(OF_ALPHA)
def test_who_was_killed_beside_a_point_may_have_dispatched_it_without_a_word(tape: Tape) -> None:
    taken, _ = repair(tape)
    effect = effects_of(tape, tool="charge")[0]
    fresh_write(tape, taken, taken["data"]["work"], effect["idempotency_key"])
    assert result(tape, "repair-runs-nothing").status == "violated"
    tape.get("kill")["data"]["pid"] += 50
    held(tape, "repair-runs-nothing")


@SOME
@given(OF_ALPHA, st.sampled_from(["recovery.ownership.taken", "work.claimed"]))
def test_what_another_owner_does_meanwhile_is_no_act_of_the_repair(tape: Tape, point: str) -> None:
    taken, admitted = repair(tape)
    other = tape.again(taken, taken, point=point, life=9, pid=209, nonce="other", detail={"generation": 9})
    done = tape.again(admitted, other, life=9, pid=209, nonce="done", detail={"generation": 9})
    body = {"messages": [{"role": "user", "content": text_of(tape, taken["data"]["work"])}]}
    tape.put("provider.request", done, n=900, attempt=None, body=body)
    held(tape, "repair-runs-nothing")


@SOME
@given(OF_ALPHA)
def test_an_independent_session_may_go_on_while_a_work_is_repaired(tape: Tape) -> None:
    taken, _ = repair(tape)
    tape.put("client.invoked", tape.get("case.opened"), call=900, client="c1", op="send", session="s9", request_id="r9",
             text="elsewhere")  # fmt: skip
    elsewhere = {"messages": [{"role": "user", "content": "elsewhere"}]}
    tape.put("provider.request", taken, n=900, attempt=None, body=copy.deepcopy(elsewhere))
    tape.put("effect.received", taken, n=900, receiver="plain", key="k_far", arguments={"far": 1})
    held(tape, "repair-runs-nothing")


@FEW
@given(plays(deaths=0))
def test_without_a_recovery_there_is_no_repair(tape: Tape) -> None:
    not_examined(tape, "repair-runs-nothing")


# All of them ----------------------------------------------------------------------------------------------------------


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
@given(st.one_of(plays(), CUT, RECOVERED), st.integers(0, 200))
def test_no_beginning_of_a_right_run_is_violated(tape: Tape, length: int) -> None:
    safe_when_cut(tape, CHECKS, length)
