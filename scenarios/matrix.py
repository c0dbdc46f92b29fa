"""Owns the matrix: scenario by breakpoint by fault, expanded into cases.

The expansion is not a list that somebody keeps. Every scenario is first played without a fault; the points that it then
reaches, and how often, are what its faults are crossed with. A point that nothing reaches gets no case and is told by the
report as declared and not killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from faults.catalogue import point
from faults.plan import Address, Fault
from faults.table import FaultLine, fault
from faults.table import matching as faults_matching
from scenarios import library
from scenarios.case import Case, Control, Look, Send, SettleStep, Step
from scenarios.library import Scenario
from scenarios.target import Target

Reached = Mapping[str, tuple[int, ...]]
"""The ordinals at which each point was reached in one play, by name."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of the matrix is wanted: shell patterns over scenarios, points and faults, or one `case` of the track
    record by its id. mutant: the seeded defect of the reference on which it is played; none, if empty."""

    scenario: str = "*"
    point: str = "*"
    fault: str = "*"
    policy: str = "continue"
    cold: bool = False
    case: str = ""
    mutant: str = ""


def scenarios_for(target: Target, glob: str = "*") -> list[Scenario]:
    """The scenarios that this target can be asked to play."""
    return [
        each
        for each in library.matching(glob)
        if (target.sends_controls or not each.controls)
        and each.needs <= target.abilities
        and all(fits(target, line.at) for line in each.plan)
        and possible(target, each.plan)
    ]


def fits(target: Target, address: Address) -> bool:
    """Whether the target can be held at this address at all."""
    return address.point in target.points


def possible(target: Target, plan: Iterable[Fault]) -> bool:
    """Whether the target has what the plan acts on: the roles, the controls, the clock."""
    for op in (op for each in plan for op in each.ops):
        if getattr(op, "role", "self") not in ("self", *target.roles):
            return False
        if op.do == "user" and op.step["do"] not in ("send",) and not target.sends_controls:
            return False
        if op.do == "clock" and not target.has_clock:
            return False
        if op.do == "await" and not fits(target, op.at):
            return False
    return True


def bare(target: Target, scenario: Scenario, wanted: Wanted, disarmed: bool = False) -> Case:
    """The scenario with nothing broken but what it brings itself."""
    return Case(
        id=f"{scenario.name}/none",
        target=target.name,
        policy="settle" if wanted.policy == "settle" else "continue",
        scenario=scenario.name,
        family=scenario.family,
        entrance=target.entrances[0],
        script=scenario.script,
        steps=scenario.steps,
        plan=scenario.plan,
        disarmed=disarmed,
        cold=wanted.cold,
    )


def expand(target: Target, wanted: Wanted, reached: Mapping[str, Reached]) -> list[Case]:
    """Every case of the matrix, in a stable order: fault-free first, then point by point.

    reached: for each scenario's name, what its fault-free play reached, from where its own plan had been carried out.
    Raises UnknownScenario, UnknownFault or UnknownPoint for a pattern that names nothing.
    """
    lines = {line.name for line in faults_matching(wanted.fault)} if wanted.fault != "none" else set()
    cases: list[Case] = []
    for scenario in scenarios_for(target, wanted.scenario):
        if scenario.name not in reached:
            continue
        if wanted.fault in ("*", "none") and wanted.point == "*":
            cases.append(bare(target, scenario, wanted))
        for line in _lines(scenario, lines):
            cases += _crossed(target, scenario, line, wanted, reached[scenario.name])
    return cases


def single(target: Target, cell_id: str) -> Case:
    """The one case called `scenario/point#ordinal/fault`, or `scenario/none`. Raises ValueError if there is no such."""
    name, _, rest = cell_id.partition("/")
    scenario = library.matching(name)[0]
    if rest == "none":
        return bare(target, scenario, Wanted())
    address_text, _, fault_name = rest.partition("/")
    address = Address.parse(address_text)
    reached = {address.point: (address.ordinal,)}
    anywhere = replace(scenario, points=("*",))
    found = _crossed(target, anywhere, fault(fault_name), Wanted(point=address.point), reached)
    wanted = [case for case in found if case.id == cell_id]
    if not wanted:
        raise ValueError(f"the matrix of {target.name} has no cell {cell_id!r}")
    return wanted[0]


def disarmed(target: Target, wanted: Wanted, cases: Iterable[Case]) -> Iterator[Case]:
    """For each scenario and fault of these cases, one of them with the kill taken out; and each scenario that has a plan of
    its own and is crossed with no fault."""
    cases = list(cases)
    crossed = {case.scenario for case in cases if case.fault != "none"}
    seen: set[tuple[str, str]] = set()
    for case in cases:
        key = case.scenario, case.fault
        if (case.fault != "none" or (case.plan and case.scenario not in crossed)) and key not in seen:
            seen.add(key)
            yield case.model_copy(update={"id": f"{case.id}/disarmed", "disarmed": True})


def _lines(scenario: Scenario, names: set[str]) -> list[FaultLine]:
    return [fault(name) for name in sorted(names) if any(fnmatchcase(name, pattern) for pattern in scenario.faults)]


def _crossed(target: Target, scenario: Scenario, line: FaultLine, wanted: Wanted, reached: Reached) -> Iterator[Case]:
    taken = {str(each.at) for each in scenario.plan}
    for name, ordinals in sorted(reached.items()):
        if name not in target.points or not fnmatchcase(name, wanted.point) or not line.applies(point(name)):
            continue
        if not any(fnmatchcase(name, pattern) for pattern in scenario.points):
            continue
        for ordinal in ordinals[: _hits_max(scenario, line, name)]:
            address = Address(point=name, ordinal=ordinal)
            plan: tuple[Fault, ...] = line.plan(address, point(name))
            if taken & {str(each.at) for each in plan} or not possible(target, plan):
                continue
            yield Case(
                id=f"{scenario.name}/{address}/{line.name}",
                target=target.name,
                policy="settle" if wanted.policy == "settle" else "continue",
                scenario=scenario.name,
                family=scenario.family,
                fault=line.name,
                entrance=target.entrances[0],
                script=scenario.script,
                steps=(*scenario.steps, *_afterwards(scenario, line)),
                plan=(*scenario.plan, *plan),
                cold=wanted.cold,
            )


def _hits_max(scenario: Scenario, line: FaultLine, name: str) -> int:
    """At how many hits of this point the fault is played.

    How many events an app sends at once, and how far a stream comes before it is broken off, is a matter of timing: of the
    frequent points only the first hit of an app has an address that can be relied on, and none behind a plan of the
    scenario's own.
    """
    if point(name).frequent and scenario.plan:
        return 0
    if point(name).frequent and point(name).role == "app":
        return 1
    return scenario.ordinals_max if line.name in scenario.sweeps else 1


def _afterwards(scenario: Scenario, line: FaultLine) -> tuple[Step, ...]:
    """What a user does once the control that the fault brought has been obeyed."""
    first = next((step for step in scenario.steps if isinstance(step, Send)), None)
    control = line.name.partition("-")[0]
    if control not in ("pause", "stop", "quit") or first is None:
        return ()
    look = (SettleStep(), Look(name="controlled"))
    if control == "pause":
        return (*look, Control(session=first.session, action="resume"))
    return (*look, first, SettleStep())
