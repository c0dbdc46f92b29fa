"""The controller decides over processes that stand at points, several at once, and nothing is timed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.controller import (
    SOCKET_PATH_BYTES_MAX,
    AlreadyAnswered,
    Controller,
    Held,
    SocketPathTooLong,
    role_and_life,
    socket_path,
)
from faults.processes import Process
from faults.stores import CaseFolder

from .conftest import WAIT_S_MAX

Start = Callable[..., Process]


def env(folder: CaseFolder, label: str) -> dict[str, str]:
    return {"KILLPOINT_SOCKET": str(folder.socket), "KILLPOINT_PROCESS": label}


def test_one_worker_overtakes_another_that_stands_at_a_point(folder: CaseFolder, start: Start) -> None:
    order: list[str] = []

    def on_reached(held: Held) -> None:
        order.append(f"{held.process} at {held.address}")
        if held.address == "tool.effect.done#1":
            held.keep()

    with Controller(folder.socket, on_reached) as controller:
        first = start("stands", "tool.effect.done", "turn.committed", **env(folder, "worker.1"))
        held = controller.wait_for("tool.effect.done", 1, WAIT_S_MAX)
        assert held is not None and held.standing
        assert (held.role, held.life, held.pid, held.local) == ("worker", 1, first.pid, 1)
        assert (held.work, held.detail) == ("w_1", {"argv": 2})

        second = start("stands", "tool.effect.done", "turn.committed", **env(folder, "worker.2"))
        ended = second.wait(WAIT_S_MAX)
        assert ended is not None and ended.code == 0
        assert not first.exited and controller.held() == [held]

        held.go()
        ended = first.wait(WAIT_S_MAX)
        assert ended is not None and ended.code == 0
    assert order == [
        "worker.1 at tool.effect.done#1",
        "worker.2 at tool.effect.done#2",
        "worker.2 at turn.committed#1",
        "worker.1 at turn.committed#2",
    ]
    assert controller.faults == []


def test_several_processes_stand_at_once_and_each_is_decided_alone(folder: CaseFolder, start: Start) -> None:
    with Controller(folder.socket, Held.keep) as controller:
        processes = [start("stands", "turn.begun", **env(folder, f"worker.{life}")) for life in (1, 2, 3)]
        assert controller.wait_for("turn.begun", 3, WAIT_S_MAX)
        by_process = {held.process: held for held in controller.held()}
        assert sorted(by_process) == ["worker.1", "worker.2", "worker.3"]
        assert sorted(held.ordinal for held in by_process.values()) == [1, 2, 3]

        by_process["worker.2"].raise_("EIO")
        raised = processes[1].wait(WAIT_S_MAX)
        processes[0].kill()
        killed = processes[0].wait(WAIT_S_MAX)
        assert raised is not None and raised.code == 1
        assert "Input/output error" in (folder.logs / "worker.2.log").read_text()
        assert killed is not None and killed.signal is not None and killed.signal.name == "SIGKILL"
        assert not processes[2].exited
        controller.release_all()
        ended = processes[2].wait(WAIT_S_MAX)
        assert ended is not None and ended.code == 0
        assert controller.held() == []


def test_an_answer_is_given_once(folder: CaseFolder, start: Start) -> None:
    again: list[BaseException] = []

    def on_reached(held: Held) -> None:
        held.go()
        try:
            held.raise_("EIO")
        except AlreadyAnswered as error:
            again.append(error)

    with Controller(folder.socket, on_reached) as controller:
        ended = start("stands", "turn.begun", **env(folder, "worker.1")).wait(WAIT_S_MAX)
    assert ended is not None and ended.code == 0
    assert [str(error) for error in again] == ["turn.begun#1: worker.1 was told `go` and now `raise EIO`"]
    assert controller.faults == []


def test_a_fault_of_the_harness_is_kept_and_holds_nobody(folder: CaseFolder, start: Start) -> None:
    def on_reached(held: Held) -> None:
        held.keep()
        raise KeyError("a slip in the runner")

    with Controller(folder.socket, on_reached) as controller:
        ended = start("stands", "turn.begun", **env(folder, "worker.1")).wait(WAIT_S_MAX)
        assert ended is not None and ended.code == 0
        assert [type(fault) for fault in controller.faults] == [KeyError]


def test_what_is_no_report_is_a_fault_of_the_harness(folder: CaseFolder) -> None:
    import socket

    with Controller(folder.socket) as controller, socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(folder.socket))
        stranger.sendall(b"GET / HTTP/1.1\r\n")
        assert stranger.recv(1) == b""  # turned away
        assert [type(fault).__name__ for fault in controller.faults] == ["JSONDecodeError"]


def test_only_the_world_is_told_how_to_answer(folder: CaseFolder, start: Start) -> None:
    refused: list[BaseException] = []

    def on_reached(held: Held) -> None:
        with pytest.raises(ValueError, match="no world") as error:
            held.answer("cut")
        refused.append(error.value)
        with pytest.raises(ValueError, match="no errno name"):
            held.raise_("EVERYTHING")

    with Controller(folder.socket, on_reached) as controller:
        ended = start("stands", "turn.begun", **env(folder, "worker.1")).wait(WAIT_S_MAX)
    assert ended is not None and ended.code == 0 and refused and controller.faults == []


def test_the_world_speaks_the_same_protocol(folder: CaseFolder) -> None:
    import json
    import socket

    with (
        Controller(folder.socket, lambda held: held.answer("error", 503)),
        socket.socket(socket.AF_UNIX) as world,
    ):
        world.connect(str(folder.socket))
        report = {"point": "provider.request.received", "local": 1, "nonce": "ab", "pid": 1, "process": "world"}
        world.sendall(json.dumps(report).encode() + b"\n")
        with world.makefile("rb") as lines:
            assert json.loads(lines.readline()) == {"nonce": "ab", "do": "answer", "how": "error", "status": 503}


def test_one_that_dies_where_it_stands_is_gone_and_can_still_be_let_go(folder: CaseFolder, start: Start) -> None:
    with Controller(folder.socket, Held.keep) as controller:
        process = start("stands", "turn.begun", **env(folder, "worker.1"))
        held = controller.wait_for("turn.begun", 1, WAIT_S_MAX)
        assert held is not None
        process.kill()
        assert process.wait(WAIT_S_MAX)
        with controller._changed:
            assert controller._changed.wait_for(lambda: held.gone, WAIT_S_MAX)
        assert not held.standing and controller.held() == []
        held.go()
        assert controller.faults == []


def test_waiting_has_a_bound_and_ends_with_the_case(folder: CaseFolder) -> None:
    with Controller(folder.socket) as controller:
        assert controller.wait_for("turn.begun", 1, 0.01) is None
        found: list[Held | None] = []
        waiting = threading.Thread(target=lambda: found.append(controller.wait_for("turn.begun", 1, WAIT_S_MAX)))
        waiting.start()
    waiting.join(WAIT_S_MAX)
    assert found == [None]
    assert not folder.socket.exists()


def test_a_socket_path_that_does_not_fit_is_refused_in_one_line(tmp_path: Path) -> None:
    room = SOCKET_PATH_BYTES_MAX - len(str(tmp_path)) - 3
    assert socket_path(tmp_path / ("x" * room)) == tmp_path / ("x" * room) / "c"
    with pytest.raises(SocketPathTooLong, match="set TMPDIR"):
        socket_path(tmp_path / ("x" * (room + 1)))


def test_a_socket_that_is_taken_is_refused(folder: CaseFolder) -> None:
    with Controller(folder.socket), pytest.raises(OSError, match="in use"):
        Controller(folder.socket)


@pytest.mark.parametrize(
    ("label", "expected"),
    [("worker.2", ("worker", 2)), ("world", ("world", 0)), ("a.b.3", ("a.b", 3)), ("app.x", ("app.x", 0))],
)
def test_a_label_holds_role_and_life(label: str, expected: tuple[str, int]) -> None:
    assert role_and_life(label) == expected
