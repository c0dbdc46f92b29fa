"""One world serves many cases, keeps them apart, logs before it answers, and ends with its harness."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from scenarios.case import Reply, Script
from scenarios.history import read_lines
from scenarios.world.handle import World, WorldError
from scenarios.world.service import Opening
from tests.scenarios.world.conftest import SCRIPT, WAIT_S_MAX, Opened, body, stream

Open = Callable[..., Opened]


@pytest.fixture
def served(world: World) -> World:
    """These tests are of the world as a process of its own."""
    return world


def test_many_cases_at_once_are_kept_apart(open_case: Open, client: httpx.Client) -> None:
    cases = [open_case(Script(replies={"who": (Reply(text=f"case number {i}", pieces=4),)})) for i in range(20)]

    def use(i: int) -> str:
        headers = {"Idempotency-Key": "same"}
        assert (
            client.post(f"{cases[i].addresses.effects_url}/keyed", json={"i": 0}, headers=headers).json()["receipt"]
            == "rcpt_1"
        )
        return stream(client, cases[i], body("who"), f"attempt-{i}").text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(20))) == [f"case number {i}" for i in range(20)]
    for i, case in enumerate(cases):
        case.close()
        assert [request["attempt"] for request in case.records("provider.request")] == [f"attempt-{i}"]
        assert [applied["duplicate_of"] for applied in case.records("effect.applied")] == [None]


def test_a_case_that_is_not_open_is_not_found(world: World, open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    case.close()
    for method, url in (
        ("POST", f"{case.addresses.provider_url}/chat/completions"),
        ("GET", f"{case.addresses.provider_url}/models"),
        ("GET", f"{case.addresses.effects_url}/state?key=k"),
        ("POST", f"{world.url}/c/never/effects/plain"),
    ):
        answer = client.request(method, url)
        assert answer.status_code == 404
        assert "no case" in answer.json()["error"]["message"]
    with pytest.raises(WorldError, match="no case 'never' is open"):
        world.close("never")


def test_a_case_is_opened_once(world: World, open_case: Open, tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="is open already"):
        world.open(open_case().id, SCRIPT, tmp_path / "other.jsonl")


def test_a_log_that_cannot_be_written_refuses_the_case(world: World, tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="cannot be written"):
        world.open("nowhere", SCRIPT, tmp_path / "no-such-folder" / "world.jsonl")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"case": "../x"}, "case"),
        ({"case": ""}, "case"),
        ({"script": {"replies": 3}}, "script.replies"),
        ({"sites": ["effect.nowhere"]}, "sites"),
        ({"log": "relative"}, "log"),
        ({"surplus": 1}, "surplus"),
    ],
)
def test_a_wrong_opening_is_refused_by_the_name_of_its_field(
    world: World, tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    opening = {"case": "c", "script": {"replies": {}}, "log": str(tmp_path / "log"), **change}
    headers = {"Authorization": f"Bearer {world.token}"}
    answer = httpx.post(f"{world.url}/admin/cases", json=opening, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"{named}:")
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("content", [b"{", b"", b"[]"])
def test_an_opening_that_is_no_json_object_is_refused(world: World, content: bytes) -> None:
    headers = {"Authorization": f"Bearer {world.token}"}
    assert httpx.post(f"{world.url}/admin/cases", content=content, headers=headers).status_code == 400


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": b"Bearer \xff"}])
def test_the_admin_entrance_wants_its_token(world: World, open_case: Open, headers: dict[str, Any], tmp_path: Path) -> None:
    case = open_case()
    opening = Opening(case="intruder", script=SCRIPT, log=tmp_path / "intruder").model_dump_json()
    assert httpx.post(f"{world.url}/admin/cases", content=opening, headers=headers).status_code == 401
    assert httpx.delete(f"{world.url}/admin/cases/{case.id}", headers=headers).status_code == 401
    assert not (tmp_path / "intruder").exists()
    with World.attach(world.url, "wrong") as intruder, pytest.raises(WorldError, match="token"):
        intruder.close(case.id)


def test_several_harness_processes_use_one_world(world: World, tmp_path: Path) -> None:
    ours = World.attach(world.url, world.token)
    addresses = ours.open("attached", SCRIPT, tmp_path / "log")
    child = os.fork()
    if child == 0:  # a fork of the harness has a connection of its own
        try:
            ours.open("forked", SCRIPT, tmp_path / "forked")
            ours.close("forked")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ours.close("attached")
    ours.stop()
    assert addresses.provider_url == f"{world.url}/c/attached/v1"
    assert psutil.pid_exists(world.pid or 0)


def test_a_fault_of_the_world_itself_is_told_to_the_harness(world: World, client: httpx.Client) -> None:
    """A log on a full device: the world must neither answer nor keep quiet about it."""
    addresses = world.open("full", SCRIPT, Path("/dev/full"))
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(f"{addresses.effects_url}/plain", json={})
    with pytest.raises(WorldError, match="No space left"):
        world.close("full")


def test_what_was_answered_is_in_the_log_though_the_world_is_killed(tmp_path: Path, client: httpx.Client) -> None:
    world = World.start()
    addresses = world.open("c", SCRIPT, tmp_path / "log")
    client.post(f"{addresses.effects_url}/plain", json={"a": 1})
    client.post(f"{addresses.provider_url}/chat/completions", json=body("story", stream=False))
    with client.stream("POST", f"{addresses.provider_url}/chat/completions", json=body("pay")) as reply:
        assert any("[DONE]" in line for line in reply.iter_lines())
    os.kill(world.pid or 0, signal.SIGKILL)
    kinds = [line["kind"] for line in read_lines(tmp_path / "log")]
    assert kinds[:3] == ["effect.received", "effect.applied", "effect.answered"]
    assert kinds.count("provider.billed") == kinds.count("provider.answered") == 2
    with pytest.raises(WorldError, match="does not answer"):
        world.close("c")
    world.stop()


def test_every_record_is_synced_before_bytes_are_sent(tmp_path: Path) -> None:
    """Seen at the system calls: no answer leaves between a record's write and its fdatasync."""
    order: list[str] = []
    program = (
        "import os, sys, pathlib\n"
        "from scenarios.world import log\n"
        "real_write, real_sync = os.write, os.fdatasync\n"
        "log.os.write = lambda fd, data: (order.append('write'), real_write(fd, data[:5]))[1]\n"
        "log.os.fdatasync = lambda fd: (order.append('sync'), real_sync(fd))[1]\n"
        "order = []\n"
        "made = log.WorldLog(pathlib.Path(sys.argv[1]))\n"
        "made.append(('a', {}), ('b', {'x': 1}))\n"
        "order.append('returned')\n"
        "real_write(1, ' '.join(order).encode())\n"
    )
    path = tmp_path / "log"
    run = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    order = run.stdout.split()
    assert order[-2:] == ["sync", "returned"]
    assert set(order[:-2]) == {"write"} and len(order) > 4  # short writes are carried on with
    assert [line["kind"] for line in read_lines(path)] == ["a", "b"]


def sent_and_gone(case: Opened, whole: bool = True) -> socket.socket:
    """A connection on which a request, or the first half of it, has been sent."""
    url = urlsplit(case.addresses.provider_url)
    data = json.dumps(body("who")).encode()
    head = f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: world\r\nAuthorization: Bearer k\r\n"
    request = f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
    connection = socket.create_connection((str(url.hostname), int(url.port or 0)), WAIT_S_MAX)
    connection.sendall(request if whole else request[: -len(data) // 2])
    return connection


def test_what_was_sent_before_is_written_down_though_nobody_waited_for_an_answer(tmp_path: Path) -> None:
    """The world stands still while it is sent, so that it can be read only afterwards."""
    with World.start() as world, ThreadPoolExecutor(1) as pool:
        case = Opened(world, "c", tmp_path / "log", world.open("c", SCRIPT, tmp_path / "log"), None)
        of_world = psutil.Process(world.pid)
        of_world.suspend()
        for _ in range(5):
            sent_and_gone(case).close()
        heard = pool.submit(world.hear, "c")
        of_world.resume()
        heard.result(WAIT_S_MAX)
        assert len(case.records("provider.request")) == 5
        case.close()


def test_half_a_request_is_waited_for_until_it_is_whole_or_gone(world: World, open_case: Open) -> None:
    case = open_case()
    half = sent_and_gone(case, whole=False)
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(world.hear, case.id)
        assert not wait([heard], 0.1).done
        half.close()
        heard.result(WAIT_S_MAX)
    assert case.records("provider.request") == []


def test_a_request_that_is_held_has_been_heard(world: World, open_case: Open) -> None:
    case = open_case(controlled=True)
    with sent_and_gone(case):
        assert case.controller
        case.controller.next("provider.request.received")
        world.hear(case.id)
        assert len(case.records("provider.request")) == 1
    with pytest.raises(WorldError, match="no case 'nothing' is open"):
        world.hear("nothing")


def test_times_in_the_log_only_grow(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    for _ in range(3):
        stream(client, case, body("pay"))
    times = [line["t_ns"] for line in read_lines(case.log_path)]
    assert times == sorted(times)


def _start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "scenarios.world", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def test_the_address_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    with _start("--address-file", str(path)) as process:
        assert process.stdin and process.stdout
        shown = json.loads(process.stdout.readline())
        address = json.loads(path.read_text())
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert shown == {"url": address["url"], "pid": process.pid}  # the token is for the file alone
        with World.attach(address["url"], address["token"]) as world:
            world.open("c", SCRIPT, tmp_path / "log")
        process.stdin.close()
        assert process.wait(WAIT_S_MAX) == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "world.json"]


def test_an_address_file_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    with _start("--address-file", str(tmp_path / "none" / "file")) as process:
        _, said = process.communicate(timeout=WAIT_S_MAX)
    assert process.returncode == 2
    assert said.count("\n") == 1 and "No such file" in said


def test_it_listens_on_loopback_only(world: World) -> None:
    listening = [each.laddr.ip for each in psutil.Process(world.pid).net_connections("inet") if each.status == "LISTEN"]
    assert listening == ["127.0.0.1"]


def test_the_world_ends_with_its_harness_though_a_request_is_held(tmp_path: Path) -> None:
    harness = (
        "import os, sys, pathlib, json, socket, threading, httpx\n"
        "from scenarios.world.handle import World\n"
        "from scenarios.case import Script\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "listener = socket.socket(socket.AF_UNIX)\n"
        "listener.bind(str(folder / 's'))\n"
        "listener.listen()\n"
        "world = World.start()\n"
        "where = world.open('c', Script(replies={}), folder / 'log', folder / 's')\n"
        "threading.Thread(target=lambda: httpx.post(where.effects_url + '/plain', json={}), daemon=True).start()\n"
        "held, _ = listener.accept()\n"
        "held.recv(1)\n"
        "sys.stdout.write(f'{world.pid}\\n')\n"
        "sys.stdout.flush()\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", harness, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    with process:
        assert process.stdout
        of_world = psutil.Process(int(process.stdout.readline()))
        process.kill()
        process.wait()
        of_world.wait(WAIT_S_MAX)


def test_a_world_that_is_not_ready_in_time_is_an_error_and_leaves_nothing() -> None:
    before = {each.pid for each in psutil.Process().children()}
    with pytest.raises(WorldError, match="not ready within"):
        World.start(ready_s_max=0.001)
    assert {each.pid for each in psutil.Process().children()} <= before
