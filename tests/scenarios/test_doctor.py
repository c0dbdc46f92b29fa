"""The doctor says what can be judged by trying it; a mutant that is caught is caught by the check that was named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from scenarios import doctor, mutants
from scenarios.cli import main
from scenarios.engine import Engine
from scenarios.mutants import Mutant, play_one
from scenarios.targets import TARGETS, UnknownTarget, in_file
from scenarios.targets import target as target_named
from tests.scenarios.conftest import Engines


def test_it_says_that_the_reference_can_be_judged_here_and_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "ok       target reference: held; `plain/none` was played in " in said
    assert "61 claimed\n" in said and "no check speaks for" not in said
    assert "not judged  durability against a power cut" in said and "not judged  a real reboot" in said
    assert "missing" not in said


def test_it_says_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    naive = TARGETS["naive"]
    monkeypatch.setitem(TARGETS, "naive", replace(naive, claims=(*naive.claims, "SET-1")))
    monkeypatch.setattr(doctor, "MEMORY_MB_MIN", 10**9)
    assert main(["doctor", "--target", "naive"]) == 3
    said = capsys.readouterr().out
    assert "missing  clauses: 15 claimed; no check speaks for: SET-1" in said
    assert "missing  memory: " in said


@pytest.fixture
def engine(engines: Engines) -> Iterator[Engine]:
    engine = engines("reference")
    sound = engine.environment
    yield engine
    engine.environment = sound


def test_what_becomes_of_a_mutant_is_told_apart(engine: Engine) -> None:
    (real,) = mutants.matching("unknown-write-sent-again")
    assert real.check == "no-duplicate-write"
    assert play_one(real, engine).result == "caught"
    gone = Mutant("no-such-mutant", "nothing", real.check, real.clauses, real.cells)
    outcome = play_one(gone, engine)
    assert outcome.result == "no longer applies" and "no-such-mutant" in outcome.why
    other = replace(real, check="inputs-in-first-order")
    assert play_one(other, engine).result == "caught otherwise"
    harmless = replace(real, cells=("plain/none",))
    assert play_one(harmless, engine).result == "survived"


def test_a_case_file_names_a_target_of_the_list_and_nothing_is_imported_for_it() -> None:
    assert in_file("reference") is TARGETS["reference"]
    assert target_named("scenarios.targets.stdio:NAIVE") is TARGETS["naive"]
    with pytest.raises(UnknownTarget, match="unknown target 'scenarios"):
        in_file("scenarios.targets.stdio:NAIVE")
