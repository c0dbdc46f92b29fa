"""Owns the app's process: one owner of a data folder, the socket, `serve.json`, workers under its care, and the way out.

The lock of a data folder is the system's own, held through an open file. It ends with the process, however that
dies, and no recycled pid can pass for its holder; the identity inside is for people to read.

The way out, in this order (INT-7): refuse new work; end the workers gracefully; let open requests finish; close the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from faults.probe import reach
from reference import app as api
from reference import security
from reference.identity import Identity
from reference.model import Refused, StateUnavailable
from reference.settings import Settings

WORKERS_MAX = 64
BACKLOG = 128
KEEP_ALIVE_S = 75
CLOSE_POLL_S = 0.005
RESTART_S_MIN, RESTART_S_MAX = 0.1, 10.0
STEADY_S = 30.0


def serve(settings: Settings, host: str, port: int, workers: int) -> int:
    """Serve until told to end; the exit status. Raises Refused, in one line, if that cannot begin."""
    if not 0 <= workers <= WORKERS_MAX:
        raise Refused("workers_invalid", f"--workers {workers}: give a number from 0 to {WORKERS_MAX}", "workers", 400)
    _make_folders(settings)
    with _only_server(settings.data), contextlib.closing(listen(host, port)) as listener:
        secret = security.token(settings.data / "token")
        process = AppProcess(settings, listener, host, secret, workers)
        # Not the loop's own handlers: those turn every signal number into an enumeration's member, twice, at each start.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: process.ask_to_end())
        asyncio.run(process.run())
    return 0


def _make_folders(settings: Settings) -> None:
    for path, mode in ((settings.data, 0o700), (settings.workspace, 0o755)):
        try:
            path.mkdir(mode=mode, parents=True, exist_ok=True)
        except OSError as error:
            raise Refused("folder_unusable", f"{path}: {error.strerror}; give another folder", "data", 400) from None


@contextlib.contextmanager
def _only_server(data: Path) -> Iterator[None]:
    """Hold the folder's lock. `serve.json` of an owner that died is removed as soon as it is held."""
    path = data / "serve.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused("folder_unusable", f"{path}: {error.strerror}; give another folder", "data", 400) from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("already_served", f"{data}: {_holder(fd)}; stop it first", "data", 409) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(Identity.mine()).encode(), 0)
        described = data / "serve.json"
        described.unlink(missing_ok=True)
        try:
            yield
        finally:
            described.unlink(missing_ok=True)
    finally:
        os.close(fd)


def _holder(fd: int) -> str:
    try:
        return f"is already served by process {Identity.parse(os.pread(fd, 4096, 0).decode()).pid}"
    except (ValueError, UnicodeDecodeError):
        return "is already served by another process"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises Refused if the address cannot be had."""
    if not 0 <= port <= 65535:
        raise Refused("port_invalid", f"--port {port}: give a number from 0 to 65535", "port", 400)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise Refused("host_invalid", f"--host {host}: is no address of this machine", "host", 400) from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        why = (
            "is taken; give another one, or 0 for any"
            if error.errno == errno.EADDRINUSE
            else f"cannot be had ({error.strerror})"
        )
        raise Refused("port_taken", f"{host}:{port}: {why}", "port", 409) from None
    return listener


class AppProcess:
    """What one serve does, from the open socket to the end."""

    def __init__(self, settings: Settings, listener: socket.socket, host: str, token: str, workers: int) -> None:
        self._settings, self._listener, self._workers = settings, listener, workers
        self._app = api.App(settings, self.ask_to_end)
        self._asgi = api.build(self._app, token, host)
        self._asked = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._care: list[asyncio.Task[None]] = []
        self.url = _url(host, listener)
        self.ready = asyncio.Event()

    def ask_to_end(self) -> None:
        """Begin the way out. From any thread, and from a signal handler."""
        if self._loop:
            with contextlib.suppress(RuntimeError):  # the loop has closed: there is nothing left to end
                self._loop.call_soon_threadsafe(self._asked.set)
        else:
            self._asked.set()

    async def run(self) -> None:
        """Serve until asked to end."""
        self._loop = asyncio.get_running_loop()
        with contextlib.suppress(StateUnavailable):  # then every answer says so, until the store can be read (UIX-4)
            await self._app.in_thread(self._app.store)
        server = _Server(self._config(), self._asked, self._ready, self._leave, self._settings.grace_s)
        await server.serve(sockets=[self._listener])
        self._app.close()
        reach("app.exit.stored")

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            self._asgi,
            loop="asyncio",
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )

    def _ready(self) -> None:
        """Connections are accepted: say where, and start the workers."""
        self._care = [asyncio.create_task(_Care(self._settings).run(self._asked)) for _ in range(self._workers)]
        _replace(self._settings.data / "serve.json", json.dumps({"url": self.url, "pid": os.getpid()}))
        self.ready.set()

    async def _leave(self) -> None:
        """The first half of the way out: nothing new comes in, and the workers end."""
        self._app.close_admission()
        await self._app.in_thread(reach, "app.exit.closed")
        await asyncio.gather(*self._care)


class _Server(uvicorn.Server):
    """uvicorn's server, with our way in and out in place of its polling: it ends when asked, at once, and leaves signals
    alone."""

    def __init__(
        self,
        config: uvicorn.Config,
        asked: asyncio.Event,
        ready: Callable[[], None],
        leave: Callable[[], Any],
        grace_s: float,
    ) -> None:
        super().__init__(config)
        self._asked, self._ready, self._leave, self._grace_s = asked, ready, leave, grace_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def main_loop(self) -> None:
        await self._asked.wait()
        await self._leave()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open requests finish within the grace, then cut them."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        deadline = time.monotonic() + self._grace_s
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < deadline:  # noqa: ASYNC110 (uvicorn keeps sets, not events)
            await asyncio.sleep(CLOSE_POLL_S)
        for task in list(self.server_state.tasks):
            task.cancel()
        await asyncio.gather(*self.server_state.tasks, return_exceptions=True)


class _Care:
    """One worker process under the app's care: started again when it dies, more slowly each time it dies young."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def run(self, ending: asyncio.Event) -> None:
        """Keep a worker alive until `ending` is set, then end it gracefully."""
        pause_s = RESTART_S_MIN
        while not ending.is_set():
            began = time.monotonic()
            process = await self._start()
            died = asyncio.create_task(process.wait())
            asked = asyncio.create_task(ending.wait())
            await asyncio.wait({died, asked}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                await self._end(process, died)
                return
            asked.cancel()
            pause_s = RESTART_S_MIN if time.monotonic() - began > STEADY_S else min(pause_s * 2, RESTART_S_MAX)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await ending.wait()  # after a user's quit the workers go by themselves, a moment before the app
                    return
            print(f"reference: a worker ended with {process.returncode}; starting another", file=sys.stderr)  # noqa: T201

    async def _start(self) -> asyncio.subprocess.Process:
        # Its standard input is a pipe that nobody writes to: it ends when this process does, however it does, and the
        # worker then goes gracefully instead of staying behind without anybody's care.
        command = ["-m", "reference", "worker", "--supervised", "--data", str(self._settings.data)]
        command += ["--workspace", str(self._settings.workspace)]
        return await asyncio.create_subprocess_exec(sys.executable, *command, stdin=asyncio.subprocess.PIPE)

    async def _end(self, process: asyncio.subprocess.Process, died: asyncio.Task[int]) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.grace_s + 2):
                await asyncio.shield(died)
                return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await died


def _url(host: str, listener: socket.socket) -> str:
    """An address at which a client on this machine reaches the server."""
    port = listener.getsockname()[1]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (read, not bound)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _replace(path: Path, text: str) -> None:
    """Write a small file whole or not at all, for its owner alone."""
    partial = path.with_name(f".{path.name}.partial")
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    partial.replace(path)
