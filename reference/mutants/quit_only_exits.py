"""Owns one seeded defect: quit and stop everything ends the processes and stops nothing.

The first cell named was `quit-all/none`, where the one reply that streams is lawfully finished and nothing is left to do.
"""

from __future__ import annotations

from reference import control
from reference.mutants import reword

CHANGES = "quit and stop everything ends the processes and stops nothing"
CHECK = "user-control-obeyed"
CLAUSES = ("INT-6",)
CELLS = ("mail/tool.intent.stored#1/quit-at",)


def apply() -> None:
    """Put it in."""
    reword(control, "quit", "WHERE state NOT IN ('done', 'cancelled') ORDER", "WHERE 0 ORDER")
