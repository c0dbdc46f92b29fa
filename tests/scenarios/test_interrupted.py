"""A run that is interrupted or killed leaves nothing behind but a report that can be read and says `incomplete`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.stores import scratch_root
from tests.scenarios.runs import Running

SELECTION = ("--scenario", "mail", "--fault", "worker-killed", "-n", "2")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Running]:
    running = Running("run", *SELECTION, "--out", "out", cwd=tmp_path)
    yield running
    if running.process.poll() is None:  # the test has failed before it ended the run
        running.kill()
        running.process.communicate()


def case_folders(pids: set[int]) -> set[Path]:
    """The folders of cases that these processes work in."""
    root, found = scratch_root(), set[Path]()
    for pid in pids:
        try:
            here = (Path("/proc") / str(pid) / "cwd").readlink()
        except OSError:
            continue
        if here.is_relative_to(root) and here != root:
            found.add(root / here.relative_to(root).parts[0])
    return found


ENDS: dict[str, tuple[Callable[[Running], None], set[int]]] = {
    "Ctrl-C": (Running.interrupt, {3, 130}),
    "SIGKILL": (Running.kill, {-9}),
}


def test_a_run_that_was_interrupted_before_its_first_cell_says_so_too(run: Running, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run.until((out / "report.json").exists)
    before = run.family()
    run.interrupt()
    status, said = run.end(before)
    assert status in ENDS["Ctrl-C"][1], said
    assert run.family() == set()
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "incomplete" and "the run has not finished" in report["why"]
    assert "Traceback" not in said


@pytest.mark.parametrize("how", ENDS)
def test_nothing_survives_a_run_that_was_ended_in_its_middle(run: Running, tmp_path: Path, how: str) -> None:
    end, statuses = ENDS[how]
    out = tmp_path / "out"
    run.until(lambda: len(list((out / "cells").glob("*.html"))) >= 2 and bool(case_folders(run.family())))
    before = run.family()
    folders = case_folders(before)
    assert len(before) > 5
    end(run)
    status, said = run.end(before)
    assert status in statuses, said
    assert run.family() == set(), "processes of the run are left"
    assert not [folder for folder in folders if folder.exists()]
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "incomplete" and report["finished"] is False
    assert any("the run has not finished" in reason for reason in report["why"])
    assert "incomplete" in (out / "report.html").read_text().lower()
    assert "Traceback" not in said
