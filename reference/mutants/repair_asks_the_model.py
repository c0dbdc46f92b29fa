"""Owns one seeded defect: repair asks the model what had been going on."""

from __future__ import annotations

from typing import Any

from reference import ids, recovery, transcript
from reference.mutants import swap
from reference.running import Run

CHANGES = "repair asks the model what had been going on"
CHECK = "repair-runs-nothing"
CLAUSES = (
    "HIS-7",
    "REC-1",
)
CELLS = ("plain/turn.begun#1/worker-killed",)


def _repair(found: Any) -> Any:
    async def repair(run: Run) -> bool:
        kit = run.process.kit
        with run.store.read() as tx:
            messages = kit.messages(transcript.items(tx, run.held.session), None)
        await kit.stream(kit.client, run.process.settings, ids.new("a"), messages, [], lambda *_: None)
        return bool(await found(run))

    return repair


def apply() -> None:
    """Put it in."""
    swap(recovery, "_repair", _repair)
