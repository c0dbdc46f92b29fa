"""Owns what the world's tests share: one world for all of them, a case for each, and a controller that they play."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from scenarios.case import Call, Reply, Script
from scenarios.history import read_lines
from scenarios.standalone.front import LocalWorld
from scenarios.world.handle import Addresses, World

WAIT_S_MAX = 10.0

SCRIPT = Script(
    replies={
        "pay": (
            Reply(text="I pay.", calls=(Call(tool="charge", arguments={"amount": 5, "to": "a b"}),), pieces=2),
            Reply(text="It is paid.", pieces=3),
        ),
        "two": (
            Reply(calls=(Call(tool="charge", arguments={}), Call(tool="mail", arguments={"to": "x"}))),
            Reply(text="both"),
        ),
        "story": (Reply(text="one two three four five six", pieces=4, usage="last"),),
        "every": (Reply(text="one two three", pieces=3, usage="every"),),
        "none": (Reply(text="one two three", pieces=3, usage="none"),),
    }
)


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    with World.start() as started:
        yield started


@pytest.fixture(scope="session", params=["served by a library", "served by itself"])
def served(request: pytest.FixtureRequest, world: World) -> Iterator[World]:
    """The world of the harness, and the one that a reproducer in one file brings: the same is asked of both."""
    if request.param == "served by a library":
        yield world
        return
    with LocalWorld() as alone:
        yield alone


@dataclass
class Held:
    """One request that stands at a point, and the way to answer it."""

    report: dict[str, Any]
    connection: socket.socket

    @property
    def point(self) -> str:
        return str(self.report["point"])

    def answer(self, do: str = "go", **more: Any) -> None:
        line = json.dumps({"nonce": self.report["nonce"], "do": do, **more}) + "\n"
        with contextlib.suppress(BrokenPipeError):
            self.connection.sendall(line.encode())


class Controller:
    """Speaks the controller's side of the probe protocol over a real socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reached: queue.Queue[Held] = queue.Queue()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def next(self, point: str) -> Held:
        """The next request that stands somewhere; it has to stand at `point`."""
        held = self.reached.get(timeout=WAIT_S_MAX)
        assert held.point == point, held.report
        return held

    def go_until(self, point: str) -> Held:
        """Let everything go on until something stands at `point`."""
        while (held := self.reached.get(timeout=WAIT_S_MAX)).point != point:
            held.answer()
        return held

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(WAIT_S_MAX)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._threads.append(threading.Thread(target=self._read, args=(connection,)))
            self._threads[-1].start()

    def _read(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection.makefile("rb") as lines:
            for line in lines:
                self.reached.put(Held(json.loads(line), connection))


@dataclass
class Opened:
    """One open case."""

    world: World
    id: str
    log_path: Path
    addresses: Addresses
    controller: Controller | None
    closed: bool = field(default=False)

    def records(self, *kinds: str) -> list[dict[str, Any]]:
        """The records of these kinds in the log now, each with its `kind`."""
        return [{"kind": line["kind"], **line["data"]} for line in read_lines(self.log_path) if line["kind"] in kinds]

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.world.close(self.id)

    def until(self, *kinds: str, count: int = 1) -> list[dict[str, Any]]:
        """The records of these kinds, once there are so many, within the bound."""
        deadline = time.monotonic() + WAIT_S_MAX
        while len(found := self.records(*kinds)) < count:
            assert time.monotonic() < deadline, f"no {kinds} in {self.log_path.read_text()}"
            time.sleep(0.005)
        return found


_numbers = iter(range(1, 1_000_000))


@pytest.fixture
def open_case(served: World, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    opened: list[Opened] = []

    def open_one(script: Script = SCRIPT, *, controlled: bool = False, sites: list[str] | None = None) -> Opened:
        case_id = f"case-{next(_numbers)}"
        controller = Controller(tmp_path / f"{case_id}.sock") if controlled else None
        log_path = tmp_path / f"{case_id}.jsonl"
        addresses = served.open(case_id, script, log_path, controller.path if controller else None, sites)
        opened.append(Opened(served, case_id, log_path, addresses, controller))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()
        if each.controller:
            each.controller.close()


@pytest.fixture(scope="session")
def client() -> Iterator[httpx.Client]:
    """One client for all tests: making one costs more than most of them."""
    with httpx.Client(headers={"Authorization": "Bearer key"}, timeout=WAIT_S_MAX) as made:
        yield made


@dataclass
class Streamed:
    """What came of one streamed request: its chunks, and whether it ended as it should."""

    chunks: list[dict[str, Any]]
    whole: bool

    @property
    def text(self) -> str:
        return "".join(choice["delta"].get("content") or "" for chunk in self.chunks for choice in chunk.get("choices", ()))

    @property
    def calls(self) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        for chunk in self.chunks:
            for choice in chunk.get("choices", ()):
                for part in choice["delta"].get("tool_calls", ()):
                    if part["index"] == len(calls):
                        calls.append({"id": part["id"], "name": part["function"]["name"], "arguments": ""})
                    calls[part["index"]]["arguments"] += part["function"]["arguments"]
        return calls

    @property
    def usages(self) -> list[dict[str, Any]]:
        return [chunk["usage"] for chunk in self.chunks if chunk.get("usage")]


def body(*messages: Any, stream: bool = True, usage: bool = True) -> dict[str, Any]:
    """A request for a completion; a text stands for a user's message."""
    made: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages],
    }
    if stream:
        made |= {"stream": True}
        if usage:
            made |= {"stream_options": {"include_usage": True}}
    return made


def stream(client: httpx.Client, case: Opened, request: dict[str, Any], attempt: str = "a1") -> Streamed:
    """Send one request and read its stream to the end, or to where it breaks off."""
    chunks: list[dict[str, Any]] = []
    done = False
    headers = {"X-Client-Request-Id": attempt}
    try:
        with client.stream(
            "POST", f"{case.addresses.provider_url}/chat/completions", json=request, headers=headers
        ) as reply:
            assert reply.status_code == 200, reply.read()
            for line in reply.iter_lines():
                data = line.removeprefix("data: ")
                done = done or data == "[DONE]"
                if data and not done:
                    chunks.append(json.loads(data))
    except httpx.RemoteProtocolError:
        return Streamed(chunks, False)
    return Streamed(chunks, done)
