"""Owns the scripted model: from a script and the messages sent to the reply, its pieces and its count of tokens.

Everything here is a pure function. The place in the script is read from the conversation, never from a count of
requests: a request asked anew after a crash gets the same reply, under new call ids, so that what a target does with it
depends on the target alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from scenarios.case import Reply, Script
from scenarios.world.strict import content_text

Message = dict[str, Any]

UNSCRIPTED = Reply(text="ok", pieces=1)
TOKENS_PER_MESSAGE = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a streamed reply: the `delta` of its chunk and the tokens that it bills."""

    delta: dict[str, Any]
    tokens: int


def active_input(script: Script, messages: Sequence[Message]) -> str:
    """The input that the model is asked to work on: the scripted one that a trailing system note quotes (the longest, if
    it quotes several), else the last user message."""
    last = messages[-1]
    if last.get("role") == "system":
        note = content_text(last)
        quoted = [text for text in script.replies if text and text in note]
        if quoted:
            return max(quoted, key=len)
    return next((content_text(each) for each in reversed(messages) if each.get("role") == "user"), "")


def step_index(script: Script, text: str, messages: Sequence[Message]) -> int:
    """How many replies with calls the conversation already holds for the input `text`: those after the last user message
    that says it, without those that the script has for another input, which may have been served in between."""
    mine = [_asked(reply) for reply in script.replies.get(text, ()) if reply.calls]
    others = [_asked(reply) for other, replies in script.replies.items() if other != text for reply in replies]
    start = max((i for i, each in enumerate(messages) if _says(each, text)), default=-1) + 1
    count = 0
    for message in messages[start:]:
        if message.get("role") == "assistant" and message.get("tool_calls"):
            asked = _asked_in(message)
            count += asked not in others or asked in mine[count : count + 1]
    return count


def _says(message: Message, text: str) -> bool:
    return message.get("role") == "user" and content_text(message) == text


def _asked(reply: Reply) -> list[tuple[str, str]]:
    return [(call.tool, arguments_text(call.arguments)) for call in reply.calls]


def _asked_in(message: Message) -> list[tuple[str, str]]:
    """The calls of a message, as they are asked for. A body that no provider accepts is read too, by the checks."""
    calls = message["tool_calls"] if isinstance(message["tool_calls"], list) else []
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return [(str(each.get("name")), str(each.get("arguments"))) for each in functions if isinstance(each, dict)]


def reply_to(script: Script, messages: Sequence[Message]) -> Reply:
    """The scripted reply to this conversation; the plain text "ok" to an input that nobody scripted."""
    text = active_input(script, messages)
    replies = script.replies.get(text)
    if not replies:
        return UNSCRIPTED
    return replies[min(step_index(script, text, messages), len(replies) - 1)]


def call_id(n: int, i: int) -> str:
    """The id of the i-th call in the reply to request n; never the same for two requests."""
    return f"call_{n}_{i}"


def call_ids(reply: Reply, n: int) -> list[str]:
    """The ids of the calls in the reply to request n, in their order."""
    return [call_id(n, 0 if reply.same_ids else i) for i in range(len(reply.calls))]


def pieces(reply: Reply, n: int) -> list[Piece]:
    """The reply to request n in the order in which it is streamed: text in `reply.pieces` pieces (fewer, if it has not
    as many characters), then each call, its arguments in two. There is at least one piece."""
    found = [Piece({"content": part}, words(part)) for part in _cut(reply.text, reply.pieces)]
    for i, (call, name) in enumerate(zip(reply.calls, call_ids(reply, n), strict=True)):
        first, second = _halves(arguments_text(call.arguments))
        head = {"index": i, "id": name, "type": "function", "function": {"name": call.tool, "arguments": first}}
        found.append(Piece({"tool_calls": [head]}, 1 + words(first)))
        found.append(Piece({"tool_calls": [{"index": i, "function": {"arguments": second}}]}, words(second)))
    found = found or [Piece({"content": ""}, 1)]
    found[0].delta["role"] = "assistant"
    return found


def message(reply: Reply, n: int) -> Message:
    """The reply to request n as one whole message."""
    whole: Message = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        whole["tool_calls"] = [
            {
                "id": name,
                "type": "function",
                "function": {"name": call.tool, "arguments": arguments_text(call.arguments)},
            }
            for call, name in zip(reply.calls, call_ids(reply, n), strict=True)
        ]
    elif not reply.text:
        whole["content"] = ""
    return whole


def finish_reason(reply: Reply) -> str:
    """Why the model stopped, in the protocol's words."""
    return "tool_calls" if reply.calls else "stop"


def output_tokens(reply: Reply) -> int:
    """What the whole reply bills, streamed or not."""
    return sum(piece.tokens for piece in pieces(reply, 0))


def prompt_tokens(messages: Iterable[Message]) -> int:
    """What these messages bill: their words, the words of the arguments in them, and four for each message."""
    return sum(_message_words(each) + TOKENS_PER_MESSAGE for each in messages)


def beginnings(messages: Iterable[Message]) -> list[bytes]:
    """A digest of each beginning of this conversation, from its first message alone to all of them. Two conversations
    that begin alike have the same first digests, so that a set of them stands for all that was asked before."""
    found: list[bytes] = []
    digest = hashlib.sha256()
    for each in messages:
        digest.update(json.dumps(each, sort_keys=True).encode() + b"\n")
        found.append(digest.digest())
    return found


def cached_tokens(messages: Sequence[Message], seen: Set[bytes]) -> int:
    """How many of the prompt's tokens were cached: half of what the longest beginning that was `seen` in an earlier
    request bills, rounded down."""
    shared = sum(1 for _ in takewhile(seen.__contains__, beginnings(messages)))
    return prompt_tokens(messages[:shared]) // 2


def words(text: str) -> int:
    """The tokens of a text: its words, and one at least, since nothing that is sent is free."""
    return max(1, len(text.split()))


def arguments_text(arguments: dict[str, Any]) -> str:
    """Arguments as the model writes them, the same each time."""
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


def usage(prompt: int, cached: int, output: int) -> dict[str, Any]:
    """The counts in the protocol's shape; `prompt` includes what was cached."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _message_words(each: Message) -> int:
    count = len(content_text(each).split())
    for call in each.get("tool_calls") or ():
        count += len(str(call["function"]["arguments"]).split())
    return count


def _cut(text: str, count: int) -> list[str]:
    count = min(count, len(text))
    return [text[len(text) * i // count : len(text) * (i + 1) // count] for i in range(count)]


def _halves(text: str) -> tuple[str, str]:
    middle = (len(text) + 1) // 2
    return text[:middle], text[middle:]
