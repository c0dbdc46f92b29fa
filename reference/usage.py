"""Owns the ledger: which attempts were made, what the provider counted for each, and the totals derived from that.

An attempt is `open` until its receipt is here (`known`) or nobody can bring it any more (`unknown`). Unknown has no number:
it is never zero (USE-2). What a stream has shown is a watermark of that attempt, the largest count seen, never a sum
(USE-3). A receipt belongs to its attempt, whoever owns the work when it comes (USE-6).
"""

from __future__ import annotations

from typing import Any

from reference import clock
from reference.model import Counts
from reference.store import Store, Tx

_TOTALS = """
INSERT OR REPLACE INTO totals (session, input_tokens, cached_tokens, output_tokens, known_attempts, unknown_attempts)
SELECT ?1, COALESCE(SUM(r.input_tokens), 0), COALESCE(SUM(r.cached_tokens), 0), COALESCE(SUM(r.output_tokens), 0),
       COUNT(r.attempt), COALESCE(SUM(a.state = 'unknown'), 0)
FROM attempts a LEFT JOIN receipts r ON r.attempt = a.attempt WHERE a.session = ?1
"""
_VIEW = """
SELECT a.attempt, a.work_id, a.turn_id, a.state, r.input_tokens, r.cached_tokens, r.output_tokens, a.watermark_tokens,
       COALESCE(r.late, 0) AS late
FROM attempts a LEFT JOIN receipts r ON r.attempt = a.attempt WHERE a.session = ? ORDER BY a.rowid
"""


def open_attempt(ledger: Tx, attempt: str, session: str, work_id: str, turn_id: str, generation: int) -> None:
    """Fix an attempt's attribution before its request is sent (USE-1). A second time changes nothing."""
    ledger.run(
        "INSERT OR IGNORE INTO attempts (attempt, session, work_id, turn_id, generation, state, created_at)"
        " VALUES (?, ?, ?, ?, ?, 'open', ?)",
        attempt,
        session,
        work_id,
        turn_id,
        generation,
        clock.now(),
    )


def take_receipt(ledger: Tx, attempt: str, counts: Counts, late: bool = False) -> None:
    """Store what the provider counted for an attempt. The first receipt stays; a second one changes nothing."""
    ledger.run(
        "INSERT OR IGNORE INTO receipts (attempt, input_tokens, cached_tokens, output_tokens, late, stored_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        attempt,
        counts.input_tokens,
        counts.cached_tokens,
        counts.output_tokens,
        late,
        clock.now(),
    )
    ledger.run("UPDATE attempts SET state = 'known' WHERE attempt = ? AND state <> 'known'", attempt)


def close_attempt(ledger: Tx, attempt: str, watermark: int | None) -> None:
    """Give an attempt up as unknown, with the largest count that its stream has shown, if it has shown one."""
    ledger.run(
        "UPDATE attempts SET state = 'unknown', watermark_tokens = MAX(COALESCE(watermark_tokens, ?), ?)"
        " WHERE attempt = ? AND state = 'open'",
        watermark,
        watermark,
        attempt,
    )


def take_late(store: Store, session: str, attempt: str, counts: Counts) -> None:
    """Store a receipt whose bringer no longer owns the work: it belongs to its attempt, and to nothing else (C31)."""
    with store.usage.write() as ledger:
        take_receipt(ledger, attempt, counts, late=True)
    with store.usage.write() as ledger:
        refresh(ledger, session)


def refresh(ledger: Tx, session: str) -> None:
    """Derive a session's totals again."""
    ledger.run(_TOTALS, session)


def rebuild(store: Store) -> None:
    """Derive every session's totals again from attempts and receipts (USE-5)."""
    with store.usage.write() as ledger:
        ledger.run("DELETE FROM totals")
        for row in ledger.all("SELECT DISTINCT session FROM attempts"):
            refresh(ledger, row["session"])


def view(ledger: Tx, session: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A session's attempts in order, and its totals."""
    attempts = [{**dict(row), "late": bool(row["late"])} for row in ledger.all(_VIEW, session)]
    totals = ledger.one("SELECT * FROM totals WHERE session = ?", session)
    zero = dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens", "known_attempts", "unknown_attempts"), 0)
    return attempts, ({name: totals[name] for name in zero} if totals else zero)
