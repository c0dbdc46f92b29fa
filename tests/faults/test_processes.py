"""A death counts only if it was ours, at the point, and the kernel says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from faults.controller import Controller, Held
from faults.processes import Keeper, OomCount, Process, Sent, WaitStatus, is_alive, prove, still
from faults.stores import CaseFolder

from .conftest import WAIT_S_MAX

Start = Callable[..., Process]
Stand = Callable[[], tuple[Process, Held]]

QUIET = OomCount(0, 0)


@pytest.fixture
def stand(start: Start, folder: CaseFolder) -> Iterator[Stand]:
    """Start a worker and have it stand at a point."""
    with Controller(folder.socket, Held.keep) as controller:
        lives = iter(range(1, 9))

        def begin() -> tuple[Process, Held]:
            life = next(lives)
            label = f"worker.{life}"
            process = start(
                "stands", "tool.effect.done", label=label, KILLPOINT_SOCKET=str(folder.socket), KILLPOINT_PROCESS=label
            )
            held = controller.wait_for("tool.effect.done", life, WAIT_S_MAX)
            assert held is not None
            return process, held

        yield begin


def state_of(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_our_kill_at_the_point_is_proved(stand: Stand) -> None:
    process, held = stand()
    before = OomCount.read()
    sent = process.kill()
    status = process.wait(WAIT_S_MAX)
    proof = prove(status, held, sent, before, OomCount.read())
    assert proof.proved, proof.why
    assert (proof.pid, proof.point, proof.ordinal, proof.nonce) == (process.pid, "tool.effect.done", 1, held.nonce)
    assert proof.status == signal.SIGKILL and str(status) == "killed by SIGKILL"


def test_without_pidfds_the_keeper_signals_and_the_proof_is_the_same(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    process, held = stand()
    assert process._pidfd == -1
    assert not process.stopped and process.freeze() and state_of(process) == "T" and process.stopped
    assert process.thaw() and not process.stopped
    sent = process.kill()
    assert prove(process.wait(WAIT_S_MAX), held, sent, QUIET, QUIET).proved
    assert not process.kill().alive and not process.stopped


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV], ids=lambda how: how.name)
def test_the_kill_of_a_stranger_and_a_crash_are_not_ours(stand: Stand, how: signal.Signals) -> None:
    process, held = stand()
    os.kill(process.pid, how)
    status = process.wait(WAIT_S_MAX)
    assert status is not None and status.signal is how
    proof = prove(status, held, process.kill(), QUIET, QUIET)
    assert not proof.proved and proof.why is not None and "dead or dying before our SIGKILL" in proof.why


def test_a_strangers_kill_is_seen_even_when_the_process_has_not_quite_ended(stand: Stand) -> None:
    process, held = stand()
    assert process.freeze()
    os.kill(process.pid, signal.SIGKILL)
    sent = process.kill()  # at once, without waiting for its end
    assert not prove(process.wait(WAIT_S_MAX), held, sent, QUIET, QUIET).proved


def test_who_is_killed_wherever_it_is_died_by_us_and_at_no_point(stand: Stand) -> None:
    process, held = stand()
    assert process.freeze()  # before it is let go, or it may end first
    held.go()
    sent = process.kill()
    status = process.wait(WAIT_S_MAX)
    assert "had been let go" in str(prove(status, held, sent, QUIET, QUIET).why)
    proof = prove(status, held, sent, QUIET, QUIET, anywhere=True)
    assert (proof.proved, proof.point, proof.ordinal, proof.nonce) == (True, None, None, None)
    assert not prove(status, held, sent, QUIET, OomCount(host=9, group=9), anywhere=True).proved
    assert not prove(None, held, sent, QUIET, QUIET, anywhere=True).proved


def test_an_exit_is_no_kill(stand: Stand) -> None:
    process, held = stand()
    held.go()
    status = process.wait(WAIT_S_MAX)
    assert status is not None and status.code == 0 and status.signal is None
    proof = prove(status, held, process.kill(), QUIET, QUIET)
    assert proof.why == "worker.1 had been let go from tool.effect.done#1 before the SIGKILL"


def test_each_missing_part_of_the_proof_is_named(stand: Stand) -> None:
    process, held = stand()
    sent = process.kill()
    status = process.wait(WAIT_S_MAX)

    def why(
        status: WaitStatus | None = status,
        held: Held | None = held,
        sent: Sent | None = sent,
        before: OomCount = QUIET,
        after: OomCount = QUIET,
    ) -> str | None:
        return prove(status, held, sent, before, after).why

    assert why() is None
    assert why(held=None) == "no process had acknowledged the point"
    assert why(sent=None) == "no SIGKILL was sent"
    assert sent is not None and why(sent=replace(sent, signal=signal.SIGTERM)) == "no SIGKILL was sent"
    assert why(status=None) == f"pid {process.pid} has not ended"
    assert why(status=WaitStatus(signal.SIGSEGV)) == "the wait status says killed by SIGSEGV, not SIGKILL"
    assert why(status=WaitStatus(70 << 8)) == "the wait status says exit status 70, not SIGKILL"
    assert why(after=OomCount(1, 0)) == "the out-of-memory killer struck meanwhile"
    assert why(after=OomCount(0, 1)) == "the out-of-memory killer struck meanwhile"
    unknown = OomCount(None, None)
    assert why(before=unknown, after=unknown) == "the system does not tell whether its out-of-memory killer struck"
    wrapped = f"pid {held.pid} acknowledged the point, pid 1 was killed"
    assert why(sent=replace(sent, pid=1)) == wrapped


def test_a_worker_may_be_killed_while_the_world_stands_at_the_point(stand: Stand) -> None:
    process, held = stand()
    at_world = Held("effect.applied", 1, "ab", "world", "world", 0, os.getpid(), 1, None, None, held.reached_ns)
    sent = process.kill()
    assert prove(process.wait(WAIT_S_MAX), at_world, sent, QUIET, QUIET).proved


def test_a_frozen_process_has_stopped_when_freeze_returns_and_goes_on_when_thawed(stand: Stand) -> None:
    process, held = stand()
    for _ in range(3):
        assert process.freeze() and state_of(process) == "T"
        assert process.thaw() and state_of(process) != "T"
    assert process.freeze()
    held.go()
    assert process.wait(0.1) is None
    process.thaw()
    status = process.wait(WAIT_S_MAX)
    assert status is not None and status.code == 0
    assert process.freeze() is False


def test_a_frozen_process_can_be_killed(stand: Stand) -> None:
    process, held = stand()
    process.freeze()
    assert prove(process.wait(0), held, process.kill(), QUIET, QUIET).why == f"pid {process.pid} has not ended"
    status = process.wait(WAIT_S_MAX)
    assert status is not None and status.signal is signal.SIGKILL


def test_still_holds_the_living_and_forgets_the_dead(stand: Stand) -> None:
    living, _ = stand()
    dead, _ = stand()
    dead.kill()
    dead.wait(WAIT_S_MAX)
    with still(living, dead):
        assert state_of(living) == "T"
    assert state_of(living) != "T"


def test_a_zombie_is_dead_and_so_is_a_recycled_pid(stand: Stand) -> None:
    process, _ = stand()
    assert is_alive(process.pid, process.start_time)
    assert not is_alive(process.pid, process.start_time + 1)

    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        start_time = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
        assert is_alive(child.pid, start_time)
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}").exists()
        assert not is_alive(child.pid, start_time)
    finally:
        child.wait()
    assert not is_alive(child.pid, start_time)


def test_the_system_tells_of_its_out_of_memory_killer() -> None:
    count = OomCount.read()
    assert count.host is not None or count.group is not None
    assert count == OomCount.read()


def test_a_process_can_be_left_a_zombie_while_others_end_and_is_buried_later(stand: Stand, start: Start) -> None:
    process, held = stand()
    process.leave_unreaped()
    before = OomCount.read()
    sent = process.kill()
    status = process.wait(WAIT_S_MAX)
    assert prove(status, held, sent, before, OomCount.read()).proved
    assert state_of(process) == "Z", "its pid and its start time are still there"
    assert int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]) == process.start_time

    other = start("say", "3", label="worker.8")
    ended = other.wait(WAIT_S_MAX)
    assert ended is not None and ended.code == 3, "the zombie hides nobody else's end"
    frozen, _ = stand()
    assert frozen.freeze() and frozen.thaw()
    frozen.kill()
    assert str(frozen.wait(WAIT_S_MAX)) == "killed by SIGKILL"
    assert state_of(process) == "Z"

    process.bury()
    assert not Path(f"/proc/{process.pid}").exists()
    process.bury()
    assert not process.unreaped


def test_how_an_unreaped_process_ended_by_itself_is_told_too(stand: Stand) -> None:
    process, held = stand()
    process.leave_unreaped()
    held.go()
    ended = process.wait(WAIT_S_MAX)
    assert ended is not None and ended.code == 0
    assert state_of(process) == "Z"
    process.bury()


def test_a_sweep_takes_the_zombies_too(stand: Stand, keeper: Keeper) -> None:
    process, _ = stand()
    process.leave_unreaped()
    process.kill()
    assert process.wait(WAIT_S_MAX) is not None
    keeper.sweep()
    assert not Path(f"/proc/{process.pid}").exists()
