"""Owns one seeded defect: counts that a stream repeats are added up."""

from __future__ import annotations

from typing import Any

from reference import provider
from reference.model import Counts
from reference.mutants import swap

CHANGES = "counts that a stream repeats are added up"
CHECK = "streamed-count-is-a-watermark"
CLAUSES = ("USE-3",)
CELLS = ("long-stream/none",)


def _count(found: Any) -> Any:
    def count(self: Any, usage: Any) -> None:
        before, self._counts = self._counts, None
        found(self, usage)
        now = self._counts or before
        if before is not None and self._counts is not None:
            now = Counts(now.input_tokens, now.cached_tokens, before.output_tokens + now.output_tokens)
        self._counts = now

    return count


def apply() -> None:
    """Put it in."""
    swap(provider._Assembly, "_count", _count)
