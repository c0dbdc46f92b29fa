"""Owns the conversation with the model provider: one attempt over the protocol of chat completions, streamed.

One call of `stream` is one attempt and sends one request. It never asks again by itself: whether a fault is passing is
said, and the owner of the work decides (REC-8, USE-4). Nothing of one attempt can reach another, since the pieces of text
and of tool calls live in an object that belongs to the call (REC-11).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio

from reference.model import Counts, ProviderFault, Reply, ToolCall
from reference.outbound import NEVER_LEFT, NO_ADDRESS, SILENCE_S_MAX, plainly
from reference.settings import Settings

WRITE_S_MAX = 30.0
REPLY_BYTES_MAX = 16 * 1024 * 1024
ERROR_BYTES_MAX = 64 * 1024
ERROR_CHARS_MAX = 500
CALLS_MAX = 128

OnPiece = Callable[[str, Counts | None], None]


async def stream(
    client: aiohttp.ClientSession,
    settings: Settings,
    attempt: str,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    on_piece: OnPiece,
) -> Reply:
    """Send one request as `attempt` and read its reply to the end.

    `on_piece` is called for each piece with its text (may be empty) and the largest counts seen so far, or None
    (USE-3). Raises ProviderFault: `unreachable`, `cut` and `timeout` are passing; `status` is passing for 408, 409,
    425, 429 and 5xx; `protocol` (a reply that can be no reply) is not. What had come before a fault was given to
    `on_piece`. No message holds the key.
    """
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if tools:
        body["tools"] = tools
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "X-Client-Request-Id": attempt}
    if settings.provider_key and not _has_credentials(settings.provider_url):
        headers["Authorization"] = f"Bearer {settings.provider_key}"
    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    url = f"{settings.provider_url}/chat/completions"
    try:
        with anyio.fail_after(WRITE_S_MAX + SILENCE_S_MAX):
            response = await client.post(url, data=content, headers=headers, **plainly(url))
        try:
            if response.status != HTTPStatus.OK:
                raise await _refusal(response, settings)
            return await _Assembly(on_piece).read(response)
        finally:
            response.release()
    except ProviderFault as fault:
        raise ProviderFault(fault.kind, _clean(fault.message, settings), fault.passing) from None
    except (*NO_ADDRESS, UnicodeError) as error:
        raise ProviderFault("protocol", f"{_address(settings)}: {_clean(str(error), settings)}", passing=False) from None
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _fault(error, settings) from None


def _fault(error: Exception, settings: Settings) -> ProviderFault:
    kind, what = "cut", "the connection was cut before the reply was whole"
    if isinstance(error, NEVER_LEFT):
        kind, what = "unreachable", "cannot be reached"
    elif isinstance(error, TimeoutError):
        kind, what = "timeout", f"sent nothing for {SILENCE_S_MAX:g} s"
    reason = _clean(str(error), settings)
    return ProviderFault(kind, f"{_address(settings)}: {what}{f' ({reason})' if reason else ''}", passing=True)


async def _refusal(response: aiohttp.ClientResponse, settings: Settings) -> ProviderFault:
    """The fault for an answer that is no 200, with the provider's own words."""
    status = response.status
    said = bytearray()
    try:
        async for chunk in response.content.iter_any():
            said += chunk
            if len(said) > ERROR_BYTES_MAX:
                break
    except (aiohttp.ClientError, TimeoutError):
        pass  # the status is known; the words are a help only
    message = _clean(_error_text(bytes(said[:ERROR_BYTES_MAX])), settings)
    passing = status >= 500 or status in {408, 409, 425, 429}
    return ProviderFault(
        "status", f"{_address(settings)}: answered {status}{f': {message}' if message else ''}", passing=passing
    )


def _error_text(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    error = data.get("error", data) if isinstance(data, dict) else data
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else text


def _clean(text: str, settings: Settings) -> str:
    """One bounded line without the key, which some providers quote in their errors."""
    if settings.provider_key:
        text = text.replace(settings.provider_key, "[key]")
    text = " ".join(text.split())
    return text if len(text) <= ERROR_CHARS_MAX else text[:ERROR_CHARS_MAX] + "…"


def _has_credentials(url: str) -> bool:
    """Whether the address itself says who asks, as one of a gateway may; that goes before the key."""
    try:
        return urlsplit(url).username is not None
    except ValueError:
        return False


def _address(settings: Settings) -> str:
    """The provider's address without what a URL may carry of a password."""
    try:
        parts = urlsplit(settings.provider_url)
        return f"provider {parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "provider address"


class _Assembly:
    """One attempt's reply while it comes in. A stream that ends without its end mark is cut, however good it looks."""

    def __init__(self, on_piece: OnPiece) -> None:
        self._on_piece = on_piece
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._counts: Counts | None = None
        self._counted_last = False
        self._finish: str | None = None

    async def read(self, response: aiohttp.ClientResponse) -> Reply:
        async with aclosing(_lines(response)) as lines:
            async for line in lines:
                if not line.startswith(b"data:"):
                    continue  # comments, event names and empty lines carry nothing in this protocol
                data = line[5:].strip()
                if data == b"[DONE]":
                    return self._reply(self._counts)
                self._take(_chunk(data))
        if self._finish is None:
            raise ProviderFault("cut", "the stream ended before the reply was whole", passing=True)
        # Some providers send no [DONE], and the finish reason is an end mark too. But a count that may still have grown
        # is a watermark and no receipt.
        return self._reply(self._counts if self._counted_last else None)

    def _take(self, chunk: dict[str, Any]) -> None:
        if chunk.get("error"):
            raise ProviderFault("cut", f"the provider broke off: {_error_text(json.dumps(chunk).encode())}", True)
        self._count(chunk.get("usage"))
        piece = ""
        choices = _list(chunk.get("choices"))
        self._counted_last = self._finish is not None and not choices and isinstance(chunk.get("usage"), dict)
        for choice in choices[:1]:
            delta = choice.get("delta") or {}
            if isinstance(delta.get("content"), str):
                piece = delta["content"]
                self._text.append(piece)
            for part in _list(delta.get("tool_calls")):
                self._take_call(part)
            if isinstance(choice.get("finish_reason"), str):
                self._finish = choice["finish_reason"]
        self._on_piece(piece, self._counts)

    def _take_call(self, part: dict[str, Any]) -> None:
        """A piece of the call at its index. An id or name is set once; arguments are joined in the order they come."""
        index = part.get("index", len(self._calls))
        if not isinstance(index, int) or not 0 <= index < CALLS_MAX:
            raise ProviderFault("protocol", f"the provider numbered a tool call {index!r}", passing=True)
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = part.get("function") or {}
        call["id"] = call["id"] or part.get("id") or ""
        call["name"] = call["name"] or function.get("name") or ""
        call["arguments"] += function.get("arguments") or ""

    def _count(self, usage: Any) -> None:
        """Counts that a stream repeats are one growing number each, so the largest is kept and nothing is added (USE-3)."""
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details") or {}
        new = Counts(
            input_tokens=_number(usage.get("prompt_tokens")),
            cached_tokens=_number(details.get("cached_tokens")) if isinstance(details, dict) else 0,
            output_tokens=_number(usage.get("completion_tokens")),
        )
        old = self._counts or new
        self._counts = Counts(
            max(old.input_tokens, new.input_tokens),
            max(old.cached_tokens, new.cached_tokens),
            max(old.output_tokens, new.output_tokens),
        )

    def _reply(self, counts: Counts | None) -> Reply:
        calls = tuple(
            ToolCall(call["id"] or f"call_{index}", call["name"], call["arguments"] or "{}")
            for index, call in sorted(self._calls.items())
        )
        if self._finish == "length" and calls:
            # The provider stopped in the middle: the last call's arguments may be half of what was meant.
            calls = tuple(call for call in calls if _whole(call.arguments))
        return Reply("".join(self._text), calls, counts, self._finish)


async def _lines(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The lines of an event stream. Only a line feed ends one here: JSON text may hold every other line separator."""
    rest, size = b"", 0
    async for data in response.content.iter_any():
        size += len(data)
        if size > REPLY_BYTES_MAX:
            raise ProviderFault("protocol", f"the reply is larger than {REPLY_BYTES_MAX} bytes", passing=False)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest


def _chunk(data: bytes) -> dict[str, Any]:
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        chunk = None
    if not isinstance(chunk, dict):
        raise ProviderFault("cut", f"the stream broke inside a piece: {data[:80]!r}", passing=True)
    return chunk


def _list(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _whole(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return True
