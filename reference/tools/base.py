"""Owns what every tool has in common: arguments as a checked model, their schema, and the identity of what runs.

Wrong arguments are the model's mistake and become a result that says so. They never raise.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from reference.model import Outcome, OutcomeUnknown, ToolContext

ARGUMENTS_BYTES_MAX = 2 * 1024 * 1024
RESULT_CHARS_MAX = 64 * 1024


class Arguments(BaseModel):
    """Arguments of a tool: of the declared types as they are, nothing converted, nothing more than declared."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class BaseTool:
    """A tool's code with what it says of itself. What may be relied on is decided by the registry, not here (EFF-7)."""

    name: ClassVar[str]
    description: ClassVar[str]
    origin: ClassVar[str] = "builtin"
    arguments: ClassVar[type[Arguments]]
    read_only: ClassVar[bool] = False
    idempotent: ClassVar[bool] = False
    state_probe: ClassVar[bool] = False
    needs_effects: ClassVar[bool] = False

    async def run(self, ctx: ToolContext, arguments: dict[str, Any]) -> Outcome:
        """Check the arguments and do it. Raises OutcomeUnknown when the reply was lost."""
        checked = self.check(arguments)
        if isinstance(checked, Outcome):
            return checked
        return bounded(await self.do(ctx, checked))

    async def probe(self, ctx: ToolContext, key: str, arguments: dict[str, Any]) -> Outcome | None:
        """Whether the effect sent under `key` happened. Raises OutcomeUnknown when that cannot be told."""
        checked = self.check(arguments)
        if isinstance(checked, Outcome):
            return checked  # a call that is refused for its arguments has no effect to look for
        found = await self.find(ctx, key, checked)
        return bounded(found) if found else None

    async def do(self, ctx: ToolContext, arguments: Any) -> Outcome:
        """The tool's own work, with checked arguments."""
        raise NotImplementedError

    async def find(self, ctx: ToolContext, key: str, arguments: Any) -> Outcome | None:
        """The tool's own query. A tool without one can tell nothing."""
        raise OutcomeUnknown(f"{self.name}: what it did cannot be queried")

    def check(self, arguments: dict[str, Any]) -> Arguments | Outcome:
        """The arguments as the tool's model, or the result that refuses them and names the first wrong one."""
        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "arguments"
            return Outcome(False, f"{self.name}: {where}: {first['msg']}; nothing was done")
        except RecursionError:
            return Outcome(False, f"{self.name}: arguments: nested too deeply; nothing was done")

    @functools.cached_property
    def implementation(self) -> str:
        """Origin, name and a digest of the code that runs and of the arguments it takes (EFF-14)."""
        lines = [_source(each) for each in (*reversed(type(self).__mro__[:-1]), self.arguments)]
        return f"{self.origin}:{self.name}@{hashlib.sha256(''.join(lines).encode()).hexdigest()[:12]}"

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The tool as the provider's protocol describes it."""
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        parameters.pop("description", None)
        for each in parameters.get("properties", {}).values():
            each.pop("title", None)
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }


@functools.cache
def _source(code: type) -> str:
    """The text of a class; reading it takes milliseconds, so each is read once."""
    return inspect.getsource(code)


def parse(text: str) -> dict[str, Any] | Outcome:
    """The arguments of a call from the JSON text that a model sent, or the result that refuses them."""
    if len(text) > ARGUMENTS_BYTES_MAX:
        return Outcome(False, f"arguments: longer than {ARGUMENTS_BYTES_MAX} characters; nothing was done")
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return Outcome(False, "arguments: not valid JSON; nothing was done")
    if not isinstance(arguments, dict):
        return Outcome(False, "arguments: not a JSON object; nothing was done")
    return arguments


def bounded(outcome: Outcome) -> Outcome:
    """The outcome with a text that fits into a request, marked where it was cut."""
    if len(outcome.text) <= RESULT_CHARS_MAX:
        return outcome
    return Outcome(
        outcome.ok, f"{outcome.text[:RESULT_CHARS_MAX]}\n[cut after {RESULT_CHARS_MAX} characters]", outcome.late
    )
