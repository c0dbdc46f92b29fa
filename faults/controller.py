"""Owns the rendezvous: the Unix socket of one case at which processes report breakpoints and stand still.

Every report becomes a `Held`, numbered over all processes of the case in order of arrival. The callback `on_reached` is
called with it, in the thread of that connection, so that several processes can stand at once while one of them is
decided upon. Nothing is timed: a process goes on when it is answered, and stands until then.

A callback that returns without an answer lets the process go; one that says `keep()` leaves it standing, to be answered
later from any thread. An exception in a callback is a fault of the harness: it is kept in `faults`, and the process goes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from faults import jsontext

SOCKET_PATH_BYTES_MAX = 107  # sun_path holds 108 with its final zero
CLOSING_S_MAX = 2.0

How = Literal["cut", "drop", "error", "repeat"]


class SocketPathTooLong(ValueError):
    """A path that does not fit into a Unix socket's address."""


class AlreadyAnswered(RuntimeError):
    """A process that stood at a point was answered a second time: a fault of the harness."""


def socket_path(folder: Path, name: str = "c") -> Path:
    """The path of a case's socket in `folder`. Raises SocketPathTooLong if the system cannot bind it."""
    path = folder / name
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise SocketPathTooLong(
            f"{path}: {length} bytes, a Unix socket's path holds {SOCKET_PATH_BYTES_MAX}; set TMPDIR to a shorter folder"
        )
    return path


def role_and_life(process: str) -> tuple[str, int]:
    """The role and life in a process label such as `worker.2`; a label without a life (`world`) has life 0."""
    role, _, life = process.rpartition(".")
    return (role, int(life)) if role and life.isdecimal() else (process, 0)


@dataclass(eq=False)
class Held:
    """A process that stands at a point. `ordinal` counts over the whole case, `local` within the process, both from 1.

    pid, process and nonce are what the process itself acknowledged. `answered` says what it was told (None while it
    stands), at `answered_ns` on the monotonic clock. `gone` is true once its connection has ended.
    """

    point: str
    ordinal: int
    nonce: str
    process: str
    role: str
    life: int
    pid: int
    local: int
    work: str | None
    detail: dict[str, Any] | None
    reached_ns: int
    answered: str | None = None
    answered_ns: int | None = None
    gone: bool = False
    kept: bool = False
    _tell: Callable[[Held, dict[str, Any], str], None] = field(repr=False, default=lambda *_: None)

    @property
    def address(self) -> str:
        """Point and ordinal, as in `tool.effect.done#3`."""
        return f"{self.point}#{self.ordinal}"

    @property
    def standing(self) -> bool:
        """Whether it still stands there: neither answered nor dead."""
        return self.answered is None and not self.gone

    def go(self) -> None:
        """Let it go on. Raises AlreadyAnswered."""
        self._tell(self, {"do": "go"}, "go")

    def raise_(self, name: str = "EIO") -> None:
        """Let it go on with an OSError of this errno name. Raises ValueError for an unknown name, AlreadyAnswered."""
        if not isinstance(getattr(errno, name, None), int):
            raise ValueError(f"{name!r} is no errno name; use one such as EIO or ENOSPC")
        self._tell(self, {"do": "raise", "errno": name}, f"raise {name}")

    def answer(self, how: How, status: int = 500) -> None:
        """Tell the world what to do with the request it holds. Raises ValueError at a point of a program."""
        if self.role != "world":
            raise ValueError(f"{self.address}: {self.process} is no world, so it cannot be told to {how}; use go or raise")
        self._tell(self, {"do": "answer", "how": how, "status": status}, f"answer {how}")

    def keep(self) -> None:
        """Leave it standing when the callback returns."""
        self.kept = True


class Controller:
    """The server of one case. It listens from its creation on; `close` ends it and lets nobody go.

    on_reached: called for every report, in the thread of its connection. faults: what went wrong in the harness itself.
    Raises OSError if the socket cannot be bound, SocketPathTooLong if its path does not fit.
    """

    def __init__(self, path: Path, on_reached: Callable[[Held], None] | None = None) -> None:
        self.path = socket_path(path.parent, path.name)
        self.faults: list[BaseException] = []
        self._on_reached = on_reached
        self._counts: Counter[str] = Counter()
        self._arrived: dict[tuple[str, int], Held] = {}
        self._standing: dict[str, Held] = {}
        self._changed = threading.Condition()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(self.path))
            self._listener.listen(128)
        except OSError:
            self._listener.close()
            raise
        self._spawn(self._accept, "killpoint controller")

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def held(self) -> list[Held]:
        """Those that stand at a point now, in order of arrival."""
        with self._changed:
            return list(self._standing.values())

    def reached(self) -> dict[str, int]:
        """How often each point has been reached so far."""
        with self._changed:
            return dict(self._counts)

    def wait_for(self, point: str, ordinal: int, timeout_s: float) -> Held | None:
        """The report of `point` with that ordinal, waiting up to `timeout_s` for it; None if it did not come."""
        with self._changed:
            self._changed.wait_for(lambda: (point, ordinal) in self._arrived or self._closed, timeout_s)
            return self._arrived.get((point, ordinal))

    def release_all(self) -> None:
        """Let everyone go that stands at a point now."""
        for held in self.held():
            with contextlib.suppress(AlreadyAnswered):
                held.go()

    def close(self) -> None:
        """Close every socket and let nobody go: a process that still stands at a point ends with status 70."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            connections = list(self._connections)
            self._changed.notify_all()
        for connection in (self._listener, *connections):
            # Only shutdown wakes a thread that waits in accept or read; close alone does not.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.path.unlink(missing_ok=True)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(CLOSING_S_MAX)

    def _spawn(self, run: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                if self._closed:
                    connection.close()
                    return
                self._connections.add(connection)
            self._spawn(lambda connection=connection: self._serve(connection), "killpoint held")  # type: ignore[misc]

    def _serve(self, connection: socket.socket) -> None:
        mine: list[Held] = []
        try:
            with connection, connection.makefile("rb") as lines:
                self._read(connection, lines, mine)
        except OSError:
            pass  # the process died or the case is over: its end is told by its wait status, not here
        finally:
            with self._changed:
                self._connections.discard(connection)
                for held in mine:
                    held.gone = True
                    self._standing.pop(held.nonce, None)
                self._changed.notify_all()

    def _read(self, connection: socket.socket, lines: BinaryIO, mine: list[Held]) -> None:
        for line in lines:
            try:
                held = self._arrive(jsontext.loads(line), connection)
            except (ValueError, KeyError, TypeError) as error:
                self.faults.append(error)  # not our protocol: whoever it is, it is turned away
                return
            mine.append(held)
            try:
                if self._on_reached is not None:
                    self._on_reached(held)
            except Exception as error:
                self.faults.append(error)
                held.kept = False
            if not held.kept:
                with contextlib.suppress(AlreadyAnswered):
                    held.go()

    def _arrive(self, message: dict[str, Any], connection: socket.socket) -> Held:
        role, life = role_and_life(message["process"])

        def tell(held: Held, answer: dict[str, Any], words: str) -> None:
            self._answer(held, connection, answer, words)

        with self._changed:
            point = message["point"]
            self._counts[point] += 1
            held = Held(
                point=point,
                ordinal=self._counts[point],
                nonce=message["nonce"],
                process=message["process"],
                role=role,
                life=life,
                pid=message["pid"],
                local=message["local"],
                work=message.get("work"),
                detail=message.get("detail"),
                reached_ns=time.monotonic_ns(),
                _tell=tell,
            )
            self._arrived[point, held.ordinal] = held
            self._standing[held.nonce] = held
            self._changed.notify_all()
        return held

    def _answer(self, held: Held, connection: socket.socket, answer: dict[str, Any], words: str) -> None:
        with self._changed:
            if held.answered is not None:
                raise AlreadyAnswered(f"{held.address}: {held.process} was told `{held.answered}` and now `{words}`")
            held.answered = words
            held.answered_ns = time.monotonic_ns()
            self._standing.pop(held.nonce, None)
        try:
            connection.sendall(jsontext.dumps({"nonce": held.nonce} | answer) + b"\n")
        except OSError:
            held.gone = True  # it was killed while it stood there
