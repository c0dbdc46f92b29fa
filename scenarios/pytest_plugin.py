"""Owns the front door for pytest: `pytest --killpoint` runs the same cells as `killpoint run`, as tests, also with xdist.

The controlling process prepares the run (it plays the scenarios fault-free, expands the matrix and writes the plan) and
starts the one world that all share. Each cell is one item; a process that runs items keeps one fork server for each
target that it meets. Cells are written as they are judged; the controlling process keeps the index current.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reports.model import Cell
from scenarios import campaign, mutants, vacuity
from scenarios.case import load
from scenarios.engine import Engine
from scenarios.matrix import Wanted
from scenarios.targets import target as target_named
from scenarios.world.handle import World

INDEX_EVERY_S = 10.0
PLAN = "plan.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all named after those of `killpoint run`."""
    group = parser.getgroup("killpoint", "acceptance matrix of Killpoint")
    group.addoption("--killpoint", action="store_true", help="run the acceptance matrix as tests")
    for name, default in (("target", "reference"), ("policy", "continue")):
        group.addoption(f"--killpoint-{name}", default=default, metavar="NAME")
    for name in ("scenario", "point", "fault"):
        group.addoption(f"--killpoint-{name}", default="*", metavar="GLOB")
    group.addoption("--killpoint-case", default="", metavar="ID", help="one case of the track record")
    group.addoption("--killpoint-mutant", default="", metavar="NAME", help="the seeded defect to play it on")
    group.addoption("--killpoint-out", default="acceptance", metavar="DIR", help="folder of the report")
    group.addoption("--killpoint-cold", action="store_true", help="start every process cold")
    group.addoption("--killpoint-planned", action="store_true", help="the folder already holds the plan of this run")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Prepare the run in the controlling process, before xdist starts its workers with the same arguments."""
    if not config.getoption("--killpoint"):
        return
    out = Path(config.getoption("--killpoint-out")).resolve()
    given: dict[str, Any] | None = getattr(config, "workerinput", {}).get("killpoint")
    if given is not None:
        config.args[:] = [str(out / PLAN)]
        config.pluginmanager.register(Cells(out, World.attach(given["address"], given["token"])), "killpoint-cells")
        return
    wanted = Wanted(
        scenario=config.getoption("--killpoint-scenario"),
        point=config.getoption("--killpoint-point"),
        fault=config.getoption("--killpoint-fault"),
        policy=config.getoption("--killpoint-policy"),
        cold=config.getoption("--killpoint-cold"),
        case=config.getoption("--killpoint-case"),
        mutant=config.getoption("--killpoint-mutant"),
    )
    world = World.start()
    try:
        if not config.getoption("--killpoint-planned"):
            campaign.prepare(config.getoption("--killpoint-target"), wanted, out, world)
    except ValueError as error:
        world.stop()
        raise pytest.UsageError(str(error)) from None
    config.args[:] = [str(out / PLAN)]
    config.pluginmanager.register(Director(out, world), "killpoint-director")
    config.pluginmanager.register(Cells(out, world), "killpoint-cells")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The plan of a run is collected as a file of cells."""
    if file_path.name == PLAN and parent.config.getoption("--killpoint"):
        return PlanFile.from_parent(parent, path=file_path)
    return None


class PlanFile(pytest.File):
    """A plan, as a collector of its cells."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each case of the plan."""
        for name in campaign.Plan.load(self.path.parent).open_cases:
            yield CellItem.from_parent(self, name=name.removesuffix(".json"))


class CellItem(pytest.Item):
    """One cell: it passes if every promise was held, and fails with the verdict otherwise."""

    def runtest(self) -> None:
        """Play, judge and write the cell."""
        cells: Cells = self.config.pluginmanager.get_plugin("killpoint-cells")  # type: ignore[assignment]
        cell = cells.play(self.name)
        as_it_must = cell.status == ("violated" if cell.canary else "held")
        told = "canary failed as it must" if cell.canary and as_it_must else cell.status
        self.user_properties.append(("killpoint", {"id": cell.id, "told": told, "seconds": cell.seconds}))
        if not as_it_must:
            raise NotHeld(cell)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """One line and the command that replays it; a traceback only for a fault of the harness."""
        if isinstance(excinfo.value, NotHeld):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the cell stands, for pytest."""
        return self.path, None, f"killpoint: {self.name}"


class NotHeld(Exception):
    """A cell that is not held, told in a few lines."""

    def __init__(self, cell: Cell) -> None:
        lines = [f"{cell.status}: {cell.id}: {cell.why or 'no reason given'}"]
        lines += [f"  {violation.check}: {violation.promise}" for violation in cell.violations]
        super().__init__("\n".join([*lines, f"  replay: killpoint replay {cell.case}"]))


class Cells:
    """What one process needs to play cells: a fork server for each target, and the world."""

    def __init__(self, out: Path, world: World) -> None:
        self._out, self._world = out, world
        self._engines: dict[str, Engine] = {}
        plan = campaign.Plan.load(out)
        self._judged, self._mutant = target_named(plan.target), plan.wanted.mutant

    def play(self, name: str) -> Cell:
        """Play the case in the file of that name."""
        case = load(self._out / "cases" / f"{name}.json")
        if case.target not in self._engines:
            target = self._judged if case.target == self._judged.name else target_named(case.target)
            environment = mutants.environment(self._mutant if target is self._judged else None)
            engine = Engine(target, self._out / "running", self._world, environment)
            self._engines[case.target] = engine.__enter__()
        return campaign.play_and_write(self._engines[case.target], case, self._out)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """End the fork servers."""
        for engine in self._engines.values():
            engine.__exit__(None, None, None)
        self._engines.clear()


class Director:
    """What the controlling process does beside: hand the world to the others, keep the index current, end it all."""

    def __init__(self, out: Path, world: World) -> None:
        self._out, self._world = out, world
        self._plan = campaign.Plan.load(out)
        self._indexed = time.monotonic()
        campaign.write_report(out, self._plan, finished=False)
        self.total = len(self._plan.open_cases)
        self._vacuous: list[Cell] = []

    @pytest.hookimpl(optionalhook=True)  # there is no such hook where xdist is not used
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker process of xdist where the world is."""
        node.workerinput["killpoint"] = {"address": self._world.url, "token": self._world.token}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the index again when it has grown old."""
        if report.when == "call" and time.monotonic() - self._indexed > INDEX_EVERY_S:
            campaign.write_report(self._out, self._plan, finished=False)
            self._indexed = time.monotonic()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the report for the last time. A run that was interrupted has not finished, whatever it has judged. What
        is found only when the cells are compared with each other fails the session, though each test of it has passed."""
        finished = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
        if finished:
            self._plan.ended = time.time()
            self._plan.save(self._out)
        report = campaign.write_report(self._out, self._plan, finished)
        self._vacuous = [cell for cell in report.cells if cell.vacuous]
        if self._vacuous and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the cells whose fault left nothing behind."""
        for cell in self._vacuous:
            terminalreporter.write_line(f"{cell.status}: {cell.id}: {vacuity.why(cell.vacuous)}")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """End the world."""
        self._world.stop()
