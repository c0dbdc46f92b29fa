"""Owns the connection of a target to the world's server: it tells the exchange on it, at once, when it is lost."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from scenarios.world.exchange import Exchange


class Connection(HttpToolsProtocol):
    """A connection that tells the exchange on it when it is lost."""

    exchange: Exchange | None = None
    lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Hand this connection to every request that comes in on it."""
        super().connection_made(transport)
        # Head and body are two writes; without this the second would wait for the client's delayed acknowledgement.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        app = self.app

        async def with_connection(scope: Any, receive: Any, send: Any) -> None:
            scope["state"]["connection"] = self
            await app(scope, receive, send)

        self.app = with_connection

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the exchange before anything else can run."""
        self.lost = True
        super().connection_lost(exc)
        if self.exchange is not None:
            self.exchange.tell_lost()

    def abort(self) -> None:
        """Close it at once, without another byte."""
        self.transport.abort()

    def keep_reading(self) -> None:
        """A large body makes the server stop reading, and what is not read from cannot be seen to close."""
        self.flow.resume_reading()
