"""Owns what a worker has in hand while it runs one work: its process, the held work, the lease, and when to let go.

A work is let go for one of three reasons: its user said so (`control`), the process was told to go (`exit`), or a tool
outlasted the grace period (`overrun`). Whoever runs a step asks `look()` before it sends anything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import aiohttp
import anyio

from faults.probe import reach
from reference import ownership
from reference.bell import DEAF_LOOK_S, LOOK_S, Bell
from reference.model import Fenced, Messages, Outcome, Registry, Stream
from reference.ownership import Held, Lease
from reference.settings import Settings
from reference.store import Store

POLL_S = 0.005

_T = TypeVar("_T")


async def rung(bell: Bell) -> None:
    """Wait until the bell has rung, or until it is time to look although it did not. Look at the store after this."""
    if (ear := bell.ear()) is None:
        await anyio.sleep(DEAF_LOOK_S)
        return
    with anyio.move_on_after(LOOK_S):
        await anyio.wait_readable(ear)
    bell.clear()


class LetGo(Exception):
    """The work has to be given up now. why: `control`, `exit` or `overrun`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Kit:
    """The ways out into the world: how to ask a model, which tools there are, how a history becomes a request."""

    stream: Stream
    registry: Registry
    messages: Messages
    client: aiohttp.ClientSession


@dataclass(frozen=True, slots=True)
class Late:
    """A result in hand that could not be stored under its generation. It outlasts the store's fault, in memory."""

    effect: str
    session: str
    generation: int
    outcome: Outcome
    verified: bool


@dataclass(slots=True)
class Process:
    """One worker process. `exiting` is set by a signal handler and looked at between steps, so that the order of what
    follows is the same each time."""

    store: Store
    settings: Settings
    kit: Kit
    me: str
    kept: list[Late] = field(default_factory=list)
    exiting: bool = False
    _closed: bool = False

    def close_admission(self, work_id: str | None = None) -> None:
        """Once told to go: admit nothing new, then let what users decided so far stand (INT-7).

        Controls are stored by the app before it answers; what is done here is to see them before anything else ends.
        """
        if not self._closed:
            self._closed = True
            reach("exit.admission.closed", work_id)
            reach("exit.controls.stored", work_id)


@dataclass(slots=True)
class Run:
    """One work in the hands of this process, under one generation."""

    process: Process
    held: Held
    workspace: Path
    lease: Lease = field(init=False)

    def __post_init__(self) -> None:
        self.lease = Lease(self.process.settings)

    @property
    def store(self) -> Store:
        """The store of this process."""
        return self.process.store

    def look(self) -> None:
        """Before a step: renew what is due, and let go if the user or the process says so.

        Raises LetGo, or Fenced if another generation owns the work.
        """
        if self.process.exiting:
            self.process.close_admission(self.held.work_id)
        else:
            self.renew_if_due()
        if not self.wanted():
            raise LetGo("control")
        if self.process.exiting:
            raise LetGo("exit")

    def wanted(self) -> bool:
        """Whether the work is still to run. Raises Fenced if another generation owns it."""
        with self.store.read() as tx:
            return bool(ownership.fence(tx, self.held)["desired_state"] == "run")

    def renew_if_due(self) -> None:
        """Renew the lease when a third of it has passed by either clock."""
        if self.lease.due():
            ownership.renew(self.store, self.held, self.process.settings)
            self.lease.renewed()

    async def watched(self, work: Callable[[], Awaitable[_T]], cut: bool) -> _T:
        """Await `work` while the lease is renewed and the intent is watched.

        cut: it may be broken off at once (a stream). Otherwise (a tool) it has the grace period to end when the process
        is told to go. Raises LetGo or Fenced when it was broken off, and what `work` raises.
        """
        result: list[_T] = []
        faults: list[Exception] = []
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, group.cancel_scope, cut, faults)
            try:
                result.append(await work())
            except Exception as fault:  # carried out of the group, which would wrap it
                faults.insert(0, fault)
            group.cancel_scope.cancel()
        if result:
            return result[0]
        raise faults[0] if faults else LetGo("overrun")

    async def _watch(self, scope: anyio.CancelScope, cut: bool, faults: list[Exception]) -> None:
        seen: object = None  # what was decided since the work was last looked at counts too
        try:
            while True:
                token = self.store.changed()
                if token != seen:
                    seen = token
                    if cut and not self.wanted():
                        raise LetGo("control")
                self._watch_exit(scope, cut)
                self.renew_if_due()
                await rung(self.store.bell)
        except (LetGo, Fenced, OSError, sqlite3.Error) as fault:
            if cut:
                faults.append(fault)
                scope.cancel()

    def _watch_exit(self, scope: anyio.CancelScope, cut: bool) -> None:
        if not self.process.exiting:
            return
        self.process.close_admission(self.held.work_id)
        if cut:
            raise LetGo("exit")
        scope.deadline = min(scope.deadline, anyio.current_time() + self.process.settings.grace_s)
