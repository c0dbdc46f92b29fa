"""Owns the words that the modules of the runtime share: items, calls, replies, outcomes, events, and the errors by blame.

Errors, by who has to act:

    Refused           the user asked for something that cannot be: code, field, message, HTTP status
    Fenced            a write of an old generation; its process must let go of the work
    StateUnavailable  the store cannot be read or is of another version; nothing is written, nothing is run
    ProviderFault     the model provider failed; `passing` says whether asking again can help
    OutcomeUnknown    a tool's reply was lost: its effect may have happened
    HistoryFault      a stored history that cannot be sent to a model without guessing
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import aiohttp

ItemKind = Literal["user", "assistant", "tool_result", "note", "reconciliation"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call in a model's reply. `arguments` is the JSON text as the provider sent it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens that a provider counted for one attempt. `cached_tokens` is part of `input_tokens`."""

    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole reply of a model. `counts` is None if the provider sent none."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    counts: Counts | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a transcript, in stored order. `complete` is false for a reply that was cut off; `placeholder` is true
    for a result that recovery made because no real one was known. A reconciliation carries a late real result for
    `call_id`."""

    item: int
    kind: ItemKind
    turn_id: str | None = None
    work_id: str | None = None
    request_id: str | None = None
    text: str = ""
    complete: bool = True
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    placeholder: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool gave. `late` marks a result that came by reconciliation and not from the call itself."""

    ok: bool
    text: str
    late: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """One numbered event of a session, from 1 without gaps."""

    number: int
    type: str
    data: dict[str, Any]


class Refused(Exception):
    """A request that the user has to change. `field` names the part that is wrong."""

    def __init__(self, code: str, message: str, field: str | None = None, status: int = 409) -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.status = code, message, field, status


class Fenced(Exception):
    """A write under a generation that no longer owns the work (OWN-3). Nothing of it was stored."""


class StateUnavailable(Exception):
    """The store cannot be read, or is of a version that this program does not know (REC-1, UIX-4). One line."""


class ProviderFault(Exception):
    """The provider failed. kind: `cut`, `unreachable`, `status`, `protocol`; passing: asking again can help."""

    def __init__(self, kind: str, message: str, passing: bool) -> None:
        super().__init__(message)
        self.kind, self.message, self.passing = kind, message, passing


class OutcomeUnknown(Exception):
    """A tool's reply was lost after it may have acted."""


class HistoryFault(Exception):
    """A history that has no honest form as a request, such as the same call id twice in one reply (HIS-6)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may use. `key` is the idempotency key, the same for every sending of one effect."""

    workspace: Path
    effects_url: str | None
    client: aiohttp.ClientSession
    key: str
    call_id: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)


class Tool(Protocol):
    """A tool as the trusted registry knows it (EFF-7): the runtime asks nobody else what it may assume of a call.

    read_only, idempotent, state_probe: what recovery may rely on; all three count for nothing unless `trusted`.
    builtin: one of `read`, `grep`, `glob`, `list`, which run while an effect is unknown (EFF-8).
    implementation: identity of the code that runs, such as `builtin:read@0123456789ab`.
    """

    @property
    def name(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def idempotent(self) -> bool: ...
    @property
    def state_probe(self) -> bool: ...
    @property
    def builtin(self) -> bool: ...
    @property
    def trusted(self) -> bool: ...
    @property
    def implementation(self) -> str: ...

    async def run(self, ctx: ToolContext, arguments: dict[str, Any]) -> Outcome:
        """Do it. Raises OutcomeUnknown when the reply was lost."""
        ...

    async def probe(self, ctx: ToolContext, key: str, arguments: dict[str, Any]) -> Outcome | None:
        """Ask whether the effect happened: its outcome, or None if it certainly did not. Raises OutcomeUnknown when
        that cannot be told."""
        ...


class Registry(Protocol):
    """The trusted registry of tools."""

    def get(self, name: str) -> Tool | None:
        """The tool called so, or None."""
        ...

    def offered(self) -> list[dict[str, Any]]:
        """Every tool as the provider's protocol describes it."""
        ...


# The two entrances that the engine is given, so that it needs neither HTTP nor a provider in its own tests.
Stream = Callable[..., Awaitable[Reply]]
Messages = Callable[[Sequence[Item], "str | None"], list[dict[str, Any]]]
