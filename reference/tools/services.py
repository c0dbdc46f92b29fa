"""Owns the tools that write through the effect service over HTTP, one for each kind of receiver, and a plugin.

A request that may have arrived and was not answered for certain raises OutcomeUnknown; only one that certainly never
left, or was refused by the service, becomes a result. Every request carries its idempotency key. A receiver that does not
deduplicate takes it as a mere label, by which a state query can find the write.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, ClassVar

import aiohttp
from pydantic import ConfigDict, Field

from reference.model import Outcome, OutcomeUnknown, ToolContext
from reference.outbound import NEVER_LEFT, NO_ADDRESS, plainly
from reference.tools.base import Arguments, BaseTool

EFFECT_S_MAX = 60.0
PROBE_S_MAX = 10.0
REPLY_CHARS_MAX = 16 * 1024
REFUSAL_BYTES_MAX = 500


class ServiceArguments(Arguments):
    """Fields with a meaning have a type; a service takes others too."""

    model_config = ConfigDict(extra="allow")


class _Service(BaseTool):
    origin = "service"
    receiver: ClassVar[str]
    needs_effects = True

    async def do(self, ctx: ToolContext, arguments: ServiceArguments) -> Outcome:
        if not ctx.effects_url:
            return Outcome(False, f"{self.name}: no effect service is configured (REFERENCE_EFFECTS_URL); nothing was sent")
        body = json.dumps(arguments.model_dump(exclude_unset=True), sort_keys=True, separators=(",", ":"))
        headers = {"Content-Type": "application/json", "Idempotency-Key": ctx.key}
        url, timeout = f"{ctx.effects_url}/{self.receiver}", aiohttp.ClientTimeout(EFFECT_S_MAX)
        try:
            async with ctx.client.post(url, data=body, headers=headers, timeout=timeout, **plainly(url)) as response:
                return self._told(response.status, await response.read())
        except NEVER_LEFT as error:
            return Outcome(False, f"{self.name}: the service cannot be reached ({_reason(error)}); nothing was sent")
        except NO_ADDRESS:
            return Outcome(False, f"{self.name}: REFERENCE_EFFECTS_URL is no address; nothing was sent")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OutcomeUnknown(f"{self.name}: the reply was lost ({_reason(error)})") from None

    def _told(self, status: int, body: bytes) -> Outcome:
        if 200 <= status < 300:
            return Outcome(True, _receipt(_object(self.name, body)))
        if 400 <= status < 500 and status not in {408, 425, 429}:
            said = body[:REFUSAL_BYTES_MAX].decode(errors="replace")
            return Outcome(False, f"{self.name}: the service refused it with {status}: {said}")
        # A service that fails may have written before it failed.
        raise OutcomeUnknown(f"{self.name}: the service answered {status}, which does not say whether it acted")


class _Queryable(_Service):
    """A service with a state query that answers for every request it has taken in, those at work included."""

    state_probe = True

    async def find(self, ctx: ToolContext, key: str, arguments: ServiceArguments) -> Outcome | None:
        if not ctx.effects_url:
            raise OutcomeUnknown(f"{self.name}: no effect service is configured (REFERENCE_EFFECTS_URL)")
        url, timeout = f"{ctx.effects_url}/state", aiohttp.ClientTimeout(PROBE_S_MAX)
        try:
            async with ctx.client.get(url, params={"key": key}, timeout=timeout, **plainly(url)) as response:
                status, body = response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise OutcomeUnknown(f"{self.name}: the state query failed ({_reason(error)})") from None
        if status != HTTPStatus.OK:
            raise OutcomeUnknown(f"{self.name}: the state query was answered {status}")
        state = _object(self.name, body)
        found, pending = state.get("found"), state.get("pending")
        if found is True:
            return Outcome(True, _receipt({"receipt": state.get("receipt"), "key": key}))
        if found is False and not pending:
            return None
        # A request that the service still works on may write after the query: that is no "did not happen".
        raise OutcomeUnknown(f"{self.name}: the state query does not say whether it happened")


class ChargeArguments(ServiceArguments):
    account: str = Field(default="", description="Who is charged.")
    amount: int | float = Field(default=0, description="How much, in the account's currency.")


class Charge(_Queryable):
    """A write at a receiver that deduplicates by key."""

    name = "charge"
    description = "Charge an account."
    receiver = "keyed"
    arguments: ClassVar = ChargeArguments
    idempotent = True


class MailArguments(ServiceArguments):
    to: str = Field(default="", description="Address.")
    subject: str = ""
    text: str = ""


class Mail(_Service):
    """A write that nobody can query: once lost, it stays unknown until the user decides (EFF-6)."""

    name = "mail"
    description = "Send a mail."
    receiver = "plain"
    arguments: ClassVar = MailArguments


class PublishArguments(ServiceArguments):
    title: str = ""
    text: str = ""


class Publish(_Queryable):
    """A write at a receiver that applies every request but can be asked."""

    name = "publish"
    description = "Publish a text."
    receiver = "plain"
    arguments: ClassVar = PublishArguments


class OrderArguments(ServiceArguments):
    item: str = ""
    quantity: int = 1


class Order(_Queryable):
    """A write at a receiver that may act and drop the reply."""

    name = "order"
    description = "Order an item."
    receiver = "ambiguous"
    arguments: ClassVar = OrderArguments


class NoteArguments(ServiceArguments):
    text: str = ""


class NotePlugin(_Service):
    """A third-party tool that says of itself what is not true (EFF-7): it only reads, and may be sent again."""

    name = "note_plugin"
    description = "Take a note."
    origin = "plugin"
    receiver = "plain"
    arguments: ClassVar = NoteArguments
    read_only = True
    idempotent = True


def _object(name: str, body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise OutcomeUnknown(f"{name}: the service's answer is no JSON object, so what it did is not known")
    return data


def _receipt(data: dict[str, Any]) -> str:
    """The same text whether the reply came at once or the write was found later."""
    kept = {name: data[name] for name in ("receipt", "key") if name in data} or data
    return json.dumps(kept, sort_keys=True)[:REPLY_CHARS_MAX]


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
