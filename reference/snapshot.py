"""Owns the canonical snapshot: one view of a session out of both databases, as of one event number. Reading changes nothing
(UIX-6)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from reference import transcript, usage
from reference.model import Item, Refused
from reference.store import Row, Store, Tx

View = dict[str, Any]

_AT_WORK = ("working", "recovering", "queued", "waiting", "paused", "failed", "recovery_failed")


def session(store: Store, name: str) -> View:
    """The view of one session. Raises Refused (404) if there is none."""
    with store.read() as tx, store.usage.read() as ledger:
        row = tx.one("SELECT * FROM sessions WHERE session = ?", name)
        if row is None:
            raise Refused("unknown_session", f"there is no session {name!r}; GET /sessions lists them", "session", 404)
        return _session(tx, ledger, row)


def all(store: Store) -> dict[str, View]:
    """The views of every session, by name, in the order in which they were made."""
    with store.read() as tx, store.usage.read() as ledger:
        return {row["session"]: _session(tx, ledger, row) for row in tx.all("SELECT * FROM sessions ORDER BY rowid")}


def _session(tx: Tx, ledger: Tx, row: Row) -> View:
    name = row["session"]
    works = _works(tx, name)
    attempts, totals = usage.view(ledger, name)
    return {
        "session": name,
        "state": next((state for state in _AT_WORK if any(work["state"] == state for work in works)), "idle"),
        "event": row["events"],
        "announced": row["announced"],
        "desired_state": row["desired_state"],
        "control_version": row["control_version"],
        "created_at": row["created_at"],
        "workspace": row["workspace"],
        "can_resume": any(work["can_resume"] for work in works),
        "inputs": [
            {
                "request_id": each["request_id"],
                "text": each["text"],
                "work_id": each["work_id"],
                "position": each["position"],
                "consumed": bool(each["consumed"]),
            }
            for each in tx.all("SELECT * FROM inputs WHERE session = ? ORDER BY position", name)
        ],
        "works": works,
        "transcript": [_item(each) for each in transcript.items(tx, name)],
        "effects": [_effect(each) for each in tx.all("SELECT * FROM effects WHERE session = ? ORDER BY item, rowid", name)],
        "attempts": attempts,
        "totals": totals,
    }


def _works(tx: Tx, name: str) -> list[View]:
    attempts = _grouped(
        tx.all("SELECT a.* FROM attempts a JOIN turns t USING (turn_id) WHERE t.session = ? ORDER BY t.n, a.n", name),
        "turn_id",
        lambda row: row["attempt"],
    )
    turns = _grouped(
        tx.all("SELECT * FROM turns WHERE session = ? ORDER BY n", name),
        "work_id",
        lambda row: {
            "turn_id": row["turn_id"],
            "work_id": row["work_id"],
            "state": row["state"],
            "predecessor": row["predecessor"],
            "attempts": attempts[row["turn_id"]],
        },
    )
    recoveries = _grouped(
        tx.all("SELECT r.* FROM recoveries r JOIN works w USING (work_id) WHERE w.session = ? ORDER BY r.rowid", name),
        "work_id",
        _recovery,
    )
    rows = tx.all(
        "SELECT w.*, i.text, i.consumed, i.position FROM works w JOIN inputs i ON i.input = w.input"
        " WHERE w.session = ? ORDER BY i.position",
        name,
    )
    return [_work(row, turns[row["work_id"]], recoveries[row["work_id"]]) for row in rows]


def _grouped(rows: list[Row], by: str, shape: Callable[[Row], Any]) -> defaultdict[str, list[Any]]:
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row[by]].append(shape(row))
    return found


def _work(row: Row, turns: list[View], recoveries: list[View]) -> View:
    """The run intent of one work (INT-1) and where it stands. Resume is offered only for what a user paused (UIX-2)."""
    return {
        "work_id": row["work_id"],
        "request_id": row["request_id"],
        "state": row["state"],
        "reason_code": row["reason_code"],
        "reason": row["reason"],
        "desired_state": row["desired_state"],
        "control_version": row["control_version"],
        "permission_scope": row["permission_scope"],
        "goal_revision": None,
        "host": row["host"],
        "parent": None,
        "children": [],
        "progress": row["progress"],
        "recovery_policy": row["recovery_policy"],
        "generation": row["generation"],
        "owner": row["owner"],
        "lease_until": row["lease_until"],
        "next_try_at": row["next_try_at"],
        "can_resume": row["desired_state"] == "paused",
        "can_retry": row["state"] in ("failed", "recovery_failed"),
        "first_input": row["request_id"],
        "messages": [] if row["consumed"] else [row["request_id"]],
        "turns": turns,
        "recoveries": recoveries,
    }


def _recovery(row: Row) -> View:
    return {
        "key": row["key"],
        "way": row["way"],
        "control_version": row["control_version"],
        "generation": row["generation"],
        "turn_id": row["turn_id"],
        "predecessor": row["predecessor"],
        "void": bool(row["void"]),
        "consumed": bool(row["consumed"]),
    }


def _item(item: Item) -> View:
    return {
        "item": item.item,
        "kind": item.kind,
        "turn_id": item.turn_id,
        "request_id": item.request_id,
        "text": item.text,
        "complete": item.complete,
        "calls": [{"call_id": call.id, "tool": call.name, "arguments": _arguments(call.arguments)} for call in item.calls],
        "call_id": item.call_id,
        "placeholder": item.placeholder,
    }


def _arguments(text: str) -> dict[str, Any]:
    """A call's arguments; what a model sent that is no JSON object has none."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _effect(row: Row) -> View:
    return {
        "call_id": row["call_id"],
        "tool": row["tool"],
        "state": row["state"],
        "work_id": row["work_id"],
        "turn_id": row["turn_id"],
        "implementation": row["implementation"],
        "idempotency_key": row["idempotency_key"],
        "input_summary": row["summary"],
        "dispatched_at": row["dispatched_at"],
        "dispatches": row["dispatches"],
        "checks": json.loads(row["checks"]),
        "resolution": row["resolution"],
        "note": row["note"],
    }
