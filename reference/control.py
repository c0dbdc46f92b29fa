"""Owns what a user decides about work: pause, resume, stop, quit, and what becomes of an unknown effect.

A control is stored with a version that grows by one each time (INT-12). It decides over everything that runs: a work that
nobody owns is changed at once; an owned one is changed by its owner, which looks at the intent before each request and
each call, and in the transaction that stores a dispatch.
"""

from __future__ import annotations

from typing import Any

from faults.probe import reach
from reference import intake, projection, transcript
from reference.model import Refused
from reference.store import Row, Store, Tx

_DESIRED = {"pause": "paused", "resume": "run", "stop": "cancelled", "retry": "run"}
_OF_SESSION = "SELECT * FROM works WHERE session = ? AND state NOT IN ('done', 'cancelled')"
# Which works each action speaks to. Resume releases only what a user paused; Retry only what failed (REC-8).
_TOUCHES = {
    "pause": _OF_SESSION + " AND desired_state = 'run' ORDER BY place",
    "resume": _OF_SESSION + " AND desired_state = 'paused' ORDER BY place",
    "stop": _OF_SESSION + " AND desired_state <> 'cancelled' ORDER BY place",
    "retry": _OF_SESSION + " AND desired_state = 'run' AND state IN ('failed', 'recovery_failed') ORDER BY place",
}


def apply(store: Store, session: str, action: str, version: int | None = None) -> dict[str, Any]:
    """Store a control; what the session's intent is now.

    version: the control version that the user has seen; another one means that somebody decided in between.
    Raises Refused: unknown session (404), unknown action (400), stale version (409).
    """
    if action not in _DESIRED:
        raise Refused("action_unknown", f"{action!r} is no control; use one of {', '.join(_DESIRED)}", "action", 400)
    with store.read() as tx:
        _current(tx, session, version)
    reach("control.received", None, {"session": session, "action": action})
    with store.write() as tx:
        _current(tx, session, version)
        if action == "stop":
            intake.admit_arriving(tx, store, session)
        answer = _apply(tx, session, action)
    reach("control.stored", None, {"session": session, "action": action})
    return answer


def quit(store: Store) -> dict[str, Any]:
    """Store a user's stop for every unfinished work, and ask app and workers to exit (INT-6)."""
    reach("control.received", None, {"action": "quit"})
    with store.write() as tx:
        intake.admit_arriving(tx, store)
        rows = tx.all("SELECT work_id, session FROM works WHERE state NOT IN ('done', 'cancelled') ORDER BY place")
        for session in dict.fromkeys(row["session"] for row in rows):
            _apply(tx, session, "stop")
        tx.run("INSERT INTO meta (name, value) VALUES ('exit', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1")
    reach("control.stored", None, {"action": "quit"})
    return {"status": "stopped", "works": [row["work_id"] for row in rows]}


def exits(store: Store) -> int:
    """How often everyone was asked to exit. A process exits when this has grown since it started."""
    with store.read() as tx:
        return int(tx.value("SELECT value FROM meta WHERE name = 'exit'") or 0)


def resolve_effect(store: Store, session: str, call_id: str, action: str, risk_acknowledged: bool) -> dict[str, Any]:
    """Store what the user wants of an effect that stays unknown (EFF-6): `retry` sends it again when the conversation next
    runs, `abandon` leaves it. Raises Refused unless the user says that the risk is known."""
    if action not in ("retry", "abandon"):
        raise Refused("action_unknown", f"{action!r} is no way to resolve an effect; use retry or abandon", "action", 400)
    if risk_acknowledged is not True:
        raise Refused(
            "risk_not_acknowledged",
            "the call may have taken effect already; send risk_acknowledged: true to decide over it",
            "risk_acknowledged",
            400,
        )
    with store.write() as tx:
        row = tx.one("SELECT * FROM effects WHERE session = ? AND call_id = ? ORDER BY item DESC LIMIT 1", session, call_id)
        if row is None:
            raise Refused("unknown_call", f"session {session!r} has no call {call_id!r}", "call_id", 404)
        if row["state"] != "outcome_unknown" or row["resolution"] is not None:
            raise Refused("call_not_unknown", f"call {call_id!r} is {row['state']} and needs no decision", "call_id")
        state = "abandoned" if action == "abandon" else "outcome_unknown"
        tx.run("UPDATE effects SET state = ?, resolution = ? WHERE effect = ?", state, action, row["effect"])
        projection.add(tx, session, "control", action=action, call_id=call_id)
    return {"call_id": call_id, "state": state, "resolution": action}


def _current(tx: Tx, session: str, version: int | None) -> Row:
    row = tx.one("SELECT * FROM sessions WHERE session = ?", session)
    if row is None:
        raise Refused("unknown_session", f"there is no session {session!r}; GET /sessions lists them", "session", 404)
    if version is not None and version != row["control_version"]:
        raise Refused(
            "version_stale", f"version {version} is stale, the control version is {row['control_version']}", "version"
        )
    return row


def _apply(tx: Tx, session: str, action: str) -> dict[str, Any]:
    desired = _DESIRED[action]
    version = int(
        tx.value(
            "UPDATE sessions SET control_version = control_version + 1,"
            " desired_state = CASE WHEN ? THEN desired_state ELSE ? END,"
            " stop_version = CASE WHEN ? THEN control_version + 1 ELSE stop_version END"
            " WHERE session = ? RETURNING control_version",
            action == "retry",
            desired,
            action == "stop",
            session,
        )
    )
    now = tx.value("SELECT desired_state FROM sessions WHERE session = ?", session)
    works = tx.all(_TOUCHES[action], session)
    projection.add(tx, session, "control", action=action, desired_state=now, control_version=version)
    for work in works:
        tx.run(
            "UPDATE works SET desired_state = ?, control_version = control_version + 1 WHERE work_id = ?",
            desired,
            work["work_id"],
        )
        if work["owner"] is None:
            _settle(tx, work, desired)
    return {"desired_state": now, "control_version": version}


def _settle(tx: Tx, work: Row, desired: str) -> None:
    """Bring a work that nobody owns to the state that the user wants."""
    close_for(tx, work["work_id"], desired)
    tx.run(
        "UPDATE works SET state = ?, reason_code = ?, reason = NULL, parked = 0, tries = 0, next_try_at = NULL"
        " WHERE work_id = ?",
        "queued" if desired == "run" else desired,
        {"paused": "user_paused", "cancelled": "user_stopped"}.get(desired),
        work["work_id"],
    )
    projection.work_event(tx, work["work_id"])


_STOPPED = "The user stopped the request {where} before it was finished; do not go on with it."
_SET_ASIDE = (
    "The request {where} was interrupted, and another one goes before it. Do not go on with it now; it is continued later."
)


def close_for(tx: Tx, work_id: str, desired: str) -> None:
    """Close what is open of a work because its user wants it paused or cancelled.

    The turn of a cancelled one may have been set aside before, by a pause or by a newer input: it is told to the model as
    stopped all the same, so that nobody takes its request for a new one (C04).
    """
    turn = transcript.open_turn(tx, work_id)
    if turn is not None and desired == "paused":
        transcript.set_aside(tx, turn)
    elif turn is not None and desired == "cancelled":
        transcript.break_off(tx, turn, "cancelled")
        tell(tx, turn, "stopped", _STOPPED)
    elif desired == "cancelled":
        last = transcript.last_turn(tx, work_id)
        if last is not None and last["state"] == "interrupted":
            transcript.close_calls(tx, last)
            tell(tx, last, "stopped", _STOPPED)


def tell_who_waits(tx: Tx, session: str, work_id: str) -> None:
    """Tell the model, as a turn of this work begins or goes on, that the session's other requests which were interrupted
    wait behind it, so that this turn does not do their work as well (INT-13, C04)."""
    for other in tx.all(_OF_SESSION + " AND state NOT IN ('failed', 'recovery_failed') AND work_id <> ?", session, work_id):
        last = transcript.last_turn(tx, other["work_id"])
        if last is not None and last["state"] == "interrupted":
            tell(tx, last, "set aside", _SET_ASIDE)


def tell(tx: Tx, turn: Row, what: str, text: str) -> None:
    """Leave a note for the model about how a turn ended, so that a later request is not taken for the first one (C04).

    text: with `{where}` for where the turn's request stands, which is quoted if another one has been told since.
    """
    newest = tx.value(
        "SELECT work_id FROM items WHERE session = ? AND kind = 'user' ORDER BY item DESC LIMIT 1", turn["session"]
    )
    where, quoted = "above", ""
    if newest != turn["work_id"]:
        asked = tx.value("SELECT text FROM inputs i JOIN works w ON w.input = i.input WHERE w.work_id = ?", turn["work_id"])
        where, quoted = "quoted here", f"\nRequest: {asked}"
    note = f"[{text.format(where=where)}{quoted}]"
    key = f"{what}:{turn['turn_id']}"
    transcript.add(tx, turn["session"], key, "note", note, turn_id=turn["turn_id"], work_id=turn["work_id"])
