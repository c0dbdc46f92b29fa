"""Owns what a process is: host, boot, pid and start time (OWN-6), and when a process is certainly dead."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_BOOT = "KILLPOINT_BOOT"
_BOOT_FILE = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for all time: a pid alone is given again, and a start time alone repeats after a reboot."""

    host: str
    boot: str
    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.host}|{self.boot}|{self.pid}|{self.start}"

    @classmethod
    def parse(cls, text: str) -> Identity:
        """The identity that `str` gave."""
        host, boot, pid, start = text.split("|")
        return cls(host, boot, int(pid), int(start))

    @classmethod
    def mine(cls) -> Identity:
        """The identity of this process. Ask again after a fork."""
        pid = os.getpid()
        found = _stat(pid)
        return cls(host(), boot(), pid, found[1] if found else 0)

    def certainly_dead(self) -> bool:
        """Whether this process can never act again, as far as this host can tell for certain (OWN-2).

        A process on another host is never certainly dead. A zombie is dead though pid and start time match (C29).
        """
        if self.host != host():
            return False
        if self.boot != boot():
            return True
        found = _stat(self.pid)
        return found is None or found[0] in "ZX" or found[1] != self.start


def host() -> str:
    """The name of this host: REFERENCE_HOST, the machine id, or the host name."""
    named = os.environ.get("REFERENCE_HOST")
    return named.replace("|", "_") if named else _machine()


@lru_cache(maxsize=1)
def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text("ascii").strip() or socket.gethostname()
    except OSError:
        return socket.gethostname()


def boot() -> str:
    """The identity of this boot of the host. KILLPOINT_BOOT names a file that overrides the kernel's."""
    for path in (os.environ.get(_BOOT), _BOOT_FILE):
        if path:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                return os.read(fd, 128).decode("ascii", "replace").strip().replace("|", "_")
            finally:
                os.close(fd)
    return "unknown"


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time (clock ticks since boot) of a process, or None if there is none."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        text = os.read(fd, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    # The command's name is in brackets and may itself hold brackets and blanks, so count from the last one.
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[19])
