"""Owns one seeded defect: a third-party tool is believed what it says of itself."""

from __future__ import annotations

from reference import tools
from reference.mutants import swap
from reference.tools.services import NotePlugin

CHANGES = "a third-party tool is believed what it says of itself"
CHECK = "tools-own-word-counts-nothing"
CLAUSES = ("EFF-7",)
CELLS = ("plugin/effect.applied#1/worker-killed",)


def apply() -> None:
    """Put it in."""
    swap(tools, "PLUGINS", lambda found: ())
    swap(tools, "TRUSTED", lambda found: (*found, NotePlugin()))
