"""Owns what the tests of faults/ share: a keeper, a case folder, and how the programs of these tests are started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from faults.processes import Keeper, Process
from faults.stores import CaseFolder

ROOT = Path(__file__).parents[2]
WAIT_S_MAX = 20.0


def environment(**more: str) -> dict[str, str]:
    """A small complete environment in which this project can be imported."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **more}


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    with Keeper(preload="tests.faults.programs:warm", env=environment(KEEPER_MARK="1")) as keeper:
        yield keeper


@pytest.fixture
def folder() -> Iterator[CaseFolder]:
    with CaseFolder() as folder:
        yield folder


Start = Callable[..., Process]


@pytest.fixture
def start(keeper: Keeper, folder: CaseFolder) -> Iterator[Start]:
    """Start one of the programs by name: `start("rests", "an argument", label=..., cold=...)`."""
    lives = count(1)

    def begin(program: str, *arguments: str, label: str | None = None, cold: bool = False, **env: str) -> Process:
        label = label or f"worker.{next(lives)}"
        return keeper.start(
            label,
            [sys.executable, "-m", "tests.faults.programs", program, *arguments],
            environment(**env),
            folder.workspace,
            folder.logs / f"{label}.log",
            entry=f"tests.faults.programs:{program}",
            cold=cold,
            arguments=arguments,
        )

    yield begin
    keeper.sweep()
