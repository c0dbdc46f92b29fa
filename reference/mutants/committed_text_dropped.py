"""Owns one seeded defect: the committed text of a reply that was cut off is thrown away."""

from __future__ import annotations

from reference import transcript
from reference.mutants import reword

CHANGES = "the committed text of a reply that was cut off is thrown away"
CHECK = "committed-partial-kept"
CLAUSES = ("REC-11",)
CELLS = ("recovery-stream/none",)


def apply() -> None:
    """Put it in."""
    reword(transcript, "close_attempts", "FROM partials WHERE attempt = ?", "FROM partials WHERE attempt = ? AND 0")
