"""Owns one seeded defect: the run intent that is shown lacks permission scope and recovery policy."""

from __future__ import annotations

from reference import snapshot
from reference.mutants import swap

CHANGES = "the run intent that is shown lacks permission scope and recovery policy"
CHECK = "run-intent-complete"
CLAUSES = ("INT-1",)
CELLS = ("plain/none",)


def apply() -> None:
    """Put it in."""
    swap(
        snapshot, "_work", lambda found: lambda *given: found(*given) | {"permission_scope": None, "recovery_policy": None}
    )
