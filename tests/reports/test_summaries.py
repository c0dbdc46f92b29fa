"""JUnit, Markdown, repro, comparison and digest: the report as machines and other people read it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.assemble import assemble
from reports.diff import compare, load
from reports.digest import canonical, digest, verify
from reports.files import safe_name
from reports.junit import junit
from reports.markdown import BYTES_MAX, block, code, markdown
from reports.model import NO_SCRIPT, Report, Script, Violation, Witness
from reports.repro import bug_report, repro
from tests.reports import made_up
from tests.reports.made_up import cell

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)


def report_of(*cells: Any, **fields: Any) -> Report:
    return assemble(list(cells), made_up.inputs(cells, canary_expected=False, **{"points": [], **fields}))


def suites(report: Report) -> dict[str, ElementTree.Element]:
    return {suite.get("name", ""): suite for suite in ElementTree.fromstring(junit(report))}


# JUnit ---------------------------------------------------------------------------------------------------------------


def test_junit_has_a_suite_for_each_family_and_a_case_for_each_cell() -> None:
    report = report_of(
        cell("a", family="f"),
        cell("b", "violated", family="f"),
        cell("c", "void", family="f"),
        cell("d", "not run", family="g"),
    )
    found = suites(report)
    assert list(found) == ["f", "g", "killpoint"]
    counts = {name: [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] for name, suite in found.items()}
    assert counts == {"f": ["3", "1", "1", "0"], "g": ["1", "0", "0", "1"], "killpoint": ["1", "1", "0", "0"]}
    root = ElementTree.fromstring(junit(report))
    assert [root.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["5", "2", "1", "1"]


def test_junit_tells_what_broke_and_how_to_see_it_again() -> None:
    failure = ElementTree.fromstring(junit(report_of(cell("b", "violated")))).find(".//failure")
    assert failure is not None
    assert failure.get("message") == "No write that may have happened is sent again blindly."
    assert ".venv/bin/killpoint replay cases/b.json" in (failure.text or "")
    assert "seen: write 2" in (failure.text or "")


@pytest.mark.parametrize(
    ("status", "tag"),
    [
        ("violated", "failure"),
        ("void", "error"),
        ("inconclusive", "error"),
        ("not run", "skipped"),
        ("not claimed", "skipped"),
    ],
)
def test_only_what_was_not_judged_at_all_is_skipped(status: Any, tag: str) -> None:
    case = next(iter(suites(report_of(cell("x", status)))["tool call"]))
    assert [child.tag for child in case] == [tag]


def test_a_canary_is_green_when_it_is_red() -> None:
    good, bad = cell("x", "violated", canary=True, family="canary"), cell("y", "held", canary=True, family="canary")
    assert [[child.tag for child in case] for case in suites(report_of(good, bad))["canary"]] == [[], ["error"]]


def test_a_run_that_is_incomplete_for_a_reason_of_no_cell_is_red() -> None:
    assert suites(report_of(cell("a"), finished=False))["killpoint"].get("errors") == "1"
    assert suites(report_of(cell("a"), finished=True))["killpoint"].get("errors") == "0"


@given(ANY_TEXT)
@settings(max_examples=60, deadline=None)
def test_junit_can_be_parsed_whatever_stands_in_the_data(text: str) -> None:
    broken = Violation(check=text, clauses=[text], promise=text, expected=Witness(says=text), seen=Witness(says=text))
    report = report_of(cell("a" + text, "violated", family=text, scenario=text, why=text, violations=[broken], checks=[]),
                       cell("b", "void", why=text), cell("c", "not run", why=text), target=text)  # fmt: skip
    root = ElementTree.fromstring(junit(report).encode("utf-8"))
    assert root.get("tests") == "4"


# Markdown ------------------------------------------------------------------------------------------------------------


def test_the_summary_puts_what_broke_before_what_was_not_judged() -> None:
    text = markdown(report_of(cell("a"), cell("b", "violated"), cell("c", "void")))
    places = [
        text.index(words)
        for words in ("## Rejected", "| ✗ violated | 1 |", "replay cases/b.json", "replay cases/c.json", "fsync")
    ]
    assert places == sorted(places)


def test_the_summary_of_a_very_red_run_stays_below_what_a_ci_service_shows() -> None:
    many = [cell(f"cell-{i}-{'ü' * 100}", "violated", why="no " * 200) for i in range(900)]
    text = markdown(report_of(*many, notes=["n" * 5000]))
    assert 20_000 < len(text.encode()) < BYTES_MAX
    assert "more; report.html lists them all" in text
    assert "page cache" in text


def test_a_summary_of_an_unfinished_run_says_so() -> None:
    assert "did not finish" in markdown(report_of(cell("a"), finished=False))


@given(st.text(max_size=60))
def test_code_is_closed_by_the_fence_that_opened_it(text: str) -> None:
    for made in (code(text), block(text)):
        fence = made[: len(made) - len(made.lstrip("`"))]
        inner = made[len(fence) : -len(fence)]
        assert made.endswith(fence)
        assert fence not in inner


def test_markup_in_the_data_has_no_effect_in_the_summary() -> None:
    text = markdown(report_of(cell("a"), target="<script>[x](javascript:y) @team", finished=False))
    assert "<script>" not in text
    assert "\\[x\\]" in text
    assert "\\@team" in text


# Repro ---------------------------------------------------------------------------------------------------------------


def test_repro_holds_the_case_and_what_a_replay_must_show_again() -> None:
    broken, case = cell("b", "violated", digest="sha256:00"), made_up.case("b")
    data = json.loads(json.dumps(repro(broken, case, made_up.VERSIONS)))
    assert data["case"] == case
    assert data["versions"] == made_up.VERSIONS
    assert [each["check"] for each in data["expected_violations"]] == ["no_duplicate_write"]
    assert data["digests"]["evidence"] == "sha256:00"
    assert data["digests"]["case"].startswith("sha256:")


def test_the_draft_says_what_was_promised_what_was_seen_and_how_to_see_it() -> None:
    records = made_up.history(twice=True).records
    text = bug_report(
        cell("b", "violated"), records, made_up.case("b"), made_up.point("tool.effect.done"), made_up.VERSIONS
    )
    order = [
        "# reference: No write",
        "What was promised",
        "What was seen",
        "killpoint replay cases/b.json",
        "timeline",
        "3.11.7",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "a duplicate of write 1" in text
    assert "killed by SIGKILL at tool.effect.done#1, proved" in text
    assert "verysecret" not in text


# Comparison ----------------------------------------------------------------------------------------------------------


def test_a_comparison_names_what_changed_came_and_went() -> None:
    before = report_of(cell("a"), cell("b", "violated"), cell("gone"), cell("slow", seconds=0.4))
    after = report_of(cell("a", "violated"), cell("b"), cell("new"), cell("slow", seconds=0.1))
    diff = compare(before, after)
    assert [(each.name, each.before, each.after, each.worse) for each in diff.cells] == [
        ("a", "held", "violated", True),
        ("b", "violated", "held", False),
    ]
    assert (diff.lost, [each.name for each in diff.new]) == (("gone",), ["new"])
    assert diff.exit_status == 1
    assert diff.lines[1] == "cell a: held before, violated now (worse)"
    assert json.loads(json.dumps(diff.to_json()))["lines"] == diff.lines


def test_two_equal_runs_differ_in_nothing() -> None:
    report = report_of(cell("a"), cell("b", "violated"))
    diff = compare(report, report)
    assert (diff.exit_status, diff.speed) == (0, 1.0)
    assert "no cell and no clause changed its state" in diff.lines


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ([("a", "held")], [("a", "void")], 3),
        ([("a", "held"), ("b", "held")], [("a", "held")], 3),
        ([("a", "void")], [("a", "held")], 0),
        ([("a", "held")], [("a", "held"), ("b", "held")], 0),
        ([("a", "held")], [("a", "held"), ("b", "violated")], 1),
        ([("a", "held")], [("a", "held"), ("b", "inconclusive")], 3),
        ([("a", "not run")], [("a", "violated")], 1),
        ([("a", "violated")], [("a", "inconclusive")], 0),
        ([("a", "held")], [("a", "not claimed")], 3),
        ([("a", "not claimed")], [("a", "held")], 0),
    ],
)
def test_the_exit_status_of_a_comparison(before: Any, after: Any, status: int) -> None:
    def made(cells: Any) -> Report:
        return report_of(*(cell(name, state) for name, state in cells), claimed=[], clause_texts={})

    diff = compare(made(before), made(after))
    assert diff.exit_status == status, diff.lines


def test_a_report_is_loaded_from_its_folder_and_anything_else_is_refused_in_one_line(tmp_path: Path) -> None:
    report = report_of(cell("a"))
    (tmp_path / "report.json").write_text(json.dumps(report.to_json()))
    assert load(tmp_path) == report
    for content, words in (
        ("{", "is not JSON"),
        ("[]", "is of version None"),
        ('{"schema": "killpoint.report/9"}', "killpoint.report/9"),
        ('{"schema": "killpoint.report/1", "cells": 3}', "no report of this harness"),
    ):
        (tmp_path / "report.json").write_text(content)
        with pytest.raises(ValueError, match=words) as caught:
            load(tmp_path)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="cannot be read"):
        load(tmp_path / "nothing.json")


# The tests themselves ------------------------------------------------------------------------------------------------


def test_a_missing_browser_is_said_and_not_passed_over() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/reports"],
        cwd=Path(__file__).parents[2],
        env={"PATH": "/nonexistent", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "not run: tests/reports/test_browser.py, for want of a browser" in done.stdout
    assert "test_browser.py::" not in done.stdout


# Digest --------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.lists(st.fixed_dictionaries({"t_ns": st.integers(0), "kind": st.text(max_size=5), "data": JSON}), max_size=4)
OBJECT = st.dictionaries(st.text(max_size=4), JSON, max_size=3)


@given(OBJECT, RECORDS, OBJECT)
def test_evidence_that_was_stored_and_read_again_has_the_same_digest(case: Any, records: Any, snapshots: Any) -> None:
    made = digest(case, records, snapshots, {"a": "1"})
    again = json.loads(json.dumps([case, records, snapshots]))
    assert verify(made, *again, {"a": "1"})


@given(OBJECT, RECORDS, OBJECT, JSON)
def test_any_alteration_is_seen(case: Any, records: Any, snapshots: Any, other: Any) -> None:
    made = digest(case, records, snapshots, {})
    assert not verify(made, {**case, "added key": other}, records, snapshots, {})
    assert not verify(made, case, [*records, {"t_ns": 1, "kind": "k", "data": other}], snapshots, {})
    assert not verify(made, case, records, {**snapshots, "added key": other}, {})
    assert not verify(made, case, records, snapshots, {"python": "3"})
    if len(records) > 1 and canonical(records[0]) != canonical(records[-1]):
        assert not verify(made, case, [records[-1], *records[1:-1], records[0]], snapshots, {})


def test_evidence_that_is_no_data_any_more_is_not_the_evidence() -> None:
    assert not verify("sha256:00", {"a": float("nan")}, [], {}, {})
    assert not verify("sha256:00", {}, [{"kind": "k"}], {}, {})


def test_a_draft_names_the_file_that_plays_it_by_itself_or_why_there_is_none() -> None:
    cell = made_up.cell("mail/x#1/worker-killed", "violated", violations=[made_up.violation()])

    def drafted(script: Script) -> str:
        return bug_report(cell, [], made_up.case(cell.id), None, {}, None, script)

    assert f"python3 {safe_name(cell.id)}.py" in drafted(Script(text="pass"))
    assert "There is no file that plays it by itself: its client is its own." in drafted(
        Script(why_not="its client is its own")
    )
    assert "by itself" not in drafted(NO_SCRIPT) and "python3" not in drafted(NO_SCRIPT)
