"""Owns the world's log of one case: records that are on disk before the world answers the request they speak of."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from scenarios.history import as_line


class WorldLog:
    """Appends records to a file, one line each; `append` returns when the system says that they are stored.

    All records of one call go down in one write, so that a reader finds either all of them or, after a crash of the
    world itself, a torn last line, which readers of histories drop. Raises OSError where the file cannot be written:
    the world must then not answer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(self, *records: tuple[str, dict[str, Any]]) -> None:
        """Store these records (kind and data), stamped with the machine's monotonic clock, in this order."""
        lines = (as_line({"t_ns": time.monotonic_ns(), "kind": kind, "data": data}) for kind, data in records)
        rest = memoryview(b"".join(lines))
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the file. Appending after that is an error."""
        os.close(self._fd)
