"""Owns one seeded defect: totals are counted up with each delivery and not derived."""

from __future__ import annotations

from typing import Any

from reference import usage
from reference.model import Counts
from reference.mutants import swap
from reference.store import Tx

CHANGES = "totals are counted up with each delivery and not derived"
CHECK = "totals-can-be-rebuilt"
CLAUSES = ("USE-5",)
CELLS = ("plain/outbox.delivered#2/worker-killed",)


_UP = """
INSERT INTO totals (session, input_tokens, cached_tokens, output_tokens, known_attempts, unknown_attempts)
SELECT session, ?, ?, ?, 1, 0 FROM attempts WHERE attempt = ? ON CONFLICT (session) DO UPDATE SET
       input_tokens = input_tokens + excluded.input_tokens, cached_tokens = cached_tokens + excluded.cached_tokens,
       output_tokens = output_tokens + excluded.output_tokens, known_attempts = known_attempts + 1
"""


def _take_receipt(found: Any) -> Any:
    def take_receipt(ledger: Tx, attempt: str, counts: Counts, late: bool = False) -> None:
        found(ledger, attempt, counts, late)
        ledger.run(_UP, counts.input_tokens, counts.cached_tokens, counts.output_tokens, attempt)

    return take_receipt


def apply() -> None:
    """Put it in."""
    swap(usage, "take_receipt", _take_receipt)
    swap(usage, "refresh", lambda found: lambda ledger, session: None)
