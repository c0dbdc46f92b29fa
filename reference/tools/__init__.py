"""Owns the trusted registry: which tools there are, and what recovery may assume of each (EFF-7).

What a tool may be relied on for is said here, for the implementations that this program ships, and by nobody else. A
plugin's own word is kept for people to read (`claims`) and counts as unknown: its `read_only`, `idempotent` and
`state_probe` are false whatever it says. A plugin cannot take the name of another tool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reference.model import Outcome, ToolContext
from reference.settings import Settings
from reference.tools.base import BaseTool, parse
from reference.tools.files import Glob, Grep, List, Read, Write
from reference.tools.services import Charge, Mail, NotePlugin, Order, Publish

__all__ = ["Entry", "ToolRegistry", "parse", "registry"]

FREE_WHILE_UNKNOWN = (Read, Grep, Glob, List)
TRUSTED: tuple[BaseTool, ...] = (Read(), Grep(), Glob(), List(), Write(), Charge(), Mail(), Publish(), Order())
PLUGINS: tuple[BaseTool, ...] = (NotePlugin(),)


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool as the registry vouches for it."""

    tool: BaseTool
    trusted: bool

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def description(self) -> str:
        return self.tool.description

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        schema: dict[str, Any] = self.tool.schema["function"]["parameters"]
        return schema

    @property
    def read_only(self) -> bool:
        """It changes nothing, so it may run again."""
        return self.trusted and self.tool.read_only

    @property
    def idempotent(self) -> bool:
        """Its receiver deduplicates by key, so the same key may be sent again."""
        return self.trusted and self.tool.idempotent

    @property
    def state_probe(self) -> bool:
        """Whether its effect happened can be asked."""
        return self.trusted and self.tool.state_probe

    @property
    def builtin(self) -> bool:
        """A genuine `read`, `grep`, `glob` or `list`, by its class and not by its name (EFF-8)."""
        return self.trusted and type(self.tool) in FREE_WHILE_UNKNOWN

    @property
    def claims(self) -> dict[str, bool]:
        """What the tool says of itself. Nothing is decided by it."""
        tool = self.tool
        return {"read_only": tool.read_only, "idempotent": tool.idempotent, "state_probe": tool.state_probe}

    @property
    def implementation(self) -> str:
        """Identity of the code that runs (EFF-14)."""
        return self.tool.implementation

    async def run(self, ctx: ToolContext, arguments: dict[str, Any]) -> Outcome:
        """Do it. Wrong arguments give an outcome that is not ok. Raises OutcomeUnknown when the reply was lost."""
        return await self.tool.run(ctx, arguments)

    async def probe(self, ctx: ToolContext, key: str, arguments: dict[str, Any]) -> Outcome | None:
        """Whether the effect sent under `key` happened: its outcome, or None if it certainly did not. Raises
        OutcomeUnknown when that cannot be told."""
        return await self.tool.probe(ctx, key, arguments)


class ToolRegistry:
    """The tools of one process. `effects` says whether an effect service is configured: without one, the tools that
    need it are offered to no model, but still known, so that what they did earlier can be judged."""

    def __init__(self, trusted: Iterable[BaseTool], plugins: Iterable[BaseTool], effects: bool) -> None:
        self._entries: dict[str, Entry] = {}
        for vouched, tools in ((True, trusted), (False, plugins)):
            for tool in tools:
                if tool.name in self._entries:
                    raise ValueError(f"tool {tool.name!r}: the name is taken; give the plugin's tool another one")
                self._entries[tool.name] = Entry(tool, vouched)
        self._offered = [each.tool.schema for each in self._entries.values() if effects or not each.tool.needs_effects]

    def get(self, name: str) -> Entry | None:
        """The tool called so, or None."""
        return self._entries.get(name)

    def offered(self) -> list[dict[str, Any]]:
        """Every tool that can run, as the provider's protocol describes it."""
        return self._offered


def registry(settings: Settings) -> ToolRegistry:
    """The registry of this process."""
    return ToolRegistry(TRUSTED, PLUGINS, effects=settings.effects_url is not None)
