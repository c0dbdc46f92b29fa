"""Owns one seeded defect: a worker that starts gives up the receipts that the last one had not delivered."""

from __future__ import annotations

from reference.mutants import when_a_worker_starts
from reference.store import Store

CHANGES = "a worker that starts gives up the receipts that the last one had not delivered"
CHECK = "count-in-hand-kept"
CLAUSES = (
    "USE-2",
    "USE-5",
)
CELLS = ("mail/reply.stored#1/worker-killed",)


def _give_up(store: Store) -> None:
    with store.write() as tx:
        tx.run("UPDATE outbox SET kind = 'close', data = '{\"watermark\": null}' WHERE kind = 'receipt'")


def apply() -> None:
    """Put it in."""
    when_a_worker_starts(_give_up)
