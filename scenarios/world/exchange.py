"""Owns one HTTP request of a target while the world has it: reading it, holding it, answering it, cutting it.

A killed client shows only as a closed connection, and a request that is being held reads and writes nothing. So the
connection itself tells the exchange that it was lost, at once, and every wait of an exchange ends with that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from scenarios.world.sites import GO, Answer, Sites

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Beyond the bound a body is still read and thrown away, up to this many times the bound, so that an honest client can
# finish writing and read why it was refused.
_SURPLUS_FACTOR = 4


class Gone(Exception):
    """The client went, or the case was closed, before the whole request was there."""


class TooLarge(Exception):
    """The body is larger than the bound."""


class Room(Protocol):
    """What an exchange needs of its case."""

    sites: Sites
    live: set[Exchange]


class Connection(Protocol):
    """What an exchange needs of the connection that its request came in on, whoever serves it."""

    exchange: Exchange | None
    lost: bool

    def abort(self) -> None:
        """Close it at once, without another byte."""

    def keep_reading(self) -> None:
        """Read on, also while nobody asks for a body, so that its end is seen."""


class Exchange:
    """One request and its answer. Use it as a context manager around everything that is done for the request.

    over: whether the case was closed while the world had the request.
    """

    def __init__(self, room: Room, scope: Message, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        self.over = False
        self.query: bytes = scope["query_string"]
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.attempt: str | None = self.headers.get("x-client-request-id")
        self.task = asyncio.current_task()
        self._room = room
        self._peer = list(scope["client"] or ())
        self._receive = receive
        self._send = send
        self._connection: Connection = scope["state"]["connection"]
        self._lost: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._read: asyncio.Future[None] = loop.create_future()

    def __enter__(self) -> Exchange:
        self._room.live.add(self)
        self._connection.exchange = self
        if self._connection.lost:
            self.tell_lost()
        return self

    def __exit__(self, *error: object) -> None:
        self._tell_read()
        self._connection.exchange = None
        self._room.live.discard(self)

    def tell_lost(self) -> None:
        """The connection is lost: end every wait."""
        if not self._lost.done():
            self._lost.set_result(None)
        if not self._ended.done():
            self._ended.set_result(None)

    def _tell_read(self) -> None:
        if not self._read.done():
            self._read.set_result(None)

    async def heard(self) -> None:
        """Wait until the request has been read and written down, or will never be whole."""
        await asyncio.wait((self._read,))

    def end(self) -> None:
        """The case is over: end every wait and close the connection."""
        self.over = True
        if not self._ended.done():
            self._ended.set_result(None)
        self._connection.abort()

    async def body(self, bytes_max: int) -> bytes:
        """The whole body. Raises TooLarge beyond the bound, Gone if it never came whole."""
        parts: list[bytes] = []
        size = 0
        more = True
        while more and size <= bytes_max * _SURPLUS_FACTOR:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part = message.get("body", b"")
            size += len(part)
            if size <= bytes_max:
                parts.append(part)
            more = message.get("more_body", False)
        self._tell_read()  # who waits for it hears of it after the handler has written the request down
        if size > bytes_max:
            raise TooLarge
        self._connection.keep_reading()
        return b"".join(parts)

    async def stand(self, point: str, n: int, **detail: Any) -> Answer | None:
        """Stand at a point of the world until the controller answers. None: the client is gone or the case is over."""
        sites = self._room.sites
        if not sites.watches(point):
            await asyncio.sleep(0)
            return None if self._ended.done() else GO
        site = sites.report(point, {"n": n, "attempt": self.attempt, "peer": self._peer, **detail})
        # The site is not given up with the client: the controller still answers it, and nobody acts on that.
        await asyncio.wait((site, self._ended), return_when=asyncio.FIRST_COMPLETED)
        return None if self._ended.done() else site.result()

    async def reply(self, status: int, body: dict[str, Any], *, close: bool = False) -> None:
        """Answer with JSON, whole."""
        data = json.dumps(body, separators=(",", ":")).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        if close:
            headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": data})

    async def begin_events(self) -> None:
        """Begin to answer with a stream of events."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def send_events(self, data: bytes, *, more: bool = True) -> None:
        """Send events, and end the stream if there is no `more`."""
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def cut(self) -> None:
        """Close the connection without another byte."""
        self._connection.abort()
        await self._lost
