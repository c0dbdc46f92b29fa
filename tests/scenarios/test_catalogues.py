"""What is declared is there, and what is there is declared: points, faults, scenarios, checks, clauses, mutants."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from rich.console import Console

from faults import catalogue
from faults.catalogue import POINTS, UnknownPoint
from faults.catalogue import matching as points_matching
from faults.table import FAULTS
from faults.table import matching as faults_matching
from scenarios import catalogues, library, matrix, mutants
from scenarios.case import Open, Send, User
from scenarios.checks import CHECKS
from scenarios.cli import main
from scenarios.contract import clauses, expand, in_order
from scenarios.excuses import EXCUSES, Excuse, excused
from scenarios.targets import TARGETS

ROOT = Path(__file__).parents[2]
NAMES = {point.name for point in POINTS}
REACHING = {"reach", "_reach"}


def literals(folder: str, functions: set[str] | None = None) -> Iterator[str]:
    """Every text that stands in the sources of a folder; with `functions`, only first arguments of calls of these."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if functions is None:
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value
            elif isinstance(node, ast.Call) and _called(node.func) in functions and node.args:
                yield from (
                    each.value
                    for each in ast.walk(node.args[0])
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )


def constants(folder: str) -> Iterator[str]:
    """The name of every point that the sources of a folder use by its constant, as `CONSTANT.name`."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "name" and isinstance(node.value, ast.Name):
                yield getattr(getattr(catalogue, node.value.id, None), "name", "")


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_every_breakpoint_has_a_site_in_the_reference_or_in_the_world() -> None:
    of_programs, of_world = set(literals("reference")), set(constants("scenarios/world"))
    for point in POINTS:
        assert point.name in (of_world if point.role == "world" else of_programs), f"{point.name} has no site"


def test_every_site_of_the_reference_is_in_the_catalogue() -> None:
    found = set(literals("reference", REACHING))
    assert len(found) > 30
    assert found <= NAMES, found - NAMES


def test_every_breakpoint_says_its_sentence_and_names_clauses_that_exist() -> None:
    for point in POINTS:
        assert point.sentence.startswith("fires after ") and ", before " in point.sentence, point.name
        assert "; recovery must " in point.sentence, point.name
        assert point.clauses and set(point.clauses) <= set(clauses()), point.name


def test_every_clause_that_is_named_anywhere_exists() -> None:
    for name, check in CHECKS.items():
        assert set(check.clauses) <= set(clauses()), name
    for line in FAULTS.values():
        assert set(line.clauses) <= set(clauses()), line.name
    for target in TARGETS.values():
        assert set(target.claims) <= set(clauses()), target.name


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_every_clause_that_a_target_claims_is_spoken_for_by_a_check(target: object) -> None:
    claims = TARGETS[getattr(target, "name", "")].claims
    assert in_order(set(claims) - catalogues.spoken_for()) == []


def test_the_reference_claims_what_it_was_built_for() -> None:
    assert set(TARGETS["reference"].claims) >= set(
        expand(
            "ADM-1..6 INT-1..8 INT-12..14 OWN-1..4 OWN-6..7 REC-1..9 REC-11 REC-13 EFF-1..4 EFF-6..7 EFF-10 EFF-12..13"
            " HIS-1..7 USE-1..6 UIX-1 UIX-3 UIX-5..6 ENV-3"
        )
    )
    with pytest.raises(KeyError):
        expand("ADM-99")


@pytest.mark.parametrize("scenario", library.SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_every_scenario_names_faults_and_points_that_exist_and_says_only_what_is_scripted(
    scenario: library.Scenario,
) -> None:
    for pattern in scenario.faults:
        assert faults_matching(pattern), pattern
    opened = {step.session for step in scenario.steps if isinstance(step, Open)}
    for step in scenario.steps:
        if isinstance(step, Send):
            assert step.session in opened
            assert step.text in scenario.script.replies, f"{step.text!r} has no scripted reply"
    for replies in scenario.script.replies.values():
        assert not replies[-1].calls, "a script that never ends"
    for fault in scenario.plan:
        assert fault.at.point in NAMES and fault.ops
        assert scenario.controls or not any(isinstance(op, User) for op in fault.ops)


def test_every_fault_of_the_table_is_asked_for_by_a_scenario() -> None:
    asked = {
        line.name for each in library.SCENARIOS.values() for pattern in each.faults for line in faults_matching(pattern)
    }
    playable = {name for name, line in FAULTS.items() if any(line.applies(point) for point in POINTS)}
    assert playable <= asked, playable - asked


def test_every_mutant_names_a_check_its_clauses_and_cells_that_exist() -> None:
    reference = TARGETS["reference"]
    for mutant in mutants.listed():
        assert mutant.check in CHECKS, mutant.name
        assert mutant.clauses and set(mutant.clauses) <= set(CHECKS[mutant.check].clauses), mutant.name
        assert mutant.cells and len(mutant.changes.split()) >= 4, mutant.name
        for cell in mutant.cells:
            assert matrix.single(reference, cell).id == cell, mutant.name
    with pytest.raises(ValueError, match="unknown mutant 'no-such-mutant'"):
        mutants.matching("no-such-mutant")


def test_every_excuse_is_of_a_point_that_exists_and_has_a_reason_and_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in EXCUSES:
        assert each.target in TARGETS and each.point in TARGETS[each.target].points
        assert len(each.reason.split()) >= 4 and each.until > datetime.now(UTC).date()
    one = Excuse("naive", "effect.received", "the program has no such place", date(2030, 1, 2))
    monkeypatch.setattr("scenarios.excuses.EXCUSES", (one,))
    assert excused("naive") == {"effect.received": {"reason": one.reason, "until": "2030-01-02"}}
    assert excused("reference") == {}


@pytest.mark.parametrize("what", catalogues.NAMES)
def test_a_catalogue_is_shown_as_data_and_as_one_line_for_each_row(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", what, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert main(["show", what]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(rows) == len({line.partition("\t")[0] for line in lines})
    for row, line in zip(rows, lines, strict=True):
        assert line.count("\t") == len(row) - 1


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_catalogue_on_a_terminal_fits_its_width(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(force_terminal=True, width=width, highlight=False, soft_wrap=True, no_color=True)
    for what in catalogues.NAMES:
        found = catalogues.rows(what)
        with console.capture() as captured:
            catalogues.print_rows(what, found, console)
        plain = captured.get().replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
        assert all(len(line) <= width for line in plain.splitlines()), what
        for row in found:
            assert str(next(iter(row.values()))) in plain


def test_points_are_found_by_pattern_and_a_wrong_name_gives_the_nearest() -> None:
    assert {point.name for point in points_matching("tool.*")} == {name for name in NAMES if name.startswith("tool.")}
    with pytest.raises(UnknownPoint, match=r"nearest: tool\.effect\.done"):
        points_matching("tool.effect.don")
