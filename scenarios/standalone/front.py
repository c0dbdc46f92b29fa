"""Owns a server of the world that needs the standard library only, for a file that has no packages to import.

What the world does with a request is the harness's own code; here HTTP/1.1 is read and written for it, on loopback, in a
thread of the process that plays. As with the harness's server, the end of a connection is told to the exchange on it at
once, and a target's connection is never closed before the target does.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

from scenarios.case import Script
from scenarios.world.addresses import ADDRESSES
from scenarios.world.exchange import Exchange, Message
from scenarios.world.handle import Addresses, World, WorldError
from scenarios.world.log import WorldLog
from scenarios.world.sites import SITES, Sites
from scenarios.world.state import CaseWorld

HEAD_BYTES_MAX = 64 * 1024
PIECE_BYTES_MAX = 64 * 1024
ANSWER_S_MAX = 20.0


class LocalWorld(World):
    """A world in a thread of this process. Raises OSError if there is no free port on loopback."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        super().__init__(f"http://127.0.0.1:{self._listener.getsockname()[1]}", "")
        self._cases: dict[str, CaseWorld] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="world", daemon=True)
        self._thread.start()
        self._server = self._do(self._loop.create_server(lambda: _Connection(self._cases), sock=self._listener))

    def open(
        self,
        case_id: str,
        script: Script,
        log_path: Path,
        controller_socket: Path | None = None,
        sites: Iterable[str] | None = None,
    ) -> Addresses:
        """Open a case; see the world of the harness."""
        points = Sites(controller_socket, SITES if sites is None else sites)
        self._cases[case_id] = CaseWorld(script, WorldLog(log_path), points)
        return Addresses(f"{self.url}/c/{case_id}/v1", f"{self.url}/c/{case_id}/effects")

    def close(self, case_id: str) -> None:
        """Close a case; see the world of the harness. Raises WorldError if the world did not keep its own promises."""
        case = self._cases.pop(case_id)
        self._do(case.close())
        if case.faults:
            raise WorldError(f"case {case_id}: {'; '.join(case.faults)}")

    def stop(self, *, end_s_max: float = 10.0) -> None:
        """End the server and its thread."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(end_s_max)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_S_MAX)


class _Connection(asyncio.Protocol):
    """One connection of a target, whose requests are answered one after another."""

    exchange: Exchange | None = None
    lost = False

    def __init__(self, cases: dict[str, CaseWorld]) -> None:
        self._cases = cases
        self._reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to answer."""
        self._transport = cast(asyncio.Transport, transport)
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        """Take what came. Nothing ever stops reading, so that the end of the connection is always seen."""
        self._reader.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the exchange before anything else can run."""
        self.lost = True
        self._reader.feed_eof()
        if self.exchange is not None:
            self.exchange.tell_lost()

    def abort(self) -> None:
        """Close it at once, without another byte."""
        self._transport.abort()

    def keep_reading(self) -> None:
        """Reading never stops."""

    async def _serve(self) -> None:
        try:
            while await self._request():
                pass
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the target is gone, or does not speak HTTP/1.1
        finally:
            self._transport.close()

    async def _request(self) -> bool:
        """Answer one request. Whether another one may follow on this connection."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        path, _, query = path.partition("?")
        scope: Message = {
            "query_string": query.encode("latin-1"),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            "client": self._transport.get_extra_info("peername"),
            "state": {"connection": self},
        }
        body = _Body(self._reader, headers)
        if headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        reply = _Reply(self._transport)
        await self._answer(method, path, scope, body, reply)
        return body.whole and reply.whole and not self.lost and headers.get("connection", "").lower() != "close"

    async def _answer(self, method: str, path: str, scope: Message, body: _Body, reply: _Reply) -> None:
        case_id, slash, below = path.removeprefix("/c/").partition("/")
        case = self._cases.get(case_id)
        wanted, handler = ADDRESSES.get(slash + below, ("", None))
        if case is None or handler is None:
            await reply.refuse(404)
        elif method != wanted:
            await reply.refuse(405)
        else:
            await case.answer(Exchange(case, scope, body.receive, reply.send), handler, f"{method} {path}")


class _Body:
    """The body of one request, in pieces, as an ASGI application receives it."""

    def __init__(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> None:
        self._length = int(headers.get("content-length", "0"))
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self.whole = not chunked and self._length == 0
        self._pieces = self._chunks(reader) if chunked else self._counted(reader)

    async def receive(self) -> Message:
        """The next piece, or that the target is gone."""
        try:
            piece = await anext(self._pieces, b"")
        except asyncio.IncompleteReadError:
            return {"type": "http.disconnect"}
        self.whole = self.whole or not piece
        return {"type": "http.request", "body": piece, "more_body": bool(piece)}

    async def _counted(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        left = self._length
        while left:
            piece = await reader.readexactly(min(left, PIECE_BYTES_MAX))
            left -= len(piece)
            yield piece

    async def _chunks(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        while size := int((await reader.readuntil(b"\n")).partition(b";")[0], 16):
            yield (await reader.readexactly(size + 2))[:size]
        while (await reader.readuntil(b"\n")).strip():
            pass  # trailers say nothing that the world asks for


class _Reply:
    """The reply to one request, as an ASGI application sends it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._chunked = self._close = self.whole = False

    async def send(self, message: Message) -> None:
        """Write the head, or the next piece of the body. To a connection that is gone nothing is written."""
        if self._transport.is_closing():
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], dict(message["headers"]))
            return
        data, more = message["body"], message.get("more_body", False)
        if self._chunked:
            data = (b"%x\r\n%b\r\n" % (len(data), data) if data else b"") + (b"" if more else b"0\r\n\r\n")
        self._transport.write(data)
        self.whole = not more and not self._close

    async def refuse(self, status: int) -> None:
        """Answer with this status and nothing else, and close the connection."""
        headers = [(b"content-length", b"0"), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    def _begin(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._chunked = b"content-length" not in headers
        self._close = headers.get(b"connection") == b"close"
        if self._chunked:
            headers[b"transfer-encoding"] = b"chunked"
        lines = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode())]
        lines += [b"%b: %b" % pair for pair in headers.items()]
        self._transport.write(b"\r\n".join(lines) + b"\r\n\r\n")
