"""The app over real HTTP, in a real process: what it accepts, what it refuses, its events, and its way in and out."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from reference import openapi
from reference.app import BODY_BYTES_MAX
from reference.client import parse
from reference.model import Event
from reference.security import is_own_host
from tests.reference.processes import Served, run, served


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("app") / "data") as running:
        yield running
        assert running.end() == 0, running.log.read_text()
        assert set(running.log.read_text().splitlines()) <= {"Invalid HTTP request received."}


@pytest.fixture
def http_(app: Served) -> Iterator[httpx.Client]:
    with app.client() as client:
        yield client


def new_session(client: httpx.Client) -> str:
    return str(client.post("/sessions", json={}).json()["session"])


def send(client: httpx.Client, session: str, request_id: str, text: str = "hi") -> httpx.Response:
    return client.post(f"/sessions/{session}/inputs", json={"request_id": request_id, "text": text})


def events(client: httpx.Client, session: str, count: int, after: int | None = None) -> list[Event]:
    """The next `count` events of the session."""
    found: list[Event] = []
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    with client.stream("GET", f"/sessions/{session}/events", headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for event in parse(stream.iter_raw()):
            found.append(event)
            if len(found) == count:
                break
    return found


# What it accepts ----------------------------------------------------------------------------------------------------


def test_an_input_is_accepted_once_under_its_id(http_: httpx.Client) -> None:
    session = new_session(http_)
    first, again = send(http_, session, "r1"), send(http_, session, "r1")
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json() == again.json()
    assert first.json()["status"] == "accepted"
    assert send(http_, session, "r2").json()["position"] == 2
    other = send(http_, session, "r1", "other text")
    assert (other.status_code, other.json()["error"]["field"]) == (409, "request_id")


def test_a_session_is_created_once_under_its_id(http_: httpx.Client, tmp_path: Path) -> None:
    made = [http_.post("/sessions", json={"request_id": "new-1", "workspace": str(tmp_path)}) for _ in range(2)]
    assert [each.status_code for each in made] == [201, 201]
    assert made[0].json() == made[1].json()


def test_a_control_holds_and_an_old_version_is_refused(http_: httpx.Client) -> None:
    session = new_session(http_)
    paused = http_.post(f"/sessions/{session}/control", json={"action": "pause", "version": 0})
    assert (paused.status_code, paused.json()) == (200, {"desired_state": "paused", "control_version": 1})
    stale = http_.post(f"/sessions/{session}/control", json={"action": "resume", "version": 0})
    assert (stale.status_code, stale.json()["error"]["field"]) == (409, "version")
    assert http_.get(f"/sessions/{session}").json()["desired_state"] == "paused"


def test_the_snapshots_agree(http_: httpx.Client) -> None:
    session = new_session(http_)
    send(http_, session, "r1", "hello")
    one = http_.get(f"/sessions/{session}").json()
    assert http_.get("/snapshot").json()["sessions"][session] == one
    assert http_.get("/sessions").json()["sessions"][session] == one
    assert [each["text"] for each in one["inputs"]] == ["hello"]


# What it refuses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("POST", "/sessions/S/inputs", b"{", 400, "body"),
        ("POST", "/sessions/S/inputs", b"", 400, "body"),
        ("POST", "/sessions/S/inputs", b"\xff\xfe", 400, "body"),
        ("POST", "/sessions/S/inputs", b'{"request_id": "r", "text": "\\ud800"}', 400, "body"),
        ("POST", "/sessions/S/inputs", b"[" * 100_000, 400, "body"),
        ("POST", "/sessions/S/inputs", b"[]", 422, "body"),
        ("POST", "/sessions/S/inputs", b'{"text": "x"}', 422, "request_id"),
        ("POST", "/sessions/S/inputs", b'{"request_id": "r", "text": 5}', 422, "text"),
        ("POST", "/sessions/S/inputs", b'{"request_id": "r", "text": "  "}', 422, "text"),
        ("POST", "/sessions/S/inputs", b'{"request_id": "a b", "text": "x"}', 422, "request_id"),
        ("POST", "/sessions/S/inputs", b'{"request_id": "r", "text": "x", "more": 1}', 422, "more"),
        ("POST", "/sessions/S/inputs", b" " * (BODY_BYTES_MAX + 1), 413, "body"),
        ("POST", "/sessions/S/control", b'{"action": "explode"}', 422, "action"),
        ("POST", "/sessions/S/control", b'{"action": "pause", "version": "1"}', 422, "version"),
        ("POST", "/sessions/S/control", b'{"action": "pause", "version": 99999999999999999999}', 422, "version"),
        ("POST", "/sessions/s_none/control", b'{"action": "pause"}', 404, "session"),
        ("POST", "/sessions/s_none/inputs", b'{"request_id": "r", "text": "x"}', 404, "session"),
        ("POST", "/sessions/S/effects/c9", b'{"action": "retry", "risk_acknowledged": true}', 404, "call_id"),
        ("POST", "/sessions/S/effects/c9", b'{"action": "retry"}', 400, "risk_acknowledged"),
        ("POST", "/sessions/S/effects/c9", b'{"action": "retry", "risk_acknowledged": 1}', 422, "risk_acknowledged"),
        ("POST", "/sessions", b'{"workspace": "relative"}', 422, "workspace"),
        ("POST", "/sessions", b'{"workspace": "/does/not/exist"}', 422, "workspace"),
        ("POST", "/sessions", b'{"workspace": "/a\\u0000b"}', 422, "workspace"),
        ("GET", "/sessions/s_none", None, 404, "session"),
        ("GET", "/sessions/s_none/events", None, 404, "session"),
        ("GET", "/nowhere", None, 404, "path"),
        ("GET", "/sessions/", None, 404, "path"),
        ("DELETE", "/sessions", None, 405, "method"),
    ],
)
def test_a_wrong_request_hears_which_part_is_wrong(
    http_: httpx.Client, method: str, path: str, body: bytes | None, status: int, field: str
) -> None:
    answer = http_.request(method, path.replace("S", new_session(http_), 1) if "/S/" in path else path, content=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["field"] == field
    assert error["code"]
    assert error["message"]
    assert "\n" not in error["message"]
    assert "Traceback" not in answer.text


def test_a_body_without_a_length_is_bounded_too(http_: httpx.Client) -> None:
    chunks = (b" " * 65536 for _ in range(BODY_BYTES_MAX // 65536 + 1))
    answer = http_.post(f"/sessions/{new_session(http_)}/inputs", content=chunks)
    assert answer.status_code == 413


@pytest.mark.parametrize("number", ["-1", "x", "1.5", "٣", "9" * 30])
def test_a_last_event_id_that_is_no_number_is_refused(app: Served, number: str) -> None:
    with app.client() as client:
        session = new_session(client)
        answer = client.get(f"/sessions/{session}/events", headers={b"Last-Event-ID": number.encode()})
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, "Last-Event-ID")


# Who may come in ----------------------------------------------------------------------------------------------------


def raw(app: Served, headers: list[tuple[str, str]], path: str = "/sessions") -> int:
    """The status of a request with exactly these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", app.port, timeout=30)
    connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_only_the_token_opens(app: Served) -> None:
    host = ("Host", f"127.0.0.1:{app.port}")
    right = ("Authorization", f"Bearer {app.token}")
    assert raw(app, [host, right]) == 200
    wrong = ["", "Bearer", "Bearer ", f"Bearer {app.token}x", f"Bearer {app.token[:-1]}", f"Basic {app.token}", app.token]
    for value in wrong:
        assert raw(app, [host, ("Authorization", value)]) == 401, value
    assert raw(app, [host]) == 401
    assert raw(app, [host, right, ("Authorization", "Bearer other")]) == 401
    assert raw(app, [host], "/health") == 200
    assert raw(app, [host], "/openapi.json") == 200


def test_a_foreign_host_is_refused_whatever_the_token(app: Served) -> None:
    right = ("Authorization", f"Bearer {app.token}")
    port = app.port
    for good in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert raw(app, [("Host", good), right]) == 200, good
    rebound = [f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", f"localhost.evil.example:{port}"]
    for bad in [*rebound, f"10.0.0.1:{port}", f"localhost.:{port}", "127.0.0.1:x", "[::1", "", "0.0.0.0", "127.1"]:
        assert raw(app, [("Host", bad), right]) == 421 or bad == "", bad
        assert raw(app, [("Host", bad), right], "/health") in {421, 400}, bad


def test_two_hosts_or_none_are_refused(app: Served) -> None:
    right = ("Authorization", f"Bearer {app.token}")
    host = ("Host", f"127.0.0.1:{app.port}")
    assert raw(app, [host, ("Host", "evil.example"), right]) in {400, 421}
    assert raw(app, [right]) in {400, 421}


def test_a_foreign_origin_is_refused_whatever_the_token(app: Served) -> None:
    given = [("Host", f"localhost:{app.port}"), ("Authorization", f"Bearer {app.token}")]
    assert raw(app, [*given, ("Origin", f"http://localhost:{app.port}")]) == 200
    for origin in (
        "null",
        "http://evil.example",
        "http://localhost:1",
        f"https://localhost:{app.port}",
        f"http://127.0.0.1:{app.port}",
        "",
    ):
        assert raw(app, [*given, ("Origin", origin)]) == 403, origin


@pytest.mark.parametrize(
    ("bound", "header", "own"),
    [
        ("0.0.0.0", "192.168.1.5:80", True),
        ("0.0.0.0", "localhost:80", True),
        ("0.0.0.0", "evil.example:80", False),
        ("192.168.1.5", "192.168.1.5", True),
        ("192.168.1.5", "192.168.1.6", False),
        ("192.168.1.5", "localhost", False),
        ("box.local", "box.local:80", True),
        ("box.local", "127.0.0.1:80", False),
        ("localhost", "127.0.0.1:80", True),
        ("::1", "[::1]:80", True),
        ("::1", "::1", False),
    ],
)
def test_the_names_of_a_server_depend_on_where_it_listens(bound: str, header: str, own: bool) -> None:
    assert is_own_host(header, bound) is own


def test_the_token_is_for_its_owner_alone_and_stands_nowhere_else(app: Served, http_: httpx.Client) -> None:
    assert stat.S_IMODE((app.data / "token").stat().st_mode) == 0o600
    assert app.token not in (app.data / "serve.json").read_text()
    assert app.token not in http_.get("/snapshot").text + http_.get("/health").text + http_.get("/openapi.json").text
    assert app.token not in (app.data / "serve.lock").read_text()


def test_a_token_file_that_others_can_read_is_closed_and_an_empty_one_is_an_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "token").write_text("a-token-that-is-long-enough")
    (data / "token").chmod(0o644)
    with served(data) as app, app.client() as client:
        assert stat.S_IMODE((data / "token").stat().st_mode) == 0o600
        assert app.token == "a-token-that-is-long-enough"
        assert client.get("/sessions").status_code == 200
    (data / "token").write_text("")
    failed = run("serve", "--data", str(data), "--workers", "0")
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert "token" in failed.stderr


# Its description ----------------------------------------------------------------------------------------------------


def test_the_description_names_every_operation_and_nothing_else(http_: httpx.Client) -> None:
    described = http_.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    listed = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert listed == {(each.method, each.path) for each in openapi.OPERATIONS}
    ids = [operation["operationId"] for methods in described["paths"].values() for operation in methods.values()]
    assert len(set(ids)) == len(ids)
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["responses"]
            named = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
            assert named == {part.strip("{}") for part in path.split("/") if part.startswith("{")}, path
            assert ("requestBody" in operation) == (method == "post" and path != "/quit"), path
    for reference in _references(described):
        target: Any = described
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for each in node.values():
            yield from _references(each)
    elif isinstance(node, list):
        for each in node:
            yield from _references(each)


def test_every_described_operation_is_there_and_answers_as_described(http_: httpx.Client) -> None:
    described = http_.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        for method, operation in methods.items():
            if path in {"/quit", "/sessions/{session}/events"}:
                continue  # played in tests of their own
            real = path.replace("{session}", "s_none").replace("{call_id}", "c")
            answer = http_.request(method, real, content=b"{}" if method == "post" else None)
            assert str(answer.status_code) in operation["responses"], (path, answer.status_code)
            assert answer.json().get("error", {}).get("field") != "path", path


# Events -------------------------------------------------------------------------------------------------------------


def test_events_are_numbered_from_one_without_gaps_and_go_on_after_the_last_id(http_: httpx.Client) -> None:
    session = new_session(http_)
    for number in range(3):
        send(http_, session, f"r{number}")
    everything = events(http_, session, 6)
    assert [event.number for event in everything] == [1, 2, 3, 4, 5, 6]
    assert events(http_, session, 4, after=2) == everything[2:]
    assert {event.type for event in everything} == {"input.accepted", "work.queued"}


def test_an_event_comes_while_the_client_waits(http_: httpx.Client, app: Served) -> None:
    session = new_session(http_)
    with app.client() as watcher, watcher.stream("GET", f"/sessions/{session}/events") as stream:
        chunks = stream.iter_raw()
        assert next(chunks) == b"retry: 200\n\n"
        send(http_, session, "r1")
        began = time.monotonic()
        first = next(parse(chunks))
    assert (first.number, first.type) == (1, "input.accepted")
    assert time.monotonic() - began < 5


def test_what_was_sent_is_stored_as_announced_and_never_goes_back(http_: httpx.Client) -> None:
    session = new_session(http_)
    for number in range(2):
        send(http_, session, f"r{number}")
    events(http_, session, 4)
    deadline = time.monotonic() + 10
    while http_.get(f"/sessions/{session}").json()["announced"] != 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    events(http_, session, 1, after=0)
    assert http_.get(f"/sessions/{session}").json()["announced"] == 4


def test_a_client_that_comes_back_to_another_life_misses_nothing(tmp_path: Path) -> None:
    """C18, and REC-13 for the app: killed, served again, and the client goes on from its last number."""
    data = tmp_path / "data"
    with served(data) as app, app.client() as client:
        session = new_session(client)
        send(client, session, "r1")
        before = events(client, session, 2)
        send(client, session, "r2")
        assert app.end(signal.SIGKILL) == -signal.SIGKILL
    with served(data) as app, app.client() as client:
        send(client, session, "r3")
        after = events(client, session, 4, after=2)
        assert [event.number for event in before + after] == [1, 2, 3, 4, 5, 6]
        assert [each.data["request_id"] for each in before + after if each.type == "input.accepted"] == ["r1", "r2", "r3"]
        assert send(client, session, "r2").status_code == 200, "what was acknowledged before the kill is there"


# In and out ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_graceful_exit_ends_streams_and_keeps_everything(tmp_path: Path, number: int) -> None:
    data = tmp_path / "data"
    with served(data) as app, app.client() as client:
        session = new_session(client)
        send(client, session, "r1")
        with client.stream("GET", f"/sessions/{session}/events") as stream:
            events = parse(stream.iter_raw())
            assert next(events).number == 1
            began = time.monotonic()
            app.process.send_signal(number)
            assert [event.number for event in events][:1] == [2], "the stream ends whole, after what there was"
        assert app.end() == 0
        assert time.monotonic() - began < 10, "an open event stream does not hold the exit up"
        assert not (data / "serve.json").exists()
        assert app.log.read_text() == ""
    with served(data) as app, app.client() as client:
        seen = client.get(f"/sessions/{session}").json()
        assert [each["desired_state"] for each in seen["works"]] == ["run"], "INT-6: an ordinary exit is no pause"


def test_quit_stops_everything_and_ends_the_app(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data) as app, app.client() as client:
        session = new_session(client)
        work = send(client, session, "r1").json()["work_id"]
        answer = client.post("/quit")
        assert (answer.status_code, answer.json()) == (200, {"status": "stopped", "works": [work]})
        assert app.process.wait(30) == 0
    with served(data) as app, app.client() as client:
        seen = client.get(f"/sessions/{session}").json()
        assert [each["desired_state"] for each in seen["works"]] == ["cancelled"]


def test_a_folder_is_served_once_and_a_dead_owners_folder_is_free(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data) as app:
        second = run("serve", "--data", str(data), "--workers", "0")
        assert (second.returncode, second.stderr.count("\n")) == (2, 1)
        assert f"already served by process {app.process.pid}" in second.stderr
        assert (data / "serve.json").exists(), "the refused one leaves the owner's description alone"
        app.end(signal.SIGKILL)
    with served(data) as app, app.client() as client:
        assert client.get("/health").json() == {"status": "ok"}


def test_a_recycled_pid_in_the_lock_holds_nobody_up(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "serve.lock").write_text(f"host|boot|{os.getpid()}|1")
    with served(data) as app:
        assert app.described == {"url": app.url, "pid": app.process.pid}


def test_what_cannot_begin_says_why_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, word in (
            (["--data", str(tmp_path / "data"), "--port", port], "taken"),
            (["--data", str(tmp_path / "data"), "--port", "99999"], "65535"),
            (["--data", str(tmp_path / "data"), "--host", "no such host"], "--host"),
            (["--data", str(tmp_path / "data"), "--workers", "-1"], "--workers"),
            (["--data", str(tmp_path / "file")], "file"),
        ):
            failed = run("serve", *options)
            assert (failed.returncode, failed.stderr.count("\n")) == (2, 1), failed.stderr
            assert word in failed.stderr
    assert not (tmp_path / "data" / "serve.json").exists()


def test_a_store_that_is_none_is_said_and_left_alone_until_it_is_mended(tmp_path: Path) -> None:
    """REC-1, UIX-4: served, unavailable, unchanged; and there again once the file is back."""
    data = tmp_path / "data"
    with served(data) as app, app.client() as client:
        session = new_session(client)
        app.end()
    whole = tmp_path / "whole.db"
    shutil.copy(data / "work.db", whole)
    (data / "work.db").write_bytes(b"this is no database" * 100)
    before = (data / "work.db").read_bytes()
    with served(data) as app, app.client() as client:
        for path in ("/health", "/snapshot", "/sessions", f"/sessions/{session}", f"/sessions/{session}/events"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "state_unavailable"), path
            assert answer.json()["error"]["refresh"]
            assert answer.headers["retry-after"]
        assert send(client, session, "r1").status_code == 503
        assert (data / "work.db").read_bytes() == before
        assert sorted(each.name for each in data.glob("work.db*")) == ["work.db"]
        whole.replace(data / "work.db")
        deadline = time.monotonic() + 10
        while client.get("/health").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert client.get(f"/sessions/{session}").status_code == 200
        assert app.end() == 0


def test_a_request_that_is_no_http_ends_only_its_connection(app: Served, http_: httpx.Client) -> None:
    with socket.create_connection(("127.0.0.1", app.port)) as connection:
        connection.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert http_.get("/health").status_code == 200
    assert json.loads((app.data / "serve.json").read_text())["pid"] == app.process.pid
