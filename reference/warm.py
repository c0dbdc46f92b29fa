"""Owns warming: everything that a process of the runtime pays once, paid before a fork, so that a child is ready at once.

`warm()` imports what `serve` and `worker` need, then plays a small round in a folder that it removes: a whole life of an
app with a few requests over a real socket and its event stream, and a whole life of a worker that asks a model
over another, calls a tool and is told to go. Afterwards the process has no thread, no descriptor and no event loop that
it had not before, so that it may fork. That is checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from reference import fresh, openapi, security, serving, snapshot, tools, worker
from reference.identity import Identity
from reference.settings import Settings
from reference.store import Store

ROUND_S_MAX = 60.0
ENDED = frozenset({"done", "failed", "waiting"})
_CALL = {"index": 0, "id": "c", "function": {"name": "list", "arguments": "{}"}}


def warm() -> None:
    """Pay now what a first use costs. Raises RuntimeError if something is left that must not be forked."""
    threads, descriptors = set(threading.enumerate()), _descriptors()
    Identity.mine()
    openapi.document("0")
    fresh.learn()
    for tool in (*tools.TRUSTED, *tools.PLUGINS):
        _ = tool.implementation, tool.schema
    _round()
    gc.collect()
    left = (set(threading.enumerate()) - threads) or (_descriptors() - descriptors)
    if left:
        raise RuntimeError(f"warming has left something that must not be forked: {left}")
    gc.freeze()  # a child's collections then touch no page that is shared with it


def _round() -> None:
    """The lives of an app and of a worker, on a store of their own."""
    with tempfile.TemporaryDirectory(prefix="reference-warm-") as folder:
        data, workspace = Path(folder) / "data", Path(folder) / "workspace"
        for path in (data, workspace):
            path.mkdir()
        settings = Settings.load(data, workspace, {})
        session = anyio.run(_app, settings)
        _worker(settings, session)


async def _app(settings: Settings) -> str:
    """A life of an app; the session in which it leaves an input behind."""
    async with asyncio.timeout(ROUND_S_MAX):
        return await _requests(settings)


async def _requests(settings: Settings) -> str:
    with contextlib.closing(serving.listen("127.0.0.1", 0)) as listener:
        stored = settings.data / "token"
        made, token = security.token(stored), security.token(stored)
        assert made == token
        process = serving.AppProcess(settings, listener, "127.0.0.1", token, 0)
        running = asyncio.create_task(process.run())
        await process.ready.wait()
        async with aiohttp.ClientSession(process.url, headers={"Authorization": f"Bearer {token}"}) as client:
            session = (await _call(client, "POST", "/sessions", {}))["session"]
            body = {"request_id": "r", "text": "x"}
            await _call(client, "POST", f"/sessions/{session}/inputs", body)
            async with client.get(f"/sessions/{session}/events") as events:
                async for line in events.content:
                    if line.startswith(b"id: "):
                        break
            for action in ("pause", "stop", "resume", "none"):
                await _call(client, "POST", f"/sessions/{session}/control", {"action": action})
            for path in ("/snapshot", f"/sessions/{session}", "/health", "/openapi.json", "/none"):
                await _call(client, "GET", path)
            await _call(client, "POST", f"/sessions/{session}/inputs", body | {"request_id": "r2"})
        process.ask_to_end()
        await running
    return str(session)


def _worker(settings: Settings, session: str) -> None:
    """A life of a worker, with a model that asks for one tool and then answers."""
    with contextlib.closing(serving.listen("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        model = threading.Thread(target=_answer, args=(listener,))
        ending = threading.Thread(target=_end_when_done, args=(settings, session))
        # The worker puts its own handler in place of this one and back; should it fail early, the signal finds nobody.
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for thread in (model, ending):
            thread.start()
        try:
            worker.main(replace(settings, provider_url=url, effects_url=url))
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            for thread in (model, ending):
                thread.join(ROUND_S_MAX)
            signal.signal(signal.SIGTERM, before)


def _answer(listener: socket.socket) -> None:
    """Answer one request on each connection, until the socket is shut."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as lines:
            while (line := lines.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            asked = json.loads(lines.read(length))
            called = any(message["role"] == "tool" for message in asked["messages"])
            delta: dict[str, Any] = {"content": "x"} if called else {"tool_calls": [_CALL]}
            usage = {"prompt_tokens": 1, "completion_tokens": 1}
            chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}], "usage": usage}
            body = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
            connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)


def _end_when_done(settings: Settings, session: str) -> None:
    """Tell this process, which is the worker for now, to go once nothing is left to do."""
    until = time.monotonic() + ROUND_S_MAX
    with contextlib.closing(Store.open(settings)) as opened:
        while time.monotonic() < until:
            if snapshot.session(opened, session)["works"][-1]["state"] in ENDED:
                break
            time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGTERM)


async def _call(client: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> Any:
    async with client.request(method, path, json=body) as response:
        return await response.json()


def _descriptors() -> set[str]:
    """What is open, by number and target; the folder that is read for it closes again."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(f"{entry.name}:{entry.readlink()}")
    return {each for each in found if "/fd" not in each}
