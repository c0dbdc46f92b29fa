"""Owns the bell of a data folder: how a process that waits learns at once that another one has committed.

Whoever has committed writes a byte to the file `bell`; the kernel tells those who listen. The bell only shortens a wait:
what has changed is read from the store, and who listens looks at the store now and then although nothing rang, since a
process can die between its commit and its ring, and a system may have no inotify.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.05  # how long a listener waits without a ring before it looks by itself
DEAF_LOOK_S = 0.005  # the same where the system cannot tell of a ring
_IN_MODIFY = 0x2
_libc = ctypes.CDLL(None, use_errno=True)


class Bell:
    """The bell at `path`, made if it is not there. Raises OSError if it can be neither made nor opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._ear: int | None = None

    def ring(self) -> None:
        """Wake every listener. A full disk is no reason to fail: they look by themselves a moment later."""
        with suppress(OSError):
            os.pwrite(self._fd, b"\n", 0)

    def ear(self) -> int | None:
        """A descriptor that can be read from once it rang since the last `clear`; None where the system has none."""
        if self._ear is None and hasattr(_libc, "inotify_init1"):
            fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if fd >= 0 and _libc.inotify_add_watch(fd, os.fsencode(self._path), _IN_MODIFY) < 0:
                os.close(fd)
                fd = -1
            self._ear = fd
        return self._ear if self._ear is not None and self._ear >= 0 else None

    def clear(self) -> None:
        """Take note of what rang. Look at the store after this, not before."""
        ear = self.ear()
        if ear is not None:
            with suppress(BlockingIOError):
                os.read(ear, 65536)

    def close(self) -> None:
        """Stop listening and ringing."""
        for fd in (self._fd, self._ear):
            if fd is not None and fd >= 0:
                os.close(fd)
        self._fd, self._ear = -1, -1
