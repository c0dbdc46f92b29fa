"""Every seeded defect says what is expected of it, in words that exist, and can be put into a process."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reference import fresh, mutants, schema
from scenarios import matrix
from scenarios.checks import CHECKS
from scenarios.contract import expand
from scenarios.targets import TARGETS
from scenarios.targets.runtime import CLAIMS

ROOT = Path(__file__).parents[2]
RUN_S_MAX = 120
NAMES = mutants.names()
CELLS_MAX = 2
# Said by reports about themselves; nothing that a runtime does can break it.
OF_THE_REPORT = {"ENV-3"}

APPLY_ALL = """
import json, os, sys
from reference import mutants
said = {}
for name in mutants.names():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            mutants.apply(name)
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        said[name] = pipe.read()
print(json.dumps(said))
"""


def run(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )


def module(name: str) -> Any:
    return importlib.import_module(f"reference.mutants.{name.replace('-', '_')}")


def test_there_are_enough_of_them() -> None:
    assert len(NAMES) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_names_a_real_check_and_clauses_for_which_that_check_speaks(name: str) -> None:
    mutant = module(name)
    assert mutant.CHANGES and not mutant.CHANGES.endswith(".")
    assert mutant.__doc__.startswith("Owns one seeded defect: ")
    assert mutant.CHECK in CHECKS
    assert mutant.CLAUSES and set(mutant.CLAUSES) <= set(CHECKS[mutant.CHECK].clauses)
    assert expand(" ".join(mutant.CLAUSES))
    assert set(mutant.CLAUSES) <= set(CLAIMS)


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_names_cells_that_can_be_played(name: str) -> None:
    cells = module(name).CELLS
    assert 1 <= len(cells) <= CELLS_MAX
    for cell in cells:
        assert matrix.single(TARGETS["reference"], cell).id == cell


def test_behind_every_check_and_every_claimed_clause_stands_a_mutant() -> None:
    listed = mutants.listed()
    assert set(CHECKS) - {each["check"] for each in listed} == set()
    assert set(CLAIMS) - {clause for each in listed for clause in each["clauses"]} == OF_THE_REPORT


def test_each_can_be_put_into_a_process_of_its_own() -> None:
    ran = run("-c", APPLY_ALL)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == dict.fromkeys(NAMES, "")


def test_the_list_is_told_by_the_command_line() -> None:
    ran = run("-m", "reference", "mutants", "--json")
    assert [row["name"] for row in json.loads(ran.stdout)] == NAMES


def test_an_unknown_mutant_ends_the_process_with_one_line() -> None:
    ran = run("-m", "reference", "worker", "--data", "/nowhere", REFERENCE_MUTANT="no-such-thing")
    assert ran.returncode != 0
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1
    assert "no-such-thing" in ran.stderr and "does not apply" in ran.stderr


# The tools of those who write one ------------------------------------------------------------------------------------


def statement() -> str:
    return "SELECT a FROM b"


def with_inner() -> str:
    def inner() -> str:
        return "WHERE c = ?"

    return inner()


def test_swap_replaces_what_is_there_and_nothing_else() -> None:
    owner = SimpleNamespace(one=1)
    mutants.swap(owner, "one", lambda found: found + 1)
    assert owner.one == 2
    with pytest.raises(mutants.DoesNotApply, match="does not apply"):
        mutants.swap(owner, "two", lambda found: found)


def test_reword_changes_the_text_of_constants_and_functions() -> None:
    owner = SimpleNamespace(TEXT="ORDER BY place", statement=statement, with_inner=with_inner)
    codes = statement.__code__, with_inner.__code__
    try:
        mutants.reword(owner, "TEXT", "place", "place DESC")
        mutants.reword(owner, "statement", "FROM b", "FROM c")
        mutants.reword(owner, "with_inner", "c = ?", "1")
        assert (owner.TEXT, statement(), with_inner()) == ("ORDER BY place DESC", "SELECT a FROM c", "WHERE 1")
    finally:
        statement.__code__, with_inner.__code__ = codes


@pytest.mark.parametrize("name", ["TEXT", "statement", "gone"])
def test_reword_says_so_when_the_text_is_gone(name: str) -> None:
    owner = SimpleNamespace(TEXT="ORDER BY place", statement=statement)
    with pytest.raises(mutants.DoesNotApply, match="does not apply"):
        mutants.reword(owner, name, "no such text", "")


def test_a_uniqueness_is_taken_out_of_new_stores_only_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "creation", schema.creation)  # put back what is swapped here
    monkeypatch.setattr(fresh, "_images", fresh._images)
    before = "".join(schema.creation("work"))
    mutants.without_unique("turns", "predecessor")
    after = "".join(schema.creation("work"))
    assert before.count("UNIQUE (") == after.count("UNIQUE (") + 1
    assert b"UNIQUE (predecessor)" not in fresh.image("work")
    assert "UNIQUE (predecessor)" in before and "UNIQUE (predecessor)" not in after
    with pytest.raises(mutants.DoesNotApply, match="does not apply"):
        mutants.without_unique("turns", "predecessor")
