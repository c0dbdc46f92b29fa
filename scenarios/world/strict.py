"""Owns what a strict provider refuses: the rules that the body of a chat-completions request has to keep.

Pure, and free of imports that cost anything, since the checks judge stored request bodies by the same rules that the
world applied when it answered (HIS-1 to HIS-6).
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

ROLES = ("system", "developer", "user", "assistant", "tool")


def problems(body: object) -> list[str]:
    """Everything that is wrong with this request, one line each, naming the message; empty if it is acceptable."""
    if not isinstance(body, dict):
        return ["the body is not a JSON object"]
    found: list[str] = []
    if not _filled(body.get("model")):
        found.append("model: name the model, as a string")
    if not isinstance(body.get("stream", False), bool | None):
        found.append("stream: is true or false")
    if body.get("stream_options") is not None and body.get("stream") is not True:
        found.append("stream_options: is only allowed when stream is true")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "messages: give a list of at least one message"]
    return found + _messages(messages)


def content_text(message: dict[str, Any]) -> str:
    """The text of a message, whether it stands there as a string or as a list of text parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def _messages(messages: list[Any]) -> list[str]:
    found: list[str] = []
    open_calls: list[str] = []
    caller = 0
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        if not isinstance(message, dict):
            found.append(f"{where}: is not an object")
            continue
        role = message.get("role")
        if role not in ROLES:
            found.append(f"{where}: unknown role {role!r}; it is one of {', '.join(ROLES)}")
            continue
        if role == "tool":
            found += _tool(where, message, open_calls)
            continue
        found += _unanswered(caller, open_calls)
        open_calls = []
        if role == "assistant":
            wrong, open_calls = _assistant(where, message)
            found += wrong
            caller = place
        elif wrong_content := _content(message):
            found.append(f"{where}: {wrong_content}")
    found += _unanswered(caller, open_calls)
    last = messages[-1]
    if isinstance(last, dict) and last.get("role") == "assistant":
        found.append("messages: the last message is from the assistant; nothing is left to answer")
    return found


def _unanswered(caller: int, open_calls: list[str]) -> list[str]:
    if not open_calls:
        return []
    missing = ", ".join(open_calls)
    return [f"messages[{caller}]: tool_calls must be followed at once by a tool message for each id; missing: {missing}"]


def _tool(where: str, message: dict[str, Any], open_calls: list[str]) -> list[str]:
    found: list[str] = []
    answers = message.get("tool_call_id")
    if not isinstance(answers, str) or answers not in open_calls:
        found.append(f"{where}: tool message answers {answers!r}, which no call of the message before it still waits for")
    else:
        open_calls.remove(answers)
    # A tool may well return nothing, such as an empty file, so that only the kind of content is looked at.
    if not isinstance(message.get("content"), str) and (wrong := _content(message)):
        found.append(f"{where}: {wrong}")
    return found


def _assistant(where: str, message: dict[str, Any]) -> tuple[list[str], list[str]]:
    calls = message.get("tool_calls")
    if calls is None:
        wrong = _content(message)
        return ([f"{where}: {wrong}, and there are no tool_calls"] if wrong else []), []
    if not isinstance(calls, list) or not calls:
        return [f"{where}.tool_calls: leave it out, or give a list of at least one call"], []
    found: list[str] = []
    ids: list[str] = []
    if message.get("content") not in (None, "") and (wrong := _content(message)):
        found.append(f"{where}: {wrong}")
    for place, call in enumerate(calls):
        at = f"{where}.tool_calls[{place}]"
        if not isinstance(call, dict) or call.get("type") != "function" or not isinstance(call.get("function"), dict):
            found.append(f'{at}: is not an object of type "function" with a function')
            continue
        call_id = call.get("id")
        if not _filled(call_id):
            found.append(f"{at}: has no id")
        elif call_id in ids:
            found.append(f"{at}: the id {call_id!r} stands twice in one message")
        else:
            ids.append(str(call_id))
        found += _function(at, call["function"])
    return found, ids


def _function(at: str, function: dict[str, Any]) -> list[str]:
    found: list[str] = []
    if not _filled(function.get("name")):
        found.append(f"{at}.function: has no name")
    arguments = function.get("arguments")
    try:
        whole = isinstance(arguments, str) and isinstance(json.loads(arguments, parse_constant=_no_constant), dict)
    except (ValueError, RecursionError):
        whole = False
    if not whole:
        found.append(f"{at}.function.arguments: is not the text of a JSON object")
    return found


def _content(message: dict[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, str):
        return None if content else "content is empty"
    if not isinstance(content, list) or not content:
        return "content is empty or neither a string nor a list of text parts"
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            return 'content holds a part that is not {"type": "text", "text": …}'
    return None if content_text(message) else "content is empty"


def _filled(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
