"""Owns the description of the reference runtime as a target: two roles, HTTP, every clause it claims."""

from __future__ import annotations

import sys
from pathlib import Path

from faults.catalogue import POINTS
from scenarios.clients import HttpClient
from scenarios.contract import expand
from scenarios.target import Places, Target
from scenarios.versions import of_package

CLAIMS = expand(
    "ADM-1..6 INT-1..8 INT-12..14 OWN-1..4 OWN-6..7 REC-1..9 REC-11 REC-13 EFF-1..4 EFF-6..7 EFF-10 EFF-12..13"
    " HIS-1..7 USE-1..6 UIX-1 UIX-3 UIX-5..6 ENV-3"
)


def _command(places: Places) -> list[str]:
    verb = ["serve", "--workers", "0", "--workspace", str(places.workspace)] if places.role == "app" else ["worker"]
    return [sys.executable, "-m", "reference", *verb, "--data", str(places.store)]


def _environment(places: Places) -> dict[str, str]:
    return {
        "REFERENCE_PROVIDER_URL": places.provider_url,
        "REFERENCE_PROVIDER_KEY": "sk-case",
        "REFERENCE_MODEL": "scripted",
        "REFERENCE_EFFECTS_URL": places.effects_url,
        "REFERENCE_BACKOFF_S": "0.1",
        "REFERENCE_LEASE_S": "15",
        "REFERENCE_WATCH_S": "0.2",
    }


def _ready(places: Places) -> Path:
    return places.store / "serve.json"


REFERENCE = Target(
    name="reference",
    title="the reference runtime of this project",
    roles=("app", "worker"),
    entrance_role="app",
    command=_command,
    environment=_environment,
    client=HttpClient,
    claims=CLAIMS,
    points=tuple(point.name for point in POINTS),
    entry="reference.entry:main",
    preload="reference.warm:warm",
    ready=_ready,
    has_clock=True,
    abilities=frozenset({"files", "plugins", "clock"}),
    version=lambda: of_package("reference"),
)
