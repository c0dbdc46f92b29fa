"""Owns the HTTP API: each operation, from the request as it came to the answer, and the breakpoints that stand after it.

Everything that reads or writes the store runs in a small pool of threads, so that a thread that is held, or waits for a
database, holds no other request. The pool is fixed since each of its threads keeps its own connection to the store.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from faults.probe import reach
from reference import control, errors, intake, openapi, projection, snapshot
from reference.events import Changes, EventStream
from reference.model import Refused, StateUnavailable
from reference.openapi import NewControl, NewInput, NewSession, Resolution
from reference.security import Guard
from reference.settings import Settings
from reference.store import Store

BODY_BYTES_MAX = 1024 * 1024
THREADS_MAX = 8
OPEN_AGAIN_S = 0.2

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operation answers. `acknowledged` names the breakpoint that is reached once the client has it."""

    data: dict[str, Any]
    status: int = 200
    acknowledged: str | None = None
    work: str | None = None
    then: Callable[[], None] | None = None


class App:
    """The state of one app process. `stop` is called when a user has asked it to end."""

    def __init__(self, settings: Settings, stop: Callable[[], None]) -> None:
        self.settings = settings
        self.stop = stop
        self.closing = False
        self.changes = Changes(self._newest, lambda: self._store.bell if self._store else None)
        self._pool = ThreadPoolExecutor(THREADS_MAX, "app")
        self._store: Store | None = None
        self._opening = Lock()
        self._failed: tuple[float, str] = (-OPEN_AGAIN_S, "")

    def store(self) -> Store:
        """The store, opened on first use and again after a failure. Raises StateUnavailable."""
        if self._store is None:
            with self._opening:
                if self._store is None:
                    self._open()
        assert self._store is not None
        return self._store

    def _open(self) -> None:
        """Open the store, at most once in OPEN_AGAIN_S: looking at a damaged store again costs as much as at first."""
        failed_at, why = self._failed
        if time.monotonic() - failed_at < OPEN_AGAIN_S:
            raise StateUnavailable(why)
        try:
            self._store = Store.open(self.settings)
        except StateUnavailable as error:
            self._failed = (time.monotonic(), str(error))
            raise

    def _newest(self) -> object:
        return projection.newest(self._store) if self._store else None

    async def in_thread(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run what may block. It runs to its end even if the caller is cancelled, and even if it had not begun by then:
        what was sent to a client that has just left is still stored as sent."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        future.add_done_callback(_heard)
        return await asyncio.shield(future)

    def close_admission(self) -> None:
        """Refuse new work, and end event streams once they have sent what there is (INT-7)."""
        self.closing = True
        self.changes.close()

    def close(self) -> None:
        """Wait for what runs, then close the store."""
        self._pool.shutdown(wait=True)
        if self._store:
            self._store.close()

    def refuse_if_closing(self) -> None:
        if self.closing:
            raise Refused("closing", "the app is about to end and takes no new work; send it again soon", None, 503)


def _heard(future: asyncio.Future[Any]) -> None:
    """Take note of an error that nobody waits for any more, so that it is not reported as forgotten."""
    if not future.cancelled():
        future.exception()


# The operations, by their names in openapi.py. Each runs in a thread. -----------------------------------------------


def create_session(app: App, request: Request, body: NewSession) -> Answer:
    app.refuse_if_closing()
    workspace = str(_workspace(body.workspace)) if body.workspace is not None else None
    return Answer(intake.create_session(app.store(), workspace, body.request_id), 201)


def _workspace(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise Refused("workspace_invalid", f"workspace: {text!r} is no absolute path", "workspace", 422)
    try:
        usable = "\0" not in text and path.is_dir()
    except OSError:
        usable = False
    if not usable:
        raise Refused("workspace_invalid", f"workspace: {text!r} is no folder", "workspace", 422)
    return path.resolve()


def send_input(app: App, request: Request, body: NewInput) -> Answer:
    app.refuse_if_closing()
    session = request.path_params["session"]
    accepted, created = intake.accept(app.store(), session, body.request_id, body.text, body.version)
    return Answer(accepted, 202 if created else 200, "input.acknowledged", accepted.get("work_id"))


def control_session(app: App, request: Request, body: NewControl) -> Answer:
    stored = control.apply(app.store(), request.path_params["session"], body.action, body.version)
    return Answer(stored, 200, "control.acknowledged")


def resolve_effect(app: App, request: Request, body: Resolution) -> Answer:
    session, call_id = request.path_params["session"], request.path_params["call_id"]
    stored = control.resolve_effect(app.store(), session, call_id, body.action, body.risk_acknowledged)
    return Answer(stored, 200, "control.acknowledged")


def quit_everything(app: App, request: Request, body: None) -> Answer:
    return Answer(control.quit(app.store()), 200, "control.acknowledged", then=app.stop)


def list_sessions(app: App, request: Request, body: None) -> Answer:
    return Answer({"sessions": snapshot.all(app.store())})


def show_session(app: App, request: Request, body: None) -> Answer:
    return Answer(snapshot.session(app.store(), request.path_params["session"]))


def health(app: App, request: Request, body: None) -> Answer:
    app.store().changed()
    return Answer({"status": "closing" if app.closing else "ok"})


def describe(app: App, request: Request, body: None) -> Answer:
    return Answer(_description())


@cache
def _description() -> dict[str, Any]:
    try:
        version = metadata.version("killpoint")
    except metadata.PackageNotFoundError:  # run from a source tree
        version = "0"
    return openapi.document(version)


async def watch_session(app: App, request: Request) -> Response:
    """The session's events from the one after `Last-Event-ID`, for as long as the client stays."""
    session = request.path_params["session"]
    text = request.headers.get("last-event-id", "0").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused("field_invalid", "Last-Event-ID: is no event number", "Last-Event-ID", 400)
    store = await app.in_thread(_store_of, app, session)
    return EventStream(app.changes, app.in_thread, store, session, int(text))


def _store_of(app: App, session: str) -> Store:
    """The store, if it has this session. Raises Refused."""
    store = app.store()
    with store.read() as tx:
        intake._session(tx, session)
    return store


Handler = Callable[[App, Request, Any], Answer]
HANDLERS: dict[str, Handler] = {
    "create_session": create_session,
    "list_sessions": list_sessions,
    "show_session": show_session,
    "send_input": send_input,
    "control_session": control_session,
    "resolve_effect": resolve_effect,
    "snapshot": list_sessions,
    "quit": quit_everything,
    "health": health,
    "openapi": describe,
}


# From a request to an operation and back ----------------------------------------------------------------------------


def build(app: App, token: str, bound: str) -> ASGIApp:
    """The whole ASGI application for a server that listens on the host `bound`."""
    routes = [_route(app, operation) for operation in openapi.OPERATIONS]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _not_there})
    inner.router.redirect_slashes = False
    return Guard(inner, token, bound)


def _route(app: App, operation: openapi.Operation) -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            if operation.name == "watch_session":
                return await watch_session(app, request)
            body = await _body(request, operation.body)
            return _response(app, await app.in_thread(HANDLERS[operation.name], app, request, body))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except Exception as error:
            return _failed(operation.name, error)

    return Route(operation.path, endpoint, methods=[operation.method], name=operation.name)


async def _body(request: Request, model: type[BaseModel] | None) -> BaseModel | None:
    """The request's body, within its bound and as its model. Raises Refused."""
    if model is None:
        return None
    data = bytearray()
    announced = request.headers.get("content-length", "")
    if not (announced.isdigit() and int(announced) > BODY_BYTES_MAX):
        async for chunk in request.stream():
            data += chunk
            if len(data) > BODY_BYTES_MAX:
                break
        else:
            try:
                return model.model_validate_json(bytes(data))
            except ValidationError as error:
                raise errors.invalid(error) from None
    raise Refused("body_too_large", f"body: is larger than {BODY_BYTES_MAX} bytes", "body", 413)


def _response(app: App, answer: Answer) -> Response:
    response = errors.JSON(answer.data, answer.status)
    if answer.acknowledged:
        response.background = BackgroundTask(app.in_thread, _acknowledged, answer)
    return response


def _acknowledged(answer: Answer) -> None:
    """The client has the answer: the response's last byte was handed to the system before this runs."""
    assert answer.acknowledged
    try:
        reach(answer.acknowledged, work=answer.work)
    finally:
        if answer.then:
            answer.then()


def _failed(operation: str, error: Exception) -> Response:
    if isinstance(error, Refused):
        return errors.refusal(error)
    if isinstance(error, StateUnavailable):
        return errors.unavailable(error)
    if isinstance(error, OSError) or _is_driver_error(error):
        return errors.unavailable(StateUnavailable(f"the store failed: {_line(error)}"))
    # A fault of this program. Its kind and place go to the operator; a traceback could quote what a client sent.
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    where = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else "?"
    print(f"reference: {operation} failed: {type(error).__name__} at {where}", file=sys.stderr)  # noqa: T201
    return errors.JSON(errors.body("internal", f"the app failed in {operation}; its own output says where"), 500)


def _is_driver_error(error: Exception) -> bool:
    return type(error).__module__ == "sqlite3"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


async def _not_there(request: Request, error: Exception) -> Response:
    """Unknown paths and methods."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        said = errors.body("method_wrong", f"{request.method} is not allowed here", "method")
    else:
        said = errors.body("path_unknown", "no such path; GET /openapi.json describes all", "path")
    return errors.JSON(said, error.status_code, error.headers)
