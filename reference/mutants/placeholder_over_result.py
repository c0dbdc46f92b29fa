"""Owns one seeded defect: repair puts a placeholder over results that are there."""

from __future__ import annotations

from typing import Any

from reference import context, effects, transcript
from reference.model import Item
from reference.mutants import swap
from reference.store import Row, Tx

CHANGES = "repair puts a placeholder over results that are there"
CHECK = "results-match-their-calls"
CLAUSES = ("HIS-2",)
CELLS = ("several/tool.result.stored#1/worker-killed",)


_KNOWN = "SELECT * FROM effects WHERE turn_id = ? AND state IN ('succeeded', 'failed')"


def _hold_unknown(found: Any) -> Any:
    def hold_unknown(tx: Tx, run: Any, turn: Row) -> None:
        found(tx, run, turn)
        for effect in tx.all(_KNOWN, turn["turn_id"]):
            key = transcript.placeholder_key(effect["session"], effect["item"], effect["call_id"])
            said = {name: effect[name] for name in ("turn_id", "work_id", "call_id")}
            transcript.add(tx, effect["session"], key, "tool_result", context.NO_RESULT, placeholder=True, **said)

    return hold_unknown


def _put(result: Any, item: Item) -> None:
    result.real = item.text


def apply() -> None:
    """Put it in."""
    swap(effects, "hold_unknown", _hold_unknown)
    swap(context, "_put", lambda found: _put)
