"""Owns what a case says of time and host: the offset of its clock, and the boot identity of its machine.

Both are small files, named to the target by `KILLPOINT_CLOCK` and `KILLPOINT_BOOT`, replaced whole, so that a reader
sees the old text or the new one. Downtime of a month is a moved clock, and a reboot a new identity; nobody waits.
Two parts of a plan may change one at the same time.
"""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path


class CaseClock:
    """The clock of a case: the offset in seconds, as text at `path`, that a target adds to wall time. Begins at 0."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset_s = 0.0
        self._lock = threading.Lock()
        _replace(path, "0")

    def move(self, by_s: float) -> float:
        """Move the clock by so many seconds, forward or back. The offset that now holds."""
        with self._lock:
            self.offset_s += by_s
            _replace(self.path, repr(self.offset_s))
            return self.offset_s

    def read(self) -> float:
        """The offset in seconds as a target now reads it."""
        return float(self.path.read_text())


class HostBoot:
    """The boot identity of a case's host, as text at `path`, in the form of the kernel's own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.boot_id = ""
        self._lock = threading.Lock()
        self.reboot()

    def reboot(self) -> str:
        """Give the host a new boot identity, as a restart of the machine would. The identity that now holds."""
        with self._lock:
            self.boot_id = str(uuid.uuid4())
            _replace(self.path, self.boot_id)
            return self.boot_id

    def read(self) -> str:
        """The boot identity as a target now reads it."""
        return self.path.read_text()


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    os.replace(fresh, path)  # noqa: PTH105 (said to be atomic)
