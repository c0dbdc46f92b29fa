"""A strict provider refuses what breaks the protocol, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.world.strict import problems

USER = {"role": "user", "content": "hi"}


def call(call_id: str, arguments: Any = "{}", name: Any = "read") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(each) for each in ids]}


def result(call_id: str, content: Any = "r") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def request(*messages: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)}


ACCEPTABLE = {
    "one user message": request(USER),
    "a system message first": request({"role": "system", "content": "s"}, USER),
    "a note after an interrupted reply": request(
        USER, {"role": "assistant", "content": "par"}, {"role": "system", "content": "interrupted"}
    ),
    "a call and its result": request(USER, calls("a"), result("a")),
    "results in another order": request(USER, calls("a", "b"), result("b"), result("a")),
    "an empty result": request(USER, calls("a"), result("a", "")),
    "text beside a call": request(USER, calls("a") | {"content": "I read."}, result("a")),
    "empty text beside a call": request(USER, calls("a") | {"content": ""}, result("a")),
    "the same id in two messages": request(USER, calls("a"), result("a"), calls("a"), result("a")),
    "content in parts": request({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
    "a stream with options": request(USER) | {"stream": True, "stream_options": {"include_usage": True}},
    "nulls for what is left out": request(USER) | {"stream": None, "stream_options": None},
}

WRONG = {
    "no object": ([], "the body is not a JSON object"),
    "no model": ({"messages": [USER]}, "model:"),
    "no messages": ({"model": "m"}, "messages: give a list"),
    "empty messages": (request(), "messages: give a list"),
    "a message that is no object": (request("hi"), "messages[0]: is not an object"),
    "no role": (request({"content": "hi"}), "messages[0]: unknown role None"),
    "unknown role": (request({"role": "function", "content": "x"}), "messages[0]: unknown role 'function'"),
    "a role that is no string": (request({"role": ["user"], "content": "x"}), "messages[0]: unknown role"),
    "a call without result at the end": (request(USER, calls("a")), "messages[1]: tool_calls must be followed"),
    "a call without result before a user": (request(USER, calls("a"), USER), "missing: a"),
    "one of two results": (request(USER, calls("a", "b"), result("a"), USER), "missing: b"),
    "a result that does not stand next": (
        request(USER, calls("a"), USER, result("a")),
        "messages[3]: tool message answers 'a'",
    ),
    "a result without call": (request(USER, result("a")), "messages[1]: tool message answers 'a'"),
    "a result twice": (request(USER, calls("a"), result("a"), result("a")), "messages[3]: tool message answers 'a'"),
    "a result of another call": (
        request(USER, calls("a"), result("b"), result("a")),
        "messages[2]: tool message answers 'b'",
    ),
    "a result without id": (request(USER, calls("a"), {"role": "tool", "content": "r"}, result("a")), "answers None"),
    "a result without content": (request(USER, calls("a"), result("a", None)), "messages[2]: content"),
    "an id twice in a message": (request(USER, calls("a", "a"), result("a")), "the id 'a' stands twice"),
    "a call without id": (request(USER, calls("")), "tool_calls[0]: has no id"),
    "an empty list of calls": (
        request(USER, {"role": "assistant", "content": "x", "tool_calls": []}, USER),
        "leave it out",
    ),
    "the assistant last": (request(USER, {"role": "assistant", "content": "x"}), "last message is from the assistant"),
    "empty content of a user": (request({"role": "user", "content": ""}), "messages[0]: content is empty"),
    "no content of a user": (request({"role": "user"}), "messages[0]: content is empty"),
    "empty content without calls": (request(USER, {"role": "assistant", "content": ""}, USER), "there are no tool_calls"),
    "null content without calls": (request(USER, {"role": "assistant", "content": None}, USER), "there are no tool_calls"),
    "content of numbers": (request({"role": "user", "content": 3}), "messages[0]: content"),
    "an unknown part": (request({"role": "user", "content": [{"type": "image"}]}), "holds a part"),
    "parts without text": (request({"role": "user", "content": [{"type": "text", "text": ""}]}), "content is empty"),
    "options without a stream": (request(USER) | {"stream_options": {}}, "stream_options:"),
    "a stream that is no flag": (request(USER) | {"stream": "yes"}, "stream:"),
}
BAD_ARGUMENTS = ["", "{", '{"a": 1', "null", "[]", "3", '{"a": NaN}', None, {"a": 1}, "[" * 100_000]


@pytest.mark.parametrize("body", ACCEPTABLE.values(), ids=ACCEPTABLE.keys())
def test_a_request_that_keeps_the_protocol_has_no_problem(body: dict[str, Any]) -> None:
    assert problems(body) == []


@pytest.mark.parametrize(("body", "says"), WRONG.values(), ids=WRONG.keys())
def test_a_request_that_breaks_the_protocol_is_told_where(body: Any, says: str) -> None:
    assert any(says in problem for problem in problems(body)), problems(body)


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS)
def test_arguments_have_to_be_the_text_of_an_object(arguments: Any) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call("a", arguments)]}
    assert problems(request(USER, message, result("a"))) == [
        "messages[1].tool_calls[0].function.arguments: is not the text of a JSON object"
    ]


@pytest.mark.parametrize(
    "wrong", [3, {}, {"id": "a"}, {"id": "a", "type": "function"}, {"id": "a", "type": "x", "function": {}}]
)
def test_a_call_that_is_none_is_told_where(wrong: Any) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [wrong]}
    assert "messages[1].tool_calls[0]:" in problems(request(USER, message, USER))[0]


TEXT = st.text(min_size=1, max_size=8)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Conversations as a careful runtime would send them."""
    messages: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        messages.append({"role": draw(st.sampled_from(["user", "system", "developer"])), "content": draw(TEXT)})
        ids = [f"c{number}_{i}" for i in range(draw(st.integers(0, 3)))]
        if ids:
            messages.append(calls(*ids))
            messages += [result(each, draw(st.text(max_size=4))) for each in draw(st.permutations(ids))]
        elif draw(st.booleans()):
            messages.append({"role": "assistant", "content": draw(TEXT)})
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": draw(TEXT)})
    return messages


@given(conversations())
def test_every_careful_conversation_is_accepted(messages: list[dict[str, Any]]) -> None:
    assert problems(request(*messages)) == []


@given(conversations(), st.data())
def test_taking_any_result_or_call_away_is_noticed(messages: list[dict[str, Any]], data: st.DataObject) -> None:
    places = [i for i, message in enumerate(messages) if message["role"] == "tool" or message.get("tool_calls")]
    if not places:
        return
    del messages[data.draw(st.sampled_from(places))]
    assert problems(request(*messages))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["user", "assistant", "tool", "c", "function", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "tool_calls", "id", "type", "function", "arguments", "name", "tool_call_id"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=4) | JSON, JSON)
def test_nothing_that_a_stranger_sends_makes_it_fail(messages: Any, stream: Any) -> None:
    body = {"model": "m", "messages": messages, "stream": stream}
    before = deepcopy(body)
    found = problems(body)
    assert all(isinstance(problem, str) and "\n" not in problem for problem in found)
    assert body == before
    assert json.dumps(found)


def test_the_rules_import_nothing_that_costs() -> None:
    heavy = "{'pydantic', 'starlette', 'uvicorn'}"
    program = f"import sys; import scenarios.world.strict; sys.exit(len({heavy} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=False)
    assert run.returncode == 0
