"""Owns the effect service: three receivers of writes, and the query that says what was written.

- `keyed` applies one write for each idempotency key, and answers a repeated one with the first receipt.
- `plain` applies every request; the key is a label that a query can find.
- `ambiguous` applies every request too, and drops the connection instead of answering the first one of a key.

A service that has the whole request goes on although its client has died: a write that is held before it is applied is
applied as soon as the client is seen to be gone. Only the controller (`cut`, `error`) or the end of the case prevents it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from faults import jsontext
from faults.catalogue import EFFECT_APPLIED, EFFECT_RECEIVED
from scenarios.world.exchange import Exchange, TooLarge
from scenarios.world.sites import GO
from scenarios.world.state import CaseWorld

RECEIVERS = ("keyed", "plain", "ambiguous")
BODY_BYTES_MAX = 1024 * 1024

Handler = Callable[[CaseWorld, Exchange], Awaitable[None]]


def receiver(name: str) -> Handler:
    """What answers a write to the receiver of this name."""

    async def handle(case: CaseWorld, exchange: Exchange) -> None:
        await _receive(case, exchange, name)

    return handle


async def state(case: CaseWorld, exchange: Exchange) -> None:
    """Answer how often something was written under a key, over all receivers, and with which receipt."""
    keys = parse_qs(exchange.query.decode("latin-1"), keep_blank_values=True).get("key", [])
    if len(keys) != 1 or not keys[0]:
        await exchange.reply(400, _error("key", "name the key to look for: /effects/state?key=K"))
        return
    writes = case.writes(None, keys[0])
    case.log.append(("effect.queried", {"n": case.next_effect_request(), "key": keys[0], "found": bool(writes)}))
    receipt = writes[0].receipt if writes else None
    await exchange.reply(200, {"found": bool(writes), "count": len(writes), "receipt": receipt})


async def _receive(case: CaseWorld, exchange: Exchange, name: str) -> None:
    key = exchange.headers.get("idempotency-key")
    try:
        arguments = jsontext.loads(await exchange.body(BODY_BYTES_MAX))
    except TooLarge:
        await exchange.reply(413, _error("body", f"the body is larger than {BODY_BYTES_MAX} bytes"), close=True)
        return
    except (ValueError, RecursionError):
        await exchange.reply(400, _error("body", "the body is not valid JSON"))
        return
    if not isinstance(arguments, dict):
        await exchange.reply(400, _error("body", "the body is not a JSON object of arguments"))
    elif name == "keyed" and not key:
        await exchange.reply(400, _error("Idempotency-Key", "this receiver needs the header Idempotency-Key"))
    else:
        await _write(case, exchange, name, key, arguments)


async def _write(case: CaseWorld, exchange: Exchange, name: str, key: str | None, arguments: dict[str, Any]) -> None:
    n = case.next_effect_request()
    fields = {"n": n, "receiver": name, "tool_key": key, "key": key, "arguments": arguments}
    case.log.append(("effect.received", fields))
    answer = await exchange.stand(EFFECT_RECEIVED.name, n, receiver=name)
    if exchange.over:
        return
    how = answer.how if answer else "go"
    if how == "cut":
        await exchange.cut()
        return
    if answer and how == "error":
        await _answer(case, exchange, n, answer.status, _error(None, "the service failed"))
        return
    await _apply(case, exchange, n, name, key, arguments, drop=how == "drop")


async def _apply(
    case: CaseWorld, exchange: Exchange, n: int, name: str, key: str | None, arguments: dict[str, Any], *, drop: bool
) -> None:
    earlier = case.writes(name, key)
    if name == "keyed" and earlier:
        write, answer = earlier[0], GO
    else:
        write = case.apply(n, name, key, arguments)
        drop = drop or (name == "ambiguous" and not earlier)
        reached = await exchange.stand(EFFECT_APPLIED.name, n, receiver=name)
        if reached is None:
            return
        answer = reached
    if drop or answer.how in ("cut", "drop"):
        await exchange.cut()
    elif answer.how == "error":
        await _answer(case, exchange, n, answer.status, _error(None, "the service failed"))
    else:
        await _answer(case, exchange, n, 200, {"receipt": write.receipt, "key": key})


async def _answer(case: CaseWorld, exchange: Exchange, n: int, status: int, body: dict[str, Any]) -> None:
    case.log.append(("effect.answered", {"n": n, "status": status}))
    await exchange.reply(status, body)


def _error(field: str | None, message: str) -> dict[str, Any]:
    return {"error": {"code": "invalid" if field else "failed", "field": field, "message": message}}
