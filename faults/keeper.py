"""Owns the keeper: the one process that is parent, sub-reaper and reaper of everything that a target runs.

It runs under the target's Python, with the standard library only, and has the target's modules imported before it forks,
so that a fresh process costs milliseconds. It has one thread and no event loop, because a fork copies nothing else. The
harness speaks to it in JSON lines over a socket whose descriptor is its only argument:

    preload {entry}                import a module, call one function of it, once -> ready {threads} | failed {error}
    start {id, argv, arguments, env, cwd, log, entry, stdin, stdout}
                                   fork (entry "module:function"), or fork and exec (null) -> started {id, pid, start_time}
    signal {id, signal}            to a process that is not reaped yet                     -> signalled {id, signal, alive}
    guard {folder}, forget {folder}  remove this folder if the harness dies
    leave {id}, bury {id, pid}     do not reap this process when it ends; do so after all   -> left {id}, buried {id}
    sweep {}                       kill and reap everything that is left                   -> swept {killed, left}
    stop {}                        sweep, remove guarded folders, end

    unasked: exited {id, pid, status, t_ns, cpu_ms}, stopped {id, pid}, continued {id, pid}, orphan {pid, status}

When the harness is gone, however it died, the socket ends, and that is a `stop`. Should the keeper itself be killed, the
kernel kills its children (PR_SET_PDEATHSIG). It sits in a session of its own, where no key on a terminal reaches it.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # As a script, its own folder stands first in the search path and would shadow a target's modules.
    del sys.path[0]

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import threading
import time
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SWEEP_S_MAX = 10.0
THREADS_END_S_MAX = 2.0

_libc = ctypes.CDLL(None, use_errno=True)


class Keeper:
    """The keeper's state: its line to the harness, its children by pid, the folders it guards."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.pid = os.getpid()
        self.ids: dict[int, int] = {}  # pid -> id, of children that are not reaped yet
        self.left: set[int] = set()  # pids of those that stay zombies for now
        self.folders: set[str] = set()
        self.rest = b""
        self.wake_r, self.wake_w = os.pipe()
        os.set_blocking(self.wake_r, False)
        os.set_blocking(self.wake_w, False)

    def run(self) -> None:
        """Serve the harness until it is gone or says `stop`."""
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(ignored, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler must be there for the wake-up to be written
        signal.set_wakeup_fd(self.wake_w, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.line, select.POLLIN)
        poll.register(self.wake_r, select.POLLIN)
        going = True
        while going:
            ready = {fd for fd, _ in poll.poll()}
            if self.wake_r in ready:
                self.drain_wake()
                self.reap()
            if self.line.fileno() in ready:
                going = self.hear()
        self.sweep()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    # The line --------------------------------------------------------------------------------------------------------

    def hear(self) -> bool:
        """Carry out what the harness has written. False once it is gone or has said `stop`."""
        try:
            piece = self.line.recv(1 << 20)
        except ConnectionError:
            return False
        if not piece:
            return False
        *lines, self.rest = (self.rest + piece).split(b"\n")
        return all(self.obey(json.loads(line)) for line in lines)

    def obey(self, order: dict[str, Any]) -> bool:
        do = order["do"]
        if do == "start":
            self.start(order)
        elif do == "signal":
            self.signal(order)
        elif do == "leave":
            self.left.update(pid for pid, each in self.ids.items() if each == order["id"])
            self.tell(event="left", id=order["id"])
        elif do == "bury":
            self.bury(order)
        elif do == "guard":
            self.folders.add(order["folder"])
        elif do == "forget":
            self.folders.discard(order["folder"])
        elif do == "sweep":
            killed = self.sweep()
            self.tell(event="swept", killed=killed, left=sorted(_own_children()))
        elif do == "preload":
            self.preload(order["entry"])
        return bool(do != "stop")

    def tell(self, **event: Any) -> None:
        """Write an event. A harness that is gone hears nothing; that it is gone is noticed when its line is read."""
        with contextlib.suppress(OSError):
            self.line.sendall(json.dumps(event, separators=(",", ":")).encode() + b"\n")

    # Making processes ------------------------------------------------------------------------------------------------

    def preload(self, entry: str | None) -> None:
        try:
            if entry:
                _function(entry)()
        except BaseException:
            self.tell(event="failed", error=traceback.format_exc())
            return
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join(THREADS_END_S_MAX)
        gc.collect()
        gc.freeze()  # the children's collector then leaves the shared pages alone
        self.tell(event="ready", threads=len(os.listdir("/proc/self/task")))  # noqa: PTH208 (pathlib would be imported)

    def start(self, order: dict[str, Any]) -> None:
        pid = -1
        # The keeper ignores SIGTERM. Until its child does not, one that is sent to the child must wait and not be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            pid = os.fork()
        except OSError as error:
            self.tell(event="failed", id=order["id"], error=str(error))
            return
        finally:
            if pid != 0:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        if pid == 0:
            self.become(order)
        self.ids[pid] = order["id"]
        self.tell(event="started", id=order["id"], pid=pid, start_time=_start_time(pid))

    def become(self, order: dict[str, Any]) -> NoReturn:
        """In the child: turn into the process that was ordered, and never return."""
        code = 126
        try:
            self.prepare(order)
            code = 127
            if order["entry"] is None:
                os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 (no shell is what is meant)
            code = _call(order)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)

    def prepare(self, order: dict[str, Any]) -> None:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.pid:
            os._exit(126)  # the keeper died before the kernel knew that this process goes with it
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if order["entry"] is None:
            for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and exec would hand that down
                signal.signal(each, signal.SIG_DFL)
        self.line.close()
        os.close(self.wake_r)
        os.close(self.wake_w)
        _redirect(order["log"], 2, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        _redirect(order["stdout"] or order["log"], 1, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        _redirect(order["stdin"] or os.devnull, 0, os.O_RDONLY)
        os.chdir(order["cwd"])

    # Ending processes ------------------------------------------------------------------------------------------------

    def signal(self, order: dict[str, Any]) -> None:
        # A child that is not reaped keeps its pid, so this can never hit a stranger.
        pid = next((pid for pid, each in self.ids.items() if each == order["id"]), None)
        alive = pid is not None and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        if alive and pid is not None:
            os.kill(pid, order["signal"])
        self.tell(event="signalled", id=order["id"], signal=order["signal"], alive=alive)

    def reap(self) -> bool:
        """Take in every change of state that the kernel has to tell. False if there is no child any more."""
        for pid in self.left:
            self.look_at(pid)
        while True:
            which = self.with_news() if self.left else -1
            if which is None:
                return True
            try:
                pid, status, used = os.wait4(which, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.report(pid, status, used.ru_utime + used.ru_stime)

    def report(self, pid: int, status: int, cpu_s: float) -> None:
        known = self.ids.get(pid)
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            if known is not None:
                self.tell(event="stopped" if os.WIFSTOPPED(status) else "continued", id=known, pid=pid)
        elif known is None:
            self.tell(event="orphan", pid=pid, status=status)
        else:
            del self.ids[pid]
            cpu_ms = round(cpu_s * 1000, 1)
            self.tell(event="exited", id=known, pid=pid, status=status, t_ns=time.monotonic_ns(), cpu_ms=cpu_ms)

    def with_news(self) -> int | None:
        """A child that has something to tell. Waiting for any one would always find the zombie that is to stay."""
        flags = os.WEXITED | os.WSTOPPED | os.WCONTINUED | os.WNOHANG | os.WNOWAIT
        return next((pid for pid in _own_children() - self.left if os.waitid(os.P_PID, pid, flags)), None)

    def look_at(self, pid: int) -> None:
        """Tell how a process ended that stays a zombie, once."""
        if pid not in self.ids:
            return
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return
        status = ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status
        spent = sum(int(ticks) for ticks in _stat(pid)[11:13])
        self.report(pid, status, spent / os.sysconf("SC_CLK_TCK"))

    def bury(self, order: dict[str, Any]) -> None:
        if order["pid"] in self.left:
            self.left.discard(order["pid"])
            os.waitpid(order["pid"], os.WNOHANG)
        self.tell(event="buried", id=order["id"])

    def sweep(self) -> list[int]:
        """Kill and reap all descendants: children first; what they leave behind becomes our child and is next.

        Only own children are signalled, whose pids cannot be recycled before we reap them.
        """
        self.left.clear()
        killed: set[int] = set()
        until = time.monotonic() + SWEEP_S_MAX
        while self.reap() and time.monotonic() < until:
            for pid in set(self.ids) or _own_children():  # looking for strangers reads all of /proc: only if any are left
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            select.select([self.wake_r], [], [], 0.1)
            self.drain_wake()
        return sorted(killed)

    def drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self.wake_r, 4096):
                pass


def _call(order: dict[str, Any]) -> int:
    """Call the entry as the program would be called, and say with which status the process ends."""
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = [order["argv"][0], *order["arguments"]]
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    probe = sys.modules.get("faults.probe")
    if probe is not None:
        probe.arm()
    try:
        result = _function(order["entry"])(list(order["arguments"]))
        code = _exit_code(result)
    except SystemExit as end:
        code = _exit_code(end.code)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # as the interpreter ends by itself: with the signal as its status
        code = 130
    except BaseException:
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
            thread.join()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return code


def _exit_code(result: object) -> int:
    if result is None:
        return 0
    if isinstance(result, int):
        return result & 0xFF
    sys.stderr.write(f"{result}\n")
    return 1


def _function(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(importlib.import_module(module), name)


def _redirect(path: str, fd: int, flags: int) -> None:
    opened = os.open(path, flags, 0o600)
    os.dup2(opened, fd)
    if opened != fd:
        os.close(opened)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on: 0 is the state, 1 the parent, 19 the start time in ticks."""
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
        return stat.read().rpartition(")")[2].split()


def _start_time(pid: int) -> int:
    return int(_stat(pid)[19])


def _own_children() -> set[int]:
    """The pids of all children, zombies included, as the kernel knows them."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as children:  # noqa: PTH123
            return {int(pid) for pid in children.read().split()}
    except FileNotFoundError:
        return {pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _parent(pid) == me}  # noqa: PTH208


def _parent(pid: int) -> int:
    try:
        return int(_stat(pid)[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


if __name__ == "__main__":
    Keeper(socket.socket(fileno=int(sys.argv[1]))).run()
