"""Owns how a program on standard input and output shows its state: what `--show` prints, as the sessions of a snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scenarios.target import Places, Stage


@dataclass(frozen=True, slots=True)
class Show:
    """Asks a program for its state with its own command line and `--show`. None if it could not tell."""

    command: Callable[[Places], list[str]]
    environment: Callable[[Places], dict[str, str]]

    def __call__(self, stage: Stage, places: Places) -> dict[str, Any] | None:
        """The sessions of a snapshot, by name."""
        said = stage.run_tool([*self.command(places), "--show"], self.environment(places))
        return None if said is None else _shape(json.loads(said))


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
