"""Owns how a run is started, watched and summed up: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reports import diff, words, writer
from reports.assemble import EXIT_STATUS
from reports.model import Report
from scenarios import campaign
from scenarios.engine import processes
from scenarios.matrix import Wanted
from scenarios.pytest_plugin import Director
from scenarios.target import Target

PLAIN_LINE_EVERY_S = 10.0
FAILURES_SHOWN_MAX = 20
HARNESS_FAULT_STATUS = 4


def run(target: Target, spec: str, wanted: Wanted, folder: Path, jobs: int, baseline: Path | None, console: Console) -> int:
    """Play a matrix with pytest and give the exit status. Raises ValueError for a user's mistake, before anything is
    written."""
    campaign.check_words(target, wanted)
    earlier = diff.load(baseline) if baseline else None
    writer.prepare(folder)
    watcher = Watcher(console)
    status = pytest.main(_arguments(spec, wanted, folder, jobs), plugins=[watcher])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        if status != pytest.ExitCode.INTERRUPTED:
            console.print(
                f"fault of the harness: the run ended in an {pytest.ExitCode(status).name.lower().replace('_', ' ')}"
            )
            return HARNESS_FAULT_STATUS
        console.print("interrupted; this has been judged so far:")
    report = diff.load(folder)
    tell(report, folder, console)
    if earlier is not None:
        console.print("\n".join(diff.compare(earlier, report).lines), markup=False)
    return EXIT_STATUS[report.verdict]


def _arguments(spec: str, wanted: Wanted, folder: Path, jobs: int) -> list[str]:
    words = ["--killpoint", "-c", "/dev/null", "--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "no:terminal"]
    words += ["-n", str(jobs or processes()), "--dist", "worksteal"] if jobs != 1 else []
    words += [f"--killpoint-target={spec}", f"--killpoint-policy={wanted.policy}", f"--killpoint-out={folder}"]
    words += [f"--killpoint-{name}={getattr(wanted, name)}" for name in ("scenario", "point", "fault", "case", "mutant")]
    return words + (["--killpoint-cold"] if wanted.cold else [])


class Watcher:
    """Shows how far the run is. Part of pytest in the controlling process only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._counts: Counter[str] = Counter()
        self._began = self._told = time.monotonic()
        self._total = 0
        self._bar: Progress | None = None

    def pytest_plugin_registered(self, plugin: object) -> None:
        """The plan is known as soon as somebody directs it."""
        if isinstance(plugin, Director):
            self._begin(plugin.total)

    def _begin(self, total: int) -> None:
        self._total = total
        self._began = self._told = time.monotonic()
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[told]}"), console=self._console)
            self._task = self._bar.add_task("cells", total=total, told="")
            self._bar.start()
        else:
            self._console.print(f"{total} cells")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One cell has been judged."""
        if report.when != "call":
            return
        about: dict[str, Any] = dict(report.user_properties).get("killpoint", {})  # type: ignore[assignment]
        self._counts[about.get("told", "void")] += 1
        if self._bar:
            self._bar.update(self._task, advance=1, told=self._text())
        elif time.monotonic() - self._told > PLAIN_LINE_EVERY_S:
            self._told = time.monotonic()
            self._console.print(f"{sum(self._counts.values())} of {self._total}: {self._text()}")

    def pytest_unconfigure(self) -> None:
        """The bar goes away."""
        if self._bar:
            self._bar.stop()

    def _text(self) -> str:
        return ", ".join(f"{count} {status}" for status, count in sorted(self._counts.items()))


def tell(report: Report, folder: Path, console: Console) -> None:
    """Print what a run concluded: the verdict and why, the counts, the failed cells with their replay commands."""
    failed = [cell for cell in report.cells if cell.status not in ("held", "not claimed") and not cell.canary]
    order = {"violated": 0, "void": 1, "inconclusive": 2}
    failed.sort(key=lambda cell: (order.get(cell.status, 3), cell.id))
    for cell in failed[:FAILURES_SHOWN_MAX]:
        console.print(f"{cell.status}: {cell.id}: {cell.why}", markup=False)
        console.print(f"  {words.replay_command(cell, folder)}", markup=False)
    if len(failed) > FAILURES_SHOWN_MAX:
        console.print(f"and {len(failed) - FAILURES_SHOWN_MAX} more, in {folder / 'report.html'}")
    totals = report.totals
    counts = ", ".join(f"{count} {status}" for status, count in sorted(totals.by_status.items()))
    counts += "".join(f", the canary {cell.status}" for cell in report.cells if cell.canary)
    console.print(
        f"{totals.cells} cells ({counts}), {totals.kills} proved kills in {totals.seconds:.1f} s"
        f" ({totals.cases_per_hour:.0f} cases an hour)"
    )
    held = Counter(row.status for row in report.clauses.values())
    console.print("clauses: " + ", ".join(f"{count} {status}" for status, count in sorted(held.items())))
    for reason in report.why:
        console.print(f"  {reason}", markup=False)
    console.print(f"{report.verdict}: {folder / 'report.html'}", style="bold")


def compare(before: Path, after: Path, console: Console) -> int:
    """Print how two runs differ; the exit status says whether the second is worse."""
    found = diff.compare(diff.load(before), diff.load(after))
    console.print("\n".join(found.lines), markup=False)
    return found.exit_status
