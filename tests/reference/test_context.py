"""The history that a model is sent (HIS-1 to HIS-7, EFF-13, REC-11): a table of cases, and what holds for any history."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.context import CUT_OFF, GO_ON, NO_RESULT, messages
from reference.model import HistoryFault, Item, ToolCall
from scenarios.world.strict import problems


def user(number: int, text: str) -> Item:
    return Item(number, "user", text=text)


def said(number: int, text: str = "", *calls: str, complete: bool = True, turn: str | None = None) -> Item:
    return Item(
        number,
        "assistant",
        turn_id=turn,
        text=text,
        complete=complete,
        calls=tuple(ToolCall(call, "read", '{"path": "a"}') for call in calls),
    )


def result(number: int, call: str, text: str, placeholder: bool = False, turn: str | None = None) -> Item:
    return Item(number, "tool_result", turn_id=turn, text=text, call_id=call, placeholder=placeholder)


def late(number: int, call: str, text: str) -> Item:
    return Item(number, "reconciliation", text=text, call_id=call)


def results(sent: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in sent if message["role"] == "tool"]


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([said(2, "", "c"), result(3, "c", "real")], ["real"], id="HIS-3 a result follows its call"),
        pytest.param([said(2, "", "c")], [NO_RESULT], id="HIS-2 a missing one is said to be unknown"),
        pytest.param([said(2, "", "c"), result(3, "c", "made", True)], ["made"], id="HIS-2 the stored placeholder is used"),
        pytest.param(
            [said(2, "", "c"), result(3, "c", "real"), result(4, "c", "made", True)],
            ["real"],
            id="HIS-2 a later placeholder does not hide a real one",
        ),
        pytest.param(
            [said(2, "", "c"), result(3, "c", "made", True), result(4, "c", "real")],
            ["real"],
            id="HIS-2 a real one wins over an earlier placeholder",
        ),
        pytest.param(
            [said(2, "", "c"), result(3, "c", "one"), result(4, "c", "two")], ["two"], id="HIS-2 of several the last stored"
        ),
        pytest.param(
            [said(2, "", "c"), result(3, "c", "made", True), late(4, "c", "found")],
            ["found"],
            id="EFF-13 a reconciliation replaces the placeholder",
        ),
        pytest.param(
            [said(2, "", "c"), result(3, "c", "real"), late(4, "c", "found")],
            ["real"],
            id="EFF-13 a reconciliation overwrites nothing real",
        ),
        pytest.param(
            [said(2, "", "c"), result(3, "c", "one"), said(4, "", "c"), result(5, "c", "two")],
            ["one", "two"],
            id="HIS-1 an id used again: each result to its nearest call",
        ),
        pytest.param(
            [said(2, "", "c"), said(3, "", "c"), result(4, "c", "near")],
            [NO_RESULT, "near"],
            id="HIS-1 the nearest call, not the first",
        ),
        pytest.param(
            [said(2, "", "c", turn="t1"), said(3, "", "c", turn="t2"), result(4, "c", "mine", turn="t1")],
            ["mine", NO_RESULT],
            id="HIS-1 the own turn's call before a nearer one of another turn",
        ),
        pytest.param(
            [said(2, "", "a", "b"), result(3, "b", "B"), result(4, "a", "A")],
            ["A", "B"],
            id="C06 results in the order of the calls",
        ),
        pytest.param([said(2, "hello"), result(3, "x", "orphan")], [], id="HIS-4 a result without a call is left out"),
        pytest.param([result(2, "c", "early"), said(3, "", "c")], [NO_RESULT], id="HIS-4 nor may it come before its call"),
    ],
)
def test_each_call_is_followed_by_its_one_result(items: list[Item], expected: list[str]) -> None:
    sent = messages([user(1, "go"), *items])
    assert results(sent) == expected
    assert problems({"model": "m", "messages": sent}) == []


def test_a_user_message_stored_between_call_and_result_comes_after_both() -> None:
    sent = messages([user(1, "first"), said(2, "", "c"), user(3, "second"), result(4, "c", "r")])
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user"]
    assert [message["content"] for message in sent if message["role"] == "user"] == ["first", "second"]


def test_an_interrupted_reply_keeps_its_text_marked_and_loses_calls_that_never_completed() -> None:
    sent = messages([user(1, "go"), said(2, "half a sen", "c", complete=False)], note="continue")
    assert sent[1] == {"role": "assistant", "content": f"half a sen\n{CUT_OFF}"}
    assert sent[2] == {"role": "system", "content": "continue"}


def test_an_interrupted_reply_is_not_joined_with_the_next_attempt() -> None:
    sent = messages([user(1, "go"), said(2, "half", complete=False), said(3, "the whole answer"), user(4, "next")])
    assert [message["content"] for message in sent] == ["go", f"half\n{CUT_OFF}", "the whole answer", "next"]


def test_a_history_that_ends_with_a_reply_asks_for_its_continuation() -> None:
    assert messages([user(1, "go"), said(2, "half", complete=False)])[-1] == {"role": "system", "content": GO_ON}


def test_a_call_id_twice_in_one_reply_is_an_error_that_names_it() -> None:
    with pytest.raises(HistoryFault, match="'c' twice") as caught:
        messages([user(1, "go"), said(2, "", "c", "c")])
    assert caught.value.code == "duplicate_call_id"


def test_an_empty_history_is_an_error_and_not_an_empty_request() -> None:
    with pytest.raises(HistoryFault) as caught:
        messages([])
    assert caught.value.code == "empty_history"


def test_malformed_arguments_are_quoted_and_not_sent_as_they_are() -> None:
    broken = Item(2, "assistant", calls=(ToolCall("c", "read", '{"path": '),))
    arguments = messages([user(1, "go"), broken])[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"malformed": '{"path": '}


_texts = st.sampled_from(["", " ", "text", "more text", "\u2028"])
_call_ids = st.sampled_from(["c1", "c2", "c3", "", "an id that no provider takes!", "x" * 60])
_turns = st.sampled_from([None, "t1", "t2"])
_calls = st.builds(ToolCall, _call_ids, st.just("read"), st.sampled_from(["{}", '{"path": "a"}', '{"pa', "[]", "", "NaN"]))


@st.composite
def histories(draw: st.DrawFn) -> list[Item]:
    """Any items in any order, as no runtime would store them; only that a reply's own call ids differ."""
    items = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        kind = draw(st.sampled_from(["user", "assistant", "tool_result", "note", "reconciliation"]))
        calls = draw(st.lists(_calls, max_size=3, unique_by=lambda call: call.id)) if kind == "assistant" else []
        call_id = draw(_call_ids) if kind in {"tool_result", "reconciliation"} else None
        items.append(
            Item(
                number,
                kind,  # type: ignore[arg-type]
                turn_id=draw(_turns),
                text=draw(_texts),
                complete=draw(st.booleans()) if kind == "assistant" else True,
                calls=tuple(calls),
                call_id=call_id,
                placeholder=draw(st.booleans()) if kind == "tool_result" else False,
            )
        )
    return items


@settings(deadline=None)
@given(histories(), st.sampled_from([None, "note"]))
def test_a_strict_provider_accepts_the_request_of_any_history(items: list[Item], note: str | None) -> None:
    before = copy.deepcopy(items)
    try:
        sent = messages(items, note)
    except HistoryFault as fault:
        assert fault.code == "empty_history"
        assert not any(item.kind in {"user", "assistant"} for item in items)
        return
    assert problems({"model": "m", "messages": sent}) == []
    assert items == before, "HIS-3: the stored history is unchanged"
    ids = [call["id"] for message in sent for call in message.get("tool_calls", [])]
    assert len(ids) == len(set(ids)), "converted ids are unique in the request"
    users = [item.text for item in items if item.kind == "user" and item.text.strip()]
    asked = [message["content"] for message in sent if message["role"] == "user" and message["content"] != "[empty]"]
    assert asked == users, "HIS-3: user messages keep their order and their text"


@settings(deadline=None)
@given(histories())
def test_the_request_of_a_history_is_the_same_each_time(items: list[Item]) -> None:
    try:
        assert messages(items) == messages(items)
    except HistoryFault as fault:
        assert fault.code == "empty_history"
