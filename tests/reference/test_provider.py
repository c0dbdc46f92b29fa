"""The conversation with a provider, over real sockets, with a server that sends exactly the bytes that a test wants."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from reference import outbound, provider
from reference.model import Counts, ProviderFault, Reply, ToolCall
from reference.settings import Settings

KEY = "sk-very-secret-key"


class Answers:
    """A server that reads one request on each connection, sends the next answer's bytes, and closes."""

    def __init__(self) -> None:
        self.next: list[bytes] = []
        self.requests: list[tuple[dict[str, str], Any]] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                lines.readline()
                headers = {}
                while (line := lines.readline().strip()) != b"":
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                self.requests.append((headers, json.loads(lines.read(int(headers["content-length"])))))
                connection.sendall(self.next.pop(0))

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def answers() -> Iterator[Answers]:
    server = Answers()
    yield server
    server.close()


def http(body: bytes, status: int = 200, length: int | None = None) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body) if length is None else length) + body


def events(*chunks: dict[str, Any], done: bool = True) -> bytes:
    text = b"".join(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n" for chunk in chunks)
    return text + (b"data: [DONE]\n\n" if done else b"")


def piece(text: str | None = None, finish: str | None = None, calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    delta = {"content": text} if text is not None else {}
    return {"choices": [{"index": 0, "delta": delta | ({"tool_calls": calls} if calls else {}), "finish_reason": finish}]}


def usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    details = {"cached_tokens": cached}
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}}


def ask(url: str, seen: list[tuple[str, Counts | None]] | None = None, tools: list[dict[str, Any]] | None = None) -> Reply:
    settings = Settings(Path("/nowhere"), Path("/nowhere"), provider_url=url, provider_key=KEY, model="m")
    kept = [] if seen is None else seen

    async def run() -> Reply:
        async with outbound.client(settings) as client:
            message = {"role": "user", "content": "hi"}
            return await provider.stream(
                client, settings, "a_1", [message], tools or [], lambda text, counts: kept.append((text, counts))
            )

    return anyio.run(run)


def fault(url: str, seen: list[tuple[str, Counts | None]] | None = None) -> ProviderFault:
    with pytest.raises(ProviderFault) as caught:
        ask(url, seen)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_reply_is_its_pieces_and_its_last_counts(answers: Answers) -> None:
    answers.next = [http(events(piece("Hello"), piece(", you"), piece("", "stop"), {"choices": [], **usage(10, 3, 4)}))]
    seen: list[tuple[str, Counts | None]] = []
    assert ask(answers.url, seen) == Reply("Hello, you", (), Counts(10, 4, 3), "stop")
    assert seen == [("Hello", None), (", you", None), ("", None), ("", Counts(10, 4, 3))]


def test_the_request_says_who_asks_for_what(answers: Answers) -> None:
    answers.next = [http(events(piece("x", "stop")))]
    ask(answers.url, tools=[{"type": "function"}])
    headers, body = answers.requests[0]
    assert headers["x-client-request-id"] == "a_1"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function"}],
    }


def test_calls_are_put_together_by_index_whatever_their_pieces_lie_between(answers: Answers) -> None:
    def part(index: int, text: str, call: str | None = None, name: str | None = None) -> dict[str, Any]:
        return {"index": index, "id": call, "function": {"name": name, "arguments": text}}

    answers.next = [
        http(
            events(
                piece(calls=[part(0, '{"pa', "call_a", "read")]),
                piece(calls=[part(1, "{", "call_b", "grep")]),
                piece(calls=[part(0, 'th": "x"}'), part(1, "}")]),
                piece(finish="tool_calls"),
            )
        )
    ]
    assert ask(answers.url).calls == (ToolCall("call_a", "read", '{"path": "x"}'), ToolCall("call_b", "grep", "{}"))


def test_nothing_of_a_cut_attempt_is_in_the_next_one(answers: Answers) -> None:
    """C03: the stream breaks in the middle of a call's arguments; only the second, whole call counts."""
    first = piece(calls=[{"index": 0, "id": "call_1", "function": {"name": "write", "arguments": '{"path": "first'}}])
    whole = piece(calls=[{"index": 0, "id": "call_2", "function": {"name": "write", "arguments": '{"path": "b"}'}}])
    answers.next = [http(events(first, done=False), length=9999), http(events(whole, piece(finish="tool_calls")))]
    assert fault(answers.url).kind == "cut"
    assert ask(answers.url).calls == (ToolCall("call_2", "write", '{"path": "b"}'),)


def test_repeated_counts_are_a_watermark_and_not_a_sum(answers: Answers) -> None:
    chunks = [piece("a") | usage(10, 1), piece("b") | usage(10, 2), piece("", "stop") | usage(0, 1)]
    answers.next = [http(events(*chunks))]
    seen: list[tuple[str, Counts | None]] = []
    assert ask(answers.url, seen).counts == Counts(10, 0, 2)
    assert [counts.output_tokens for _, counts in seen if counts] == [1, 2, 2]


def test_a_line_separator_inside_text_does_not_break_a_piece(answers: Answers) -> None:
    answers.next = [http(events(piece("one\u2028two\x85three", "stop")))]
    assert ask(answers.url).text == "one\u2028two\x85three"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(http(events(piece("par"), done=False), length=9999), id="connection cut"),
        pytest.param(http(events(piece("par"), done=False)), id="ended without an end mark"),
        pytest.param(http(events(piece("par"), done=False) + b'data: {"choi'), id="ended inside a piece"),
        pytest.param(http(events(piece("par"), done=False) + b"data: not json\n\n"), id="piece that is no JSON"),
        pytest.param(http(events(piece("par"), {"error": {"message": "overloaded"}})), id="error in the stream"),
    ],
)
def test_a_stream_that_breaks_is_cut_and_passing_and_its_text_was_handed_on(answers: Answers, answer: bytes) -> None:
    answers.next = [answer]
    seen: list[tuple[str, Counts | None]] = []
    found = fault(answers.url, seen)
    assert (found.kind, found.passing) == ("cut", True)
    assert seen[0] == ("par", None)


def test_without_an_end_mark_a_count_that_may_still_have_grown_is_no_receipt(answers: Answers) -> None:
    answers.next = [http(events(piece("a", "stop") | usage(10, 1), done=False))]
    assert ask(answers.url) == Reply("a", (), None, "stop")


@pytest.mark.parametrize(
    ("status", "passing"), [(400, False), (401, False), (404, False), (408, True), (429, True), (500, True), (503, True)]
)
def test_a_refusal_keeps_the_providers_words_and_says_whether_it_passes(
    answers: Answers, status: int, passing: bool
) -> None:
    answers.next = [http(json.dumps({"error": {"message": f"because\nof {KEY}"}}).encode(), status)]
    found = fault(answers.url)
    assert (found.kind, found.passing) == ("status", passing)
    assert f"answered {status}: because of [key]" in str(found)


def test_a_connection_closed_before_any_answer_is_cut(answers: Answers) -> None:
    answers.next = [b""]
    assert fault(answers.url).kind == "cut"


def test_a_provider_that_is_not_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = fault(f"http://user:{KEY}@127.0.0.1:{port}/v1")
    assert (found.kind, found.passing) == ("unreachable", True)
    assert f"127.0.0.1:{port}/v1" in str(found)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "nonsense", "http://[::1", "http://127.0.0.1:x/"])
def test_an_address_that_is_none_is_lasting(url: str) -> None:
    found = fault(url)
    assert (found.kind, found.passing) == ("protocol", False)


def test_plain_http_loads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: object, **__: object) -> None:
        raise AssertionError("certificates were loaded for an address without TLS")

    monkeypatch.setattr(ssl, "create_default_context", loaded)

    async def made_and_closed() -> None:
        settings = Settings(Path("/nowhere"), Path("/nowhere"), provider_url="http://127.0.0.1:1/v1")
        await outbound.client(settings).close()

    anyio.run(made_and_closed)
    assert outbound.trusting_nobody().get_ca_certs() == []


def test_a_proxy_of_the_environment_counts_except_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"https_proxy": "http://proxy:3128", "all_proxy": "http://other:1", "no_proxy": ".inside"}.items():
        monkeypatch.setenv(name, value)
    proxies = {
        "https://api.example.org/v1": "http://proxy:3128",
        "http://api.example.org/v1": "http://other:1",
        "https://user:word@model.inside:8443/v1": None,
        "http://127.0.0.1:1/v1": None,
        "https://localhost/v1": None,
        "http://[::1": None,
    }
    for url, proxy in proxies.items():
        assert outbound.plainly(url) == {"proxy": proxy, "allow_redirects": False}, url


def test_a_redirect_is_not_followed(answers: Answers) -> None:
    answers.next = [b"HTTP/1.1 307 X\r\nLocation: " + answers.url.encode() + b"\r\nContent-Length: 0\r\n\r\n"]
    found = fault(answers.url)
    assert (found.kind, found.passing) == ("status", False) and "answered 307" in str(found)
    assert len(answers.requests) == 1


def test_credentials_in_the_address_go_before_the_key(answers: Answers) -> None:
    answers.next = [http(events(piece("a", "stop")))]
    ask(answers.url.replace("//", "//user:word@"))
    assert answers.requests[0][0]["authorization"] == "Basic dXNlcjp3b3Jk"
