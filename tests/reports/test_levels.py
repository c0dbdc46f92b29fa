"""A report that says more than its cells have shown is refused by the check that is made of it (ENV-3)."""

from __future__ import annotations

import pytest

from reports import levels
from reports.assemble import assemble
from reports.model import ClauseRow, PointRow, Report
from tests.reports import made_up


def report() -> Report:
    cells = made_up.cells(6)
    return assemble(cells, made_up.inputs(cells))


def test_a_report_as_it_is_assembled_says_no_more_than_was_shown() -> None:
    row = levels.row(report(), "the text")
    assert (row.status, row.text, row.checks) == ("held", "the text", [levels.CHECK])
    assert row.mutants == [levels.DEFECT] and row.cells > 0


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"level": "hearsay"}, "the report names 'hearsay'"),
        ({"level": ""}, "the report names ''"),
        ({"not_judged": []}, "it does not say so"),
        ({"clauses": {"SET-9": ClauseRow(status="held", cells=3)}}, "it is marked as held, and no cell has"),
        ({"points": {"turn.begun": PointRow(declared=True, killed=1, recovered=2)}}, "2 of 1"),
    ],
    ids=["unknown level", "no level", "other levels not named", "clause without a cell", "recovered without a kill"],
)
def test_each_way_to_say_more_is_found(change: dict[str, object], seen: str) -> None:
    altered = report().model_copy(update=change)
    assert seen in {each.seen.says for each in levels.broken(altered)}
    assert levels.row(altered, "").status == "violated"


def test_where_nothing_was_judged_the_report_shows_nothing_of_itself() -> None:
    assert levels.row(assemble([], made_up.inputs([])), "").status == "not run"
