"""Every case that people have met is held on the reference, and shows on its defect by the check that is named for it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference import mutants
from scenarios import matrix, track_record
from scenarios.checks import CHECKS
from scenarios.cli import main
from scenarios.engine import Engine
from scenarios.mutants import SETTLE_S_MAX, VARIABLE
from scenarios.targets import TARGETS
from scenarios.track_record import MET, NAIVE, Met, Shown, UnknownCase
from scenarios.world.handle import World
from tests.scenarios.conftest import Engines
from tests.scenarios.runs import killpoint

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PLAYED = [each for each in MET if not each.waits_for]
SHOWN = [pytest.param(each, shown, id=f"{each.id}-{shown.by}") for each in PLAYED for shown in each.shown]


@pytest.fixture(scope="module")
def mutated(shared_world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine of the reference of its own, whose processes get a defect."""
    with Engine(TARGETS["reference"], tmp_path_factory.mktemp("mutated"), shared_world) as engine:
        yield engine


@pytest.mark.parametrize("met", PLAYED, ids=lambda met: met.id)
def test_the_reference_does_what_is_right_and_the_checks_that_are_named_have_looked(engines: Engines, met: Met) -> None:
    examined: set[str] = set()
    for cell in met.cells:
        judged = engines("reference").play(matrix.single(TARGETS["reference"], cell))
        assert (judged.cell.status, judged.cell.why) == ("held", None), cell
        examined |= {result.check for result in judged.cell.checks if result.examined}
    assert set(met.checks) <= examined


@pytest.mark.parametrize(("met", "shown"), SHOWN)
def test_its_defect_is_caught_by_the_check_that_is_named(engines: Engines, mutated: Engine, met: Met, shown: Shown) -> None:
    target = NAIVE if shown.by == NAIVE else "reference"
    (case,) = (each for each in track_record.cases(TARGETS[target], met.id) if each.id == shown.cell)
    if shown.by == NAIVE:
        judged = engines(NAIVE).play(case)
    else:
        mutated.environment = {VARIABLE: shown.by}
        judged = mutated.play(case.model_copy(update={"settle_s_max": SETTLE_S_MAX}))
    assert judged.cell.status == "violated", judged.cell.why
    assert shown.check in {violation.check for violation in judged.cell.violations}


def test_all_of_them_are_there_once_in_their_order() -> None:
    assert [each.id for each in MET] == [f"C{number:02}" for number in range(1, 37)]
    assert len({each.source for each in MET}) == len(MET)


@pytest.mark.parametrize("met", MET, ids=lambda met: met.id)
def test_a_case_is_played_or_says_what_it_waits_for(met: Met) -> None:
    assert met.symptom and met.source and met.right
    played = (met.cells, met.checks, met.shown)
    assert all(played) if not met.waits_for else not any(played) and not met.part
    assert set(met.checks) <= set(CHECKS)
    for shown in met.shown:
        assert shown.cell in met.cells and shown.check in met.checks
        assert shown.by == NAIVE or shown.by in mutants.names()
    assert met.state == (f"waits for {met.waits_for}" if met.waits_for else met.state)


def test_the_readme_has_the_table_as_it_is_made() -> None:
    found = README.read_text().partition("<!-- track record -->\n")[2].partition("<!-- end -->")[0]
    assert found == track_record.table(), "write it anew: python -m scenarios.track_record"


def test_the_catalogue_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "cases", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [each.id for each in MET]
    assert {row["command"] for row in rows if row["command"]} == {each.command for each in PLAYED}


@pytest.mark.parametrize("name", ["C05", "C06"])
def test_the_command_of_the_table_works_word_for_word(tmp_path: Path, name: str) -> None:
    met = track_record.find(name)
    program, *words = shlex.split(met.command)
    ran = killpoint(*words, "-n", "1", cwd=tmp_path)
    assert (program, ran.returncode) == ("killpoint", 1), ran.stderr
    assert f"violated: {met.shown[0].cell}: " in ran.stdout
    report = json.loads((tmp_path / f"acceptance-{name}" / "report.json").read_text())
    violated = {cell["id"]: {v["check"] for v in cell["violations"]} for cell in report["cells"] if not cell["canary"]}
    assert met.shown[0].check in violated[met.shown[0].cell]
    assert report["verdict"] == "rejected"


def test_every_command_of_the_table_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str]] = []

    def run(target: object, spec: str, wanted: object, *rest: object) -> int:
        asked.append((spec, getattr(wanted, "case", ""), getattr(wanted, "mutant", "")))
        return 0

    monkeypatch.setattr("scenarios.progress.run", run)
    for met in PLAYED:
        assert main(shlex.split(met.command)[1:]) == 0
    wanted = [(each, *shown) for each, shown in ((m, (m.shown[0].by,)) for m in PLAYED)]
    assert asked == [(NAIVE, met.id, "") if by == NAIVE else ("reference", met.id, by) for met, by in wanted]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--case", "C12"], "C12 is not played yet: it waits for children"),
        (["--case", "C60"], "unknown case 'C60'; nearest: C"),
        (["--case", "C02", "--target", "naive"], "naive can play no cell of C02; it would need: met-drain/none"),
        (["--case", "C06", "--mutant", "no-bakoff"], "unknown mutant 'no-bakoff'; nearest: no-backoff"),
        (["--case", "C05", "--target", "naive", "--mutant", "no-backoff"], "target naive has no mutants"),
    ],
    ids=["waits", "unknown", "of another target", "unknown mutant", "mutant of another target"],
)
def test_what_cannot_be_played_is_said_in_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", *words]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_case_brings_the_fault_free_play_of_its_scenarios() -> None:
    ids = [case.id for case in track_record.cases(TARGETS["reference"], "C05")]
    assert ids == ["after-the-mail/none", *track_record.find("c05").cells]
    with pytest.raises(UnknownCase, match="nearest: C3"):
        track_record.find("C37")
