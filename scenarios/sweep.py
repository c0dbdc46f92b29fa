"""Owns the sweep: one scenario, killed at every hit of every point until nothing is left to kill, then at every pair of a
point in the first life and a point in the recovery after it.

Nothing is listed beforehand. A point's next ordinal is tried until no process comes to it any more; where the recovery
after a death leads is read from the history of that death. The outcome is a run like any other, with its report.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from rich.console import Console

from faults.catalogue import RECOVERY_INTERFACE_RESTORED, Point, point
from faults.plan import Address, Fault
from faults.table import FAULTS, FaultLine
from reports.assemble import EXIT_STATUS
from scenarios import campaign, matrix, progress
from scenarios.case import Case
from scenarios.engine import Engine, Judged, store_history
from scenarios.history import History
from scenarios.lanes import Lanes
from scenarios.library import Scenario
from scenarios.matrix import Wanted
from scenarios.target import Target
from scenarios.targets import target as target_named

DEATHS = ("worker-killed", "app-killed", "killed-again")
LATE_POINT_S_MAX = 0.5


@dataclass(frozen=True, slots=True)
class _Death:
    """One death that was played: the address of it, what was judged, and where the recovery after it led."""

    address: Address
    case: Case
    judged: Judged

    @property
    def fired(self) -> bool:
        return any(
            line["kind"] == "point.fired" and f"{line['data']['point']}#{line['data']['ordinal']}" == str(self.address)
            for line in self.judged.lines
        )


def sweep(spec: str, name: str, pairs: bool, out: Path, jobs: int, console: Console) -> int:
    """Sweep every scenario that matches `name` on the target `spec`; write the report into `out`, give the exit status.

    Raises ValueError, in one line, for a scenario that the target cannot be asked to play or a folder with other things.
    """
    target = target_named(spec)
    chosen = matrix.scenarios_for(target, name)
    if not chosen:
        raise ValueError(f"no scenario that matches {name!r} can be played on {target.name}; see killpoint show scenarios")
    plan = campaign.begin(spec, target, Wanted(scenario=name), out)
    with Lanes(target, jobs, late_point_s_max=LATE_POINT_S_MAX) as lanes:
        _Sweep(lanes, plan, out, console).run(chosen, pairs)
    plan.ended = time.time()
    plan.save(out)
    report = campaign.write_report(out, plan, finished=True)
    progress.tell(report, out, console)
    return EXIT_STATUS[report.verdict]


class _Sweep:
    def __init__(self, lanes: Lanes, plan: campaign.Plan, out: Path, console: Console) -> None:
        self._lanes, self._plan, self._out, self._console = lanes, plan, out, console
        self._told = time.monotonic()

    def run(self, chosen: list[Scenario], pairs: bool) -> None:
        for scenario in chosen:
            deaths = self._singly(scenario)
            self._console.print(f"{scenario.name}: {len(deaths)} deaths, one at a time", markup=False)
            if pairs:
                both = list(self._pairs(deaths))
                self._keep_all(both)
                self._console.print(f"{scenario.name}: {len(both)} pairs of deaths", markup=False)
        self._keep_all(list(matrix.disarmed(self._lanes.target, self._plan.wanted, self._cases())))
        with Engine(target_named("naive"), self._out / "running") as engine:
            canary = campaign.canary()
            self._keep(canary, engine.play(canary))

    def _cases(self) -> Iterator[Case]:
        """The cases that were played so far, as they are stored."""
        for name in self._plan.cases:
            yield campaign.load_case(self._out, name)

    def _singly(self, scenario: Scenario) -> list[_Death]:
        """Every hit of every point, and the scenario with nothing broken."""
        target = self._lanes.target
        bare = matrix.bare(target, scenario, self._plan.wanted)
        recorded = next(iter(self._lanes.map(lambda engine, case: engine.play(case, record_all=True), [bare])))
        self._keep(bare, recorded)
        hits = History.join(recorded.lines).addresses(after=[str(each.at) for each in scenario.plan])
        points = [point(name) for name in target.points]
        found = []
        for deaths in self._lanes.map(lambda engine, each: list(_every_hit(engine, scenario, each, hits)), points):
            for death in deaths:
                self._keep(death.case, death.judged)
            found += [death for death in deaths if death.fired]
        return found

    def _pairs(self, deaths: list[_Death]) -> Iterator[Case]:
        for first in deaths:
            for second in _in_its_recovery(first):
                line = _death_at(self._lanes.target, point(second.point))
                if line is not None:
                    plan = (*first.case.plan, *line.plan(second, point(second.point)))
                    name, _, _ = first.case.id.rpartition("/")
                    yield first.case.model_copy(
                        update={"id": f"{name}+{second}/{line.name}", "plan": plan, "fault": line.name}
                    )

    def _keep_all(self, cases: list[Case]) -> None:
        for case, judged in zip(cases, self._lanes.map(Engine.play, cases), strict=True):
            self._keep(case, judged)

    def _keep(self, case: Case, judged: Judged) -> None:
        campaign.keep_case(self._out, self._plan, case)
        store_history(campaign.history_path(self._out, case.id), judged.lines)
        known = self._plan.versions
        script = campaign.script_of(self._out, case, judged.cell, self._lanes.target, known, {})
        campaign.write_cell(self._out, case, judged.cell, judged.lines, known, script)
        if time.monotonic() - self._told >= progress.PLAIN_LINE_EVERY_S:
            self._told = time.monotonic()
            campaign.write_report(self._out, self._plan, finished=False)
            self._console.print(f"{len(self._plan.ids)} cells so far", markup=False)


def _every_hit(engine: Engine, scenario: Scenario, where: Point, hits: matrix.Reached) -> Iterator[_Death]:
    """A death at the first hit of the point, the second, and so on until no process comes to it any more.

    A hit that the fault-free play had and this one has not is given too, and is inconclusive. Only how often an app sends
    events is a matter of timing.
    """
    line = _death_at(engine.target, where)
    taken = {str(each.at) for each in scenario.plan}
    first = min(hits.get(where.name, (1,)))
    last = 0 if where.frequent and where.role == "app" else max(hits.get(where.name, (0,)))
    for ordinal in count(first):
        address = Address(point=where.name, ordinal=ordinal)
        if line is None or str(address) in taken:
            return
        case = _case(engine.target, scenario, address, line)
        death = _Death(address, case, engine.play(case))
        if death.fired or ordinal <= last:
            yield death
        if not death.fired and ordinal >= last:
            return


def _death_at(target: Target, where: Point) -> FaultLine | None:
    """The plainest death that can be played at this point, or None."""
    lines = [FAULTS[name] for name in DEATHS if FAULTS[name].applies(where)]
    address = Address(point=where.name)
    return next((line for line in lines if matrix.possible(target, line.plan(address, where))), None)


def _case(target: Target, scenario: Scenario, address: Address, line: FaultLine) -> Case:
    bare = matrix.bare(target, scenario, Wanted())
    plan: tuple[Fault, ...] = (*scenario.plan, *line.plan(address, point(address.point)))
    return bare.model_copy(update={"id": f"{scenario.name}/{address}/{line.name}", "plan": plan, "fault": line.name})


def _in_its_recovery(death: _Death) -> Iterator[Address]:
    """What processes other than the app, and the world, came to after this death, until the interface was restored."""
    after = False
    for line in death.judged.lines:
        data = line["data"]
        if line["kind"] == "kill":
            after = True
        elif line["kind"] == "point.reached" and after and data["role"] != "app":
            where = point(data["point"])
            if not where.frequent:
                yield Address(point=where.name, ordinal=data["ordinal"])
            if where is RECOVERY_INTERFACE_RESTORED:
                return
