"""Owns `naive`: a small agent as most people write it, which loops model, tool, checkpoint in one file.

It knows nothing of Killpoint and imports nothing of it. It is the second thing that is judged, from the first day on.

    naive.py --db PATH          reads {"session", "request_id", "text"} lines, writes {"accepted"} and {"done"} lines
    naive.py --db PATH --show   prints its state as JSON

From the environment: PROVIDER_URL, PROVIDER_KEY, MODEL, EFFECTS_URL, WORKSPACE.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SYSTEM = {"role": "system", "content": "You are a helpful agent. Use your tools, then answer."}
SERVICES = {"charge": "keyed", "mail": "plain", "publish": "plain", "order": "ambiguous"}
TOOLS = [{"type": "function", "function": {"name": name}} for name in (*SERVICES, "read", "write")]
SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, messages TEXT, input_tokens INTEGER, output_tokens INTEGER);
CREATE TABLE IF NOT EXISTS requests (id TEXT PRIMARY KEY, session TEXT, text TEXT, answer TEXT, error TEXT);
"""
BROKEN = (OSError, http.client.HTTPException)
Message = dict[str, Any]


class Session:
    """The messages of one conversation and what it used, saved after every step."""

    def __init__(self, db: sqlite3.Connection, name: str) -> None:
        self.db, self.name = db, name
        row = db.execute("SELECT messages, input_tokens, output_tokens FROM sessions WHERE id = ?", (name,)).fetchone()
        self.messages: list[Message] = json.loads(row[0]) if row else [SYSTEM]
        self.used: list[int] = [row[1], row[2]] if row else [0, 0]

    def checkpoint(self, message: Message) -> None:
        self.messages.append(message)
        row = (self.name, json.dumps(self.messages), *self.used)
        with self.db:
            self.db.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?)", row)

    def calls(self) -> list[Message]:
        """The calls of the last reply that have no result yet."""
        answered = {message.get("tool_call_id") for message in self.messages}
        replies = [message for message in self.messages if message["role"] == "assistant"]
        return [call for call in (replies or [{}])[-1].get("tool_calls", ()) if call["id"] not in answered]

    def finish(self) -> str:
        """Loop model and tools until the model has an answer."""
        while True:
            for call in self.calls():
                result = run_tool(call["function"]["name"], call["function"]["arguments"], call["id"])
                self.checkpoint({"role": "tool", "tool_call_id": call["id"], "content": result})
            if self.messages[-1]["role"] == "assistant":
                return str(self.messages[-1]["content"])
            message, usage = ask_model(self.messages)
            self.used[0] += usage.get("prompt_tokens", 0)
            self.used[1] += usage.get("completion_tokens", 0)
            self.checkpoint(message)


def ask_model(messages: list[Message], attempts: int = 3) -> tuple[Message, dict[str, int]]:
    try:
        return stream_reply(messages)
    except BROKEN:
        if attempts == 1:
            raise
        time.sleep(0.1)
        return ask_model(messages, attempts - 1)


def stream_reply(messages: list[Message]) -> tuple[Message, dict[str, int]]:
    body: Message = {"model": os.environ["MODEL"], "messages": messages, "tools": TOOLS}
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    response = post(
        os.environ["PROVIDER_URL"] + "/chat/completions", body, Authorization="Bearer " + os.environ["PROVIDER_KEY"]
    )
    if response.status != 200:
        raise ConnectionError(f"the model answered {response.status}: {response.read().decode()}")
    text, calls, usage, finished = "", list[Message](), dict[str, int](), False
    for line in response:
        data = line.decode().removeprefix("data: ").strip()
        chunk = json.loads(data) if data not in ("", "[DONE]") else {}
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices", ()):
            text += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls") or ():
                if part["index"] == len(calls):
                    calls.append({"id": part["id"], "type": "function", "function": {"name": "", "arguments": ""}})
                for field, value in part["function"].items():
                    calls[part["index"]]["function"][field] += value
            finished = finished or choice["finish_reason"] is not None
    if not finished:
        raise ConnectionError("the reply broke off")
    return {"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {}), usage


def post(url: str, body: Message, **headers: str) -> http.client.HTTPResponse:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    connection.request("POST", address.path, json.dumps(body), {"Content-Type": "application/json", **headers})
    return connection.getresponse()


def call_service(receiver: str, arguments: Message, call_id: str) -> str:
    return post(f"{os.environ['EFFECTS_URL']}/{receiver}", arguments, **{"Idempotency-Key": call_id}).read().decode()


def run_tool(name: str, arguments: str, call_id: str) -> str:
    """What the tool answers; a failure is an answer too, so that the model can react to it."""
    try:
        given = json.loads(arguments)
        if name in SERVICES:
            return call_service(SERVICES[name], given, call_id)
        root = Path(os.environ["WORKSPACE"]).resolve()
        path: Path = (root / given["path"]).resolve()
        if not path.is_relative_to(root):
            return "error: outside the workspace"
        if name == "read":
            return path.read_text()
        if name == "write":
            path.write_text(given["text"])
            return "written"
        return f"error: there is no tool {name}"
    except (*BROKEN, KeyError, TypeError, ValueError) as error:
        return f"error: {error}"


def work(db: sqlite3.Connection, request: str) -> None:
    """Finish one request and say so."""
    session, answer, error = db.execute("SELECT session, answer, error FROM requests WHERE id = ?", (request,)).fetchone()
    if answer is None and error is None:
        try:
            answer = Session(db, session).finish()
        except BROKEN as broken:
            error = str(broken)
        with db:
            db.execute("UPDATE requests SET answer = ?, error = ? WHERE id = ?", (answer, error, request))
    say(done=request, text=answer) if error is None else say(failed=request, error=error)


def serve(db: sqlite3.Connection) -> None:
    """Go on with what had no answer when the program stopped, then take new requests."""
    unfinished = "SELECT id FROM requests WHERE answer IS NULL AND error IS NULL ORDER BY rowid"
    for (request,) in db.execute(unfinished).fetchall():
        work(db, request)
    for line in sys.stdin:
        order = json.loads(line)
        row = (order["request_id"], order["session"], order["text"])
        if db.execute("INSERT OR IGNORE INTO requests (id, session, text) VALUES (?, ?, ?)", row).rowcount:
            Session(db, order["session"]).checkpoint({"role": "user", "content": order["text"]})
        db.commit()
        say(accepted=order["request_id"])
        work(db, order["request_id"])


def show(db: sqlite3.Connection) -> None:
    """Print all that is stored."""
    sessions = {}
    for (name,) in db.execute("SELECT DISTINCT session FROM requests").fetchall():
        session = Session(db, name)
        results = {each["tool_call_id"]: each["content"] for each in session.messages if each["role"] == "tool"}
        calls = [call for each in session.messages for call in each.get("tool_calls", ())]
        rows = db.execute("SELECT id, text, answer, error FROM requests WHERE session = ? ORDER BY rowid", (name,))
        sessions[name] = {
            "requests": [dict(zip(("request_id", "text", "answer", "error"), row, strict=True)) for row in rows],
            "messages": session.messages,
            "calls": [{"id": call["id"], **call["function"], "result": results.get(call["id"])} for call in calls],
            "usage": {"input_tokens": session.used[0], "output_tokens": session.used[1]},
        }
    say(sessions=sessions)


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description="A small agent.")
    parser.add_argument("--db", required=True, help="where its state is kept")
    parser.add_argument("--show", action="store_true", help="print the state and leave")
    options = parser.parse_args()
    db = sqlite3.connect(options.db)
    db.executescript(SCHEMA)
    show(db) if options.show else serve(db)


if __name__ == "__main__":
    main()
