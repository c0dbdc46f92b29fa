"""Owns what the tests of the whole line share: one world, one engine for each target, and cases of the matrix by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from scenarios.engine import Engine
from scenarios.target import Target
from scenarios.targets import target as target_named
from scenarios.world.handle import World

Engines = Callable[[str | Target], Engine]


@pytest.fixture(scope="session")
def shared_world() -> Iterator[World]:
    with World.start() as started:
        yield started


@pytest.fixture(scope="session")
def engines(shared_world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """The engine of a target, begun when it is first asked for: a fork server is dear, and cases share nothing else."""
    begun: dict[str, Engine] = {}
    with ExitStack() as stack:

        def engine(target: str | Target) -> Engine:
            chosen = target_named(target) if isinstance(target, str) else target
            if chosen.name not in begun:
                folder = tmp_path_factory.mktemp(chosen.name)
                begun[chosen.name] = stack.enter_context(Engine(chosen, folder, shared_world))
            return begun[chosen.name]

        yield engine
