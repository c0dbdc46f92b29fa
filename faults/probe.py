"""Owns the probe: what a program calls at a breakpoint, `reach("tool.effect.done")`, and how it then stands still.

Unarmed, a call is one look-up and nothing is imported. Armed through the environment (`KILLPOINT_SOCKET`, a path, and
`KILLPOINT_PROCESS`, a label such as `worker.2`), the calling thread tells the controller of its case which point it has
reached and waits for the answer; no answer means that it stands there. Each thread has its own connection, so one held
thread holds no other. The protocol is one JSON object a line:

    program     {"point", "local", "nonce", "pid", "process", "work", "detail"}
    controller  {"nonce", "do": "go"} or {"nonce", "do": "raise", "errno": "ENOSPC"}

This one module is all that a target gets, so it needs the standard library only and runs on older Pythons as well; its
annotations are quoted for that reason, and everything beyond `os` is imported when it is armed.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Ask = Callable[[str, str | None, dict[str, Any] | None], None]

HARNESS_GONE = 70

_ask: "Ask | None" = None
_quiet: "frozenset[str]" = frozenset()
_rearms_after_fork = False


def reach(point: str, work: "str | None" = None, detail: "dict[str, Any] | None" = None) -> None:
    """Say that this thread has reached `point`, and stand there until the harness lets it go.

    work: the id of the work that it is reached for. detail: facts for the history, plain JSON.
    Raises OSError if the plan of the case says so. Ends the process with status 70 if the harness is gone.
    """
    if _ask is None:
        return
    _ask(point, work, detail)


def heard(point: str) -> bool:
    """Whether anybody hears of `point` in this process: a program may take a shorter way past points that nobody does."""
    return _ask is not None and point not in _quiet


def arm() -> None:
    """Arm from the environment, or disarm where it names no socket. Call it again after a fork that changes it."""
    global _ask, _quiet, _rearms_after_fork  # noqa: PLW0603 (one look-up is the whole cost of an unarmed call)
    path = os.environ.get("KILLPOINT_SOCKET")
    if not path:
        _ask = None
        return
    # Points that are reached often and that this case's plan does not name: only passed by, without a word.
    _quiet = frozenset(os.environ.get("KILLPOINT_QUIET", "").split(","))
    _ask = _armed(path, os.environ.get("KILLPOINT_PROCESS", "target.1"), _quiet)
    if not _rearms_after_fork:
        # A child that the program forks by itself must not share its parent's connections and locks.
        os.register_at_fork(after_in_child=arm)
        _rearms_after_fork = True


def _armed(path: str, process: str, quiet: "frozenset[str]") -> "Ask":
    import errno  # noqa: PLC0415
    import json  # noqa: PLC0415
    import threading  # noqa: PLC0415

    lines = threading.local()
    counting = threading.Lock()
    counts: dict[str, int] = {}
    pid = os.getpid()
    encode = json.JSONEncoder(separators=(",", ":"), default=str).encode

    def ask(point: str, work: "str | None", detail: "dict[str, Any] | None") -> None:
        if point in quiet:
            return
        with counting:
            local = counts[point] = counts.get(point, 0) + 1
        nonce = os.urandom(8).hex()
        message = {
            "point": point,
            "local": local,
            "nonce": nonce,
            "pid": pid,
            "process": process,
            "work": work,
            "detail": detail,
        }
        text = encode(message).encode() + b"\n"
        line = getattr(lines, "line", None)
        if line is None:
            line = lines.line = _Line(path)
        line.send(text)
        answer = json.loads(line.receive())
        while answer["nonce"] != nonce:
            # An exception from a signal handler had broken off an earlier wait; its answer came to nobody.
            answer = json.loads(line.receive())
        if answer["do"] == "raise":
            number = getattr(errno, answer["errno"])
            raise OSError(number, os.strerror(number), point)

    return ask


class _Line:
    """One thread's connection to the controller. It holds the bare descriptor, so that dropping it warns nobody."""

    def __init__(self, path: str) -> None:
        import socket  # noqa: PLC0415

        self._rest = b""
        self._fd = -1
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError as error:
            _harness_gone(f"{path}: {error}")
        self._fd = connection.detach()

    def send(self, text: bytes) -> None:
        try:
            while text:
                text = text[os.write(self._fd, text) :]
        except ConnectionError as error:
            _harness_gone(str(error))

    def receive(self) -> bytes:
        while b"\n" not in self._rest:
            try:
                piece = os.read(self._fd, 65536)
            except ConnectionError as error:
                _harness_gone(str(error))
            if not piece:
                _harness_gone("the connection has ended")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _harness_gone(why: str) -> None:
    """End at once: going on as if unarmed would act on the world after the case that asked for it is over."""
    os.write(2, f"killpoint probe: the harness is gone ({why}); exit {HARNESS_GONE}\n".encode())
    os._exit(HARNESS_GONE)


arm()
