"""How a check is registered and judged: nothing examined, a crash, or a case that never rested is never a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from scenarios.history import History, as_line
from tests.scenarios.checks.builder import Scene, Tape, call, turn
from tests.scenarios.checks.generated_a import FEW, QUICK, later, names_of, one_of, recovered, renamed

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


# What findings make of a check -------------------------------------------------------------------------------------------


@given(facts=st.lists(st.booleans(), max_size=6), unclear=st.booleans(), crash=st.booleans())
def test_the_worst_of_what_a_check_found_decides(facts: list[bool], unclear: bool, crash: bool) -> None:
    """A crash shows nothing whatever came before it; a broken promise outweighs a doubt, and a doubt all that held."""

    def body(e: Evidence, found: Findings) -> None:
        for holds in facts:
            found.verify(holds, "this", "that", since=None, at=None)
        if unclear:
            found.cannot_tell("two stories")
        if crash:
            raise RuntimeError("torn")

    result = judge(Evidence(History(), turn().case), Check("made", ("ADM-1",), "it holds", body))
    broken = facts.count(False)
    assert result.examined == len(facts)
    assert len(result.violations) == (0 if crash else broken)
    if crash:
        assert (result.status, result.why) == ("inconclusive", "the check itself failed: RuntimeError: torn")
    elif broken:
        assert (result.status, result.why) == ("violated", None)
    elif unclear:
        assert (result.status, result.why) == ("inconclusive", "two stories")
    else:
        assert result.status == ("held" if facts else "not run")


def test_a_violation_counts_as_one_fact_at_least_and_keeps_its_kind() -> None:
    def body(e: Evidence, found: Findings) -> None:
        found.saw(0)
        found.broken("this", "that", at=e.history.records[2])

    result = judge(turn().evidence(), Check("made", ("ADM-1", "REC-1"), "it holds", body, kind="disagreement"))
    assert (result.status, result.examined, result.clauses) == ("violated", 1, ["ADM-1", "REC-1"])
    only = result.violations[0]
    assert (only.kind, only.expected.seq, only.seen.seq, only.promise) == ("disagreement", None, 2, "it holds")


# What no verdict may depend on -------------------------------------------------------------------------------------------


def told(tape: Tape) -> dict[str, object]:
    return {name: result.model_dump() for name, result in tape.results().items()}


@QUICK
@given(recovered())
def test_judging_changes_nothing_and_says_the_same_again(t: Tape) -> None:
    evidence = t.evidence()
    before = evidence.history.lines()
    first = run(evidence, CHECKS.values())
    assert run(evidence, reversed(CHECKS.values())) == first[::-1]
    assert evidence.history.lines() == before
    assert {result.check: result.model_dump() for result in first} == told(t)


@QUICK
@given(recovered(), st.data())
def test_the_logs_may_be_joined_in_any_order(t: Tape, data: st.DataObject) -> None:
    """Client, world and harness write their own logs; what joins them is the clock alone."""
    heads = ("client", "provider", "effect", "point", "snapshot")
    logs = [[x for x in t.lines if x["kind"].startswith(head)] for head in heads]
    logs.append([x for x in t.lines if not x["kind"].startswith(heads)])
    joined = History.join(*data.draw(st.permutations(logs)))
    assert joined == History.join(t.lines)
    assert {r.check: r.model_dump() for r in run(Evidence(joined, t.case), CHECKS.values())} == told(t)


@QUICK
@given(recovered())
def test_records_of_one_moment_keep_the_order_in_which_they_were_written(t: Tape) -> None:
    before = told(t)
    for line in t.lines:
        line["t_ns"] = 5
    after = told(t)
    assert {name for name in before if before[name] != after[name]} <= {"retries-wait-their-time"}


@pytest.mark.parametrize("change", [renamed, later])
@FEW
@given(t=recovered())
def test_no_check_knows_a_name_a_pid_or_an_hour(t: Tape, change: Callable[[Tape], Tape]) -> None:
    said = {name: (r.status, r.examined) for name, r in t.results().items()}
    assert {name: (r.status, r.examined) for name, r in change(t).results().items()} == said


AREAS_HERE = ("recovery", "intent", "ownership", "interface", "harness")
HERE = [CHECKS[name] for area in AREAS_HERE for name in names_of(area)]


# Evidence that was torn --------------------------------------------------------------------------------------------------


@QUICK
@given(recovered(), st.data())
def test_no_prefix_of_a_right_history_is_ever_violated(t: Tape, data: st.DataObject) -> None:
    """A harness that was itself killed leaves the beginning of a history. What must never happen has not happened in it,
    and what must happen in the end is open."""
    length = data.draw(st.integers(0, len(t.lines)))
    results = run(Tape(t.case, t.lines[:length]).evidence(), HERE)
    assert [r for r in results if r.violations] == []
    if length <= t.lines.index(t.final):
        ends = {each.name for each in HERE if "final" in each.needs}
        assert {r.status for r in results if r.check in ends} == {"inconclusive"}


@QUICK
@given(recovered(), st.data())
def test_a_line_that_is_torn_off_is_dropped_and_the_rest_is_judged(tmp_path: Path, t: Tape, data: st.DataObject) -> None:
    stored = b"".join(as_line(line) for line in t.lines)
    file = tmp_path / "history.jsonl"
    size = data.draw(st.integers(1, len(stored)))
    file.write_bytes(stored[:size])
    history = History.read(file)
    assert len(history.records) == stored[:size].count(b"\n")
    assert all(result.status != "violated" for result in run(Evidence(history, t.case), HERE))


@pytest.mark.parametrize("lacking", ["final", "settled", "unsettled"])
@FEW
@given(t=recovered())
def test_what_needs_the_final_snapshot_says_why_it_has_none(t: Tape, lacking: str) -> None:
    if lacking == "final":
        t.drop(t.final)
    elif lacking == "settled":
        t.drop(t.get("case.settled"))
    else:
        t.get("case.settled")["data"]["settled"] = False
    why = "no final snapshot was taken" if lacking == "final" else "the case did not come to rest"
    for name, result in t.results().items():
        if "final" in CHECKS[name].needs:
            assert result.status == "inconclusive" and result.examined == 0, name
            assert str(result.why).startswith(why)


@QUICK
@given(recovered(), st.data())
def test_a_record_that_lacks_a_field_is_doubt_that_names_it(t: Tape, data: st.DataObject) -> None:
    """A check that needs the field says which one it is; it neither raises nor passes over it as if all were well."""
    line = one_of(data.draw, [x for x in t.lines if x["data"] and not x["kind"].startswith("case.")])
    field = one_of(data.draw, sorted(line["data"]))
    line["data"].pop(field)
    doubtful = [r for r in t.results().values() if r.status == "inconclusive"]
    assert [r.why for r in doubtful] == [f"the check itself failed: KeyError: {field!r}"] * len(doubtful)
    assert all(not r.violations for r in doubtful)
