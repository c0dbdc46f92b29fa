"""Owns one seeded defect: what came before a cut and the reply asked for anew are joined into one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reference import turns
from reference.model import Reply
from reference.mutants import swap
from reference.store import Tx

CHANGES = "what came before a cut and the reply asked for anew are joined into one"
CHECK = "partial-marked-incomplete"
CLAUSES = ("REC-11",)
CELLS = ("recovery-stream/none",)


_CUT = "SELECT group_concat(text, '') FROM items WHERE turn_id = ? AND kind = 'assistant' AND NOT complete"


def _store(found: Any) -> Any:
    def store(self: Any, tx: Tx, reply: Reply, keep: bool) -> None:
        before = tx.value(_CUT, self._turn["turn_id"]) or ""
        found(self, tx, replace(reply, text=before + reply.text), keep)

    return store


def apply() -> None:
    """Put it in."""
    swap(turns._Attempt, "_store", _store)
