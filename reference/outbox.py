"""Owns the way from the work database to the ledger: rows committed with the fact, delivered, then cleared.

A row may be delivered any number of times, since the ledger takes each fact once (usage.py); it is cleared only after the
ledger has committed it. So the two databases converge whatever dies in between (REC-6).
"""

from __future__ import annotations

import json
from typing import Any

from faults.probe import reach
from reference import ownership, projection, usage
from reference.model import Counts
from reference.ownership import Held
from reference.store import Row, Store, Tx


def add(tx: Tx, work_id: str, session: str, attempt: str, kind: str, **data: Any) -> None:
    """Add a row in the transaction of its fact. kind: `attempt` opens, `receipt` counts, `close` gives up as unknown."""
    tx.run(
        "INSERT INTO outbox (work_id, session, attempt, kind, data) VALUES (?, ?, ?, ?, ?)",
        work_id,
        session,
        attempt,
        kind,
        json.dumps(data, separators=(",", ":")),
    )


def deliver(store: Store, work_id: str, held: Held | None = None) -> None:
    """Bring every row of this work to the ledger, in order, and clear it. Raises Fenced where `held` no longer owns it."""
    with store.read() as tx:
        rows = tx.all("SELECT * FROM outbox WHERE work_id = ? ORDER BY row", work_id)
        if held is not None and not rows:
            ownership.fence(tx, held)  # a later owner has delivered them
    for row in rows:
        _deliver(store, row, held)


def strays(store: Store) -> list[str]:
    """Works whose rows nobody is about to deliver, because nobody owns them."""
    with store.read() as tx:
        return [
            row["work_id"]
            for row in tx.all(
                "SELECT DISTINCT work_id FROM outbox JOIN works USING (work_id) WHERE owner IS NULL ORDER BY row"
            )
        ]


def _deliver(store: Store, row: Row, held: Held | None) -> None:
    data = json.loads(row["data"])
    attempt, session, work_id = row["attempt"], row["session"], row["work_id"]
    with store.usage.write() as ledger:
        if row["kind"] == "attempt":
            usage.open_attempt(ledger, attempt, session, work_id, data["turn_id"], data["generation"])
        elif row["kind"] == "receipt":
            usage.take_receipt(ledger, attempt, Counts(**data))
        else:
            usage.close_attempt(ledger, attempt, data["watermark"])
    reach("outbox.delivered", work_id, {"attempt": attempt, "kind": row["kind"]})
    if row["kind"] == "receipt":
        reach("usage.receipt.stored", work_id, {"attempt": attempt})
    if row["kind"] != "attempt":
        with store.usage.write() as ledger:
            usage.refresh(ledger, session)
    with store.write() as tx:
        if held is not None:
            ownership.fence(tx, held)
        cleared = tx.run("DELETE FROM outbox WHERE row = ?", row["row"])
        if cleared and row["kind"] != "attempt":
            projection.add(tx, session, "usage", work_id=work_id, attempt=attempt, state=_STATE[row["kind"]])


_STATE = {"receipt": "known", "close": "unknown"}
