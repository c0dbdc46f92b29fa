"""The verdict: what is held, what is only not shown, and what keeps a run from being accepted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.assemble import assemble, exit_status
from reports.model import WORST_FIRST, Cell, CheckResult, Evidence, Report, worst
from tests.reports.made_up import cell, inputs, violation

STATUSES = st.sampled_from(WORST_FIRST)
CANARY = cell("canary", "violated", canary=True)
POINT = {"name": "tool.effect.done", "role": "worker", "moment": "tool call", "sentence": "fires after a, before b"}


def judge(*cells: Cell, **fields: Any) -> Report:
    made = [*cells, CANARY] if fields.pop("with_canary", True) else list(cells)
    given = {"points": [POINT], "clause_texts": {"EFF-1": "one", "EFF-3": "three", "USE-6": "six"}, "mutants": None}
    given["claimed"] = ["EFF-1", "EFF-3"]
    return assemble(made, inputs(made, **{**given, **fields}))


def check(status: Any, examined: int = 1, clauses: tuple[str, ...] = ("EFF-1",), **fields: Any) -> CheckResult:
    return CheckResult(check="c", clauses=list(clauses), status=status, examined=examined, **fields)


def test_a_run_in_which_everything_held_is_accepted() -> None:
    report = judge(cell("a"))
    assert (report.verdict, report.why, exit_status(report)) == ("accepted", [], 0)
    assert {name: row.status for name, row in report.clauses.items()} == {
        "EFF-1": "held",
        "EFF-3": "held",
        "USE-6": "not claimed",
    }


def test_a_violation_rejects_whatever_else_held() -> None:
    report = judge(cell("a"), cell("b", "violated"))
    assert (report.verdict, exit_status(report)) == ("rejected", 1)
    assert report.why == ["1 cell broke a promise"]
    assert report.clauses["EFF-3"].status == "violated"
    assert report.clauses["EFF-1"].status == "held"  # another check of the same cell found its own promise kept


@pytest.mark.parametrize("status", ["inconclusive", "void", "not run"])
def test_what_is_undecided_makes_a_run_incomplete_and_supports_no_clause(status: Any) -> None:
    report = judge(cell("a"), cell("b", status))
    assert (report.verdict, exit_status(report)) == ("incomplete", 3)
    assert report.clauses["EFF-1"].status == status
    assert report.clauses["EFF-1"].cells == 1


LEFT = Evidence(seen={"kill worker": 1, "life worker": 2}, planned={"kill worker": 1, "life worker": 1})


def test_a_fault_that_left_nothing_behind_is_named_and_makes_the_run_incomplete() -> None:
    report = judge(cell("a", evidence=LEFT), cell("b", "inconclusive", evidence=LEFT, vacuous=["nobody was killed"]))
    assert report.verdict == "incomplete"
    assert "1 cell vacuous: the fault left nothing where it should have: b" in report.why


def test_how_far_cells_were_compared_is_counted_without_the_canary() -> None:
    both, one = {"compared": ["none", "disarmed"]}, {"compared": ["none"], "not_compared": ["the same play disarmed"]}
    made = (cell("a", evidence=LEFT, **both), cell("b", evidence=LEFT, **one), cell("c", evidence=Evidence()), cell("d"))
    report = judge(*made, cell("canary 2", "violated", canary=True, evidence=LEFT, vacuous=["no kill"], **both))
    found = report.comparisons
    assert (found.planned, found.compared, found.lacking, found.vacuous) == (2, 2, 1, 0)
    assert report.verdict == "accepted"
    assert "1 cell could not be compared with the same play disarmed, which this run does not have." in report.not_judged


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_that_has_not_finished_says_that_it_has_not_compared(finished: bool) -> None:
    said = "The run has not finished, so no cell was compared with its fault-free and its disarmed play yet."
    assert (said in judge(cell("a"), finished=finished).not_judged) is not finished


def test_nothing_judged_is_never_a_pass() -> None:
    assert "nothing was judged, and nothing judged is never a pass" in judge().why
    assert judge(cell("a", disarmed=True), points=[]).verdict == "incomplete"


def test_a_run_that_has_not_finished_is_incomplete_and_says_how_much_is_missing() -> None:
    report = judge(cell("a"), finished=False, planned=["a", "canary", "b", "c"])
    assert report.verdict == "incomplete"
    assert report.why == ["the run has not finished: 2 of 4 planned cells are missing"]


def test_a_planned_cell_without_a_result_makes_a_finished_run_incomplete() -> None:
    report = judge(cell("a"), planned=["a", "canary", "lost"])
    assert report.verdict == "incomplete"
    assert "such as lost" in report.why[0]


def test_a_canary_that_is_not_red_makes_the_run_incomplete() -> None:
    report = judge(cell("a"), cell("canary", "held", canary=True), with_canary=False)
    assert report.verdict == "incomplete"
    assert "canary must fail and was held" in report.why[0]


def test_a_missing_canary_is_a_reason_unless_none_was_expected() -> None:
    assert judge(cell("a"), with_canary=False).verdict == "incomplete"
    assert judge(cell("a"), with_canary=False, canary_expected=False).verdict == "accepted"


def test_a_canary_says_nothing_about_the_target() -> None:
    report = judge(cell("a"))
    assert report.clauses["EFF-3"].status == "held"
    assert report.totals.by_status == {"held": 1}
    assert report.points["tool.effect.done"].killed == 1


def test_a_disarmed_cell_supports_nothing_but_its_violation_counts() -> None:
    quiet = judge(cell("a", disarmed=True), cell("b", checks=[check("held", clauses=("EFF-3",))]))
    assert quiet.clauses["EFF-1"].status == "not shown"
    assert judge(cell("a", "violated", disarmed=True)).clauses["EFF-3"].status == "violated"


def test_a_check_that_examined_nothing_shows_nothing() -> None:
    assert judge(cell("a", checks=[check("held", examined=0)])).clauses["EFF-1"].status == "not shown"


def test_a_check_that_crashed_outweighs_one_that_held() -> None:
    report = judge(cell("a"), cell("b", checks=[check("inconclusive", why="crashed")]))
    assert report.clauses["EFF-1"].status == "inconclusive"


def test_a_violated_check_breaks_only_the_clauses_that_its_violations_name() -> None:
    broken = check("violated", clauses=("EFF-1", "EFF-3"), violations=[violation()])
    report = judge(cell("a", "violated", checks=[broken], violations=[]))
    assert (report.clauses["EFF-3"].status, report.clauses["EFF-1"].status) == ("violated", "not shown")


def test_a_violation_of_a_clause_that_is_not_claimed_is_shown_all_the_same() -> None:
    assert judge(cell("a", "violated"), claimed=[]).clauses["EFF-3"].status == "violated"


def test_a_clause_without_a_mutant_behind_it_is_not_shown_once_mutants_are_known() -> None:
    mutants = {"EFF-3": ["sent_twice"]}
    report = judge(cell("a"), mutants=mutants)
    assert (report.clauses["EFF-3"].status, report.clauses["EFF-1"].status) == ("held", "not shown")
    assert report.clauses["EFF-3"].mutants == ["sent_twice"]
    assert judge(cell("a"), mutants=mutants, mutants_needed=False).clauses["EFF-1"].status == "held"
    assert judge(cell("a"), mutants_needed=True).clauses["EFF-3"].status == "not shown"


def test_points_count_reached_killed_and_recovered_apart() -> None:
    report = judge(cell("a"), cell("b"), cell("c", "violated"))
    row = report.points["tool.effect.done"]
    assert (row.declared, row.reached, row.killed, row.recovered) == (True, 3 + 1, 3, 2)
    assert report.points["work.claimed"].declared is False


def test_a_declared_point_that_nobody_killed_needs_an_excuse_that_still_stands() -> None:
    points = [POINT, {**POINT, "name": "spare"}]
    assert "neither killed nor excused: spare" in judge(cell("a"), points=points).why[0]
    excuse = {"spare": {"reason": "needs a second host", "until": "2027-01-31"}}
    report = judge(cell("a"), points=points, excused=excuse, today="2026-12-01")
    assert report.verdict == "accepted"
    assert "Breakpoint spare was not killed: needs a second host (until 2027-01-31)." in report.not_judged
    late = judge(cell("a"), points=points, excused=excuse, today="2027-02-01")
    assert late.verdict == "incomplete"
    assert any("ended on 2027-01-31" in line for line in late.not_judged)


def test_a_narrowed_run_owes_only_the_points_it_was_narrowed_to() -> None:
    points = [POINT, {**POINT, "name": "spare"}]
    report = judge(cell("a"), points=points, selected_points=["tool.effect.done"])
    assert report.verdict == "accepted"
    assert any("narrowed" in line and "spare" in line for line in report.not_judged)


def test_every_report_says_what_it_does_not_show() -> None:
    lines = "\n".join(judge(cell("a"), level="automated test").not_judged)
    for words in ("real reboot", "fsync", "automated test", "installed program or release", "ENV-3", "USE-6"):
        assert words in lines, words


def test_a_cell_that_is_reported_twice_counts_once_with_its_last_state() -> None:
    report = judge(cell("a", "violated"), cell("a"))
    assert report.verdict == "accepted"
    assert [each.id for each in report.cells] == ["a", "canary"]


def test_totals() -> None:
    report = judge(cell("a"), cell("b", "not run", kills=[]), seconds=36.0)
    assert (report.totals.cells, report.totals.kills, report.totals.seconds) == (3, 2, 36.0)
    assert report.totals.cases_per_hour == 200.0


def test_the_report_survives_its_own_json() -> None:
    report = judge(cell("a"), cell("b", "violated"))
    assert Report.from_json(report.to_json()) == report
    assert report.to_json()["schema"] == "killpoint.report/1"


# Laws ----------------------------------------------------------------------------------------------------------------

CELLS = st.lists(
    st.builds(
        lambda number, status, checked, disarmed: cell(
            f"c{number}", status, disarmed=disarmed, checks=[check(checked)], violations=[]
        ),
        st.integers(0, 99), STATUSES, STATUSES, st.booleans(),
    ),
    unique_by=lambda each: each.id,
    max_size=6,
)  # fmt: skip


@given(st.lists(STATUSES), st.lists(STATUSES))
def test_merging_is_the_same_in_any_order_and_grouping(one: list[Any], other: list[Any]) -> None:
    assert worst(one + other) == worst(other + one) == worst([*one, *one, *other])
    if one and other:
        assert worst([worst(one), worst(other)]) == worst(one + other)


@settings(max_examples=60, deadline=None)
@given(CELLS, st.randoms(use_true_random=False))
def test_the_order_of_cells_changes_no_verdict(made: list[Cell], random: Any) -> None:
    shuffled = list(made)
    random.shuffle(shuffled)
    one, other = judge(*made), judge(*shuffled)
    assert (one.verdict, one.clauses, one.points) == (other.verdict, other.clauses, other.points)


@settings(max_examples=60, deadline=None)
@given(CELLS, STATUSES)
def test_one_more_cell_never_makes_a_clause_better_than_what_it_says_itself(made: list[Cell], status: Any) -> None:
    before = judge(*made).clauses["EFF-1"].status
    after = judge(*made, cell("more", status, checks=[check(status)], violations=[])).clauses["EFF-1"].status
    rank = {name: place for place, name in enumerate([*WORST_FIRST, "not shown"])}
    said = status if status != "not claimed" else before
    assert rank[after] <= max(rank[before], rank[said])
    if before in ("violated", "void", "inconclusive"):
        assert rank[after] <= rank[before]


@settings(max_examples=60, deadline=None)
@given(CELLS)
def test_accepted_means_that_nothing_is_open(made: list[Cell]) -> None:
    report = judge(*made)
    states = {each.status for each in report.cells if not each.canary}
    assert (report.verdict == "rejected") == ("violated" in states)
    assert (report.verdict == "accepted") == (not report.why)
    if report.verdict == "accepted":
        assert "held" in states
        assert not states & {"violated", "void", "inconclusive", "not run"}
