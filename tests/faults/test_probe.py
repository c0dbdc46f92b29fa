"""A program says at a breakpoint where it is, stands there, and costs nothing when nobody asks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import bench, probe
from faults.controller import Controller, Held
from faults.stores import CaseFolder

from .conftest import WAIT_S_MAX, environment


def run(code: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )


@pytest.fixture
def armed(folder: CaseFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KILLPOINT_SOCKET", str(folder.socket))
    monkeypatch.setenv("KILLPOINT_PROCESS", "worker.2")
    probe.arm()
    yield folder.socket
    monkeypatch.undo()
    probe.arm()


def test_unarmed_it_imports_nothing_and_says_nothing() -> None:
    done = run(
        "import sys; before = set(sys.modules)\n"
        "import faults.probe; faults.probe.reach('tool.effect.done', work='w', detail={})\n"
        "print(sorted(set(sys.modules) - before))"
    )
    assert done.stdout.strip() == "['faults', 'faults.probe']", done.stderr


def test_an_unarmed_call_stays_one_look_up() -> None:
    # The aim is 60 ns on a quiet machine; this bound tells a look-up from an import, a lock or a dictionary.
    assert bench.unarmed_cost().net_ns < 400


def test_it_is_disarmed_when_the_environment_names_no_socket(armed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KILLPOINT_SOCKET")
    probe.arm()
    probe.reach("tool.effect.done")  # nobody listens: armed, this would end the test run


def test_it_knows_whom_nobody_hears(armed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILLPOINT_QUIET", "event.sent,event.committed")
    probe.arm()
    assert not probe.heard("event.sent")
    assert probe.heard("tool.effect.done")
    monkeypatch.delenv("KILLPOINT_SOCKET")
    probe.arm()
    assert not probe.heard("tool.effect.done")


def test_the_lines_it_speaks_are_those_of_the_protocol(armed: Path) -> None:
    said: list[dict[str, object]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(armed))
        listener.listen()
        thread = threading.Thread(target=probe.reach, args=("tool.effect.done", "w_7", {"path": Path("/x")}))
        thread.start()
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            said.append(json.loads(lines.readline()))
            assert thread.is_alive()
            # An answer to an earlier question is nobody's, and is passed over.
            connection.sendall(b'{"nonce": "stale", "do": "raise", "errno": "EIO"}\n')
            connection.sendall(json.dumps({"nonce": said[0]["nonce"], "do": "go"}).encode() + b"\n")
            thread.join(WAIT_S_MAX)
    nonce = said[0].pop("nonce")
    assert isinstance(nonce, str) and len(bytes.fromhex(nonce)) == 8
    assert said == [
        {
            "point": "tool.effect.done",
            "local": 1,
            "pid": os.getpid(),
            "process": "worker.2",
            "work": "w_7",
            "detail": {"path": "/x"},
        }
    ]


def test_a_held_thread_holds_no_other(armed: Path) -> None:
    def on_reached(held: Held) -> None:
        if held.work == "slow":
            held.keep()

    with Controller(armed, on_reached) as controller:
        slow = threading.Thread(target=probe.reach, args=("tool.effect.done", "slow"))
        slow.start()
        held = controller.wait_for("tool.effect.done", 1, WAIT_S_MAX)
        assert held is not None
        for _ in range(3):
            probe.reach("tool.effect.done", "quick")
        assert slow.is_alive() and controller.held() == [held]
        held.go()
        slow.join(WAIT_S_MAX)
        assert not slow.is_alive() and controller.reached() == {"tool.effect.done": 4}


def test_it_raises_what_the_plan_says(armed: Path) -> None:
    with Controller(armed, lambda held: held.raise_("ENOSPC")), pytest.raises(OSError, match="Errno 28") as raised:
        probe.reach("tool.result.stored")
    assert raised.value.errno == 28


def test_without_its_harness_a_program_ends_with_70_and_acts_no_more(folder: CaseFolder) -> None:
    env = {"KILLPOINT_SOCKET": str(folder.socket), "KILLPOINT_PROCESS": "worker.1"}
    code = "from faults.probe import reach; reach('tool.effect.done'); print('went on')"
    never_there = run(code, **env)
    assert (never_there.returncode, never_there.stdout) == (probe.HARNESS_GONE, "")
    assert "the harness is gone" in never_there.stderr

    with Controller(folder.socket, Held.keep) as controller:
        program = subprocess.Popen(
            [sys.executable, "-c", code], env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert controller.wait_for("tool.effect.done", 1, WAIT_S_MAX)
        assert program.poll() is None
    with program:
        assert program.wait(WAIT_S_MAX) == probe.HARNESS_GONE
        assert program.stdout is not None and program.stdout.read() == b""


def test_a_child_that_the_program_forks_has_a_connection_of_its_own(folder: CaseFolder) -> None:
    code = (
        "import os\nfrom faults.probe import reach\n"
        "reach('turn.begun')\n"
        "pid = os.fork()\n"
        "reach('turn.begun')\n"
        "if pid: os.waitpid(pid, 0)\n"
    )
    with Controller(folder.socket) as controller:
        done = run(code, KILLPOINT_SOCKET=str(folder.socket), KILLPOINT_PROCESS="worker.1")
        assert done.returncode == 0, done.stderr
        reports = [controller.wait_for("turn.begun", ordinal, 0) for ordinal in (1, 2, 3)]
    assert [report.local for report in reports if report] in ([1, 2, 1], [1, 1, 2])
    assert len({report.pid for report in reports if report}) == 2
