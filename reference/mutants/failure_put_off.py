"""Owns one seeded defect: a work fails by a reply that nobody can work with only after that reply was stored."""

from __future__ import annotations

from typing import Any

from reference import turns
from reference.mutants import swap

CHANGES = "a work fails by a reply that nobody can work with only after that reply was stored"
CHECK = "work-repeated-within-bound"
CLAUSES = (
    "REC-2",
    "REC-13",
)
CELLS = ("same-call-id/reply.stored#1/worker-killed",)


_put_off: dict[str, Any] = {}
_failing: set[str] = set()


def _failed(found: Any) -> Any:
    def failed(tx: Any, run: Any, turn: Any, reason_code: str, reason: str) -> None:
        work = run.held.work_id
        if reason_code == "duplicate_call_id" and work not in _failing:
            _put_off[work] = turn, reason_code, reason
        else:
            found(tx, run, turn, reason_code, reason)

    return failed


def _deliver_ended(found: Any) -> Any:
    def deliver_ended(run: Any) -> None:
        late = _put_off.pop(run.held.work_id, None)
        if late is None:
            found(run)
        else:
            _failing.add(run.held.work_id)
            turns._fail(run, *late)

    return deliver_ended


def apply() -> None:
    """Put it in."""
    swap(turns, "_failed", _failed)
    swap(turns, "_deliver_ended", _deliver_ended)
