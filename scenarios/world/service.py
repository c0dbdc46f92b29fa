"""Owns the world process: one HTTP server on loopback for many cases, and the admin API that opens and closes them.

Addresses: `/c/CASE/v1/…` is the provider of a case, `/c/CASE/effects/…` its service, `/c/CASE/heard` answers when what was
sent to both is written down; `/admin/cases` opens a case (POST)
and `/admin/cases/CASE` closes it (DELETE), for who has the token. The process ends when its standard input does, so that
it never outlives the harness that started it, however that one died.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import re
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from scenarios.case import CASE_BYTES_MAX, Script
from scenarios.world import provider
from scenarios.world.addresses import ADDRESSES, Handler
from scenarios.world.connection import Connection
from scenarios.world.exchange import Exchange
from scenarios.world.log import WorldLog
from scenarios.world.sites import SITES, Sites
from scenarios.world.state import CaseWorld

# Connections of a held target stay open for as long as its case does; the server must not be the one to close them.
KEEP_ALIVE_S = 3600
SHUTDOWN_S_MAX = 2
_CASE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("is not an absolute path")
    return path


def _case_id(name: str) -> str:
    if not _CASE_ID.fullmatch(name) or name in (".", ".."):
        raise ValueError("is made of 1 to 128 letters, digits, dots, dashes and underscores")
    return name


def _sites(names: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := sorted(set(names) - set(SITES)):
        raise ValueError(f"{', '.join(unknown)}: no point of the world; it has {', '.join(SITES)}")
    return names


class Opening(BaseModel):
    """What opens a case: its script, where its log goes, and which of the world's points its controller wants."""

    case: Annotated[str, AfterValidator(_case_id)]
    script: Script
    log: Annotated[Path, AfterValidator(_absolute)]
    controller: Annotated[Path, AfterValidator(_absolute)] | None = None
    sites: Annotated[tuple[str, ...], AfterValidator(_sites)] = SITES

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cases:
    """The cases that are open now."""

    def __init__(self) -> None:
        self._open: dict[str, CaseWorld] = {}

    def find(self, case_id: str) -> CaseWorld | None:
        """The open case of this id, or None."""
        return self._open.get(case_id)

    def open(self, opening: Opening) -> None:
        """Open a case. Raises KeyError if one of this id is open, OSError if its log cannot be written."""
        if opening.case in self._open:
            raise KeyError(opening.case)
        log = WorldLog(opening.log)
        self._open[opening.case] = CaseWorld(opening.script, log, Sites(opening.controller, opening.sites))

    async def close(self, case_id: str) -> list[str]:
        """Close a case, and give what went wrong in the world meanwhile. Raises KeyError if there is none."""
        case = self._open.pop(case_id)
        await case.close()
        return case.faults

    async def close_all(self) -> None:
        """Close every case."""
        for case_id in tuple(self._open):
            await self.close(case_id)


class Endpoint:
    """One address of every case, answered by `handler`."""

    def __init__(self, cases: Cases, method: str, handler: Handler) -> None:
        self._cases, self._method, self._handler = cases, method, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a target. What fails in the world itself is kept as a fault of the case."""
        case_id = scope["path_params"]["case"]
        case = self._cases.find(case_id)
        if case is None:
            raise HTTPException(404, f"no case {case_id!r} is open in this world")
        if scope["method"] != self._method:
            raise HTTPException(405, f"only {self._method} is answered here", headers={"Allow": self._method})
        request = f"{scope['method']} {scope['path']}"
        await case.answer(Exchange(case, scope, receive, send), self._handler, request)


class Admin:
    """The entrance of the harness."""

    def __init__(self, cases: Cases, token: str) -> None:
        self._cases, self._token = cases, token

    async def open(self, request: Request) -> Response:
        """POST /admin/cases: open a case."""
        self._authorise(request)
        data = b""
        async for part in request.stream():
            data += part
            if len(data) > 2 * CASE_BYTES_MAX:
                raise HTTPException(413, f"the body is larger than {2 * CASE_BYTES_MAX} bytes")
        try:
            opening = Opening.model_validate_json(data)
        except ValidationError as error:
            first = error.errors()[0]
            raise HTTPException(400, f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None
        try:
            self._cases.open(opening)
        except KeyError:
            raise HTTPException(409, f"the case {opening.case!r} is open already; close it first") from None
        except OSError as error:
            raise HTTPException(400, f"log: {opening.log} cannot be written ({error.strerror})") from None
        return JSONResponse({"case": opening.case}, 201)

    async def close(self, request: Request) -> Response:
        """DELETE /admin/cases/CASE: close a case; answers when its log is complete."""
        self._authorise(request)
        case_id = request.path_params["case"]
        try:
            return JSONResponse({"case": case_id, "faults": await self._cases.close(case_id)})
        except KeyError:
            raise HTTPException(404, f"no case {case_id!r} is open in this world") from None

    def _authorise(self, request: Request) -> None:
        given = request.headers.get("authorization", "").encode()
        if not secrets.compare_digest(given, f"Bearer {self._token}".encode()):
            raise HTTPException(401, "the admin token is missing or wrong")


def application(cases: Cases, token: str) -> Starlette:
    """The world as an ASGI application."""
    admin = Admin(cases, token)

    return Starlette(
        routes=[
            *(Route(f"/c/{{case}}{path}", Endpoint(cases, *answered)) for path, answered in ADDRESSES.items()),
            Route("/admin/cases", admin.open, methods=["POST"]),
            Route("/admin/cases/{case}", admin.close, methods=["DELETE"]),
        ],
        exception_handlers={HTTPException: _refuse},
    )


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse(provider.error_body(error.detail), error.status_code, headers=error.headers)


class _Server(uvicorn.Server):
    """A server whose end the world decides alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals as they are: a signal ends the world at once, and its logs are on disk already."""
        yield


def serve(listener: socket.socket, token: str, ready: Callable[[], None]) -> None:
    """Serve on this socket until standard input ends. `ready` is called when connections are answered."""
    cases = Cases()
    config = uvicorn.Config(
        application(cases, token),
        http=Connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S_MAX,
    )
    server = _Server(config)

    async def end() -> None:
        await cases.close_all()
        server.should_exit = True

    async def run() -> None:
        loop = asyncio.get_running_loop()
        ending: list[asyncio.Task[None]] = []

        def watch_stdin() -> None:
            with contextlib.suppress(OSError):
                while os.read(0, 4096):
                    pass
            with contextlib.suppress(RuntimeError):  # the loop has ended before
                loop.call_soon_threadsafe(lambda: ending.append(loop.create_task(end())))

        threading.Thread(target=watch_stdin, name="stdin", daemon=True).start()
        gc.collect()
        gc.freeze()
        ready()
        await server.serve(sockets=[listener])

    asyncio.run(run())


def _write_private(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    fresh.replace(path)


def main(arguments: list[str] | None = None) -> int:
    """Serve a world; see the module. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.world", description="Serve the world of many cases.")
    parser.add_argument("--address-file", type=Path, help="write URL and token there (mode 0600), instead of printing them")
    file: Path | None = parser.parse_args(arguments).address_file
    token = secrets.token_urlsafe(24)
    # Bound and listening before it is announced: who connects early waits in the backlog instead of being refused.
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        address: dict[str, Any] = {"url": url, "token": token, "pid": os.getpid()}

        def ready() -> None:
            if file is not None:
                _write_private(file, json.dumps(address) + "\n")
            shown = address if file is None else {"url": url, "pid": os.getpid()}
            sys.stdout.write(json.dumps(shown) + "\n")
            sys.stdout.flush()

        try:
            serve(listener, token, ready)
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            sys.stderr.write(f"scenarios.world: {error.strerror}{where}\n")
            return 2
    return 0
