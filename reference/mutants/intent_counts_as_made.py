"""Owns one seeded defect: recovery takes a call whose intent alone is stored for one that was given up."""

from __future__ import annotations

from typing import Any

from reference import effects
from reference.mutants import swap
from reference.store import Row

CHANGES = "recovery takes a call whose intent alone is stored for one that was given up"
CHECK = "not-started-is-called-once"
CLAUSES = ("EFF-2",)
CELLS = ("mail/tool.intent.stored#1/worker-killed",)


_found: set[str] = set()


def _intend(found: Any) -> Any:
    def intend(run: Any, turn: Row, item: int, call: Any, tool: Any) -> Row:
        with run.store.read() as tx:
            known = tx.one(effects._OF_CALL, turn["session"], item, call.id)
        if known is not None and not known["dispatches"]:
            _found.add(known["effect"])
        row: Row = found(run, turn, item, call, tool)
        return row

    return intend


def _send(found: Any) -> Any:
    async def send(run: Any, effect: Row, *given: Any, **named: Any) -> Any:
        if effect["effect"] in _found:
            raise effects._Refusal("The call was interrupted.")
        return await found(run, effect, *given, **named)

    return send


def apply() -> None:
    """Put it in."""
    swap(effects, "_intend", _intend)
    swap(effects, "_send", _send)
