"""Owns the world's sites: how a request that the world holds is reported to the controller of its case.

The protocol is the probe's: one JSON line says which point was reached, the answer says what to do. Each request that
stands at a point has a connection of its own, so that one that is held keeps no other from being let go. A connection
whose answer has come is used again.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from faults import jsontext
from faults.catalogue import POINTS

# Every breakpoint of the catalogue at which the world, and not a process of the target, stands still.
SITES = tuple(point.name for point in POINTS if point.role == "world")

How = Literal["go", "cut", "drop", "error", "repeat"]
_HOWS: tuple[How, ...] = ("cut", "drop", "error", "repeat")
_LINE_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of the request that stands at a point; `status` is the HTTP status of an `error`."""

    how: How = "go"
    status: int = 500


GO = Answer()
CUT = Answer("cut")

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Sites:
    """The sites of one case. Without a controller, or at a point that is not among `points`, everything goes on."""

    def __init__(self, controller: Path | None, points: Iterable[str] = SITES) -> None:
        self._controller = controller
        self._points = frozenset(points) if controller else frozenset()
        self._idle: list[_Connection] = []
        self._all: set[asyncio.StreamWriter] = set()
        self._standing: set[asyncio.Task[Answer]] = set()
        self._reached: Counter[str] = Counter()

    def watches(self, point: str) -> bool:
        """Whether the controller wants to hear of this point."""
        return point in self._points

    def report(self, point: str, detail: dict[str, Any]) -> asyncio.Task[Answer]:
        """Reach the point in a task of its own, which outlives whoever waits for it."""
        task = asyncio.create_task(self.reach(point, detail))
        self._standing.add(task)
        task.add_done_callback(self._standing.discard)
        return task

    async def reach(self, point: str, detail: dict[str, Any]) -> Answer:
        """Report the point and stand still until the controller answers. A controller that is gone, or that does not
        speak the protocol, has given up the case: the answer is `cut`."""
        self._reached[point] += 1
        nonce = secrets.token_hex(8)
        report = {
            "point": point,
            "local": self._reached[point],
            "nonce": nonce,
            "pid": os.getpid(),
            "process": "world",
            "work": None,
            "detail": detail,
        }
        try:
            connection = self._idle.pop() if self._idle else await self._connect()
            reader, writer = connection
            writer.write(jsontext.dumps(report) + b"\n")
            await writer.drain()
            line = await reader.readline()
        except (OSError, ValueError):
            return CUT
        if not line.endswith(b"\n"):
            self._drop(writer)
            return CUT
        self._idle.append(connection)
        return _answer(line, nonce)

    def close(self) -> None:
        """Close every connection to the controller; what still stands at a point gets `cut`."""
        for writer in tuple(self._all):
            self._drop(writer)
        self._idle.clear()

    async def _connect(self) -> _Connection:
        connection = await asyncio.open_unix_connection(self._controller, limit=_LINE_BYTES_MAX)
        self._all.add(connection[1])
        return connection

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._all.discard(writer)
        writer.transport.abort()


def _answer(line: bytes, nonce: str) -> Answer:
    try:
        said = jsontext.loads(line)
    except ValueError:
        return CUT
    if not isinstance(said, dict) or said.get("nonce") != nonce:
        return CUT
    if said.get("do") == "go":
        return GO
    if said.get("do") == "raise":
        return Answer("error")
    how = said.get("how")
    if said.get("do") != "answer" or how not in _HOWS:
        return CUT
    status = said.get("status")
    return Answer(how, status if isinstance(status, int) and 400 <= status <= 599 else 500)
