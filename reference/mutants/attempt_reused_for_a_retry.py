"""Owns one seeded defect: a request that is made again carries the attempt of the first one."""

from __future__ import annotations

from typing import Any

import anyio

from reference import provider
from reference.model import ProviderFault
from reference.mutants import swap

CHANGES = "a request that is made again carries the attempt of the first one"
CHECK = "retry-is-a-new-attempt"
CLAUSES = ("USE-4",)
CELLS = ("passing-fault/none",)


def _stream(found: Any) -> Any:
    async def stream(*given: Any) -> Any:
        try:
            return await found(*given)
        except ProviderFault as fault:
            if not fault.passing:
                raise
            await anyio.sleep(0.05)
            return await stream(*given)

    return stream


def apply() -> None:
    """Put it in."""
    swap(provider, "stream", _stream)
