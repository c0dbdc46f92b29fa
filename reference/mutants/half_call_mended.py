"""Owns one seeded defect: a call whose arguments were cut off is mended and made."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from reference.model import ProviderFault, Reply
from reference.mutants import swap
from reference.provider import _Assembly

CHANGES = "a call whose arguments were cut off is mended and made"
CHECK = "call-is-whole"
CLAUSES = ("REC-11",)
CELLS = ("met-half-call/none",)


def _mended(arguments: str) -> str:
    for end in ("", "}", '"}', '": ""}'):
        try:
            json.loads(arguments + end)
        except ValueError:
            continue
        return arguments + end
    return "{}"


def _read(found: Any) -> Any:
    async def read(self: Any, response: aiohttp.ClientResponse) -> Reply:
        try:
            whole: Reply = await found(self, response)
        except (ProviderFault, aiohttp.ClientError):
            if not self._calls:
                raise
            for call in self._calls.values():
                call["arguments"] = _mended(call["arguments"])
            return Reply("".join(self._text), self._reply(None).calls, None, "tool_calls")
        return whole

    return read


def apply() -> None:
    """Put it in."""
    swap(_Assembly, "read", _read)
