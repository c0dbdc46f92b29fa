"""Owns the numbered events of a session (UIX-1): rows added with the fact they tell of, dense, only growing.

Sending them is the app's. What was announced is stored after it was sent, so after a crash an event may be sent again
under its old number, and nothing is computed again (REC-13).
"""

from __future__ import annotations

import json
from typing import Any

from reference.model import Event
from reference.store import Row, Store, Tx

_NEXT = "UPDATE sessions SET events = events + 1 WHERE session = ? RETURNING events"
_ADD = "INSERT INTO events (session, number, type, data) VALUES (?, ?, ?, ?)"
_AFTER = "SELECT number, type, data FROM events WHERE session = ? AND number > ? ORDER BY number LIMIT ?"
_NEWEST = "SELECT max(rowid) FROM events"
_ANNOUNCE = "UPDATE sessions SET announced = ? WHERE session = ? AND announced < ?"
EVENTS_PER_READ_MAX = 500


def add(tx: Tx, session: str, type_: str, **data: Any) -> int:
    """Add the session's next event; its number."""
    number = int(tx.value(_NEXT, session))
    tx.run(_ADD, session, number, type_, json.dumps(data, separators=(",", ":"), ensure_ascii=False))
    return number


def work_event(tx: Tx, work_id: str) -> int:
    """Tell the state in which the work stands now, as `work.<state>`."""
    row = tx.one("SELECT session, state, reason_code, request_id, desired_state FROM works WHERE work_id = ?", work_id)
    assert row is not None
    return add(
        tx,
        row["session"],
        f"work.{row['state']}",
        work_id=work_id,
        state=row["state"],
        reason_code=row["reason_code"],
        request_id=row["request_id"],
        desired_state=row["desired_state"],
    )


def after(store: Store, session: str, number: int) -> list[Event]:
    """The events that follow `number`, in order; at most EVENTS_PER_READ_MAX of them, so ask again."""
    with store.read() as tx:
        return [_event(row) for row in tx.all(_AFTER, session, number, EVENTS_PER_READ_MAX)]


def newest(store: Store) -> object:
    """A token that differs once any session has one more event. Costs microseconds and waits for nobody."""
    return store.work.driver.execute(_NEWEST).fetchone()[0]


def announce(store: Store, session: str, number: int) -> None:
    """Store that events up to `number` were sent. It never goes back."""
    with store.write(quiet=True) as tx:
        tx.run(_ANNOUNCE, number, session, number)


def _event(row: Row) -> Event:
    return Event(row["number"], row["type"], json.loads(row["data"]))
