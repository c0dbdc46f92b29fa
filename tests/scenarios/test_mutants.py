"""What becomes of a mutant that is played on real processes, and what makes the whole command fail."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from scenarios import mutants
from scenarios.engine import Engine
from scenarios.mutants import Mutant, Outcome
from scenarios.targets import TARGETS

SHORT = "run-intent-incomplete"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    scratch: Path = tmp_path_factory.mktemp("engine")
    with Engine(TARGETS["reference"], scratch) as made:
        yield made


@pytest.fixture
def mutant() -> Mutant:
    return mutants.matching(SHORT)[0]


def test_a_mutant_is_caught_by_the_check_that_it_names(engine: Engine, mutant: Mutant) -> None:
    outcome = mutants.play_one(mutant, engine)
    assert (outcome.result, outcome.why) == ("caught", "")
    assert mutant.check in outcome.seen["plain/none"]
    assert outcome.seconds > 0


def test_one_that_another_check_catches_is_not_as_expected(engine: Engine, mutant: Mutant) -> None:
    outcome = mutants.play_one(replace(mutant, check="no-duplicate-write"), engine)
    assert outcome.result == "caught otherwise"
    assert outcome.why == "by run-intent-complete instead of no-duplicate-write"


def test_one_that_nothing_catches_survives(engine: Engine) -> None:
    stale = mutants.matching("stale-version-accepted")[0]
    outcome = mutants.play_one(replace(stale, cells=("plain/none",)), engine)
    assert outcome.result == "survived"
    assert "plain/none" in outcome.why


def test_one_whose_place_is_gone_no_longer_applies(engine: Engine, mutant: Mutant) -> None:
    outcome = mutants.play_one(replace(mutant, name="gone-long-ago"), engine)
    assert outcome.result == "no longer applies"
    assert "gone-long-ago" in outcome.why


def test_an_unknown_pattern_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(ValueError, match=SHORT):
        mutants.matching("run-intent-incomplet")


@pytest.mark.parametrize("result", ["survived", "caught otherwise", "no longer applies", "not played"])
def test_the_command_fails_on_anything_but_all_caught(result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "outcomes", lambda chosen, jobs: iter([Outcome(m, result, {}, "why") for m in chosen]))
    said = io.StringIO()
    assert mutants.play(SHORT, 1, Console(file=said, width=200)) == 1
    assert f"{result}: {SHORT}: why" in said.getvalue()
    assert f"0 of 1 mutants caught as expected, 1 {result}, in 0 s" in said.getvalue()


def test_the_command_ends_with_a_summary_and_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "outcomes", lambda chosen, jobs: iter([Outcome(m, "caught") for m in chosen]))
    said = io.StringIO()
    assert mutants.play(SHORT, 1, Console(file=said, width=200)) == 0
    assert "1 of 1 mutants caught as expected, in 0 s" in said.getvalue()


def test_each_clause_knows_the_mutants_behind_it() -> None:
    found = mutants.by_clause()
    assert SHORT in found["INT-1"]
    assert set(found["USE-3"]) == {m.name for m in mutants.listed() if "USE-3" in m.clauses}
