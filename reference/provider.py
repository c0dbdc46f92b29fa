"""Owns the conversation with the model provider: one attempt over the protocol of chat completions, streamed.

One call of `stream` is one attempt and sends one request. It never asks again by itself: whether a fault is passing is
said, and the owner of the work decides (REC-8, USE-4). Nothing of one attempt can reach another, since the pieces of text
and of tool calls live in an object that belongs to the call (REC-11).
"""

from __future__ import annotations

import functools
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import httpx

from reference.model import Counts, ProviderFault, Reply, ToolCall
from reference.settings import Settings

CONNECT_S_MAX = 10.0
SILENCE_S_MAX = 300.0  # between two pieces of a stream: a model may think for minutes before its first word
WRITE_S_MAX = 30.0
REPLY_BYTES_MAX = 16 * 1024 * 1024
ERROR_BYTES_MAX = 64 * 1024
ERROR_CHARS_MAX = 500
CALLS_MAX = 128

OnPiece = Callable[[str, Counts | None], None]


def client(settings: Settings) -> httpx.AsyncClient:
    """The HTTP client of one process, for the provider and for tools. Close it with `aclose`.

    Proxies and certificates from the environment count, except on loopback, where nothing but plain sockets is wanted.
    """
    urls = [url for url in (settings.provider_url, settings.effects_url) if url]
    secure = any(url.lower().startswith("https:") for url in urls)
    return httpx.AsyncClient(
        verify=_trusting() if secure else trusting_nobody(),
        trust_env=not all(_is_loopback(url) for url in urls),
        timeout=httpx.Timeout(SILENCE_S_MAX, connect=CONNECT_S_MAX, write=WRITE_S_MAX, pool=CONNECT_S_MAX),
        follow_redirects=False,
    )


@functools.cache
def _trusting() -> ssl.SSLContext:
    """One context for all of https: loading the certificates takes tens of milliseconds."""
    return httpx.create_ssl_context()


@functools.cache
def trusting_nobody() -> ssl.SSLContext:
    """For addresses without TLS. It holds no certificate, so that an unexpected https address fails and is not trusted."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _is_loopback(url: str) -> bool:
    try:
        return urlsplit(url).hostname in {"127.0.0.1", "::1", "localhost"}
    except ValueError:
        return False


async def stream(
    client: httpx.AsyncClient,
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
    if settings.provider_key:
        headers["Authorization"] = f"Bearer {settings.provider_key}"
    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    try:
        request = client.build_request(
            "POST", f"{settings.provider_url}/chat/completions", content=content, headers=headers
        )
        response = await client.send(request, stream=True)
        try:
            if response.status_code != httpx.codes.OK:
                raise await _refusal(response, settings)
            return await _Assembly(on_piece).read(response)
        finally:
            await response.aclose()
    except ProviderFault as fault:
        raise ProviderFault(fault.kind, _clean(fault.message, settings), fault.passing) from None
    except httpx.HTTPError as error:
        raise _fault(error, settings) from None
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ProviderFault("protocol", f"{_address(settings)}: {_clean(str(error), settings)}", passing=False) from None


def _fault(error: httpx.HTTPError, settings: Settings) -> ProviderFault:
    kind, what = "cut", "the connection was cut before the reply was whole"
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError | httpx.PoolTimeout):
        kind, what = "unreachable", "cannot be reached"
    elif isinstance(error, httpx.TimeoutException):
        kind, what = "timeout", f"sent nothing for {SILENCE_S_MAX:g} s"
    elif isinstance(error, httpx.UnsupportedProtocol):
        return ProviderFault("protocol", f"{_address(settings)}: is no http or https address", passing=False)
    reason = _clean(str(error), settings)
    return ProviderFault(kind, f"{_address(settings)}: {what}{f' ({reason})' if reason else ''}", passing=True)


async def _refusal(response: httpx.Response, settings: Settings) -> ProviderFault:
    """The fault for an answer that is no 200, with the provider's own words."""
    status = response.status_code
    said = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            said += chunk
            if len(said) > ERROR_BYTES_MAX:
                break
    except httpx.HTTPError:
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

    async def read(self, response: httpx.Response) -> Reply:
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


async def _lines(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The lines of an event stream. Only a line feed ends one here: JSON text may hold every other line separator."""
    rest, size = b"", 0
    async for data in response.aiter_bytes():
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
