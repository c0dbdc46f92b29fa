"""Owns one seeded defect: a receipt that is delivered again is counted again."""

from __future__ import annotations

from reference import usage
from reference.mutants import reword

_AGAIN = " ON CONFLICT (attempt) DO UPDATE SET output_tokens = output_tokens + excluded.output_tokens"

CHANGES = "a receipt that is delivered again is counted again"
CHECK = "usage-equals-billed"
CLAUSES = (
    "USE-2",
    "USE-4",
)
CELLS = ("plain/outbox.delivered#2/worker-killed",)


def apply() -> None:
    """Put it in."""
    reword(usage, "take_receipt", "INSERT OR IGNORE INTO receipts", "INSERT INTO receipts")
    reword(usage, "take_receipt", "VALUES (?, ?, ?, ?, ?, ?)", "VALUES (?, ?, ?, ?, ?, ?)" + _AGAIN)
