"""Owns the model provider: OpenAI chat completions over HTTP, whole and streamed, scripted, strict, and billed.

What it bills: the prompt, as soon as the whole request is accepted; the output, piece by piece as it is sent. Each
accepted request is billed exactly once in the log (USE-2), before the last bytes of its reply are sent, or when the
client turns out to be gone, with what had been sent by then.

Where the controller of the case says what becomes of a request: `cut` closes the connection now; `drop` does and bills
all of the reply and sends no more of it; `error` answers with a status, or with an error event once the stream has
begun; `repeat` sends the piece twice and bills it once.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from faults import jsontext
from faults.catalogue import PROVIDER_REPLY_CHUNK, PROVIDER_REQUEST_RECEIVED
from scenarios.case import Reply
from scenarios.world import model, strict
from scenarios.world.exchange import Exchange, TooLarge
from scenarios.world.sites import Answer
from scenarios.world.state import CaseWorld

MODEL = "killpoint-scripted"
BODY_BYTES_MAX = 8 * 1024 * 1024
# Names no key reaches a log or a report by.
_SECRET_HEADERS = ("authorization", "cookie", "x-api-key", "api-key", "proxy-authorization")


class Refused(Exception):
    """A request that the provider does not accept, with the HTTP status and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Bill:
    """What one accepted request costs; stored once, by whoever comes first to the end of it."""

    def __init__(self, case: CaseWorld, n: int, attempt: str | None, prompt: int, cached: int) -> None:
        self.prompt, self.cached, self.output = prompt, cached, 0
        self._case, self._n, self._attempt = case, n, attempt
        self._settled = False

    @property
    def usage(self) -> dict[str, Any]:
        """The counts so far, in the protocol's shape."""
        return model.usage(self.prompt, self.cached, self.output)

    def charge_piece(self, i: int, tokens: int) -> None:
        """Bill and log piece i, which is about to be sent."""
        self.output += tokens
        self._case.log.append(("provider.chunk", {"n": self._n, "i": i, "output_tokens": tokens}))

    def note_repeat(self, i: int) -> None:
        """Log that piece i is about to be sent a second time, which costs nothing."""
        self._case.log.append(("provider.repeated", {"n": self._n, "i": i}))

    def settle(self, *, complete: bool, status: int | None = None, call_ids: list[str] | None = None) -> None:
        """Store the bill, and the status with which the request is about to be answered, unless it is stored already."""
        if self._settled:
            return
        self._settled = True
        fields = {
            "n": self._n,
            "attempt": self._attempt,
            "input_tokens": self.prompt,
            "cached_tokens": self.cached,
            "output_tokens": self.output,
            "complete": complete,
        }
        said = {"n": self._n, "status": status} | ({"call_ids": call_ids} if call_ids else {})
        answered = [("provider.answered", said)] if status is not None else []
        self._case.log.append(("provider.billed", fields), *answered)


async def models(case: CaseWorld, exchange: Exchange) -> None:
    """Answer which models there are."""
    await exchange.reply(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "killpoint"}]})


async def completions(case: CaseWorld, exchange: Exchange) -> None:
    """Answer one request for a completion, as the script and the controller of the case say."""
    try:
        n, body = await _accept(case, exchange)
    except Refused as refused:
        await exchange.reply(refused.status, error_body(str(refused)), close=refused.status == 413)
        return
    reply = model.reply_to(case.script, body["messages"])
    async with _billed(case, exchange, n, body["messages"]) as bill:
        answer = await exchange.stand(PROVIDER_REQUEST_RECEIVED.name, n)
        if answer is None or await _met(exchange, answer, bill, reply):
            return
        if body.get("stream"):
            await _stream(exchange, n, body, reply, bill)
        else:
            await _whole(exchange, n, body, reply, bill)


async def _accept(case: CaseWorld, exchange: Exchange) -> tuple[int, dict[str, Any]]:
    """Read, number and log the request. Raises Refused, which is logged too, if it is not acceptable."""
    why: Refused | None = None
    body: Any = None
    try:
        body = jsontext.loads(await exchange.body(BODY_BYTES_MAX))
    except TooLarge:
        why = Refused(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
    except (ValueError, RecursionError):
        why = Refused(400, "the body is not valid JSON")
    else:
        if not exchange.headers.get("authorization", "").lower().startswith("bearer "):
            why = Refused(401, "give an API key: Authorization: Bearer KEY")
        elif problems := strict.problems(body):
            why = Refused(400, "; ".join(problems))
    n = case.next_provider_request()
    records: list[tuple[str, dict[str, Any]]] = []
    if isinstance(body, dict):
        headers = {name: value for name, value in exchange.headers.items() if name not in _SECRET_HEADERS}
        records.append(("provider.request", {"n": n, "attempt": exchange.attempt, "headers": headers, "body": body}))
    if why:
        records.append(("provider.refused", {"n": n, "why": str(why)}))
    case.log.append(*records)
    if why:
        raise why
    return n, body


@asynccontextmanager
async def _billed(case: CaseWorld, exchange: Exchange, n: int, messages: list[model.Message]) -> AsyncIterator[Bill]:
    cached = model.cached_tokens(messages, case.beginnings)
    case.beginnings.update(model.beginnings(messages))
    bill = Bill(case, n, exchange.attempt, model.prompt_tokens(messages), cached)
    try:
        yield bill
    finally:
        bill.settle(complete=False)


async def _met(exchange: Exchange, answer: Answer, bill: Bill, reply: Reply) -> bool:
    """Whether the controller's answer to a request that has got no reply yet is all that becomes of it."""
    if answer.how == "error":
        bill.settle(complete=False, status=answer.status)
        await exchange.reply(answer.status, error_body("the provider failed", "server_error"))
    elif answer.how in ("cut", "drop"):
        if answer.how == "drop":
            bill.output = model.output_tokens(reply)
        bill.settle(complete=answer.how == "drop")
        await exchange.cut()
    else:
        return False
    return True


async def _whole(exchange: Exchange, n: int, body: dict[str, Any], reply: Reply, bill: Bill) -> None:
    bill.output = model.output_tokens(reply)
    answer = {
        "id": f"chatcmpl-{n}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [
            {"index": 0, "message": model.message(reply, n), "finish_reason": model.finish_reason(reply), "logprobs": None}
        ],
    }
    if reply.usage != "none":
        answer["usage"] = bill.usage
    bill.settle(complete=True, status=200, call_ids=model.call_ids(reply, n))
    await exchange.reply(200, answer)


async def _stream(exchange: Exchange, n: int, body: dict[str, Any], reply: Reply, bill: Bill) -> None:
    head = {"id": f"chatcmpl-{n}", "object": "chat.completion.chunk", "created": int(time.time()), "model": body["model"]}
    wanted = bool((body.get("stream_options") or {}).get("include_usage"))

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        chunk = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}
        if reply.usage == "every":
            chunk["usage"] = bill.usage
        elif wanted and reply.usage == "last":
            chunk["usage"] = None
        return _event(chunk)

    await exchange.begin_events()
    for i, piece in enumerate(model.pieces(reply, n)):
        bill.charge_piece(i, piece.tokens)
        data = event(piece.delta)
        await exchange.send_events(data)
        answer = await exchange.stand(PROVIDER_REPLY_CHUNK.name, n, i=i)
        if answer is None or await _stopped(exchange, answer, bill, reply):
            return
        if answer.how == "repeat":
            bill.note_repeat(i)
            await exchange.send_events(data)
    end = event({}, model.finish_reason(reply))
    if wanted and reply.usage != "none":
        end += _event({**head, "choices": [], "usage": bill.usage})
    bill.settle(complete=True, status=200, call_ids=model.call_ids(reply, n))
    await exchange.send_events(end + b"data: [DONE]\n\n", more=False)


async def _stopped(exchange: Exchange, answer: Answer, bill: Bill, reply: Reply) -> bool:
    """Whether the controller's answer, given in the middle of a stream, ends it here."""
    if answer.how == "drop":
        bill.output = model.output_tokens(reply)
    elif answer.how not in ("cut", "error"):
        return False
    bill.settle(complete=answer.how == "drop")
    if answer.how == "error":
        # The status has been sent long ago, so that a provider can only say so inside the stream.
        await exchange.send_events(_event(error_body("the provider failed", "server_error")))
    await exchange.cut()
    return True


def error_body(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """An error in the protocol's shape."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"
