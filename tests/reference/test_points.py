"""The app's breakpoints: where each stands, as a controller sees it that can hold a process there."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reference.client import parse
from tests.reference.processes import Served, served

ANSWER_S_MAX = 30.0


class Controller:
    """Says `go` to every point but those in `held`, which wait for `release`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "c.sock"
        self.held: set[str] = set()
        self.raising: dict[str, str] = {}
        self.reached: queue.Queue[dict[str, Any]] = queue.Queue()
        self._gates: dict[str, threading.Event] = {}
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.path))
        self._socket.listen(32)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                gate = self._gates.setdefault(message["point"], threading.Event())
                self.reached.put(message)
                if message["point"] in self.held and not gate.wait(ANSWER_S_MAX):
                    return
                answer = {"nonce": message["nonce"], "do": "go"}
                if message["point"] in self.raising:
                    answer |= {"do": "raise", "errno": self.raising[message["point"]]}
                try:
                    connection.sendall(json.dumps(answer).encode() + b"\n")
                except OSError:
                    return

    def wait(self, point: str) -> dict[str, Any]:
        """The next report of `point`; others before it are passed over."""
        while True:
            message = self.reached.get(timeout=ANSWER_S_MAX)
            if message["point"] == point:
                return message

    def release(self, point: str) -> None:
        self.held.discard(point)
        self._gates.setdefault(point, threading.Event()).set()

    def names(self) -> list[str]:
        """Every point reported and not yet taken."""
        found = []
        while not self.reached.empty():
            found.append(str(self.reached.get()["point"]))
        return found

    def close(self) -> None:
        for point in list(self.held):
            self.release(point)
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(ANSWER_S_MAX)


@pytest.fixture
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    made = Controller(tmp_path_factory.mktemp("c"))
    yield made
    made.close()


@pytest.fixture
def app(controller: Controller, tmp_path: Path) -> Iterator[Served]:
    env = {"KILLPOINT_SOCKET": str(controller.path), "KILLPOINT_PROCESS": "app.1"}
    with served(tmp_path / "data", env=env) as running:
        yield running


def test_an_input_is_acknowledged_before_the_point_that_says_so(controller: Controller, app: Served) -> None:
    with app.client() as client:
        session = client.post("/sessions", json={}).json()["session"]
        controller.held.add("input.acknowledged")
        answer = client.post(f"/sessions/{session}/inputs", json={"request_id": "r1", "text": "x"})
        assert answer.status_code == 202, "the client has its answer although the app is held behind it"
        report = controller.wait("input.acknowledged")
        assert (report["work"], report["process"]) == (answer.json()["work_id"], "app.1")
    with app.client() as other:
        assert other.get("/health").status_code == 200, "a held request holds no other"


def test_points_of_an_input_and_a_control_come_in_order(controller: Controller, app: Served) -> None:
    with app.client() as client:
        session = client.post("/sessions", json={}).json()["session"]
        client.post(f"/sessions/{session}/inputs", json={"request_id": "r1", "text": "x"})
        controller.wait("input.received")
        controller.wait("input.committed")
        controller.wait("input.acknowledged")
        client.post(f"/sessions/{session}/control", json={"action": "stop"})
        controller.wait("control.received")
        controller.wait("control.stored")
        controller.wait("control.acknowledged")


def test_an_event_is_sent_between_its_two_points(controller: Controller, app: Served) -> None:
    with app.client() as client:
        session = client.post("/sessions", json={}).json()["session"]
        client.post(f"/sessions/{session}/inputs", json={"request_id": "r1", "text": "x"})
        controller.held.add("event.committed")
        with client.stream("GET", f"/sessions/{session}/events") as stream:
            chunks = stream.iter_raw()
            assert next(chunks) == b"retry: 200\n\n"
            assert controller.wait("event.committed")["detail"] == {
                "session": session,
                "event": 1,
                "type": "input.accepted",
            }
            controller.held.add("event.sent")
            controller.release("event.committed")
            assert next(parse(chunks)).number == 1
            assert controller.wait("event.sent")["detail"]["event"] == 1
            with app.client() as other:
                assert other.get(f"/sessions/{session}").json()["announced"] == 0
            controller.release("event.sent")
            assert controller.wait("event.cursor.stored")["detail"]["event"] == 2
            with app.client() as other:
                assert other.get(f"/sessions/{session}").json()["announced"] == 2


def test_a_closing_app_refuses_new_work_and_says_when_to_come_back(controller: Controller, app: Served) -> None:
    controller.held.add("app.exit.closed")
    with app.client() as client:
        session = client.post("/sessions", json={}).json()["session"]
        app.process.send_signal(signal.SIGTERM)
        controller.wait("app.exit.closed")
        for path, body in (
            ("/sessions", {}),
            (f"/sessions/{session}/inputs", {"request_id": "r1", "text": "x"}),
        ):
            answer = client.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "closing")
            assert int(answer.headers["retry-after"]) >= 1
        stopped = client.post(f"/sessions/{session}/control", json={"action": "stop"})
        assert stopped.status_code == 200, "a control is still stored (INT-7)"
        controller.release("app.exit.closed")
    controller.wait("app.exit.stored")
    assert app.end() == 0


def test_a_full_disk_is_said_and_the_app_lives_on(controller: Controller, app: Served) -> None:
    with app.client() as client:
        session = client.post("/sessions", json={}).json()["session"]
        controller.raising["input.received"] = "ENOSPC"
        answer = client.post(f"/sessions/{session}/inputs", json={"request_id": "r1", "text": "x"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "state_unavailable")
        del controller.raising["input.received"]
        assert client.post(f"/sessions/{session}/inputs", json={"request_id": "r1", "text": "x"}).status_code == 202
