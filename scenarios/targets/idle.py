"""Owns `idle`, a liar for the harness's own tests: it says that everything is accepted and done, and does nothing.

It speaks the lines of `naive`, and shows what it said, but it never calls a model or a tool.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ANSWER = "done"


def say(**what: Any) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def state(orders: list[dict[str, str]]) -> dict[str, Any]:
    """What it claims: every request is answered, at no cost."""
    sessions: dict[str, Any] = {}
    for order in orders:
        empty: dict[str, Any] = {
            "requests": [],
            "messages": [],
            "calls": [],
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        session = sessions.setdefault(order["session"], empty)
        request = {"request_id": order["request_id"], "text": order["text"], "answer": ANSWER, "error": None}
        session["requests"].append(request)
        session["messages"] += [{"role": "user", "content": order["text"]}, {"role": "assistant", "content": ANSWER}]
    return {"sessions": sessions}


def main() -> None:
    """Lie until the input ends."""
    parser = argparse.ArgumentParser(description="Claims to work.")
    parser.add_argument("--db", required=True, type=Path, help="where it keeps what it claimed")
    parser.add_argument("--show", action="store_true", help="print the state and leave")
    options = parser.parse_args()
    if options.show:
        stored = options.db.read_text().splitlines() if options.db.exists() else []
        say(**state([json.loads(line) for line in stored]))
        return
    with options.db.open("a") as claims:
        for line in sys.stdin:
            order = json.loads(line)
            claims.write(json.dumps(order) + "\n")
            claims.flush()
            say(accepted=order["request_id"])
            say(done=order["request_id"], text=ANSWER)


if __name__ == "__main__":
    main()
