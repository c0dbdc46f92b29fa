"""Owns one seeded defect: totals count only what was used since the worker has started."""

from __future__ import annotations

from reference import clock, usage
from reference.mutants import reword, swap, when_a_worker_starts
from reference.store import Store, Tx

CHANGES = "totals count only what was used since the worker has started"
CHECK = "totals-can-be-rebuilt"
CLAUSES = ("USE-5",)
CELLS = ("after-the-mail/turn.committed#1/worker-killed",)


_started: list[float] = []


def _note(store: Store) -> None:
    _started.append(clock.now())


def _refresh(ledger: Tx, session: str) -> None:
    ledger.run(usage._TOTALS, session, _started[-1] if _started else 0.0)


def apply() -> None:
    """Put it in."""
    reword(usage, "_TOTALS", "WHERE a.session = ?1", "WHERE a.session = ?1 AND a.created_at >= ?2")
    swap(usage, "refresh", lambda found: _refresh)
    when_a_worker_starts(_note)
