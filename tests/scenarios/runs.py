"""Owns how the tests start `killpoint` as its user does: as a process of its own, marked so that all it starts is found."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN_S_MAX = 110.0
ENDED_S_MAX = 30.0
CODE = "from scenarios.cli import entry; entry()"


def environment() -> dict[str, str]:
    """The environment of a user's shell, in which this source tree comes first."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_", "KILLPOINT"))}
    return {**mine, "PYTHONPATH": str(ROOT)}


def killpoint(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    command = [sys.executable, "-c", CODE, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=RUN_S_MAX, check=False
    )


class Running:
    """A `killpoint` or other command that is still running, in a session of its own, and everything that came of it."""

    def __init__(self, *arguments: str, cwd: Path, command: Sequence[str] = (sys.executable, "-c", CODE)) -> None:
        self._mark = f"RUN_MARK={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=cwd,
            env={**environment(), name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._handle = os.pidfd_open(self.process.pid)

    def until(self, true: Callable[[], bool], s_max: float = RUN_S_MAX) -> None:
        """Wait until something is true of the run; its end, or the bound, before that is a failure."""
        for _ in range(int(s_max / 0.02)):
            if true():
                return
            ended, _, _ = select.select([self._handle], [], [], 0.02)
            assert not ended, f"the run ended first: {self.process.communicate()[0]}"
        raise AssertionError("it did not come to that within the bound")

    def family(self) -> set[int]:
        """The pids of all processes that this run has started and that have not ended."""
        found = set()
        for each in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                if self._mark.encode() in (each / "environ").read_bytes().split(b"\0"):
                    found.add(int(each.name))
        return found

    def interrupt(self) -> None:
        """Ctrl-C: the terminal sends it to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL, to the one process that the user started."""
        signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def end(self, before: set[int]) -> tuple[int, str]:
        """Wait until the command and every process of `before` have ended: its exit status, and what it printed."""
        handles = [self._handle]
        for pid in before:
            with suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
        waiting = select.poll()
        for handle in handles:
            waiting.register(handle, select.POLLIN)
        left = set(handles)
        while left:
            done = [handle for handle, _ in waiting.poll(ENDED_S_MAX * 1000)]
            assert done, f"{len(left)} processes had not ended after {ENDED_S_MAX} s"
            for handle in done:
                waiting.unregister(handle)
                left.discard(handle)
        said, _ = self.process.communicate()
        for handle in handles:
            os.close(handle)
        return self.process.returncode, said
