"""What stands at a point of the world waits for the controller, and becomes what the controller says."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from scenarios.case import Reply, Script
from tests.scenarios.world.conftest import WAIT_S_MAX, Controller, Opened, Streamed, body, stream

Open = Callable[..., Opened]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def case(open_case: Open) -> Opened:
    return open_case(controlled=True)


@pytest.fixture
def controller(case: Opened) -> Controller:
    assert case.controller
    return case.controller


@contextmanager
def leaving_client(url: str, data: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """A client that sends one request and can go at any time: its socket is closed, as a kill would do."""
    socket_of: list[Any] = []

    def keep(event: str, info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            socket_of.append(info["return_value"].get_extra_info("socket"))

    headers = {"Authorization": "Bearer k", "Idempotency-Key": "k1"}
    with httpx.Client(headers=headers, timeout=WAIT_S_MAX) as client, ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.post, url, json=data, extensions={"trace": keep})

        def go() -> None:
            socket_of[0].shutdown(socket.SHUT_RDWR)
            with pytest.raises(httpx.HTTPError):
                running.result(WAIT_S_MAX)

        yield go


def ask(threads: ThreadPoolExecutor, client: httpx.Client, case: Opened, text: str = "story") -> Future[Streamed]:
    return threads.submit(stream, client, case, body(text))


def write(
    threads: ThreadPoolExecutor, client: httpx.Client, case: Opened, receiver: str = "plain"
) -> Future[httpx.Response]:
    url = f"{case.addresses.effects_url}/{receiver}"
    return threads.submit(client.post, url, json={"a": 1}, headers={"Idempotency-Key": "k1"})


def test_a_request_stands_at_every_point_of_its_way(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = ask(threads, client, case)
    received = controller.next("provider.request.received")
    assert case.records("provider.request") and not case.records("provider.chunk")
    assert not running.done()
    assert (received.report["process"], received.report["work"], received.report["local"]) == ("world", None, 1)
    detail = received.report["detail"]
    assert (detail["n"], detail["attempt"], detail["peer"][0]) == (1, "a1", "127.0.0.1")
    received.answer()
    for i in range(4):
        chunk = controller.next("provider.reply.chunk")
        assert (chunk.report["detail"]["n"], chunk.report["detail"]["i"]) == (1, i)
        assert len(case.records("provider.chunk")) == i + 1
        assert not case.records("provider.billed")
        chunk.answer()
    assert running.result(WAIT_S_MAX).whole


def test_a_write_stands_before_and_after_it_is_applied(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = write(threads, client, case)
    before = controller.next("effect.received")
    assert case.records("effect.received") and not case.records("effect.applied")
    before.answer()
    after = controller.next("effect.applied")
    assert case.records("effect.applied") and not case.records("effect.answered")
    assert not running.done()
    after.answer()
    assert running.result(WAIT_S_MAX).status_code == 200


def test_one_held_request_holds_no_other(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor, open_case: Open
) -> None:
    held_running = ask(threads, client, case)
    held = controller.next("provider.request.received")
    same_case = write(threads, client, case)
    controller.next("effect.received").answer()
    controller.next("effect.applied").answer()
    assert same_case.result(WAIT_S_MAX).status_code == 200
    assert stream(client, open_case(), body("story")).whole
    assert not held_running.done()
    held.answer()
    controller.next("provider.reply.chunk").answer("answer", how="cut")
    assert not held_running.result(WAIT_S_MAX).whole


def test_only_the_wanted_points_are_reported(open_case: Open, client: httpx.Client, threads: ThreadPoolExecutor) -> None:
    case = open_case(controlled=True, sites=["effect.applied"])
    assert case.controller
    assert stream(client, case, body("story")).whole
    running = write(threads, client, case)
    case.controller.next("effect.applied").answer()
    assert running.result(WAIT_S_MAX).status_code == 200
    assert case.controller.reached.empty()


def test_cut_before_the_reply_bills_the_prompt(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = ask(threads, client, case)
    controller.next("provider.request.received").answer("answer", how="cut")
    assert running.result(WAIT_S_MAX).chunks == []
    [billed] = case.records("provider.billed")
    assert (billed["input_tokens"], billed["output_tokens"], billed["complete"]) == (5, 0, False)


def test_cut_in_the_stream_bills_what_was_sent(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = ask(threads, client, case)
    controller.next("provider.request.received").answer()
    controller.next("provider.reply.chunk").answer()
    controller.next("provider.reply.chunk").answer("answer", how="cut")
    got = running.result(WAIT_S_MAX)
    assert not got.whole
    assert len(got.chunks) == 2
    [billed] = case.records("provider.billed")
    assert billed["output_tokens"] == sum(chunk["output_tokens"] for chunk in case.records("provider.chunk"))
    assert billed["complete"] is False


@pytest.mark.parametrize("point", ["provider.request.received", "provider.reply.chunk"])
def test_drop_bills_the_whole_reply_and_sends_no_more_of_it(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor, point: str, open_case: Open
) -> None:
    undisturbed = open_case()
    stream(client, undisturbed, body("story"))
    running = ask(threads, client, case)
    controller.go_until(point).answer("answer", how="drop")
    assert not running.result(WAIT_S_MAX).whole
    assert case.records("provider.billed") == undisturbed.records("provider.billed")
    assert case.records("provider.answered") == []


def test_error_before_the_reply_is_a_status(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    url = f"{case.addresses.provider_url}/chat/completions"
    running = threads.submit(client.post, url, json=body("story"))
    controller.next("provider.request.received").answer("answer", how="error", status=503)
    answer = running.result(WAIT_S_MAX)
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")
    assert case.records("provider.answered")[0]["status"] == 503
    [billed] = case.records("provider.billed")
    assert (billed["output_tokens"], billed["complete"]) == (0, False)


def test_error_in_the_stream_is_an_event_and_the_end(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = ask(threads, client, case)
    controller.go_until("provider.reply.chunk").answer("answer", how="error")
    got = running.result(WAIT_S_MAX)
    assert not got.whole
    assert got.chunks[-1]["error"]["type"] == "server_error"
    assert case.records("provider.billed")[0]["complete"] is False


def test_repeat_sends_the_piece_twice_and_bills_it_once(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = ask(threads, client, case)
    controller.go_until("provider.reply.chunk").answer("answer", how="repeat")
    for _ in range(3):
        controller.next("provider.reply.chunk").answer()
    got = running.result(WAIT_S_MAX)
    assert got.whole
    assert got.chunks[0] == got.chunks[1]
    [repeated] = case.records("provider.repeated")
    assert (repeated["n"], repeated["i"]) == (1, 0)
    assert got.usages[0]["completion_tokens"] == case.records("provider.billed")[0]["output_tokens"]
    assert len(case.records("provider.chunk")) == 4


@pytest.mark.parametrize(("how", "applied"), [("cut", 0), ("drop", 1)])
def test_a_write_that_is_held_can_be_cut_or_done_without_an_answer(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor, how: str, applied: int
) -> None:
    running = write(threads, client, case)
    controller.next("effect.received").answer("answer", how=how)
    for _ in range(applied):
        controller.next("effect.applied").answer()
    with pytest.raises(httpx.RemoteProtocolError):
        running.result(WAIT_S_MAX)
    assert len(case.records("effect.applied")) == applied
    assert case.records("effect.answered") == []


@pytest.mark.parametrize(("point", "applied"), [("effect.received", 0), ("effect.applied", 1)])
def test_a_write_that_is_held_can_fail(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor, point: str, applied: int
) -> None:
    running = write(threads, client, case)
    controller.go_until(point).answer("answer", how="error", status=502)
    assert running.result(WAIT_S_MAX).status_code == 502
    assert len(case.records("effect.applied")) == applied
    assert [record["status"] for record in case.records("effect.answered")] == [502]


@pytest.mark.parametrize("how", ["cut", "drop"])
def test_an_applied_write_can_lose_its_answer(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor, how: str
) -> None:
    running = write(threads, client, case, "keyed")
    controller.go_until("effect.applied").answer("answer", how=how)
    with pytest.raises(httpx.RemoteProtocolError):
        running.result(WAIT_S_MAX)
    assert client.get(f"{case.addresses.effects_url}/state?key=k1").json()["count"] == 1


@pytest.mark.parametrize("padding", [1, 300_000], ids=["small", "large"])
def test_a_client_that_dies_while_its_request_is_held_is_billed_for_the_prompt(
    case: Opened, controller: Controller, padding: int
) -> None:
    request = body({"role": "system", "content": "x" * padding}, "story")
    with leaving_client(f"{case.addresses.provider_url}/chat/completions", request) as go:
        held = controller.next("provider.request.received")
        go()
    [billed] = case.until("provider.billed")
    assert (billed["output_tokens"], billed["complete"]) == (0, False)
    held.answer()
    case.close()
    assert case.records("provider.billed") == [billed]
    assert case.records("provider.chunk", "provider.answered") == []


def test_a_write_whose_client_dies_before_it_is_applied_is_still_applied_once(case: Opened, controller: Controller) -> None:
    with leaving_client(f"{case.addresses.effects_url}/plain", {"a": 1}) as go:
        held = controller.next("effect.received")
        go()
    case.until("effect.applied")
    held.answer()
    controller.next("effect.applied").answer()
    case.close()
    assert len(case.records("effect.applied")) == 1
    assert case.records("effect.answered") == []


def test_a_write_whose_client_dies_after_it_is_applied_is_not_answered(case: Opened, controller: Controller) -> None:
    with leaving_client(f"{case.addresses.effects_url}/plain", {"a": 1}) as go:
        held = controller.go_until("effect.applied")
        go()
    held.answer()
    case.close()
    assert len(case.records("effect.applied")) == 1
    assert case.records("effect.answered") == []


def test_a_controller_that_goes_has_given_up_the_case(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    running = ask(threads, client, case)
    controller.next("provider.request.received")
    controller.close()
    assert running.result(WAIT_S_MAX).chunks == []
    with pytest.raises(httpx.RemoteProtocolError):
        write(threads, client, case).result(WAIT_S_MAX)
    assert case.records("effect.applied") == []
    assert case.records("provider.billed")[0]["complete"] is False


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"nonce": "other", "do": "go"}\n', b"[]\n", b"\xff\n"])
def test_an_answer_that_is_none_cuts_the_request(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor, line: bytes
) -> None:
    running = ask(threads, client, case)
    controller.next("provider.request.received").connection.sendall(line)
    assert running.result(WAIT_S_MAX).chunks == []


def test_closing_a_case_ends_what_is_held_and_completes_the_log(
    case: Opened, controller: Controller, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    held = [ask(threads, client, case) for _ in range(3)]
    for _ in held:
        controller.next("provider.request.received")
    written = write(threads, client, case)
    controller.next("effect.received")
    began = time.monotonic()
    case.close()
    assert time.monotonic() - began < WAIT_S_MAX / 2
    log = case.log_path.read_text()
    assert [billed["complete"] for billed in case.records("provider.billed")] == [False] * 3
    assert case.records("effect.applied") == []
    assert all(not each.result(WAIT_S_MAX).whole for each in held)
    with pytest.raises(httpx.RemoteProtocolError):
        written.result(WAIT_S_MAX)
    assert case.log_path.read_text() == log


def test_closing_a_case_ends_a_stream_that_its_client_does_not_read(open_case: Open) -> None:
    """As a frozen client leaves it: connected, with every buffer on the way full."""
    case = open_case(Script(replies={"long": (Reply(text="word " * 1_500_000, pieces=64),)}))
    address = urlsplit(case.addresses.provider_url)
    data = json.dumps(body("long")).encode()
    head = f"POST {address.path}/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
    with socket.socket() as frozen:
        frozen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        frozen.connect((address.hostname, address.port))
        frozen.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        case.until("provider.chunk", count=2)
        case.close()
    [billed] = case.records("provider.billed")
    sent = case.records("provider.chunk")
    assert len(sent) < 64
    assert billed["complete"] is False
    assert billed["output_tokens"] == sum(chunk["output_tokens"] for chunk in sent)
