"""Owns one seeded defect: a late receipt overwrites the placeholder that stood for it."""

from __future__ import annotations

from typing import Any

from reference import effects, transcript
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "a late receipt overwrites the placeholder that stood for it"
CHECK = "late-receipt-added"
CLAUSES = ("EFF-13",)
CELLS = ("mail/tool.effect.done#1/overtaken",)


_OVERWRITE = "UPDATE items SET kind = 'reconciliation', text = ?, placeholder = 0 WHERE key = ?"


def _add_result(found: Any) -> Any:
    def add_result(tx: Tx, effect: Row, text: str) -> None:
        key = transcript.placeholder_key(effect["session"], effect["item"], effect["call_id"])
        if not tx.run(_OVERWRITE, text, key):
            found(tx, effect, text)

    return add_result


def apply() -> None:
    """Put it in."""
    swap(effects, "_add_result", _add_result)
