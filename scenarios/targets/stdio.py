"""Owns the description of the targets that speak over standard input and output: the naive script and the two liars.

They know nothing of this harness and have only sites in the world.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from faults.catalogue import POINTS
from scenarios.clients import StdioClient
from scenarios.contract import expand
from scenarios.showing import Show
from scenarios.target import Places, Target
from scenarios.versions import of_file

# What anyone would expect of a script that keeps a checkpoint, whether its author thought of it or not.
CLAIMS = expand("ADM-1..3 ADM-5 INT-2 REC-9 REC-11 EFF-3..4 HIS-3 USE-2..4 UIX-6")


def _command(script: str) -> Callable[[Places], list[str]]:
    path = Path(__file__).with_name(script)
    return lambda places: [sys.executable, str(path), "--db", str(places.store / "agent.db")]


def _environment(places: Places) -> dict[str, str]:
    return {
        "PROVIDER_URL": places.provider_url,
        "PROVIDER_KEY": "sk-case",
        "MODEL": "scripted",
        "EFFECTS_URL": places.effects_url,
        "WORKSPACE": str(places.workspace),
    }


def _target(name: str, title: str) -> Target:
    command = _command(f"{name}.py")
    return Target(
        name=name,
        title=title,
        roles=("worker",),
        entrance_role="worker",
        command=command,
        environment=_environment,
        client=lambda stage: StdioClient(stage, Show(command, _environment)),
        claims=CLAIMS,
        points=tuple(point.name for point in POINTS if point.role == "world"),
        entrances=("stdio",),
        stdio=True,
        sends_controls=False,
        version=lambda: of_file(Path(__file__).with_name(f"{name}.py")),
    )


NAIVE = _target("naive", "a plain script that loops model, tool, checkpoint as most people write it")
IDLE = _target("idle", "a liar that accepts and finishes everything and does nothing")
TWICE = _target("twice", "a liar that sends each write twice and records one")
