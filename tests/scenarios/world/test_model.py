"""The scripted model reads its place from the conversation, and counts the same each time."""

from __future__ import annotations

import json
from itertools import takewhile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scenarios.case import Call, Reply, Script
from scenarios.world import model

SCRIPT = Script(
    replies={
        "do": (Reply(text="1", calls=(Call(tool="t"),)), Reply(text="2", calls=(Call(tool="t"),)), Reply(text="end")),
        "do more": (Reply(text="more"),),
    }
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(n: int = 0) -> list[dict[str, Any]]:
    function = {"name": "t", "arguments": "{}"}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": f"c{n}", "content": "r"},
    ]


def said(*messages: dict[str, Any]) -> str:
    return model.reply_to(SCRIPT, messages).text


def note(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def test_the_step_is_the_number_of_replies_with_calls_since_the_input() -> None:
    assert said(user("do")) == "1"
    assert said(user("do"), *called()) == "2"
    assert said(user("do"), *called(1), *called(2)) == "end"


def test_beyond_its_end_the_script_says_its_last_reply() -> None:
    assert said(user("do"), *called(1), *called(2), *called(3)) == "end"


def test_what_came_before_the_input_does_not_count() -> None:
    assert said(user("do"), *called(), user("do more")) == "more"
    assert said(user("do"), *called(1), *called(2), user("do")) == "1"


def test_an_interrupted_reply_without_calls_is_no_step() -> None:
    assert said(user("do"), *called(), {"role": "assistant", "content": "par"}, note("it was interrupted")) == "2"


def test_a_note_at_the_end_names_the_input_that_is_worked_on() -> None:
    assert said(user("do"), *called(), user("do more"), note('Go on with "do".')) == "2"


def test_a_note_that_quotes_a_longer_input_does_not_mean_the_shorter() -> None:
    assert said(user("do more"), note('Go on with "do more".')) == "more"


def test_a_note_that_is_not_last_names_nothing() -> None:
    assert said(user("do more"), note('Go on with "do".'), user("do more")) == "more"


def test_input_in_parts_is_read_too() -> None:
    assert said({"role": "user", "content": [{"type": "text", "text": "do"}]}) == "1"


def test_the_unscripted_gets_ok() -> None:
    assert said(user("else")) == said(note("only this")) == "ok"
    assert model.reply_to(Script(replies={"x": ()}), [user("x")]).text == "ok"


replies = st.builds(
    Reply,
    text=st.text(max_size=40),
    calls=st.lists(
        st.builds(Call, tool=st.just("t"), arguments=st.dictionaries(st.text(max_size=5), st.integers(), max_size=3)),
        max_size=3,
    ).map(tuple),
    pieces=st.integers(1, 50),
)


@given(replies, st.integers(1, 99))
def test_the_pieces_joined_are_the_whole_reply(reply: Reply, n: int) -> None:
    whole = model.message(reply, n)
    text, calls = "", dict[int, dict[str, Any]]()
    parts = model.pieces(reply, n)
    for piece in parts:
        text += piece.delta.get("content", "")
        for part in piece.delta.get("tool_calls", ()):
            calls.setdefault(part["index"], {"id": part.get("id"), "arguments": ""})
            calls[part["index"]]["arguments"] += part["function"]["arguments"]
    assert text == (whole["content"] or "") == reply.text
    assert [(calls[i]["id"], calls[i]["arguments"]) for i in sorted(calls)] == [
        (call["id"], call["function"]["arguments"]) for call in whole.get("tool_calls", ())
    ]
    assert [json.loads(calls[i]["arguments"]) for i in sorted(calls)] == [call.arguments for call in reply.calls]
    assert sum(piece.tokens for piece in parts) == model.output_tokens(reply)
    assert all(piece.tokens > 0 for piece in parts)
    assert len(parts) == max(1, min(reply.pieces, len(reply.text)) + 2 * len(reply.calls))


messages = st.lists(
    st.builds(
        lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "system"]), st.text(max_size=20)
    ),
    min_size=1,
    max_size=6,
)


@given(messages, st.lists(messages, max_size=4))
def test_what_is_cached_is_half_of_the_longest_shared_beginning(
    asked: list[dict[str, Any]], earlier: list[list[dict[str, Any]]]
) -> None:
    seen = {each for conversation in earlier for each in model.beginnings(conversation)}
    cached = model.cached_tokens(asked, seen)
    shared = max((common(asked, each) for each in earlier), default=0)
    assert cached == model.prompt_tokens(asked[:shared]) // 2 <= model.prompt_tokens(asked) // 2
    assert model.cached_tokens(asked, set()) == 0


def common(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def test_words_messages_and_arguments_are_counted() -> None:
    function = {"name": "t", "arguments": '{"a": 1}'}
    call = {
        "role": "assistant",
        "content": "two words",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    assert model.prompt_tokens([user("one two three"), call]) == (3 + 4) + (2 + 2 + 4)


def test_a_faulty_reply_gives_all_its_calls_one_id() -> None:
    both = (Call(tool="mail"), Call(tool="charge"))
    assert model.call_ids(Reply(calls=both), 3) == ["call_3_0", "call_3_1"]
    faulty = Reply(calls=both, same_ids=True)
    assert model.call_ids(faulty, 3) == ["call_3_0", "call_3_0"]
    assert [call["id"] for call in model.message(faulty, 3)["tool_calls"]] == ["call_3_0", "call_3_0"]
    streamed = [part for piece in model.pieces(faulty, 3) for part in piece.delta.get("tool_calls", ()) if "id" in part]
    assert [(part["index"], part["id"]) for part in streamed] == [(0, "call_3_0"), (1, "call_3_0")]
