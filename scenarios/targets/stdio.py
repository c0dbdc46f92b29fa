"""Owns the description of the targets that speak over standard input and output: the naive script and the two liars.

They know nothing of this harness and have only sites in the world.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.catalogue import POINTS
from scenarios.clients import StdioClient
from scenarios.contract import expand
from scenarios.target import Places, Stage, Target
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


def _show(command: Callable[[Places], list[str]]) -> Callable[[Stage, Places], dict[str, Any] | None]:
    def show(stage: Stage, places: Places) -> dict[str, Any] | None:
        said = stage.run_tool([*command(places), "--show"], _environment(places))
        return None if said is None else _shape(json.loads(said))

    return show


def _shape(said: dict[str, Any]) -> dict[str, Any]:
    """The program's own account as the sessions of a snapshot. What it does not tell is left out, not guessed."""
    return {name: _session(name, told) for name, told in said["sessions"].items()}


def _session(name: str, told: dict[str, Any]) -> dict[str, Any]:
    requests = told["requests"]
    return {
        "session": name,
        "inputs": [
            {"request_id": each["request_id"], "text": each["text"], "work_id": each["request_id"], "position": place}
            for place, each in enumerate(requests, 1)
        ],
        "works": [{"work_id": each["request_id"], "state": _state(each)} for each in requests],
        "transcript": [_item(place, message) for place, message in enumerate(told["messages"], 1)],
        "effects": [
            {
                "call_id": call["id"],
                "tool": call["name"],
                "state": "outcome_unknown" if call["result"] is None else "succeeded",
            }
            for call in told["calls"]
        ],
        "totals": told["usage"] or None,
    }


def _state(request: dict[str, Any]) -> str:
    if request["error"] is not None:
        return "failed"
    return "working" if request["answer"] is None else "done"


_KINDS = {"user": "user", "assistant": "assistant", "tool": "tool_result", "system": "note"}


def _item(place: int, message: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {"call_id": call["id"], "tool": call["function"]["name"], "arguments": _arguments(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]
    return {
        "item": place,
        "kind": _KINDS[message["role"]],
        "text": message.get("content") or "",
        "calls": calls,
        "call_id": message.get("tool_call_id"),
    }


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _target(name: str, title: str) -> Target:
    command = _command(f"{name}.py")
    return Target(
        name=name,
        title=title,
        roles=("worker",),
        entrance_role="worker",
        command=command,
        environment=_environment,
        client=lambda stage: StdioClient(stage, _show(command)),
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
