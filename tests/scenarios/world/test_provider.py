"""The provider speaks the protocol to a real client, and bills each accepted request once."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from scenarios.case import Reply, Script
from scenarios.world.provider import BODY_BYTES_MAX
from tests.scenarios.world.conftest import Opened, body, stream

Open = Callable[..., Opened]


def test_streamed_pieces_make_the_scripted_reply(open_case: Open, client: httpx.Client) -> None:
    got = stream(client, open_case(), body("pay"))
    assert got.whole
    assert got.text == "I pay."
    assert got.calls == [{"id": "call_1_0", "name": "charge", "arguments": '{"amount": 5, "to": "a b"}'}]
    assert [choice["finish_reason"] for chunk in got.chunks for choice in chunk["choices"]][-1] == "tool_calls"
    assert got.chunks[0]["choices"][0]["delta"]["role"] == "assistant"


def test_arguments_come_in_at_least_two_chunks_for_each_call(open_case: Open, client: httpx.Client) -> None:
    got = stream(client, open_case(), body("two"))
    parts = [part["index"] for chunk in got.chunks for c in chunk["choices"] for part in c["delta"].get("tool_calls", ())]
    assert parts == [0, 0, 1, 1]
    assert [(call["name"], json.loads(call["arguments"])) for call in got.calls] == [("charge", {}), ("mail", {"to": "x"})]


def test_text_comes_in_as_many_pieces_as_scripted(open_case: Open, client: httpx.Client) -> None:
    got = stream(client, open_case(), body("story"))
    assert got.text == "one two three four five six"
    assert sum(bool(c["delta"].get("content")) for chunk in got.chunks for c in chunk["choices"]) == 4


def test_usage_last_stands_in_one_final_chunk_without_choices(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    got = stream(client, case, body("story"))
    [billed] = case.records("provider.billed")
    assert got.chunks[-1]["choices"] == []
    [usage] = got.usages
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (billed["input_tokens"], billed["output_tokens"])


def test_usage_last_is_not_sent_to_who_does_not_ask(open_case: Open, client: httpx.Client) -> None:
    assert stream(client, open_case(), body("story", usage=False)).usages == []


def test_usage_every_grows_to_what_is_billed(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    counts = [usage["completion_tokens"] for usage in stream(client, case, body("every")).usages]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == case.records("provider.billed")[0]["output_tokens"]
    assert len(counts) == 5  # three pieces, the end, and the chunk that was asked for


@pytest.mark.parametrize("streamed", [True, False])
def test_usage_none_is_never_sent_and_still_billed(open_case: Open, client: httpx.Client, streamed: bool) -> None:
    case = open_case()
    if streamed:
        assert stream(client, case, body("none")).usages == []
    else:
        assert (
            "usage"
            not in client.post(f"{case.addresses.provider_url}/chat/completions", json=body("none", stream=False)).json()
        )
    assert case.records("provider.billed")[0]["output_tokens"] > 0


def test_a_whole_reply_says_and_bills_the_same_as_a_streamed_one(open_case: Open, client: httpx.Client) -> None:
    one, other = open_case(), open_case()
    streamed = stream(client, one, body("pay"))
    whole = client.post(f"{other.addresses.provider_url}/chat/completions", json=body("pay", stream=False)).json()
    said = whole["choices"][0]["message"]
    assert said["content"] == streamed.text
    assert said["tool_calls"][0]["function"] == {key: streamed.calls[0][key] for key in ("name", "arguments")}
    assert whole["usage"] == streamed.usages[0]
    counts = [{**case.records("provider.billed")[0], "attempt": None} for case in (one, other)]
    assert counts[0] == counts[1]


def test_the_same_step_asked_anew_gets_the_same_reply_under_new_call_ids(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    first, second = stream(client, case, body("pay")), stream(client, case, body("pay"))
    assert first.text == second.text
    assert first.calls[0]["arguments"] == second.calls[0]["arguments"]
    assert first.calls[0]["id"] != second.calls[0]["id"]


def test_the_conversation_leads_to_the_next_step(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "charge", "arguments": "{}"}}],
    }
    result = {"role": "tool", "tool_call_id": "c", "content": "done"}
    assert stream(client, case, body("pay", called, result)).text == "It is paid."


def test_an_input_that_nobody_scripted_gets_ok(open_case: Open, client: httpx.Client) -> None:
    assert stream(client, open_case(), body("what?")).text == "ok"


def test_a_note_after_an_interrupted_reply_asks_for_the_same_step(open_case: Open, client: httpx.Client) -> None:
    partial = {"role": "assistant", "content": "one two"}
    note = {"role": "system", "content": 'The reply to "story" was interrupted. Go on with it.'}
    assert stream(client, open_case(), body("story", partial, note)).text == "one two three four five six"


def test_a_shared_beginning_is_billed_as_cached(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    stream(client, case, body("a b c d"))
    usage = stream(client, case, body("a b c d", {"role": "system", "content": "go on"})).usages[0]
    assert usage["prompt_tokens"] == 8 + 6
    assert usage["prompt_tokens_details"]["cached_tokens"] == 4


def test_one_request_is_logged_from_its_body_to_its_end(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    stream(client, case, body("story"), attempt="att-7")
    kinds = ["provider.request", "provider.chunk", "provider.billed", "provider.answered", "provider.refused"]
    records = case.records(*kinds)
    assert [record["kind"] for record in records] == [kinds[0], *[kinds[1]] * 4, kinds[2], kinds[3]]
    request, chunks, billed, answered = records[0], records[1:5], records[5], records[6]
    assert request["attempt"] == billed["attempt"] == "att-7"
    assert request["body"] == body("story")
    assert [chunk["i"] for chunk in chunks] == [0, 1, 2, 3]
    assert billed["output_tokens"] == sum(chunk["output_tokens"] for chunk in chunks)
    assert billed["complete"] is True
    assert answered["status"] == 200


def test_no_key_reaches_the_log(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    stream_with_key = {"Authorization": "Bearer sk-very-secret", "X-Api-Key": "sk-very-secret"}
    client.post(f"{case.addresses.provider_url}/chat/completions", json=body("pay", stream=False), headers=stream_with_key)
    assert case.records("provider.request")
    assert "sk-very-secret" not in case.log_path.read_text()


def test_models_can_be_listed(open_case: Open, client: httpx.Client) -> None:
    answer = client.get(f"{open_case().addresses.provider_url}/models").json()
    assert [each["object"] for each in answer["data"]] == ["model"]


@pytest.mark.parametrize(
    ("request_body", "why"),
    [
        (body({"role": "assistant", "content": "hi"}), "last message is from the assistant"),
        (body({"role": "tool", "tool_call_id": "c", "content": "r"}), "no call of the message before"),
        (body({"role": "robot", "content": "hi"}), "unknown role"),
        (body({"role": "user", "content": ""}), "content is empty"),
        ({"model": "m"}, "at least one message"),
        ([], "not a JSON object"),
    ],
)
def test_a_wrong_request_is_refused_as_the_protocol_says(
    open_case: Open, client: httpx.Client, request_body: Any, why: str
) -> None:
    case = open_case()
    answer = client.post(f"{case.addresses.provider_url}/chat/completions", json=request_body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert why in answer.json()["error"]["message"]
    case.close()
    [refused] = case.records("provider.refused")
    assert why in refused["why"]
    assert case.records("provider.billed", "provider.answered") == []


@pytest.mark.parametrize("raw", [b"{", b"", b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(open_case: Open, client: httpx.Client, raw: bytes) -> None:
    case = open_case()
    answer = client.post(f"{case.addresses.provider_url}/chat/completions", content=raw)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "the body is not valid JSON")
    assert [record["n"] for record in case.records("provider.refused")] == [1]


def test_a_body_that_is_too_large_is_refused(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    answer = client.post(f"{case.addresses.provider_url}/chat/completions", content=b" " * (BODY_BYTES_MAX + 1))
    assert answer.status_code == 413
    assert str(BODY_BYTES_MAX) in case.records("provider.refused")[0]["why"]


def test_a_request_without_a_key_is_refused(open_case: Open) -> None:
    case = open_case()
    answer = httpx.post(f"{case.addresses.provider_url}/chat/completions", json=body("pay"))
    assert answer.status_code == 401
    assert case.records("provider.billed") == []


def test_a_client_that_goes_in_the_middle_of_a_stream_is_billed_once_for_what_it_was_sent(
    open_case: Open, client: httpx.Client
) -> None:
    script = Script(replies={"long": (Reply(text="word " * 40_000, pieces=512),)})
    case = open_case(script, controlled=True, sites=["provider.reply.chunk"])
    with client.stream("POST", f"{case.addresses.provider_url}/chat/completions", json=body("long")) as reply:
        lines = reply.iter_lines()
        next(lines)
        assert case.controller
        case.controller.next("provider.reply.chunk").answer()
        held = case.controller.next("provider.reply.chunk")
    [billed] = case.until("provider.billed")
    held.answer()
    case.close()
    assert case.records("provider.billed") == [billed]
    sent = case.records("provider.chunk")
    assert len(sent) == 2
    assert billed["complete"] is False
    assert billed["output_tokens"] == sum(chunk["output_tokens"] for chunk in sent)
    assert case.records("provider.answered") == []


def test_a_client_that_goes_without_any_site_is_noticed_too(open_case: Open) -> None:
    script = Script(replies={"long": (Reply(text="word " * 400_000, pieces=512),)})
    case = open_case(script)
    address = urlsplit(case.addresses.provider_url)
    data = json.dumps(body("long")).encode()
    head = (
        f"POST {address.path}/chat/completions HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer k\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port)) as raw:
        raw.sendall(head.encode() + data)
        assert raw.recv(10)
    [billed] = case.until("provider.billed")
    assert billed["complete"] is False


def test_half_a_request_is_no_request(open_case: Open) -> None:
    case = open_case()
    address = urlsplit(case.addresses.provider_url)
    with socket.create_connection((address.hostname, address.port)) as raw:
        raw.sendall(f"POST {address.path}/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
    case.close()
    assert case.log_path.read_text() == ""


def test_the_log_tells_the_ids_of_the_calls_that_were_answered(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    got = stream(client, case, body("two"))
    [answered] = case.records("provider.answered")
    assert answered["call_ids"] == [call["id"] for call in got.calls]
    stream(client, case, body("story"))
    assert "call_ids" not in case.records("provider.answered")[-1]
