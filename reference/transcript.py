"""Owns the transcript and the turns: rows that are added once under a key and never changed, and the opening and closing of
turns.

Every item has a key that says what it is of (`user:<input>`, `reply:<attempt>`, `result:<effect>`). Adding under a key that
is there changes nothing, which is what makes repair repeatable (REC-4) and the user's input appear once (ADM-5).

Partial text of a running attempt stands apart, piece by piece; when the attempt ends without its reply, it becomes one
item that is marked incomplete (REC-11).
"""

from __future__ import annotations

import json

from reference import ids, outbox, projection
from reference.context import NO_RESULT
from reference.model import Item, ToolCall
from reference.store import Row, Tx

NOT_STARTED = "[Not started: this call was not made, because its turn was interrupted before it.]"

_ADD = (
    "INSERT INTO items (session, item, key, kind, turn_id, work_id, request_id, text, complete, calls, call_id,"
    " placeholder)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ITEMS = "SELECT * FROM items WHERE session = ? ORDER BY item"


def add(
    tx: Tx,
    session: str,
    key: str,
    kind: str,
    text: str,
    *,
    turn_id: str | None = None,
    work_id: str | None = None,
    request_id: str | None = None,
    complete: bool = True,
    calls: tuple[ToolCall, ...] = (),
    call_id: str | None = None,
    placeholder: bool = False,
) -> int | None:
    """Add one item; its number, or None if there is one under this key already."""
    if tx.value("SELECT 1 FROM items WHERE key = ?", key):
        return None
    number = int(tx.value("UPDATE sessions SET items = items + 1 WHERE session = ? RETURNING items", session))
    packed = json.dumps([[call.id, call.name, call.arguments] for call in calls]) if calls else None
    tx.run(_ADD, session, number, key, kind, turn_id, work_id, request_id, text, complete, packed, call_id, placeholder)
    return number


def items(tx: Tx, session: str) -> list[Item]:
    """The whole transcript, in stored order."""
    return [item(row) for row in tx.all(_ITEMS, session)]


def item(row: Row) -> Item:
    """One stored row as an item."""
    return Item(
        item=row["item"],
        kind=row["kind"],
        turn_id=row["turn_id"],
        work_id=row["work_id"],
        request_id=row["request_id"],
        text=row["text"],
        complete=bool(row["complete"]),
        calls=calls(row["calls"]),
        call_id=row["call_id"],
        placeholder=bool(row["placeholder"]),
    )


def calls(packed: str | None) -> tuple[ToolCall, ...]:
    """The calls that an item holds."""
    return tuple(ToolCall(*call) for call in json.loads(packed)) if packed else ()


# Turns ---------------------------------------------------------------------------------------------------------------


def open_turn(tx: Tx, work_id: str) -> Row | None:
    """The work's turn that runs, or None."""
    return tx.one("SELECT * FROM turns WHERE work_id = ? AND state = 'running' ORDER BY n DESC LIMIT 1", work_id)


def last_turn(tx: Tx, work_id: str) -> Row | None:
    """The work's newest turn, or None."""
    return tx.one("SELECT * FROM turns WHERE work_id = ? ORDER BY n DESC LIMIT 1", work_id)


def begin_turn(tx: Tx, session: str, work_id: str, predecessor: str | None = None, continuation: str | None = None) -> str:
    """Add the work's next turn; its id. A predecessor and a continuation key have one turn each, kept by the schema."""
    turn_id = ids.new("t")
    n = int(tx.value("SELECT COALESCE(MAX(n), 0) + 1 FROM turns WHERE work_id = ?", work_id))
    tx.run(
        "INSERT INTO turns (turn_id, work_id, session, n, state, predecessor, continuation) VALUES (?,?,?,?,'running',?,?)",
        turn_id,
        work_id,
        session,
        n,
        predecessor,
        continuation,
    )
    progressed(tx, work_id)
    projection.add(tx, session, "turn.begun", work_id=work_id, turn_id=turn_id, predecessor=predecessor)
    return turn_id


def end_turn(tx: Tx, turn: Row, state: str) -> None:
    """Close a turn whose last item answers its input."""
    tx.run("UPDATE turns SET state = ? WHERE turn_id = ? AND state = 'running'", state, turn["turn_id"])
    progressed(tx, turn["work_id"])
    projection.add(tx, turn["session"], "turn.ended", work_id=turn["work_id"], turn_id=turn["turn_id"], state=state)


def break_off(tx: Tx, turn: Row, state: str) -> None:
    """Close a turn that cannot go on: its open attempt, its calls without a result, and itself."""
    close_attempts(tx, turn)
    close_calls(tx, turn)
    end_turn(tx, turn, state)


def set_aside(tx: Tx, turn: Row) -> None:
    """Close a turn whose work goes on later: an answer that is whole stays whole, and calls that were not made are left to
    the turn that continues it."""
    close_attempts(tx, turn)
    end_turn(tx, turn, "done" if answered(tx, turn["turn_id"]) else "interrupted")


def progressed(tx: Tx, work_id: str) -> None:
    """Count one more commit of the work's progress. A continuation key is made from this number (REC-6)."""
    tx.run("UPDATE works SET progress = progress + 1 WHERE work_id = ?", work_id)


def answered(tx: Tx, turn_id: str) -> bool:
    """Whether the turn's newest whole reply asks for nothing more, so that the turn is at its end."""
    reply = newest_reply(tx, turn_id)
    return reply is not None and reply["calls"] is None


def newest_reply(tx: Tx, turn_id: str) -> Row | None:
    """The turn's newest whole reply, or None."""
    return tx.one(
        "SELECT * FROM items WHERE turn_id = ? AND kind = 'assistant' AND complete ORDER BY item DESC LIMIT 1", turn_id
    )


def open_calls(tx: Tx, turn: Row) -> tuple[int, list[ToolCall]]:
    """The calls without a result that are this turn's to make, in order, with the number of the reply's item: those of its
    newest whole reply, or of its predecessor's as long as it has none itself."""
    reply, turns = newest_reply(tx, turn["turn_id"]), [turn["turn_id"]]
    before = turn["predecessor"]
    while reply is None and before is not None:
        turns.append(before)
        reply = newest_reply(tx, before)
        before = tx.value("SELECT predecessor FROM turns WHERE turn_id = ?", before)
    if reply is None or reply["calls"] is None:
        return 0, []
    results = tx.all(
        "SELECT call_id, turn_id FROM items WHERE session = ? AND item > ? AND kind = 'tool_result'",
        reply["session"],
        reply["item"],
    )
    done = {row["call_id"] for row in results if row["turn_id"] in turns}
    return reply["item"], [call for call in calls(reply["calls"]) if call.id not in done]


# Attempts ------------------------------------------------------------------------------------------------------------


def close_attempts(tx: Tx, turn: Row, unsaved: str = "", watermark: int | None = None) -> None:
    """Close the turn's open attempt as unknown: its partial text, with the `unsaved` rest in memory, becomes one incomplete
    item, and the ledger is told the largest count that its stream has shown."""
    for attempt in tx.all("SELECT * FROM attempts WHERE turn_id = ? AND state = 'open' ORDER BY n", turn["turn_id"]):
        name = attempt["attempt"]
        pieces = tx.all("SELECT text FROM partials WHERE attempt = ? ORDER BY n", name)
        text = "".join(row["text"] for row in pieces) + unsaved
        if text:
            add(
                tx,
                turn["session"],
                f"reply:{name}",
                "assistant",
                text,
                turn_id=turn["turn_id"],
                work_id=turn["work_id"],
                complete=False,
            )
        tx.run("DELETE FROM partials WHERE attempt = ?", name)
        tx.run("UPDATE attempts SET state = 'closed' WHERE attempt = ?", name)
        shown = max((each for each in (attempt["watermark"], watermark) if each is not None), default=None)
        outbox.add(tx, turn["work_id"], turn["session"], name, "close", watermark=shown)


def placeholder_key(session: str, item_number: int, call_id: str) -> str:
    """The key of the placeholder for one call of one reply."""
    return f"placeholder:{session}:{item_number}:{call_id}"


def close_calls(tx: Tx, turn: Row) -> None:
    """Give every call of the turn that has no result its placeholder: not started, or outcome unknown."""
    item_number, missing = open_calls(tx, turn)
    for call in missing:
        state = tx.value(
            "SELECT state FROM effects WHERE session = ? AND item = ? AND call_id = ?",
            turn["session"],
            item_number,
            call.id,
        )
        add(
            tx,
            turn["session"],
            placeholder_key(turn["session"], item_number, call.id),
            "tool_result",
            NO_RESULT if state == "outcome_unknown" else NOT_STARTED,
            turn_id=turn["turn_id"],
            work_id=turn["work_id"],
            call_id=call.id,
            placeholder=state == "outcome_unknown",
        )
