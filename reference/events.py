"""Owns the sending of events: numbered server-sent events after a client's last number, and the wake-up for more.

A number is sent only after its event is committed, and is stored as announced only after it was sent. So a death
between the two makes an event come again under its number, never a number without its event (REC-13, UIX-1).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from faults.probe import heard, reach
from reference import projection
from reference.bell import DEAF_LOOK_S, LOOK_S, Bell
from reference.model import Event, StateUnavailable
from reference.store import Store

HEARTBEAT_S = 15.0
RETRY_MS = 200
_BETWEEN = ("event.sent", "event.committed")
_HEAD = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

InThread = Callable[..., Awaitable[Any]]


class Changes:
    """Wakes whoever waits for an event. The store is asked when its bell rings, and now and then although it did not,
    only while somebody waits.

    newest: gives a token that differs once there is one more. bell: the store's bell, None as long as there is no store.
    """

    def __init__(self, newest: Callable[[], object], bell: Callable[[], Bell | None]) -> None:
        self._newest, self._bell = newest, bell
        self._last: object = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard: Bell | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self.count = 0
        self.closed = False

    async def wait(self, seen: int, timeout_s: float) -> bool:
        """Wait until `count` is no longer `seen`. False if that took longer than `timeout_s`."""
        if self.count != seen or self.closed:
            return True
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        if self._timer is None:
            self._look()
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True

    def close(self) -> None:
        """Wake everybody for good."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._heard is not None and (ear := self._heard.ear()) is not None:
            asyncio.get_running_loop().remove_reader(ear)
        self._wake()

    def _look(self) -> None:
        """Ask the store, and see to it that it is asked again as long as somebody waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        hears = self._listen()
        if self.closed or not self._waiting:
            return
        try:
            token = self._newest()
        except Exception:  # whoever waits asks the store itself and says what is wrong with it
            token = time.monotonic()
        if token != self._last:
            self._last = token
            self._wake()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S if hears else DEAF_LOOK_S, self._look)

    def _listen(self) -> bool:
        """Whether the store's bell is heard."""
        bell = None if self.closed else self._bell()
        ear = bell.ear() if bell else None
        if bell is None or ear is None:
            return False
        if self._heard is None:
            asyncio.get_running_loop().add_reader(ear, self._look)
            self._heard = bell
        bell.clear()
        return True

    def _wake(self) -> None:
        self.count += 1
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


class EventStream(Response):
    """One client's stream of one session's events, from the one after `after`."""

    media_type = "text/event-stream"

    def __init__(self, changes: Changes, in_thread: InThread, store: Store, session: str, after: int) -> None:
        super().__init__(headers=_HEAD)
        del self.headers["content-length"]
        self._changes, self._in_thread = changes, in_thread
        self._store, self._session, self._after = store, session, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client is gone or the app ends."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        feeding = asyncio.create_task(self._feed(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({feeding, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Waited for even if this task is itself cancelled: a cancelled task that nobody awaits is reported at exit.
            for task in (feeding, leaving):
                task.cancel()
            await asyncio.gather(feeding, leaving, return_exceptions=True)

    async def _feed(self, send: Send) -> None:
        async def put(text: str) -> None:
            await send({"type": "http.response.body", "body": text.encode("utf-8", "replace"), "more_body": True})

        try:
            await put(f"retry: {RETRY_MS}\n\n")
            seen = self._changes.count
            events = await self._in_thread(self._next)
            while True:
                if events:
                    seen, events = await self._send(events, put)
                    continue
                if self._changes.closed:
                    break
                if not await self._changes.wait(seen, HEARTBEAT_S):
                    await put(": still here\n\n")
                seen = self._changes.count
                events = await self._in_thread(self._next)
        except (StateUnavailable, OSError):
            pass  # ended, not completed: the client comes back with its last number and hears what is wrong
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, events: list[Event], put: Callable[[str], Awaitable[None]]) -> tuple[int, list[Event]]:
        """Send these events; what had changed by then, and the events that follow.

        They go out in one piece, unless somebody hears of the points that lie between two of them.
        """
        if any(map(heard, _BETWEEN)):
            for event, following in pairwise(events):
                await put(encode(event))
                self._after = event.number
                await self._in_thread(self._passed, event, following)
            events = events[-1:]
        await put("".join(map(encode, events)))
        self._after = events[-1].number
        seen = self._changes.count
        return seen, await self._in_thread(self._sent, events[-1])

    def _next(self) -> list[Event]:
        """The next events. In a thread, as is everything below."""
        events = projection.after(self._store, self._session, self._after)
        if events:
            self._reach("event.committed", events[0])
        return events

    def _passed(self, event: Event, following: Event) -> None:
        """Between two sends."""
        self._reach("event.sent", event)
        self._reach("event.committed", following)

    def _sent(self, event: Event) -> list[Event]:
        """One visit to a thread for all that follows a send; the next events. The announced number is stored when nothing
        more is at hand; on the way there it may lag, which only makes events come again."""
        self._reach("event.sent", event)
        projection.announce(self._store, self._session, event.number)
        self._reach("event.cursor.stored", event)
        return self._next()

    def _reach(self, point: str, event: Event) -> None:
        detail = {"session": self._session, "event": event.number, "type": event.type}
        reach(point, work=event.data.get("work_id"), detail=detail)


def encode(event: Event) -> str:
    """The event in the stream's format. JSON text holds no line feed, so its data is one line."""
    data = json.dumps(event.data, separators=(",", ":"), ensure_ascii=False)
    return f"id: {event.number}\nevent: {event.type}\ndata: {data}\n\n"


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
