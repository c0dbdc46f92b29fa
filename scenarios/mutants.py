"""Owns the playing of mutants: seeded defects of the reference, each with the check that was to catch it written first.

A mutant lives beside the reference, as one file that names its check, its clauses and the cells that show it; the
reference applies it when it starts with `REFERENCE_MUTANT=name`. It is read here through the reference's own command
line, never by import. A mutant is `caught` if a named cell is violated by the expected check; `caught otherwise` if only
other checks saw it; `survived` if none did; `no longer applies` if the defect could not be put in; `not played` if the
harness itself failed or a process of the reference died by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from rich.console import Console

from faults.errors import HarnessFault
from scenarios import matrix
from scenarios.engine import Engine, Judged, processes
from scenarios.lanes import Lanes
from scenarios.targets import TARGETS

TARGET = "reference"
VARIABLE = "REFERENCE_MUTANT"
LIST_S_MAX = 60
SETTLE_S_MAX = 4.0  # a mutant that never comes to rest is not waited for as long as a sound runtime on a busy machine


@dataclass(frozen=True, slots=True)
class Mutant:
    """One seeded defect: what it changes, which check must catch it, the clauses that it breaks, and in which cells."""

    name: str
    changes: str
    check: str
    clauses: tuple[str, ...]
    cells: tuple[str, ...]

    def row(self) -> dict[str, Any]:
        """The mutant as a row of a catalogue."""
        return {
            "name": self.name,
            "changes": self.changes,
            "check": self.check,
            "clauses": list(self.clauses),
            "cells": list(self.cells),
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one mutant. `seen` maps each cell that was played to the checks that it violated."""

    mutant: Mutant
    result: str
    seen: dict[str, list[str]] = field(default_factory=dict)
    why: str = ""
    seconds: float = 0.0


@cache
def listed() -> tuple[Mutant, ...]:
    """Every mutant, as the reference lists them. Raises HarnessFault if it cannot."""
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "reference", "mutants", "--json"],
            capture_output=True,
            text=True,
            timeout=LIST_S_MAX,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise HarnessFault(f"the reference did not list its mutants: {error}") from None
    return tuple(
        Mutant(row["name"], row["changes"], row["check"], tuple(row["clauses"]), tuple(row["cells"]))
        for row in json.loads(ran.stdout)
    )


def by_clause() -> dict[str, list[str]]:
    """For each clause, the names of the mutants that show that a check of it can fail."""
    found: dict[str, list[str]] = {}
    for mutant in listed():
        for clause in mutant.clauses:
            found.setdefault(clause, []).append(mutant.name)
    return found


def matching(glob: str) -> tuple[Mutant, ...]:
    """The mutants whose name matches. Raises ValueError with the nearest names if there is none."""
    found = tuple(each for each in listed() if fnmatchcase(each.name, glob))
    if not found:
        near = get_close_matches(glob, [each.name for each in listed()], n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise ValueError(f"unknown mutant {glob!r}{hint}; `killpoint show mutants` lists them all")
    return found


def environment(name: str | None) -> dict[str, str]:
    """The variables that put this mutant into every process of the reference; none for None."""
    return {VARIABLE: name} if name else {}


def only(name: str, target: str) -> Mutant:
    """The one mutant of this name, to be put into this target. Raises ValueError if it cannot."""
    if target != "reference":
        raise ValueError(f"mutant {name!r} is a defect of the reference; it cannot be put into {target}")
    found = [each for each in matching(name) if each.name == name]
    if not found:
        raise ValueError(f"{name!r} is a pattern; give one mutant's whole name, `killpoint show mutants` lists them")
    return found[0]


def outcomes(chosen: tuple[Mutant, ...], jobs: int = 0) -> Iterator[Outcome]:
    """Play these mutants side by side, each in the cells that it names, and give what became of each, in order.

    The fork servers hold the sound reference and are shared: a mutant is put into a process after its fork.
    """
    with Lanes(TARGETS[TARGET], min(jobs or processes(), len(chosen))) as lanes:
        yield from lanes.map(lambda engine, mutant: play_one(mutant, engine), chosen)


def play_one(mutant: Mutant, engine: Engine) -> Outcome:
    """Play one mutant in its cells, until the expected check catches it."""
    seen: dict[str, list[str]] = {}
    engine.environment = environment(mutant.name)
    began = time.monotonic()
    for cell_id in mutant.cells:
        case = matrix.single(engine.target, cell_id)
        bound = min(case.settle_s_max, SETTLE_S_MAX)
        played = engine.play(case.model_copy(update={"id": f"{case.id}/{mutant.name}", "settle_s_max": bound}))
        took = time.monotonic() - began
        if (why := _not_put_in(played)) is not None:
            return Outcome(mutant, "no longer applies", seen, why, took)
        if played.cell.status == "void" and not played.cell.violations:
            return Outcome(mutant, "not played", seen, f"{cell_id}: {played.cell.why}", took)
        seen[cell_id] = sorted({violation.check for violation in played.cell.violations})
        if mutant.check in seen[cell_id]:
            return Outcome(mutant, "caught", seen, seconds=took)
    others = sorted({check for found in seen.values() for check in found})
    if others:
        return Outcome(mutant, "caught otherwise", seen, f"by {', '.join(others)} instead of {mutant.check}", took)
    return Outcome(mutant, "survived", seen, f"{mutant.check} saw nothing in {', '.join(seen)}", took)


def _not_put_in(played: Judged) -> str | None:
    """What a process said that could not put the mutant in, or None. It ends at its start, whatever that breaks."""
    ends = (line["data"] for line in played.lines if line["kind"] == "process.exited")
    return next((str(end["said"]) for end in ends if "does not apply" in (end.get("said") or "")), None)


def play(glob: str, jobs: int, console: Console) -> int:
    """Play mutants and print what became of each; 0 if all were caught as expected, 1 otherwise."""
    chosen = matching(glob)
    results: Counter[str] = Counter()
    began = time.monotonic()
    for outcome in outcomes(chosen, jobs):
        results[outcome.result] += 1
        told = f"by {outcome.mutant.check}" if outcome.result == "caught" else outcome.why
        console.print(f"{outcome.result}: {outcome.mutant.name}: {told} ({outcome.seconds:.1f} s)", markup=False)
    took = time.monotonic() - began
    missed = "".join(f", {count} {result}" for result, count in sorted(results.items()) if result != "caught")
    summary = f"{results['caught']} of {len(chosen)} mutants caught as expected{missed}, in {took:.0f} s"
    console.print(summary, style="bold", markup=False, highlight=False)
    return 0 if results["caught"] == len(chosen) else 1
