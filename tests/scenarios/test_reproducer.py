"""A reproducer in one file: what it says on a defect, on the sound target and when something is missing; what is in it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.model import Violation, Witness
from scenarios import matrix, reproducer
from scenarios.case import Case
from scenarios.checks import CHECKS
from scenarios.clients import StdioClient
from scenarios.history import History, read_lines
from scenarios.judge import judge
from scenarios.mutants import matching
from scenarios.showing import Show
from scenarios.target import Places, Target
from scenarios.targets import TARGETS
from tests.scenarios.runs import ROOT, Running
from tests.scenarios.test_interrupted import ENDS, case_folders

MAIL = "mail/effect.applied#1/worker-killed"
VERSIONS = {"killpoint": "0.1.0", "target": "naive unknown", "python": "3.11.7", "system": "Plan 9"}
RUN_S_MAX = 110
# One of each area: effects, usage, history, events, ownership, acceptance, intent.
MUTANTS = (
    "unknown-write-sent-again",
    "streamed-usage-summed",
    "orphan-results-sent",
    "events-renumbered",
    "generation-not-checked",
    "resend-accepted-twice",
    "pause-kept-in-memory",
)


def violation(check: str = "no-duplicate-write", seen: str = "it was applied 2 times") -> Violation:
    """What a check would have said."""
    found = CHECKS[check]
    witnesses = {"expected": Witness(says="one write"), "seen": Witness(says=seen)}
    return Violation(check=check, clauses=list(found.clauses), promise=found.promise, **witnesses)


def written(
    folder: Path,
    cell: str = MAIL,
    target: Target = TARGETS["naive"],
    check: str = "no-duplicate-write",
    environment: Mapping[str, str] | None = None,
) -> Path:
    """The reproducer of a cell, as a file."""
    file = folder / "reproduce.py"
    case = matrix.single(target, cell)
    file.write_text(reproducer.write(case, target, [violation(check)], VERSIONS, environment))
    return file


def played(file: Path, *arguments: str, tree: bool = True) -> subprocess.CompletedProcess[str]:
    """Run it in a Python without any package, in an environment that holds nothing but where the tested source tree is."""
    environment = {"PATH": "/usr/bin:/bin"} | ({"PYTHONPATH": str(ROOT)} if tree else {})
    command = [sys.executable, "-I", "-S", str(file), *arguments]
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)


@pytest.fixture(scope="module")
def naive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reproducer of a mail that the naive script sends twice."""
    return written(tmp_path_factory.mktemp("naive"))


# What it says --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MUTANTS)
def test_a_defect_is_reproduced_and_is_not_without_it(tmp_path: Path, name: str) -> None:
    (mutant,) = matching(name)
    file = written(tmp_path, mutant.cells[0], TARGETS["reference"], mutant.check, {"REFERENCE_MUTANT": name})
    done = played(file)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "reproduced 1 of 1"), done.stdout + done.stderr
    assert done.stdout.count("changed since it was recorded") == 1, "the system, which was made up"
    assert f"\n  {mutant.check} (" in done.stdout and "\n    seen:     " in done.stdout
    sound = played(file, "--set", "REFERENCE_MUTANT=")
    assert (sound.returncode, sound.stdout.splitlines()[-1]) == (0, "no longer reproduced 1 of 1"), sound.stdout


def test_it_is_played_so_many_times_and_its_histories_are_kept(naive: Path, tmp_path: Path) -> None:
    done = played(naive, "--times", "3", "--keep", str(tmp_path / "kept"))
    assert done.returncode == 1, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("changed since it was recorded: system was Plan 9, is Linux ")
    assert sum("changed since" in line for line in said) == 1
    assert [line for line in said if " of 3: " in line] == [f"{n} of 3: reproduced" for n in (1, 2, 3)]
    assert said[-1] == "reproduced 3 of 3" and sum("no-duplicate-write" in line for line in said) == 1
    assert sorted(each.name for each in (tmp_path / "kept").iterdir()) == [f"history-{n}.jsonl" for n in (1, 2, 3)]
    recorded = runpy.run_path(str(naive))["RECORDED"]["case"]
    for each in (tmp_path / "kept").iterdir():
        cell = judge(Case.model_validate(recorded), History.join(read_lines(each)), TARGETS["naive"].claims, {})
        assert "no-duplicate-write" in {found.check for found in cell.violations}


@pytest.mark.parametrize("cold", [False, True])
def test_processes_are_forked_as_in_the_harness_or_started_cold_when_asked(tmp_path: Path, cold: bool) -> None:
    environment = {"REFERENCE_MUTANT": "recovery-asks-for-resume"}
    cell = "plain/turn.begun#1/worker-killed"
    file = written(tmp_path, cell, TARGETS["reference"], "goes-on-by-itself", environment)
    done = played(file, "--keep", str(tmp_path / "kept"), *(["--cold"] if cold else []))
    assert done.returncode == 1, done.stdout + done.stderr
    started = [line for line in read_lines(tmp_path / "kept" / "history-1.jsonl") if line["kind"] == "process.started"]
    assert [line["data"]["cold"] for line in started] == [cold] * 3


def test_a_violation_of_another_promise_is_another_one(tmp_path: Path) -> None:
    done = played(written(tmp_path, check="events-only-grow"))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, "another violation 1 of 1"), done.stdout + done.stderr
    assert "  recorded was events-only-grow\n" in done.stdout and "no-duplicate-write" in done.stdout


def test_a_case_that_never_comes_to_its_point_is_not_judged(tmp_path: Path) -> None:
    target = TARGETS["naive"]
    case = matrix.single(target, MAIL)
    later = [fault.model_copy(update={"at": fault.at.model_copy(update={"ordinal": 9})}) for fault in case.plan]
    file = tmp_path / "reproduce.py"
    elsewhere = case.model_copy(update={"plan": tuple(later)})
    file.write_text(reproducer.write(elsewhere, target, [violation()], VERSIONS))
    done = played(file)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, "not judged 1 of 1"), done.stdout + done.stderr
    assert "inconclusive: not reached: effect.applied#9" in done.stdout


def test_another_program_can_be_put_in_place_of_the_target(naive: Path) -> None:
    command = f"{sys.executable} {ROOT}/scenarios/targets/idle.py --db {{store}}/agent.db"
    done = played(naive, "--command", command)
    assert done.returncode == 3 and "  done-means-done (" in done.stdout, done.stdout + done.stderr
    assert "  no-duplicate-write (" not in done.stdout
    assert "changed since it was recorded: sources of the target was " in done.stdout


BARE = str(Path(sys.executable).resolve())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--times", "0"], "--times 0: give a number from 1 on"),
        (["--times", "many"], "argument --times: invalid int value: 'many'; see --help"),
        (["--set", "A"], "--set 'A': give NAME=VALUE, or NAME= to remove the variable"),
        (["--fast"], "unrecognized arguments: --fast; see --help"),
        (["--keep", "/usr"], "--keep /usr: is there and not an empty folder; give a new one"),
        (["--python", "/no/python"], "/no/python: is not there or cannot be run; name the target's with --python PATH"),
        (["--command", "no-such-program"], "no-such-program: is not there or cannot be run; name the target's with"),
        (["--command", f"{BARE} /no/agent.py"], "/no/agent.py: is not there; name the target's own with --command LINE"),
        (
            ["--command", f"{BARE} -m no_such"],
            f"{BARE}: has no module 'no_such'; name the Python that has it with --python",
        ),
        (["--command", ""], "the command: is not there or cannot be run"),
    ],
)
def test_a_wrong_call_and_what_is_missing_is_said_in_one_line(naive: Path, arguments: list[str], line: str) -> None:
    done = played(naive, *arguments)
    assert done.returncode == 2 and done.stdout == "", done.stdout + done.stderr
    assert done.stderr.startswith(f"reproduce.py: {line}") and done.stderr.count("\n") == 1


def test_the_reference_is_missed_by_its_module_and_its_roles_are_told_apart(tmp_path: Path) -> None:
    file = written(tmp_path, "plain/none", TARGETS["reference"])
    done = played(file, "--python", BARE, tree=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"reproduce.py: {BARE}: has no module 'reference'; name the Python that has it")
    done = played(file, "--command", "true")
    assert done.returncode == 2 and "say for which role, as ROLE=LINE; there are: app, worker" in done.stderr
    done = played(file, "--command", "app=true", "--command", "worker=true", "--python", BARE)
    assert done.returncode == 2 and "--python: this target is not started by a Python" in done.stderr


def test_its_help_says_what_stands_at_its_top(naive: Path) -> None:
    done = played(naive, "--help")
    assert done.returncode == 0 and "WHAT HAS TO BE THERE" in done.stdout and "--times N" in done.stdout


# What it leaves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ENDS)
def test_nothing_survives_it_when_it_is_ended_in_its_middle(naive: Path, tmp_path: Path, how: str) -> None:
    (tmp_path / "tmp").mkdir()
    command = ["env", f"TMPDIR={tmp_path / 'tmp'}", sys.executable, "-I", "-S", str(naive), "--times", "100000"]
    running = Running(cwd=tmp_path, command=command)
    folders: set[Path] = set()

    def in_a_case() -> bool:
        folders.update(case_folders(running.family()))
        return bool(folders)

    try:
        running.until(in_a_case)
        before = running.family()
        ENDS[how][0](running)
        status, said = running.end(before)
    finally:
        running.process.kill()
    assert status == {"Ctrl-C": 130, "SIGKILL": -9}[how], said
    assert running.family() == set() and "Traceback" not in said
    assert list((tmp_path / "tmp").iterdir()) == [] and not any(folder.exists() for folder in folders)


# What is in it -------------------------------------------------------------------------------------------------------


def test_it_carries_the_modules_of_the_harness_as_they_stand(naive: Path) -> None:
    files: dict[str, str] = runpy.run_path(str(naive))["FILES"]
    for package, path in reproducer.STAND_INS.items():
        assert files.pop(package) == (ROOT / path).read_text()
    assert {path: (ROOT / path).read_text() for path in files} == files
    assert {"faults/keeper.py", "scenarios/contract.md", "scenarios/judge.py", "scenarios/targets/naive.py"} <= files.keys()
    ours = {"faults", "scenarios", "reports", *(name.removesuffix(".py") for name in reproducer.STAND_INS)}
    taken = {
        name.partition(".")[0] for path, text in files.items() if path.endswith(".py") for name in reproducer.imported(text)
    }
    assert taken - ours <= sys.stdlib_module_names and ours <= taken


def test_its_top_says_what_was_broken_and_what_is_played(naive: Path) -> None:
    top = str(runpy.run_path(str(naive))["__doc__"])
    for part in (
        "naive: no write is applied in the world more often than it was asked for\n",
        "seen:     it was applied 2 times",
        "asked 'please mail', it calls mail with",
        "2. send “please mail” to s1 as r1",
        "When effect.applied is reached for the 1st time (",
        "1. kill the worker (SIGKILL)",
        f"where {{python}} is {sys.executable}; another one with --python PATH.",
        "system: Plan 9",
    ):
        assert part in top
    assert max(map(len, top.splitlines())) <= 124


def test_words_that_could_break_out_of_its_top_do_not(tmp_path: Path) -> None:
    seen = 'it says """ and \\ and \\""" and \x00 and Bearer abcdefgh123'
    file = tmp_path / "reproduce.py"
    case = matrix.single(TARGETS["naive"], MAIL)
    file.write_text(reproducer.write(case, TARGETS["naive"], [violation(seen=seen)], VERSIONS))
    found = runpy.run_path(str(file))
    assert 'it says """ and \\ and \\""" and \ufffd and [hidden]' in " ".join(found["__doc__"].split())
    assert "abcdefgh123" not in file.read_text()


def test_it_holds_no_secret_and_no_path_of_this_machine_but_the_python(tmp_path: Path) -> None:
    def environment(places: Places) -> dict[str, str]:
        return {"PROVIDER_URL": places.provider_url, "AGENT_API_KEY": "sk-live-0123456789", "PYTHONPATH": str(ROOT)}

    target = replace(TARGETS["reference"], environment=environment)
    text = reproducer.write(
        matrix.single(target, "plain/none"), target, [violation()], VERSIONS, {"ADMIN_TOKEN": "t-0123456789"}
    )
    assert "0123456789" not in text
    elsewhere = text.replace(sys.executable, "")
    assert str(ROOT) not in elsewhere
    assert f"{Path.home()}/" not in elsewhere
    (tmp_path / "reproduce.py").write_text(text)
    found = runpy.run_path(str(tmp_path / "reproduce.py"))
    assert found["RECORDED"]["target"]["environment"]["app"] == {
        "PROVIDER_URL": "{provider_url}",
        "AGENT_API_KEY": "scripted",
        "PYTHONPATH": "{harness}",
    }
    assert "faults/probe.py" in found["FILES"]


def _elsewhere(places: Places) -> dict[str, str]:
    return {"AGENT_HOME": str(ROOT / "docs"), "AGENT_FILE": str(Path(__file__))}


class _OwnClient(StdioClient):
    """A client that one file cannot carry."""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"client": lambda stage: _OwnClient(stage, None)}, "its client is code of its own"),
        ({"client": lambda stage: StdioClient(stage, lambda *_: None)}, "its client is code of its own"),
        ({"client": lambda stage: stage.history.path}, "its client is code of its own"),
        (
            {"command": lambda places: [(places.store / "agent").read_text()]},
            "its command is not plain data (FileNotFoundError",
        ),
        (
            {"command": lambda places: ["agent", "--seed", str(hash(places.folder))]},
            "its command is not the same each time",
        ),
        ({"environment": lambda _: {"AGENT_HOME": str(Path(sys.executable).parent)}}, "its variable AGENT_HOME names "),
    ],
)
def test_a_target_that_is_not_plain_data_is_refused_in_one_line(
    change: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproducer, "_OF_EVERY_SYSTEM", ("/dev",))  # these tests may themselves stand under /tmp
    target = replace(TARGETS["naive"], name="theirs", **change)
    with pytest.raises(ValueError, match=r"^target theirs: ") as refused:
        reproducer.write(matrix.single(TARGETS["naive"], MAIL), target, [violation()], VERSIONS)
    assert why in str(refused.value) and "\n" not in str(refused.value)


def test_an_environment_inside_the_source_tree_is_the_python_of_the_target(tmp_path: Path) -> None:
    python = f"{ROOT}/.venv/bin/python"
    target = replace(TARGETS["naive"], python=python, command=lambda _: [python, f"{ROOT}/scenarios/targets/naive.py"])
    target = replace(target, client=lambda stage: StdioClient(stage, Show(target.command, target.environment)))
    (tmp_path / "reproduce.py").write_text(reproducer.write(matrix.single(target, MAIL), target, [violation()], VERSIONS))
    recorded = runpy.run_path(str(tmp_path / "reproduce.py"))["RECORDED"]["target"]
    assert recorded["python"] == python
    assert recorded["commands"] == {"worker": ["{python}", "{harness}/scenarios/targets/naive.py"]}


def test_without_a_violation_there_is_nothing_to_reproduce() -> None:
    with pytest.raises(ValueError, match="nothing was violated"):
        reproducer.write(matrix.single(TARGETS["naive"], MAIL), TARGETS["naive"], [], VERSIONS)
