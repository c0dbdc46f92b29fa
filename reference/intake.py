"""Owns accepting: sessions and inputs, each once under the client's own request id, committed before it is heard of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.probe import reach
from reference import clock, ids, projection
from reference.identity import host
from reference.model import Refused
from reference.store import Row, Store, Tx

TEXT_BYTES_MAX = 256 * 1024
REQUEST_ID_CHARS_MAX = 200

_FROM_HERE = """
SELECT work_id, place, EXISTS (SELECT 1 FROM turns t WHERE t.work_id = works.work_id) AS begun
FROM works WHERE session = ? AND place >= ? AND state NOT IN ('done', 'cancelled') ORDER BY place
"""


def create_session(store: Store, workspace: str | None = None, request_id: str | None = None) -> dict[str, Any]:
    """Make a session, or give back the one made under this request id. Raises Refused for a folder that is not there."""
    folder = Path(workspace) if workspace else store.settings.workspace
    if not folder.is_dir():
        raise Refused("workspace_missing", f"{folder} is no folder; make it, or name another", "workspace", 400)
    if request_id is not None:
        _checked_id(request_id)
    with store.write() as tx:
        known = request_id and tx.value("SELECT session FROM sessions WHERE request_id = ?", request_id)
        if known:
            return {"session": known}
        name = ids.new("s")
        tx.run(
            "INSERT INTO sessions (session, request_id, workspace, desired_state, created_at) VALUES (?, ?, ?, 'run', ?)",
            name,
            request_id,
            str(folder.resolve()),
            clock.now(),
        )
    return {"session": name}


def accept(
    store: Store, session: str, request_id: str, text: str, version: int | None = None
) -> tuple[dict[str, Any], bool]:
    """Accept one input (ADM-1, ADM-2): the answer for the client, and whether this call made it.

    A Stop that is stored while the input is on its way from here to its commit holds for it (C23, `admit_arriving`).
    version: the control version that the client had seen when it first sent this; a Stop newer than that holds for the
    input too, also where it had not even reached the app by then.
    Raises Refused: unknown session (404), the id used for another text (409), a bad field (400).
    """
    _checked_id(request_id)
    if not text or len(text.encode()) > TEXT_BYTES_MAX:
        raise Refused("text_invalid", f"text must have 1 to {TEXT_BYTES_MAX} bytes", "text", 400)
    with store.read() as tx:
        _session(tx, session)
    with _arriving(store, session, request_id, text, version), store.write() as tx:
        row = _session(tx, session)
        known = tx.one("SELECT * FROM inputs WHERE session = ? AND request_id = ?", session, request_id)
        if known is not None:
            if known["text"] != text:
                raise Refused(
                    "request_id_used", f"request_id {request_id!r} was used for another text; use a new one", "request_id"
                )
            return _answer(known["input"], known["work_id"], known["position"]), False
        answer = _store(tx, row, request_id, text, version)
    reach("input.committed", answer["work_id"], {"session": session, "request_id": request_id})
    return answer, True


@contextmanager
def _arriving(store: Store, session: str, request_id: str, text: str, version: int | None) -> Iterator[None]:
    """Keep the input in hand until it is committed, so that a Stop finds it there."""
    arrival = (session, request_id, text, version)
    store.arriving.append(arrival)
    try:
        reach("input.received", None, {"session": session, "request_id": request_id})
        yield
    finally:
        store.arriving.remove(arrival)


def admit_arriving(tx: Tx, store: Store, session: str | None = None) -> None:
    """Commit, in the transaction of a Stop, every input that this app has in hand for the session (None: for any), so that
    the Stop speaks of it like of all others: sent again after a crash, it is known and stopped (C23, ADM-4)."""
    for name, request_id, text, version in tuple(store.arriving):
        known = "SELECT 1 FROM inputs WHERE session = ? AND request_id = ?"
        if session in (None, name) and not tx.value(known, name, request_id):
            _store(tx, _session(tx, name), request_id, text, version)


def _store(tx: Tx, session: Row, request_id: str, text: str, version: int | None) -> dict[str, Any]:
    name, input_id, work_id = session["session"], ids.new("i"), ids.new("w")
    position = session["inputs"] + 1
    stopped = version is not None and version < session["stop_version"]
    desired = "cancelled" if stopped else "paused" if session["desired_state"] == "paused" else "run"
    state = {"run": "queued"}.get(desired, desired)
    tx.run(
        "UPDATE sessions SET inputs = ?, desired_state = ? WHERE session = ?",
        position,
        "run" if desired == "run" else session["desired_state"],
        name,
    )
    tx.run(
        "INSERT INTO inputs (input, session, request_id, text, position, work_id, accepted_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        input_id,
        name,
        request_id,
        text,
        position,
        work_id,
        clock.now(),
    )
    tx.run(
        "INSERT INTO works (work_id, session, input, request_id, place, state, reason_code, desired_state, control_version,"
        " permission_scope, recovery_policy, host) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'workspace', 'continue', ?)",
        work_id,
        name,
        input_id,
        request_id,
        _place(tx, name),
        state,
        {"paused": "session_paused", "cancelled": "stopped_before"}.get(desired),
        desired,
        session["control_version"],
        host(),
    )
    projection.add(tx, name, "input.accepted", work_id=work_id, input=input_id, request_id=request_id, position=position)
    projection.work_event(tx, work_id)
    return _answer(input_id, work_id, position)


def _place(tx: Tx, session: str) -> int:
    """Where the new work stands: last of all, or just before one whose continuation is about to be admitted.

    A user's input goes before an automatic continuation, and the version that the continuation was decided for is void
    (INT-13, INT-14). What no turn has begun is the user's too: it goes before the new one, in its first order (ADM-3). Left
    alone, what was accepted before the take-over stands behind the resumed work (C25).
    """
    resuming = tx.one("SELECT work_id, place FROM works WHERE session = ? AND state = 'recovering' AND admitting", session)
    if resuming is None:
        return int(tx.value("SELECT COALESCE(MAX(place), 0) + 1 FROM works"))
    tx.run("UPDATE works SET control_version = control_version + 1 WHERE work_id = ?", resuming["work_id"])
    tx.run("UPDATE works SET place = place + 1 WHERE place >= ?", resuming["place"])
    rows = tx.all(_FROM_HERE, session, resuming["place"])
    places = [resuming["place"], *sorted(row["place"] for row in rows)]
    not_begun, begun = [row for row in rows if not row["begun"]], [row for row in rows if row["begun"]]
    own = places.pop(len(not_begun))
    for row, place in zip((*not_begun, *begun), places, strict=True):
        tx.run("UPDATE works SET place = ? WHERE work_id = ?", place, row["work_id"])
    return int(own)


def _session(tx: Tx, session: str) -> Row:
    row = tx.one("SELECT * FROM sessions WHERE session = ?", session)
    if row is None:
        raise Refused("unknown_session", f"there is no session {session!r}; GET /sessions lists them", "session", 404)
    return row


def _checked_id(request_id: str) -> None:
    if not request_id or len(request_id) > REQUEST_ID_CHARS_MAX or not request_id.isprintable():
        raise Refused(
            "request_id_invalid",
            f"request_id must have 1 to {REQUEST_ID_CHARS_MAX} printable characters",
            "request_id",
            400,
        )


def _answer(input_id: str, work_id: str, position: int) -> dict[str, Any]:
    return {"status": "accepted", "input": input_id, "work_id": work_id, "position": position}


def require_session(store: Store, session: str) -> None:
    """Raises Refused (404) if there is no such session."""
    with store.read() as tx:
        _session(tx, session)
