"""How a check is registered and judged: nothing examined, a crash, or a case that never rested is never a pass."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from faults.catalogue import POINTS
from scenarios.checks import (
    AREAS,
    CHECKS,
    Check,
    Evidence,
    Findings,
    UnknownCheck,
    clauses_of_checks,
    for_clauses,
    judge,
    run,
)
from scenarios.checks import check as find
from scenarios.checks.base import check
from scenarios.history import History
from tests.scenarios.checks.builder import Scene, call, turn

CLAIMED = [
    "ADM-1",
    "ADM-2",
    "ADM-3",
    "ADM-4",
    "ADM-5",
    "ADM-6",
    "INT-1",
    "INT-2",
    "INT-3",
    "INT-4",
    "INT-5",
    "INT-6",
    "INT-7",
    "INT-8",
    "INT-12",
    "INT-13",
    "INT-14",
    "OWN-1",
    "OWN-2",
    "OWN-3",
    "OWN-4",
    "OWN-6",
    "OWN-7",
    "REC-1",
    "REC-2",
    "REC-3",
    "REC-4",
    "REC-5",
    "REC-6",
    "REC-7",
    "REC-8",
    "REC-9",
    "REC-11",
    "REC-13",
    "EFF-1",
    "EFF-2",
    "EFF-3",
    "EFF-4",
    "EFF-6",
    "EFF-7",
    "EFF-10",
    "EFF-12",
    "EFF-13",
    "HIS-1",
    "HIS-2",
    "HIS-3",
    "HIS-4",
    "HIS-5",
    "HIS-6",
    "HIS-7",
    "USE-1",
    "USE-2",
    "USE-3",
    "USE-4",
    "USE-5",
    "USE-6",
    "UIX-1",
    "UIX-3",
    "UIX-5",
    "UIX-6",
]


@pytest.fixture
def made() -> Iterator[SimpleNamespace]:
    """Registers checks for one test."""
    before = dict(CHECKS)
    yield SimpleNamespace(check=check)
    CHECKS.clear()
    CHECKS.update(before)


def checks_of(result: str) -> Check:
    def body(e: Evidence, found: Findings) -> None:
        if result == "crash":
            found.saw(3)
            raise KeyError("field")
        if result == "broken":
            found.verify(False, "this", "that", since=e.history.records[0], at=None)
        if result == "unclear":
            found.saw()
            found.cannot_tell("two stories")
            found.cannot_tell("another reason")
        if result == "held":
            found.verify(True, "this", "", since=None, at=None)

    return Check(f"made-{result}", ("ADM-1",), "it holds", body)


@pytest.mark.parametrize(
    ("result", "status", "why"),
    [
        ("nothing", "not run", "nothing to examine"),
        ("crash", "inconclusive", "the check itself failed: KeyError: 'field'"),
        ("unclear", "inconclusive", "two stories"),
        ("broken", "violated", None),
        ("held", "held", None),
    ],
)
def test_what_a_check_did_decides_its_status(result: str, status: str, why: str | None) -> None:
    found = judge(turn().evidence(), checks_of(result))
    assert (found.status, found.why) == (status, why)
    assert (found.examined > 0) == (result != "nothing")


def test_a_violation_names_a_witness_that_is_not_there_as_none() -> None:
    violation = judge(turn().evidence(), checks_of("broken")).violations[0]
    assert (violation.expected.says, violation.expected.seq) == ("this", 0)
    assert (violation.seen.says, violation.seen.seq) == ("that", None)


def test_a_check_that_needs_the_final_snapshot_decides_nothing_without_one() -> None:
    tape = turn()
    tape.drop(tape.final)
    for each in CHECKS.values():
        result = judge(tape.evidence(), each)
        if "final" in each.needs:
            assert (result.status, result.why) == ("inconclusive", "no final snapshot was taken")


def test_a_case_that_never_rested_violates_liveness_and_leaves_the_rest_open() -> None:
    tape = turn(call("charge", amount=1), die="reply.received#1")
    tape.get("case.settled")["data"].update(settled=False, why="w_1 is working")
    results = tape.results()
    assert results["everything-ends"].status == "violated"
    assert results["usage-equals-billed"].status == "inconclusive"
    assert results["no-duplicate-write"].status == "held"


@pytest.mark.parametrize("left", ["frozen", "held", "broken", "down"])
def test_liveness_is_open_while_the_fault_goes_on(left: str) -> None:
    scene = Scene(die={"reply.received#1": "worker"})
    scene.open()
    scene.send("r1")
    scene.run()
    if left == "frozen":
        scene.mark("freeze", **scene.who("worker"))
    elif left == "broken":
        scene.mark("store.broken", how="torn", sha256="b")
    elif left == "down":
        scene.kill("worker")
    else:
        scene.reach("attempt.stored", "w_s1_r1")
        reached = scene.lines[-1]["data"]
        scene.mark("point.fired", **{k: reached[k] for k in ("point", "ordinal", "nonce")}, ops=[])
    tape = scene.tape()
    tape.get("case.settled")["data"].update(settled=False, why="w_1 is working")
    result = tape.results()["everything-ends"]
    assert result.status == "inconclusive"
    assert result.why is not None and result.why.startswith("the fault was not over: ")


def test_a_history_of_nothing_is_never_a_pass() -> None:
    evidence = Evidence(History(), turn().case)
    assert {result.status for result in run(evidence, CHECKS.values())} <= {"not run", "inconclusive"}


def test_results_stand_in_the_order_of_the_checks() -> None:
    assert [result.check for result in run(turn().evidence(), CHECKS.values())] == list(CHECKS)


def test_a_check_is_found_by_name_or_the_nearest_ones_are_told() -> None:
    assert find("no-duplicate-write").name == "no-duplicate-write"
    with pytest.raises(UnknownCheck, match="no-duplicate-write") as error:
        find("no-duplicate-writes")
    assert "\n" not in str(error.value)


def test_a_check_is_registered_once_and_with_its_clauses(made: SimpleNamespace) -> None:
    made.check("made-once", "ADM-1", "it holds")(lambda e, found: None)
    with pytest.raises(ValueError, match="registered twice"):
        made.check("made-once", "ADM-1", "it holds")(lambda e, found: None)
    with pytest.raises(ValueError, match="names no clause"):
        made.check("made-other", "", "it holds")(lambda e, found: None)


def test_every_claimed_clause_has_a_check_that_examines_it() -> None:
    covered = clauses_of_checks()
    assert [clause for clause in CLAIMED if clause not in covered] == []
    assert set(covered["EFF-3"]) == {each.name for each in for_clauses(["EFF-3"])}
    assert for_clauses(["XYZ-1"]) == []


def test_every_clause_of_the_catalogue_has_a_check() -> None:
    covered = clauses_of_checks()
    assert sorted({clause for point in POINTS for clause in point.clauses} - set(covered)) == []


def test_a_check_promises_something_in_words() -> None:
    for each in CHECKS.values():
        assert len(each.promise) > 30 and "\n" not in each.promise
    assert len({each.promise for each in CHECKS.values()}) == len(CHECKS)
    assert len(AREAS) == 9
