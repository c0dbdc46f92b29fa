"""Owns the comparison of two runs: which cells and clauses changed their state, what came, what is gone, and the speed.

The comparison is about the change, not about either run: a cell that was violated before and still is changes nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from reports.model import SCHEMA, WORST_FIRST, Report

LINES_MAX = 60

# Worst first, over the states of cells and of clauses alike.
_RANK = {status: place for place, status in enumerate([*WORST_FIRST[:-2], "not shown", *WORST_FIRST[-2:]])}
_CHANGED_FOR_WORSE = 1
_UNDECIDED_OR_LOST = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One cell or clause whose state changed."""

    name: str
    before: str
    after: str

    @property
    def worse(self) -> bool:
        """Whether the new state is worse. `not claimed` is worse than `held` and no better than anything else."""
        if self.after == "not claimed":
            return self.before == "held"
        return self.before != "not claimed" and _RANK[self.after] < _RANK[self.before]


@dataclass(frozen=True, slots=True)
class Diff:
    """What differs between two runs. `speed` is how many times faster the new run was on the cells that both played, by
    the median over cells; None where no cell can be compared."""

    verdicts: tuple[str, str]
    cells: tuple[Change, ...]
    clauses: tuple[Change, ...]
    new: tuple[Change, ...]
    lost: tuple[str, ...]
    speed: float | None

    @property
    def lines(self) -> list[str]:
        """The difference in words, the worse first."""
        before, after = self.verdicts
        lines = [f"verdict: {after}" if before == after else f"verdict: {before} before, {after} now"]
        for what, changes in (("cell", self.cells), ("clause", self.clauses)):
            ordered = sorted(changes, key=lambda change: (not change.worse, _RANK[change.after], change.name))
            lines += _cut(
                [
                    f"{what} {change.name}: {change.before} before, {change.after} now{' (worse)' if change.worse else ''}"
                    for change in ordered
                ]
            )
        lines += _cut([f"cell {name}: lost, it is not in the new run" for name in self.lost])
        lines += _cut([f"cell {change.name}: new, {change.after}" for change in self.new])
        if not (self.cells or self.clauses or self.lost or self.new):
            lines.append("no cell and no clause changed its state")
        if self.speed is not None:
            lines.append(
                f"speed: {self.speed:.2f} times that of before, by the median over the cells that both runs played"
            )
        return lines

    @property
    def exit_status(self) -> int:
        """1 if something is violated that was not; 3 if something else got worse or is gone; 0 otherwise."""
        changes = [*self.cells, *self.clauses, *self.new]
        if any(change.after == "violated" for change in changes):
            return _CHANGED_FOR_WORSE
        undecided = any(change.after in ("void", "inconclusive", "not run") for change in self.new)
        return _UNDECIDED_OR_LOST if self.lost or undecided or any(change.worse for change in changes) else 0

    def to_json(self) -> dict[str, Any]:
        """The difference as data, for `Report.baseline`."""
        return {
            "verdicts": list(self.verdicts),
            "cells": [[change.name, change.before, change.after] for change in self.cells],
            "clauses": [[change.name, change.before, change.after] for change in self.clauses],
            "new": [change.name for change in self.new],
            "lost": list(self.lost),
            "speed": self.speed,
            "exit_status": self.exit_status,
            "lines": self.lines,
        }


def compare(before: Report, after: Report) -> Diff:
    """What changed from one run to another. Canaries are left out: they are red in both, or the run says so itself."""
    old = {cell.id: cell for cell in before.cells if not cell.canary}
    new = {cell.id: cell for cell in after.cells if not cell.canary}
    both = [name for name in new if name in old]
    ratios = [old[name].seconds / new[name].seconds for name in both if new[name].seconds > 0 and old[name].seconds > 0]
    return Diff(
        verdicts=(before.verdict, after.verdict),
        cells=tuple(
            Change(name, old[name].status, new[name].status) for name in both if old[name].status != new[name].status
        ),
        clauses=tuple(
            Change(name, before.clauses[name].status, row.status)
            for name, row in after.clauses.items()
            if name in before.clauses and before.clauses[name].status != row.status
        ),
        new=tuple(Change(name, "not claimed", cell.status) for name, cell in new.items() if name not in old),
        lost=tuple(name for name in old if name not in new),
        speed=median(ratios) if ratios else None,
    )


def load(path: Path) -> Report:
    """The report stored at `path`, a `report.json` or the folder that holds one.

    Raises ValueError, in one line, if there is none or if it is of another version.
    """
    path = path / "report.json" if path.is_dir() else path
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror}); give a report.json or the folder that holds one"
        ) from None
    except ValueError:
        raise ValueError(f"{path}: is not JSON, so it is no report; killpoint run writes one to DIR/report.json") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else None
        raise ValueError(f"{path}: is of version {found!r}, this harness reads {SCHEMA!r}")
    try:
        return Report.from_json(data)
    except ValueError as error:
        raise ValueError(f"{path}: is no report of this harness ({str(error).splitlines()[0]})") from None


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= LINES_MAX else [*lines[:LINES_MAX], f"and {len(lines) - LINES_MAX} more"]
