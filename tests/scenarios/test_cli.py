"""What a user does wrong is said in one line, with status 2 and what would be right; nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scenarios import cli
from scenarios.cli import COMMANDS, main

WRONG: dict[str, tuple[list[str], str]] = {
    "no command": ([], "no command given; there are: run, replay"),
    "unknown command": (["rnu"], "No such command 'rnu'"),
    "unknown option": (["run", "--scenaro", "x"], "--scenaro"),
    "unknown target": (["run", "--target", "referense"], "unknown target 'referense'; nearest: reference"),
    "target that is no module": (["run", "--target", "no.such:T"], "target 'no.such:T' cannot be loaded"),
    "target that is none": (["run", "--target", "os:sep"], "target 'os:sep' is a str"),
    "unknown scenario": (["run", "--scenario", "mial"], "unknown scenario 'mial'; nearest: mail"),
    "unknown point": (["run", "--point", "turn.begn"], "unknown breakpoint 'turn.begn'; nearest: turn.begun"),
    "unknown fault": (["run", "--fault", "worker-kiled"], "unknown fault 'worker-kiled'; nearest: worker-killed"),
    "unclaimed policy": (["run", "--policy", "settle"], "does not claim the policy 'settle'"),
    "too many processes": (["run", "-n", "65"], "less than or equal to 64"),
    "no baseline": (["run", "--baseline", "nowhere.json"], "nowhere.json: cannot be read"),
    "no case": (["replay", "nowhere.json"], "nowhere.json: cannot be read"),
    "no times": (["replay", "nowhere.json", "--times", "0"], "greater than or equal to 1"),
    "no run": (["report", "."], "holds no run; give a folder that `killpoint run` wrote"),
    "no report": (["diff", ".", "."], "report.json: cannot be read"),
    "unknown catalogue": (["show", "pionts"], "no catalogue 'pionts'; nearest: points"),
    "unknown mutant": (["mutants", "--only", "nothing-such"], "unknown mutant 'nothing-such'"),
    "unknown target of the doctor": (["doctor", "--target", "niave"], "unknown target 'niave'; nearest: naive"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_in_one_line_and_nothing_is_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, says = WRONG[name]
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("killpoint: ") and captured.err.count("\n") == 1
    assert says in captured.err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_other_things_is_refused_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = tmp_path / "cells" / "thesis.txt"
    theirs.parent.mkdir()
    theirs.write_text("all my work")
    (tmp_path / "report.json").write_text("not ours")
    assert main(["run", "--scenario", "plain", "--fault", "none", "--out", str(tmp_path)]) == 2
    assert "holds other things" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells", "report.json"]
    assert theirs.read_text() == "all my work" and (tmp_path / "report.json").read_text() == "not ours"


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out"
    path.write_text("a file")
    assert main(["run", "--scenario", "plain", "--fault", "none", "--out", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert path.read_text() == "a file"


def test_a_report_of_another_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "report.json"
    other.write_text(json.dumps({"schema": "killpoint.report/9"}))
    assert main(["diff", str(other), str(other)]) == 2
    assert "is of version 'killpoint.report/9', this harness reads" in capsys.readouterr().err


def test_each_command_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert "...\n" not in told.partition("Options:")[2]
    for command in COMMANDS:
        assert f"  {command} " in told
        assert main([command, "--help"]) == 0
        assert f"Usage: killpoint {command}" in capsys.readouterr().out


def test_a_fault_of_the_harness_is_no_violation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise KeyError("a bug of ours")

    monkeypatch.setattr(cli.catalogues, "rows", fails)
    assert main(["show", "points"]) == 4
    assert capsys.readouterr().err.splitlines()[-1] == "killpoint: fault of the harness: KeyError: 'a bug of ours'"
