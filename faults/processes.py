"""Owns the processes of a target as the harness sees them: starting, watching, signalling, and the proof of a kill.

They are children of a keeper (keeper.py), which reports each wait status that the kernel gives. A signal goes through a
pidfd that was checked against pid and start time, or else through the keeper before it reaps, so that a recycled pid is
never hit.

A kill counts only with proof: the process had acknowledged point and nonce and still stood there, it was alive when our
SIGKILL went out, its wait status says SIGKILL, and the kernel's out-of-memory killer did not strike meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Any

from faults import jsontext
from faults.controller import Held, role_and_life

READY_S_MAX = 60.0
STARTED_S_MAX = 20.0
STOPPED_S_MAX = 5.0
SWEPT_S_MAX = 15.0
ENDED_S_MAX = 15.0

_KEEPER = Path(__file__).with_name("keeper.py")


class KeeperError(RuntimeError):
    """The keeper could not do what it was asked for, or is gone: a fault of the harness or of the target's preload."""


class NotStopped(RuntimeError):
    """A process that was told to stop did not within the bound."""


@dataclass(frozen=True, slots=True)
class WaitStatus:
    """How a process ended, as the kernel gave it in `raw`."""

    raw: int

    @property
    def signal(self) -> Signals | None:
        """The signal that ended it, or None if it exited."""
        return Signals(os.WTERMSIG(self.raw)) if os.WIFSIGNALED(self.raw) else None

    @property
    def code(self) -> int | None:
        """Its exit status, or None if a signal ended it."""
        return os.WEXITSTATUS(self.raw) if os.WIFEXITED(self.raw) else None

    def __str__(self) -> str:
        return f"killed by {self.signal.name}" if self.signal else f"exit status {self.code}"


@dataclass(frozen=True, slots=True)
class Sent:
    """A signal that we sent, at `t_ns` on the monotonic clock. `alive` says that the process was alive and not already
    dying of a SIGKILL just before, and that the kernel took the signal."""

    process: str
    pid: int
    signal: Signals
    t_ns: int
    alive: bool


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a death counts, and if not, `why`. With what the process acknowledged and what the kernel said."""

    proved: bool
    why: str | None
    pid: int | None
    status: int | None
    point: str | None
    ordinal: int | None
    nonce: str | None


class Process:
    """One process of the target. `start_time` is in the kernel's ticks since boot, as in /proc/<pid>/stat."""

    def __init__(self, keeper: Keeper, number: int, label: str, cold: bool) -> None:
        self.label = label
        self.role, self.life = role_and_life(label)
        self.cold = cold
        self.pid = 0
        self.start_time = 0
        self.exited_ns: int | None = None
        self.unreaped = False
        self.cpu_ms = 0.0  # user and system time, once it has ended
        self._keeper = keeper
        self._number = number
        self._state = "starting"  # running, stopped, exited, failed
        self._why = ""
        self._status: WaitStatus | None = None
        self._pidfd = -1
        self._callbacks: list[Callable[[WaitStatus], None]] = []
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        return f"<Process {self.label} pid {self.pid} {self._state}>"

    @property
    def exited(self) -> bool:
        """Whether its end has been reported."""
        return self._status is not None

    @property
    def status(self) -> WaitStatus | None:
        """How it ended; None while it has not."""
        return self._status

    def wait(self, timeout_s: float) -> WaitStatus | None:
        """How it ended, waiting up to `timeout_s`; None if it has not. Raises KeeperError if nobody can tell any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._state in {"exited", "failed"}, timeout_s)
            if self._state == "failed":
                raise KeeperError(f"{self.label}: {self._why}")
            return self._status

    def on_exit(self, call: Callable[[WaitStatus], None]) -> None:
        """Have `call` called once with how it ended: in the thread that hears of it and before anybody who waits is told,
        or at once if that has been."""
        with self._changed:
            if self._status is None:
                self._callbacks.append(call)
                return
        call(self._status)

    def signal(self, which: Signals) -> Sent:
        """Send a signal to this very process, or to nobody if it has ended."""
        with self._changed:
            if self._pidfd >= 0:
                alive = not self.exited and not _ended(self._pidfd) and not _dying(self.pid)
                try:
                    signal.pidfd_send_signal(self._pidfd, which)
                except ProcessLookupError:
                    alive = False
                return Sent(self.label, self.pid, which, time.monotonic_ns(), alive)
            exited = self.exited
        alive = not exited and not _dying(self.pid) and self._keeper.signal(self._number, which)
        return Sent(self.label, self.pid, which, time.monotonic_ns(), alive)

    def kill(self) -> Sent:
        """SIGKILL."""
        return self.signal(Signals.SIGKILL)

    def terminate(self) -> Sent:
        """SIGTERM."""
        return self.signal(Signals.SIGTERM)

    def leave_unreaped(self) -> None:
        """Have its parent take no note of its end, so that it stays a zombie with its pid and start time until `bury`. How
        it ended is reported all the same."""
        self._keeper._ask("left", STOPPED_S_MAX, do="leave", id=self._number)
        self.unreaped = True

    def bury(self) -> None:
        """Have its parent reap it, if it was left a zombie."""
        if self.unreaped:
            self._keeper._ask("buried", STOPPED_S_MAX, do="bury", id=self._number, pid=self.pid)
            self.unreaped = False

    def freeze(self) -> bool:
        """SIGSTOP, and wait until the kernel says that every thread of it has stopped. False if it has ended instead.
        Raises NotStopped after STOPPED_S_MAX seconds."""
        return self._until(Signals.SIGSTOP, "stopped")

    def thaw(self) -> bool:
        """SIGCONT, and wait until the kernel says that it goes on. False if it has ended by then."""
        return self._until(Signals.SIGCONT, "running")

    @property
    def stopped(self) -> bool:
        """Whether the kernel says that it is stopped; False too once it is gone."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as stat:  # noqa: PTH123
                return stat.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
        except (FileNotFoundError, ProcessLookupError):
            return False

    def _until(self, which: Signals, state: str) -> bool:
        with self._changed:
            if self._state == state:
                return True
        self.signal(which)
        with self._changed:
            if not self._changed.wait_for(lambda: self._state in {state, "exited", "failed"}, STOPPED_S_MAX):
                raise NotStopped(f"{self.label} (pid {self.pid}): not {state} {STOPPED_S_MAX} s after {which.name}")
            return self._state == state

    def _await_started(self) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._state != "starting", STARTED_S_MAX):
                raise KeeperError(f"{self.label}: not started after {STARTED_S_MAX} s")
            if self._state == "failed":
                raise KeeperError(f"{self.label}: {self._why}")

    def _on_started(self, pid: int, start_time: int) -> None:
        with self._changed:
            self.pid, self.start_time = pid, start_time
            with contextlib.suppress(OSError):  # already reaped, or a system that allows no pidfd: the keeper signals
                self._pidfd = os.pidfd_open(pid)
                if _start_time(pid) != start_time:
                    self._drop_pidfd()
            self._state = "running"
            self._changed.notify_all()

    def _on_state(self, state: str) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    def _on_exited(self, raw: int, t_ns: int, cpu_ms: float) -> None:
        with self._changed:
            self._drop_pidfd()
            self._status, self.exited_ns, self.cpu_ms = WaitStatus(raw), t_ns, cpu_ms
            status, callbacks = self._status, self._callbacks
        for call in callbacks:
            call(status)
        with self._changed:
            self._state = "exited"
            self._changed.notify_all()

    def _on_failed(self, why: str) -> None:
        with self._changed:
            if self._state != "exited":
                self._drop_pidfd()
                self._state, self._why = "failed", why
                self._changed.notify_all()

    def _drop_pidfd(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class Keeper:
    """Starts a keeper under `python`, with `preload` ("module:function") called once in it, and speaks to it.

    env is its complete environment (None: this process's own); what is importable there is what a warm process can run.
    `orphans` lists (pid, raw status) of processes that the target had left behind and that have ended.
    Raises KeeperError if the preload fails or leaves threads running, which a fork would lose.
    """

    def __init__(
        self,
        python: str | Path = sys.executable,
        preload: str | None = None,
        env: Mapping[str, str] | None = None,
        ready_s_max: float = READY_S_MAX,
    ) -> None:
        self.orphans: list[tuple[int, int]] = []
        self._processes: dict[int, Process] = {}
        self._numbers = itertools.count(1)
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._changed = threading.Condition()
        self._answers: dict[str, dict[str, Any]] = {}
        self._gone = False
        self._line, theirs = socket.socketpair()
        with theirs:
            self._popen = subprocess.Popen(
                [str(python), str(_KEEPER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=None if env is None else dict(env),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self.pid = self._popen.pid
        self._reader = threading.Thread(target=self._read, name="killpoint keeper", daemon=True)
        self._reader.start()
        try:
            self._begin(preload, ready_s_max)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self,
        label: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        entry: str | None = None,
        cold: bool = False,
        stdin: Path | None = None,
        stdout: Path | None = None,
        arguments: Sequence[str] | None = None,
    ) -> Process:
        """Start a process: forked with everything imported if it has an `entry` and is not `cold`, else executed.

        label: role and life, such as `worker.2`. argv: the whole command line. env: its complete environment.
        log: file that its output is appended to. entry: "module:function", called with `arguments` (None: what follows
        `-m module` in argv, or argv[1:]); what it returns is the exit status. stdin, stdout: files or FIFOs instead of
        /dev/null and the log; the process opens them itself, stdout first, each FIFO waiting for the harness's end.
        Raises KeeperError if there is no new process. What goes wrong inside it stands in its log.
        """
        number = next(self._numbers)
        process = Process(self, number, label, cold or entry is None)
        self._processes[number] = process
        self._send(
            do="start",
            id=number,
            argv=[str(word) for word in argv],
            arguments=[str(word) for word in (_arguments(argv) if arguments is None else arguments)],
            env=dict(env),
            cwd=str(cwd),
            log=str(log),
            entry=None if cold else entry,
            stdin=None if stdin is None else str(stdin),
            stdout=None if stdout is None else str(stdout),
        )
        process._await_started()
        return process

    def guard(self, folder: Path) -> None:
        """Have `folder` removed should this process die."""
        self._send(do="guard", folder=str(folder))

    def forget(self, folder: Path) -> None:
        """Guard `folder` no more."""
        self._send(do="forget", folder=str(folder))

    def sweep(self) -> list[int]:
        """Kill and reap whatever the target has left running, started by us or by itself; the pids killed.
        Raises KeeperError if something is still there."""
        answer = self._ask("swept", SWEPT_S_MAX, do="sweep")
        if answer["left"]:
            raise KeeperError(f"processes {answer['left']} are still there after SIGKILL")
        return list(answer["killed"])

    def signal(self, number: int, which: Signals) -> bool:
        """Send a signal through the keeper, for a system without pidfds. Whether the process was alive."""
        return bool(self._ask("signalled", STOPPED_S_MAX, do="signal", id=number, signal=int(which))["alive"])

    def close(self) -> None:
        """Kill everything that is left, and the keeper with it."""
        with contextlib.suppress(KeeperError):
            self._send(do="stop")
        try:
            self._popen.wait(ENDED_S_MAX)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._reader.join(ENDED_S_MAX)
        self._line.close()

    def _begin(self, preload: str | None, ready_s_max: float) -> None:
        answer = self._ask("ready", ready_s_max, do="preload", entry=preload)
        if answer["event"] == "failed":
            raise KeeperError(f"preload {preload}: {answer['error'].strip().splitlines()[-1]}")
        if answer["threads"] != 1:
            raise KeeperError(
                f"preload {preload}: leaves {answer['threads'] - 1} threads running, which a fork loses; end them there"
            )

    def _send(self, **order: Any) -> None:
        try:
            with self._sending:
                self._line.sendall(jsontext.dumps(order) + b"\n")
        except OSError as error:
            raise KeeperError(f"the keeper (pid {self.pid}) is gone: {error}") from None

    def _ask(self, event: str, timeout_s: float, **order: Any) -> dict[str, Any]:
        with self._asking:
            with self._changed:
                self._answers.pop(event, None)
            self._send(**order)
            with self._changed:
                self._changed.wait_for(lambda: event in self._answers or self._gone, timeout_s)
                if event not in self._answers:
                    state = "is gone" if self._gone else f"gave no answer within {timeout_s} s"
                    raise KeeperError(f"the keeper (pid {self.pid}) {state}; it was asked to {order['do']}")
                return self._answers.pop(event)

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._line.makefile("rb") as lines:
            for line in lines:
                self._on_event(jsontext.loads(line))
        for process in list(self._processes.values()):
            process._on_failed(f"the keeper (pid {self.pid}) is gone")
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        process = self._processes.get(event.get("id", 0))
        if kind == "started" and process:
            process._on_started(event["pid"], event["start_time"])
        elif kind == "exited" and process:
            del self._processes[event["id"]]
            process._on_exited(event["status"], event["t_ns"], event["cpu_ms"])
        elif kind in {"stopped", "continued"} and process:
            process._on_state("stopped" if kind == "stopped" else "running")
        elif kind == "failed" and process:
            del self._processes[event["id"]]
            process._on_failed(event["error"])
        elif kind == "orphan":
            self.orphans.append((event["pid"], event["status"]))
        else:
            with self._changed:
                self._answers["ready" if kind == "failed" else kind] = event
                self._changed.notify_all()


@contextlib.contextmanager
def still(*processes: Process) -> Iterator[None]:
    """Hold these processes frozen, so that what they write can be copied as a crash at this moment would leave it."""
    frozen = []
    try:
        for process in processes:
            if process._state == "running" and process.freeze():
                frozen.append(process)
        yield
    finally:
        for process in frozen:
            process.thaw()


@dataclass(frozen=True, slots=True)
class OomCount:
    """How many processes the kernel's out-of-memory killer has killed so far; None where the system does not tell."""

    host: int | None
    group: int | None

    @classmethod
    def read(cls) -> OomCount:
        """The counts now: of the machine, and of the control group that this process is in."""
        group = _memory_group()
        return cls(_count(Path("/proc/vmstat"), "oom_kill"), None if group is None else _count(group, "oom_kill"))


def prove(
    status: WaitStatus | None,
    held: Held | None,
    sent: Sent | None,
    oom_before: OomCount,
    oom_after: OomCount,
    anywhere: bool = False,
) -> Proof:
    """Whether this death was ours, at this point.

    status: how the process ended. held: what stood at the point: the process itself, or the world or another process
    where the point is not in the one that is killed. sent: our SIGKILL. The counts are read before it and after the end.
    anywhere: it was killed wherever it was, and is to be proved as ours alone; such a proof speaks of no point.
    """
    held = None if anywhere else held
    why = _not_there(held, sent) if not anywhere else None
    why = why or _not_ours(status, sent, oom_before, oom_after)
    return Proof(
        proved=why is None,
        why=why,
        pid=None if sent is None else sent.pid,
        status=None if status is None else status.raw,
        point=None if held is None else held.point,
        ordinal=None if held is None else held.ordinal,
        nonce=None if held is None else held.nonce,
    )


def _not_there(held: Held | None, sent: Sent | None) -> str | None:
    if held is None or not held.nonce:
        return "no process had acknowledged the point"
    if sent is None:
        return None
    if held.process == sent.process and held.pid != sent.pid:
        return f"pid {held.pid} acknowledged the point, pid {sent.pid} was killed"
    if held.answered_ns is not None and held.answered_ns < sent.t_ns:
        return f"{held.process} had been let go from {held.address} before the SIGKILL"
    return None


def _not_ours(status: WaitStatus | None, sent: Sent | None, before: OomCount, after: OomCount) -> str | None:
    if sent is None or sent.signal is not Signals.SIGKILL:
        return "no SIGKILL was sent"
    if not sent.alive:
        return f"pid {sent.pid} was dead or dying before our SIGKILL"
    if status is None:
        return f"pid {sent.pid} has not ended"
    if status.signal is not Signals.SIGKILL:
        return f"the wait status says {status}, not SIGKILL"
    if before.host is None and before.group is None:
        return "the system does not tell whether its out-of-memory killer struck"
    if before != after:
        return "the out-of-memory killer struck meanwhile"
    return None


def is_alive(pid: int, start_time: int) -> bool:
    """Whether the process with this pid and start time runs. A zombie is dead, and so is one whose pid was recycled."""
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] not in "ZXx" and int(fields[19]) == start_time


def _arguments(argv: Sequence[str]) -> Sequence[str]:
    return argv[3:] if len(argv) > 2 and argv[1] == "-m" else argv[1:]


def _ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _dying(pid: int) -> bool:
    """Whether someone's SIGKILL is already on its way through this process."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:  # noqa: PTH123 (on the way of every kill)
            fields = dict(line.split(b":", 1) for line in status if b":" in line)
    except (FileNotFoundError, ProcessLookupError):
        return True
    pending = int(fields[b"SigPnd"], 16) | int(fields[b"ShdPnd"], 16)
    return fields[b"State"].split()[0] in b"ZXx" or bool(pending >> (Signals.SIGKILL - 1) & 1)


def _stat(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
        return stat.read().rpartition(")")[2].split()


def _start_time(pid: int) -> int:
    return int(_stat(pid)[19])


def _count(path: Path, name: str) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)


def _memory_group() -> Path | None:
    """The file that counts this control group's out-of-memory kills, in the second or the first version of groups."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, group = line.split(":", 2)
        if number == "0" and not controllers:
            candidates = [f"/sys/fs/cgroup{group}/memory.events", f"/sys/fs/cgroup/unified{group}/memory.events"]
        elif "memory" in controllers.split(","):
            candidates = [f"/sys/fs/cgroup/memory{group}/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"]
        else:
            continue
        found = next((path for path in map(Path, candidates) if path.exists()), None)
        if found is not None:
            return found
    return None
