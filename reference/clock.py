"""Owns the time: wall-clock seconds, which a case of the harness may move, and monotonic seconds, which nobody moves.

Wall time is stored, since it has to mean something in the next process. Whether an owner is alive is never decided by
it alone (C35): see ownership.py.
"""

from __future__ import annotations

import os
import time

_FILE = "KILLPOINT_CLOCK"


def now() -> float:
    """Seconds since the epoch, plus the offset in the file named by KILLPOINT_CLOCK, if there is one."""
    path = os.environ.get(_FILE)
    return time.time() + (_offset(path) if path else 0.0)


def monotonic() -> float:
    """Seconds that only grow, comparable within one boot of the host."""
    return time.monotonic()


def _offset(path: str) -> float:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0.0
    try:
        return float(os.read(fd, 64) or b"0")
    finally:
        os.close(fd)
