"""Owns one seeded defect: the text of a reply that was cut off is kept as if it were whole."""

from __future__ import annotations

from reference import transcript
from reference.mutants import swap

CHANGES = "the text of a reply that was cut off is kept as if it were whole"
CHECK = "partial-marked-incomplete"
CLAUSES = (
    "REC-11",
    "HIS-5",
)
CELLS = ("recovery-stream/none",)


def apply() -> None:
    """Put it in."""
    swap(transcript, "add", lambda found: lambda *given, **named: found(*given, **named | {"complete": True}))
