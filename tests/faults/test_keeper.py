"""The keeper starts a target's processes warm or cold, tells how each ended, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import active_count

import pytest

from faults.controller import Controller, Held
from faults.processes import Keeper, KeeperError, Process, is_alive
from faults.stores import CaseFolder

from .conftest import ROOT, WAIT_S_MAX, environment

Start = Callable[..., Process]


def code_of(process: Process) -> int | None:
    status = process.wait(WAIT_S_MAX)
    assert status is not None, f"{process} has not ended"
    return status.code


def ended(pidfds: list[int], timeout_s: float = WAIT_S_MAX) -> bool:
    """Whether every one of these processes ends within the bound."""
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return False
    return True


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_a_process_gets_its_command_environment_folder_and_log(start: Start, folder: CaseFolder, cold: bool) -> None:
    process = start("say", "3", "x y", cold=cold, MARK="m")
    assert code_of(process) == 3
    log = (folder.logs / "worker.1.log").read_text()
    assert f"argv=['3', 'x y'] cwd={folder.workspace} mark=m\n" in log
    assert "inherited=False session=True stdin=''\n" in log
    assert f"warmed={not cold}\n" in log
    assert "to stderr" in log
    assert process.cold is cold and (process.role, process.life) == ("worker", 1)


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_an_exception_is_in_the_log_and_words_of_an_exit_too(start: Start, folder: CaseFolder, cold: bool) -> None:
    failing, leaving = start("fails", cold=cold), start("leaves", cold=cold)
    assert (code_of(failing), code_of(leaving)) == (1, 1)
    assert "LookupError: this is in the log" in (folder.logs / "worker.1.log").read_text()
    assert "left with words" in (folder.logs / "worker.2.log").read_text()


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_a_process_begins_like_a_fresh_interpreter(start: Start, folder: CaseFolder, cold: bool) -> None:
    assert code_of(start("dispositions", cold=cold)) == 0
    assert code_of(start("descriptors", cold=cold)) == 0
    assert (folder.logs / "worker.2.log").read_text() == "[0, 1, 2]\n"


def test_a_program_that_is_not_there_says_so_in_its_log(keeper: Keeper, folder: CaseFolder) -> None:
    log = folder.logs / "none"
    assert code_of(keeper.start("worker.1", ["/no/such/program"], {}, folder.workspace, log)) == 127
    assert "FileNotFoundError" in log.read_text()


def test_a_program_is_spoken_to_over_pipes(keeper: Keeper, folder: CaseFolder) -> None:
    stdin, stdout = folder.sock / "in", folder.sock / "out"
    os.mkfifo(stdin)
    os.mkfifo(stdout)
    process = keeper.start(
        "worker.1",
        [sys.executable, "-m", "tests.faults.programs", "echoes"],
        environment(),
        folder.workspace,
        folder.logs / "echoes",
        entry="tests.faults.programs:echoes",
        stdin=stdin,
        stdout=stdout,
    )
    with stdout.open() as heard, stdin.open("w") as said:
        for word in ("initialize", "prompt"):
            said.write(word + "\n")
            said.flush()
            assert heard.readline() == word.upper() + "\n"
        said.close()
        assert code_of(process) == 0


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_sigterm_lets_a_process_end_by_itself(start: Start, folder: CaseFolder, cold: bool) -> None:
    with Controller(folder.socket) as controller:
        env = {"KILLPOINT_SOCKET": str(folder.socket), "KILLPOINT_PROCESS": "worker.1"}
        process = start("graceful", cold=cold, **env)
        assert controller.wait_for("turn.begun", 1, WAIT_S_MAX)
        assert process.terminate().alive
        assert code_of(process) == 7


def test_a_preload_that_fails_or_leaves_threads_is_refused_in_one_line() -> None:
    before = active_count()
    with pytest.raises(KeeperError, match=r"programs:broken_warm: RuntimeError: no such provider$"):
        Keeper(preload="tests.faults.programs:broken_warm", env=environment())
    with pytest.raises(KeeperError, match="leaves 1 threads running"):
        Keeper(preload="tests.faults.programs:threaded_warm", env=environment())
    with pytest.raises(KeeperError, match="ModuleNotFoundError"):
        Keeper(preload="no_such_module:warm", env=environment())
    assert active_count() == before


def test_the_keepers_own_folder_shadows_no_module_of_the_target(folder: CaseFolder) -> None:
    with Keeper(env=environment()) as keeper:
        log = folder.logs / "warm"
        process = keeper.start("a.1", ["python", "x"], environment(), folder.root, log, entry="catalogue:point")
        assert code_of(process) == 1
    assert "No module named 'catalogue'" in log.read_text()


def test_a_sweep_takes_what_the_target_left_behind(keeper: Keeper, start: Start, folder: CaseFolder) -> None:
    note = folder.workspace / "child"
    with Controller(folder.socket) as controller:
        env = {"KILLPOINT_SOCKET": str(folder.socket), "KILLPOINT_PROCESS": "worker.1"}
        parent = start("family", str(note), **env)
        assert controller.wait_for("turn.begun", 1, WAIT_S_MAX)
        assert code_of(parent) == 0
    child = int(note.read_text())
    pidfd = os.pidfd_open(child)  # it has outlived its parent
    try:
        assert not ended([pidfd], 0)
        assert keeper.sweep() == [child]
        assert ended([pidfd], 0)
        assert (child, signal.SIGKILL) in keeper.orphans
        assert keeper.sweep() == []
    finally:
        os.close(pidfd)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_a_harness_that_dies_leaves_no_process_and_no_folder(how: signal.Signals) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.harness"],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with harness:
        assert harness.stdout is not None
        said = json.loads(harness.stdout.readline())
        pidfds = [os.pidfd_open(pid) for pid in said["pids"]]
        try:
            assert len(pidfds) == 5 and not ended(pidfds[:1], 0)
            os.killpg(harness.pid, how)  # as a terminal does: whole group, which must not be the keeper's
            assert harness.wait(WAIT_S_MAX) == -how
            assert ended(pidfds)
        finally:
            for pidfd in pidfds:
                os.close(pidfd)
    assert not Path(said["folder"]).exists()


def test_a_keeper_that_is_killed_takes_its_processes_along(folder: CaseFolder) -> None:
    with Controller(folder.socket, Held.keep) as controller, Keeper(env=environment()) as keeper:
        processes = [
            keeper.start(
                f"worker.{life}",
                [sys.executable, "-m", "tests.faults.programs", "stands", "turn.begun"],
                environment(KILLPOINT_SOCKET=str(folder.socket), KILLPOINT_PROCESS=f"worker.{life}"),
                folder.workspace,
                folder.logs / f"{life}",
                entry="tests.faults.programs:stands",
                cold=life == 2,
                arguments=["turn.begun"],
            )
            for life in (1, 2)
        ]
        assert controller.wait_for("turn.begun", 2, WAIT_S_MAX)
        pidfds = [os.pidfd_open(process.pid) for process in processes]
        try:
            os.kill(keeper.pid, signal.SIGKILL)
            assert ended(pidfds)
        finally:
            for pidfd in pidfds:
                os.close(pidfd)
        with pytest.raises(KeeperError, match="is gone"):
            processes[0].wait(WAIT_S_MAX)
        with pytest.raises(KeeperError, match="is gone"):
            keeper.sweep()
    assert not is_alive(processes[0].pid, processes[0].start_time)


@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_a_process_that_is_told_to_end_as_soon_as_it_was_started_ends(start: Start, cold: bool) -> None:
    """The keeper ignores SIGTERM, and so does its child for its first moments; what is sent then must not be lost."""
    for _ in range(40):
        process = start("rests", cold=cold)
        process.terminate()
        status = process.wait(WAIT_S_MAX)
        assert status is not None and status.signal is signal.SIGTERM
