"""Owns saying what can be judged for a target on this machine, what cannot, and why: by trying it, not by believing it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from faults.catalogue import POINTS
from faults.processes import OomCount
from faults.stores import MEMORY, scratch_root
from scenarios import matrix
from scenarios.catalogues import spoken_for
from scenarios.contract import clauses, in_order
from scenarios.engine import Engine
from scenarios.matrix import Wanted
from scenarios.target import Target

MEMORY_MB_MIN = 512


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: what was looked at, whether it is as it must be, and what follows."""

    what: str
    good: bool
    says: str
    needed: bool = True


def examine(target: Target, console: Console) -> int:
    """Print what was found; 0 if a run can judge, 3 if it would be incomplete."""
    findings = [*_machine(), *_target(target)]
    for finding in findings:
        mark = "ok     " if finding.good else ("missing" if finding.needed else "not run")
        console.print(f"{mark}  {finding.what}: {finding.says}", markup=False)
    for line in _not_judged(target):
        console.print(f"not judged  {line}", markup=False)
    return 0 if all(finding.good or not finding.needed for finding in findings) else 3


def _machine() -> Iterator[Finding]:
    yield Finding("system", sys.platform == "linux", f"{sys.platform}; processes are held and proved as on Linux")
    yield Finding("python", sys.version_info >= (3, 11), sys.version.split()[0])
    yield _tried("process handles", _pidfd, "a recycled pid is never signalled")
    free_mb = psutil.virtual_memory().available // 2**20
    yield Finding("memory", free_mb > MEMORY_MB_MIN, f"{free_mb} MB available, {MEMORY_MB_MIN} MB needed")
    yield _tried("out-of-memory counter", OomCount.read, "a death by the kernel is told from ours")
    root = scratch_root()
    fast = root.is_relative_to(MEMORY)
    yield Finding("stores", True, f"in {root}, {'in memory' if fast else 'on disk, so commits are slower'}")
    browser = os.environ.get("KILLPOINT_BROWSER") or shutil.which("chromium")
    yield Finding("browser", bool(browser), browser or "none, so the pages are not looked at", needed=False)


def _tried(what: str, attempt: Callable[[], object], says: str) -> Finding:
    try:
        attempt()
    except (OSError, AttributeError, ValueError) as error:
        return Finding(what, False, f"{type(error).__name__}: {error}")
    return Finding(what, True, says)


def _pidfd() -> None:
    handle = os.pidfd_open(os.getpid())
    try:
        signal.pidfd_send_signal(handle, 0)
    finally:
        os.close(handle)


def _target(target: Target) -> Iterator[Finding]:
    scenarios = matrix.scenarios_for(target)
    first = matrix.bare(target, scenarios[0], Wanted())
    with tempfile.TemporaryDirectory(prefix="killpoint-") as scratch, Engine(target, Path(scratch)) as engine:
        cell = engine.play(first).cell
    told = cell.why or f"`{first.id}` was played in {cell.seconds:.2f} s"
    yield Finding(f"target {target.name}", cell.status == "held", f"{cell.status}; {told}")
    yield Finding("scenarios", bool(scenarios), f"{len(scenarios)} can be played with it")
    silent = in_order(set(target.claims) - spoken_for())
    yield Finding(
        "clauses",
        not silent,
        f"{len(target.claims)} claimed" + (f"; no check speaks for: {', '.join(silent)}" if silent else ""),
    )
    yield Finding("breakpoints", bool(target.points), f"{len(target.points)} of {len(POINTS)} can hold it")


def _not_judged(target: Target) -> Iterator[str]:
    silent = [point.name for point in POINTS if point.name not in target.points]
    if silent:
        yield f"breakpoints that this target does not have: {', '.join(silent)}"
    unclaimed = in_order(set(clauses()) - set(target.claims))
    yield f"clauses that this target does not claim: {', '.join(unclaimed)}"
    yield "durability against a power cut: a SIGKILL leaves the page cache alive and proves nothing about fsync"
    yield "a real reboot of the machine; a new boot identity stands in for it"
