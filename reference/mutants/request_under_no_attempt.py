"""Owns one seeded defect: a request goes out under a name that the ledger has not heard of."""

from __future__ import annotations

from typing import Any

from reference import ids, provider
from reference.mutants import swap

CHANGES = "a request goes out under a name that the ledger has not heard of"
CHECK = "attempt-fixed-before-request"
CLAUSES = ("USE-1",)
CELLS = ("plain/none",)


def _stream(found: Any) -> Any:
    async def stream(client: Any, settings: Any, attempt: str, *given: Any) -> Any:
        return await found(client, settings, ids.new("a"), *given)

    return stream


def apply() -> None:
    """Put it in."""
    swap(provider, "stream", _stream)
