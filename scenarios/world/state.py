"""Owns what the world knows of one case: its script, its log and sites, what was asked, what was written, what is open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from scenarios.case import Script
from scenarios.world.exchange import Exchange, Gone
from scenarios.world.log import WorldLog
from scenarios.world.sites import Sites

CLOSE_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Write:
    """One write that a receiver applied. `meaning` is its arguments in canonical JSON."""

    n: int
    receiver: str
    key: str | None
    meaning: str

    @property
    def receipt(self) -> str:
        """What the receiver answers."""
        return f"rcpt_{self.n}"


class CaseWorld:
    """The world of one case. Nothing in it is shared with another case.

    faults: what went wrong in the world itself; a case with one of these proves nothing about its target.
    """

    def __init__(self, script: Script, log: WorldLog, sites: Sites) -> None:
        self.script = script
        self.log = log
        self.sites = sites
        self.live: set[Exchange] = set()
        self.beginnings: set[bytes] = set()
        self.faults: list[str] = []
        self._writes: list[Write] = []
        self._provider_requests = 0
        self._effect_requests = 0

    def next_provider_request(self) -> int:
        """The number of the next request to the provider, from 1."""
        self._provider_requests += 1
        return self._provider_requests

    def next_effect_request(self) -> int:
        """The number of the next request to the effect service, from 1, queries counted too."""
        self._effect_requests += 1
        return self._effect_requests

    def writes(self, receiver: str | None, key: str | None) -> list[Write]:
        """The applied writes under this key, of one receiver or of all, in order; none without a key."""
        return [each for each in self._writes if key is not None and each.key == key and receiver in (None, each.receiver)]

    def apply(self, n: int, receiver: str, key: str | None, arguments: dict[str, Any]) -> Write:
        """Apply a write and log it, with the earlier write that it repeats, whatever the key of that one was."""
        write = Write(n, receiver, key, json.dumps(arguments, sort_keys=True, separators=(",", ":")))
        same = (each.n for each in self._writes if (each.receiver, each.meaning) == (receiver, write.meaning))
        fields = {"n": n, "receiver": receiver, "key": key, "arguments": arguments, "duplicate_of": next(same, None)}
        self._writes.append(write)
        self.log.append(("effect.applied", fields))
        return write

    async def answer(
        self, exchange: Exchange, handler: Callable[[CaseWorld, Exchange], Awaitable[None]], request: str
    ) -> None:
        """Have `handler` answer a request of the target. What fails in the world itself is kept as a fault of the case;
        `request` says in it what was asked."""
        with exchange:
            try:
                await handler(self, exchange)
            except Gone:
                return
            except Exception as error:
                # Whatever it is, the world has not kept its promise to log before it answers: nothing more is sent.
                self.faults.append(f"{request}: {type(error).__name__}: {error}")
                await exchange.cut()

    async def close(self) -> None:
        """End what is held or streaming, wait until each request has been logged to its end, and close the log."""
        live = tuple(self.live)
        for exchange in live:
            exchange.end()
        tasks = [exchange.task for exchange in live if exchange.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_S_MAX)
            if late:
                self.faults.append(f"{len(late)} requests had not ended {CLOSE_S_MAX:g} s after the case was closed")
        self.sites.close()
        self.log.close()
