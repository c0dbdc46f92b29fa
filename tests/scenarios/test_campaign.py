"""A run from the command line to the folder that it leaves: exit status, report, judging again, replay, comparison."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.model import NO_SCRIPT, Cell, Script
from scenarios import campaign, matrix
from scenarios.campaign import CANARY_ID
from scenarios.cli import main
from scenarios.judge import broken_off
from scenarios.target import Places, Target
from scenarios.targets import target as target_named
from tests.reports import made_up
from tests.scenarios.runs import RUN_S_MAX, environment, killpoint

SELECTION = ("--scenario", "plain", "--point", "turn.*", "--fault", "worker-killed")
FAULT_FREE = "plain/none"  # was played to find out what can be broken; the others are compared with it
PLAYED = {
    FAULT_FREE,
    "plain/turn.begun#1/worker-killed",
    "plain/turn.committed#1/worker-killed",
    "plain/turn.begun#1/worker-killed/disarmed",
    CANARY_ID,
}
KEYS = {
    "id",
    "scenario",
    "point",
    "ordinal",
    "fault",
    "entrance",
    "status",
    "clauses",
    "reached",
    "kills",
    "violations",
} | {
    "seconds",
    "case",
}
Run = tuple[int, str, Path]


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A narrow run of the reference: its exit status, what it printed, its folder."""
    where = tmp_path_factory.mktemp("accepted")
    done = killpoint("run", *SELECTION, "-n", "1", "--out", "out", cwd=where)
    return done.returncode, done.stdout + done.stderr, where / "out"


@pytest.fixture(scope="module")
def rejected(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the naive target that sends a mail twice."""
    where = tmp_path_factory.mktemp("rejected")
    words = ("--target", "naive", "--scenario", "mail", "--point", "effect.applied", "--fault", "worker-killed", "-n", "1")
    done = killpoint("run", *words, "--out", "out", cwd=where)
    return done.returncode, done.stdout + done.stderr, where / "out"


def report_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def test_a_run_that_is_accepted_ends_with_status_0_and_says_so(accepted: Run) -> None:
    status, said, out = accepted
    assert status == 0, said
    assert said.splitlines()[-1] == f"accepted: {out / 'report.html'}"
    assert "\x1b" not in said and "Traceback" not in said


def test_its_report_has_the_keys_that_others_read(accepted: Run) -> None:
    report = report_of(accepted[2])
    assert report["schema"] == "killpoint.report/1" and report["verdict"] == "accepted"
    assert (report["target"], report["policy"], report["finished"]) == ("reference", "continue", True)
    assert {cell["id"] for cell in report["cells"]} == PLAYED
    assert set(report["totals"]) >= {"cells", "kills", "seconds", "cases_per_hour"}
    for cell in report["cells"]:
        assert set(cell) >= KEYS
        assert (accepted[2] / cell["case"]).is_file() and (accepted[2] / cell["page"]).is_file()
    killed = next(cell for cell in report["cells"] if cell["id"] == "plain/turn.begun#1/worker-killed")
    (kill,) = killed["kills"]
    assert {"pid", "signal", "status", "point", "nonce"} <= set(kill) and kill["signal"] == "SIGKILL"
    assert (killed["point"], killed["ordinal"], killed["reached"] >= 1) == ("turn.begun", 1, True)
    assert {"status", "cells", "mutants"} <= set(report["clauses"]["INT-2"])
    point = report["points"]["turn.begun"]
    assert (point["declared"], point["killed"], point["recovered"]) == (True, 1, 1) and point["reached"] >= 1


def test_its_report_says_what_it_does_not_show(accepted: Run) -> None:
    report = report_of(accepted[2])
    row = report["clauses"]["ENV-3"]
    assert (row["status"], row["cells"]) == ("held", 3) and row["mutants"] == ["held-without-a-cell"]
    told = " ".join(report["not_judged"])
    assert "The level of this evidence is: automated test" in told and report["level"] == "automated test"
    assert "real reboot" in told and "fsync" in told and "narrowed" in told


def test_the_other_files_are_there_and_well_formed(accepted: Run) -> None:
    out = accepted[2]
    suites = ET.parse(out / "junit.xml").getroot()
    names = {case.get("name") for case in suites.iter("testcase")}
    assert names > PLAYED and len(names) == len(PLAYED) + 1, "each cell, and the verdict of the run"
    assert (out / "report.md").read_text().startswith("## Accepted: reference")
    assert (out / "report.html").read_text().endswith("</html>\n")
    assert not list(out.rglob(".kp-*.tmp"))
    assert not list((out / "running").iterdir()) if (out / "running").exists() else True


def test_a_violation_gives_status_1_a_reproducer_and_the_draft_of_a_bug_report(rejected: Run) -> None:
    status, said, out = rejected
    assert status == 1, said
    assert "violated: mail/effect.applied#1/worker-killed: " in said and "killpoint replay" in said
    cell = next(each for each in report_of(out)["cells"] if each["id"] == "mail/effect.applied#1/worker-killed")
    repro = json.loads((out / cell["repro"]).read_text())
    assert repro["schema"] == "killpoint.repro/1"
    assert "no-duplicate-write" in {each["check"] for each in repro["expected_violations"]}
    draft = (out / cell["repro"]).with_suffix(".md").read_text()
    assert "no-duplicate-write" in draft or "EFF-3" in draft


def test_nothing_judged_is_status_3(tmp_path: Path) -> None:
    done = killpoint("run", "--target", "naive", "--scenario", "read", "-n", "1", "--out", "out", cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    report = report_of(tmp_path / "out")
    assert report["verdict"] == "incomplete" and report["cells"] == []
    assert any("nothing judged is never a pass" in reason for reason in report["why"])


def test_a_second_run_replaces_the_first_and_is_no_pass_where_nothing_reaches_its_point(
    accepted: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(accepted[2], out)
    done = killpoint("run", "--scenario", "plain", "--point", "recovery.*", "-n", "1", "--out", str(out), cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    assert report_of(out)["verdict"] == "incomplete" and report_of(out)["cells"] == []
    assert not list((out / "cells").iterdir()) and not list((out / "cases").iterdir())


def test_pytest_runs_the_same_cells_as_tests(tmp_path: Path, accepted: Run) -> None:
    options = [f"--killpoint-{name[2:]}" if name.startswith("--") else name for name in SELECTION]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--killpoint", *options, "-n", "2", "-v", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(PLAYED) - 1} passed" in done.stdout
    report = report_of(tmp_path / "acceptance")
    assert {cell["id"]: cell["status"] for cell in report["cells"]} == {
        cell["id"]: cell["status"] for cell in report_of(accepted[2])["cells"]
    }


# Judging again -------------------------------------------------------------------------------------------------------


def test_a_run_that_was_left_alone_is_judged_equal(
    accepted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(accepted[2], out)
    before = report_of(out)
    assert main(["report", str(out)]) == 0
    assert "altered" not in capsys.readouterr().out
    assert report_of(out) == before


def flip(path: Path, old: bytes, new: bytes) -> None:
    """Edit one byte of a stored file, as text."""
    packed = path.suffix == ".gz"
    data = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    assert old in data and len(old) == len(new) and sum(a != b for a, b in zip(old, new, strict=True)) == 1
    data = data.replace(old, new, 1)
    path.write_bytes(gzip.compress(data) if packed else data)


NAME = "plain-turn.begun-1-worker-killed"
ALTERED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a token in the history": (
        "histories",
        lambda p: flip(p, b'"output_tokens":3', b'"output_tokens":4'),
        "its digest was",
    ),
    "a byte of the packed history": (
        "histories",
        lambda p: p.write_bytes(p.read_bytes()[:-8] + bytes([p.read_bytes()[-8] ^ 1]) + p.read_bytes()[-7:]),
        "its stored history cannot be read",
    ),
    "a history that is gone": ("histories", Path.unlink, "its stored history cannot be read"),
    "the seed of the case": ("cases", lambda p: flip(p, b'"seed": 0', b'"seed": 7'), "its digest was"),
    "the syntax of the case": ("cases", lambda p: flip(p, b'"seed": 0', b'"seed"; 0'), "its case file cannot be read"),
    "the count of the cell": ("cells", lambda p: flip(p, b'"fired":1', b'"fired":2'), "not the one that the report has"),
    "the syntax of the cell": ("cells", lambda p: flip(p, b'"status":', b'"statue":'), "its stored cell cannot be read"),
    "a cell that is gone": ("cells", Path.unlink, "its stored cell cannot be read"),
}


@pytest.mark.parametrize("what", ALTERED)
def test_evidence_that_was_altered_is_said_and_counts_no_more(
    accepted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(accepted[2], out)
    folder, alter, says = ALTERED[what]
    (path,) = (each for each in (out / folder).iterdir() if each.name.startswith(NAME) and _own(each.name))
    alter(path)
    assert main(["report", str(out)]) == 3
    first = capsys.readouterr().out
    assert main(["report", str(out)]) == 3
    again = capsys.readouterr().out
    assert all("\naltered: plain/turn.begun#1/worker-killed: " in f"\n{told}" for told in (first, again))
    report = report_of(out)
    assert report["verdict"] == "incomplete"
    cell = next(each for each in report["cells"] if each["id"] == "plain/turn.begun#1/worker-killed")
    assert cell["status"] == "void" and "its evidence was altered" in cell["why"]
    assert says in first
    others = [each for each in report["cells"] if each is not cell]
    assert {each["id"]: each["status"] for each in others} == {
        each["id"]: each["status"] for each in report_of(accepted[2])["cells"] if each["id"] != cell["id"]
    }


def _own(name: str) -> bool:
    return "disarmed" not in name and name.rpartition(".")[2] in ("json", "gz")


def test_a_verdict_that_was_painted_over_is_found(
    rejected: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(rejected[2], out)
    for path in (out / "cells").glob("mail-effect.applied*.json"):
        path.write_text(path.read_text().replace('"status":"violated"', '"status":"held"'))
    told = report_of(out)
    for cell in told["cells"]:
        cell.update(json.loads((out / "cells" / Path(cell["case"]).name).read_text()))
    (out / "report.json").write_text(json.dumps(told))  # whoever paints one over paints the other over as well
    assert main(["report", str(out)]) != 0
    assert "its stored verdict was held, its history says violated" in capsys.readouterr().out


def test_a_folder_of_a_stranger_imports_nothing(accepted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    shutil.copytree(accepted[2], out)
    plan = json.loads((out / "plan.json").read_text())
    (out / "plan.json").write_text(json.dumps({**plan, "target": "antigravity:TARGET"}))
    assert main(["report", str(out)]) == 2
    assert "give it with --target if you trust it" in capsys.readouterr().err
    assert "antigravity" not in sys.modules


# Comparing and replaying ---------------------------------------------------------------------------------------------


def test_two_runs_are_compared_and_a_worse_one_is_status_1(
    accepted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(accepted[2]), str(accepted[2])]) == 0
    assert "no cell and no clause changed its state" in capsys.readouterr().out
    worse = report_of(accepted[2])
    worse["verdict"] = "rejected"
    worse["cells"][0]["status"] = "violated"
    (tmp_path / "report.json").write_text(json.dumps(worse))
    assert main(["diff", str(accepted[2]), str(tmp_path)]) == 1
    assert worse["cells"][0]["id"] in capsys.readouterr().out


def test_a_case_played_five_times_gives_five_equal_verdicts(accepted: Run, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (each for each in (accepted[2] / "cases").iterdir() if each.name.startswith(NAME) and _own(each.name))
    assert main(["replay", str(path), "--times", "5"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == ["5 of 5: held", "plain/turn.begun#1/worker-killed on reference: 5 plays, equal verdicts"]


def test_a_reproducer_shows_the_same_violation_and_none_on_a_target_that_is_right(
    rejected: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (rejected[2] / "repro").glob("mail-*.json")
    assert main(["replay", str(path)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("1 of 1: violated by ") and ": the same as recorded" in said and "no-duplicate-write" in said
    assert "expected: " in said and "seen: " in said
    assert main(["replay", str(path), "--target", "reference"]) == 0
    said = capsys.readouterr().out
    assert "changed since it was recorded: target was naive" in said and "1 of 1: held: no longer reproduced" in said


def test_a_stored_case_that_fails_is_written_as_one_file_that_plays_it(
    rejected: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = (rejected[2] / "repro").glob("mail-*.json")
    script = tmp_path / "crash.py"
    replayed = ["replay", str(path), "--script", str(script)]
    assert main([*replayed, "--target", "reference"]) == 0
    assert "not written: " in capsys.readouterr().out and not script.exists()
    assert main(replayed) == 1
    assert f"python3 {script}" in capsys.readouterr().out.replace("\n", " ")
    played = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (played.returncode, played.stdout.splitlines()[-1]) == (1, "reproduced 1 of 1")
    before = script.read_bytes()
    assert main(replayed) == 2
    assert "is there already" in capsys.readouterr().err and script.read_bytes() == before


def test_a_failed_cell_has_a_file_that_plays_it_by_itself_and_its_page_and_report_name_it(
    rejected: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(rejected[2], out)
    (file,) = (out / "repro").glob("*.py")
    assert main(["report", str(out)]) == 1, "judging again keeps it"
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(file)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "reproduced 1 of 1"), done.stdout + done.stderr
    assert f'href="../repro/{file.name}"' in (out / "cells" / f"{file.stem}.html").read_text()
    assert f"python3 {file.name}" in file.with_suffix(".md").read_text()


def by_the_folder(places: Places) -> list[str]:
    return ["agent", "--port", str(len(str(places.folder)) + places.life)]


def test_a_run_writes_so_many_files_and_says_why_there_is_no_other(tmp_path: Path) -> None:
    (tmp_path / "repro").mkdir()
    naive = target_named("naive")
    case = matrix.single(naive, "mail/effect.applied#1/worker-killed")
    cell = broken_off(case, "").model_copy(update={"status": "violated", "violations": [made_up.violation()]})

    def script(cell: Cell = cell, target: Target = naive) -> Script:
        return campaign.script_of(tmp_path, case, cell, target, {}, {})

    assert (script().text or "").startswith("#!/usr/bin/env python3")
    assert script(cell.model_copy(update={"canary": True})) == NO_SCRIPT
    assert "its command is not the same each time" in (script(target=replace(naive, command=by_the_folder)).why_not or "")
    for number in range(campaign.SCRIPTS_MAX):
        (tmp_path / "repro" / f"{number}.py").touch()
    assert script() == Script(why_not="this run has 50 of them already")


def test_a_replay_with_a_mutant_that_is_none_is_refused(accepted: Run, capsys: pytest.CaptureFixture[str]) -> None:
    path = next((accepted[2] / "cases").iterdir())
    assert main(["replay", str(path), "--mutant", "no-such-mutant"]) == 2
    assert "unknown mutant 'no-such-mutant'" in capsys.readouterr().err
