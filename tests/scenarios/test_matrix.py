"""The matrix is computed from what a workload reaches; each of its cells has one name, and can be had by it alone."""

from __future__ import annotations

from collections import Counter

import pytest

from faults.catalogue import POINTS
from faults.plan import Kill
from scenarios import library, matrix
from scenarios.case import Case
from scenarios.matrix import Wanted
from scenarios.targets import TARGETS
from tests.scenarios.conftest import Engines

REFERENCE, NAIVE = TARGETS["reference"], TARGETS["naive"]
EVERYWHERE = {name: {point.name: (1, 2) for point in POINTS} for name in library.SCENARIOS}
WHOLE = matrix.expand(REFERENCE, Wanted(), EVERYWHERE)


def test_every_cell_has_a_name_of_its_own_and_can_be_had_by_it() -> None:
    assert Counter(case.id for case in WHOLE).most_common(1)[0][1] == 1
    for case in WHOLE[::7]:
        assert matrix.single(REFERENCE, case.id) == case


def test_no_cell_has_two_entries_for_one_address_and_each_asks_for_nothing_its_target_lacks() -> None:
    for case in WHOLE:
        addresses = [str(fault.at) for fault in case.plan]
        assert len(set(addresses)) == len(addresses), case.id
        assert matrix.possible(REFERENCE, case.plan), case.id
    for case in matrix.expand(NAIVE, Wanted(), EVERYWHERE):
        assert {fault.at.point for fault in case.plan} <= set(NAIVE.points), case.id
        assert all(getattr(op, "role", "worker") in ("self", "worker") for fault in case.plan for op in fault.ops), case.id


def test_what_was_not_reached_gets_no_cell() -> None:
    cases = matrix.expand(REFERENCE, Wanted(scenario="plain"), {"plain": {"turn.begun": (1,)}})
    assert {case.plan[-1].at.point for case in cases if case.plan} == {"turn.begun"}
    assert matrix.expand(REFERENCE, Wanted(scenario="plain"), {}) == []


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (Wanted(scenario="plain", fault="none"), {"plain/none"}),
        (Wanted(scenario="plain", point="turn.begun", fault="worker-killed"), {"plain/turn.begun#1/worker-killed"}),
        (Wanted(scenario="no-usage", point="turn.*", fault="app-*"), set()),
    ],
    ids=["fault-free", "one cell", "nothing"],
)
def test_a_part_of_the_matrix_is_chosen_by_patterns(wanted: Wanted, ids: set[str]) -> None:
    found = {case.id for case in matrix.expand(REFERENCE, wanted, EVERYWHERE)}
    assert found == ids if len(ids) != 1 else ids <= found
    assert all(case.scenario == wanted.scenario for case in matrix.expand(REFERENCE, wanted, EVERYWHERE))


def test_each_scenario_and_fault_is_also_played_disarmed_once() -> None:
    twins = list(matrix.disarmed(REFERENCE, Wanted(), WHOLE))
    pairs = {(case.scenario, case.fault) for case in WHOLE if case.fault != "none"}
    uncrossed = {case.scenario: case for case in WHOLE if case.scenario not in {name for name, _ in pairs}}
    assert {"two-workers", "met-locked"} <= set(uncrossed)
    # What is crossed with nothing and has a plan of its own: that one is left out.
    pairs |= {(name, "none") for name, case in uncrossed.items() if case.plan}
    bare = matrix.single(REFERENCE, "same-call-id/none")
    assert not bare.plan and list(matrix.disarmed(REFERENCE, Wanted(), [bare])) == []
    assert Counter((twin.scenario, twin.fault) for twin in twins) == Counter(pairs)
    armed = {case.id: case for case in WHOLE}
    for twin in twins:
        assert twin.disarmed and twin.plan == armed[twin.id.removesuffix("/disarmed")].plan


def test_a_cell_that_does_not_exist_is_said_so() -> None:
    for wrong, says in {
        "mial/none": "unknown scenario 'mial'; nearest: mail",
        "mail/turn.begn#1/worker-killed": "unknown breakpoint 'turn.begn'; nearest: turn.begun",
        "mail/turn.begun/worker-killed": "is no address",
        "mail/turn.begun#1/worker-kiled": "unknown fault 'worker-kiled'; nearest: worker-killed",
        "mail/turn.begun#1/stream-cut": "has no cell",
    }.items():
        with pytest.raises(ValueError, match=says):
            matrix.single(REFERENCE, wrong)


PROVEN = ["provider.request.received", "provider.reply.chunk", "effect.received", "effect.applied"]


@pytest.mark.parametrize("point", PROVEN)
def test_at_a_point_of_the_world_it_is_the_worker_that_dies_and_the_kill_is_proved(engines: Engines, point: str) -> None:
    case: Case = matrix.single(REFERENCE, f"charge/{point}#1/worker-killed")
    assert isinstance(case.plan[-1].ops[0], Kill)
    judged = engines("reference").play(case)
    assert (judged.cell.status, judged.cell.why) == ("held", None)
    (kill,) = judged.cell.kills
    assert (kill.role, kill.life, kill.proved, kill.point) == ("worker", 1, True, point)
