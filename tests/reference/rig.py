"""Owns what the engine's tests stand on: a store in a folder, a scripted stand-in for the model, tools that count what they
did, and a worker that can be made to die at any breakpoint.

A death is an exception that nothing in the runtime catches, raised at a breakpoint; the dead owner's identity is then one
that no process has. What happens to real processes is tested with the harness.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from reference import context, control, intake, snapshot
from reference.identity import Identity
from reference.model import Counts, Outcome, OutcomeUnknown, ProviderFault, Reply, ToolCall, ToolContext
from reference.ownership import Lookout
from reference.running import Kit, Process
from reference.settings import Settings
from reference.store import Store
from reference.worker import _leave, _next, _tidy, _work

NO_CLIENT: Any = object()  # the model and the tools of these tests call nobody


class Death(BaseException):
    """The process ends here."""


@dataclass
class Fake:
    """A tool whose world is a list: what it applied, by key."""

    name: str
    read_only: bool = False
    idempotent: bool = False
    state_probe: bool = False
    builtin: bool = False
    trusted: bool = True
    implementation: str = "test:1"
    applied: list[str] = field(default_factory=list)
    lose: int = 0

    async def run(self, ctx: ToolContext, arguments: dict[str, Any]) -> Outcome:
        await anyio.lowlevel.checkpoint()
        if not self.read_only and not (self.idempotent and ctx.key in self.applied):
            self.applied.append(ctx.key)
        if self.lose > 0:
            self.lose -= 1
            raise OutcomeUnknown("lost")
        return Outcome(True, f"{self.name} done")

    async def probe(self, ctx: ToolContext, key: str, arguments: dict[str, Any]) -> Outcome | None:
        await anyio.lowlevel.checkpoint()
        return Outcome(True, f"{self.name} done", late=True) if key in self.applied else None


class Tools(dict[str, Fake]):
    """A registry."""

    def offered(self) -> list[dict[str, Any]]:
        return []


@dataclass
class Model:
    """A scripted model: for each input's text the replies in order, a reply being text or a list of tool names."""

    script: dict[str, list[str | list[str]]]
    requests: list[list[dict[str, Any]]] = field(default_factory=list)
    attempts: list[str] = field(default_factory=list)
    billed: dict[str, Counts] = field(default_factory=dict)
    faults: list[ProviderFault] = field(default_factory=list)
    during: Callable[[], None] | None = None

    async def stream(
        self,
        client: object,
        settings: Settings,
        attempt: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        on_piece: Callable[[str, Counts | None], None],
    ) -> Reply:
        self.requests.append(json.loads(json.dumps(messages)))
        self.attempts.append(attempt)
        assert messages[-1]["role"] != "assistant"
        users = [m["content"] for m in messages if m["role"] == "user"]
        last = messages[-1]
        quoted = [text for text in self.script if last["role"] == "system" and text in last["content"]]
        active = quoted[0] if quoted else users[-1]
        at = max(i for i, m in enumerate(messages) if m["role"] == "user" and m["content"] == active)
        replies = self.script[active]
        own = {name for each in replies if isinstance(each, list) for name in each}
        called = ([call["function"]["name"] for call in m.get("tool_calls") or ()] for m in messages[at:])
        step = sum(1 for names in called if own.intersection(names))  # another input's turn may have run in between
        reply = replies[min(step, len(replies) - 1)]
        n = len(self.requests)
        counts = Counts(10, 0, 5)
        self.billed[attempt] = counts
        if self.during:
            during, self.during = self.during, None
            during()
            await anyio.sleep(30)
        if isinstance(reply, list):
            return Reply("", tuple(ToolCall(f"call_{n}_{i}", name, "{}") for i, name in enumerate(reply)), counts)
        for piece in reply.split(" "):
            on_piece(piece, None)
            await anyio.lowlevel.checkpoint()
            if self.faults:
                raise self.faults.pop(0)
        return Reply(reply, (), counts)


@dataclass
class Rig:
    """One store and everything around it."""

    settings: Settings
    store: Store
    model: Model
    tools: Tools
    reached: list[str] = field(default_factory=list)
    hook: Callable[[str, int], None] | None = None
    lives: int = 0

    def reach(self, point: str, work: str | None = None, detail: dict[str, Any] | None = None) -> None:
        """What the probe is replaced by."""
        assert not self.store.work.driver.in_transaction, f"{point} is reached inside a transaction"
        self.reached.append(point)
        if self.hook:
            self.hook(point, self.reached.count(point))

    def die_at(self, *addresses: tuple[str, int]) -> None:
        """Die at each of these points, at that ordinal."""
        left = list(addresses)

        def hook(point: str, ordinal: int) -> None:
            if (point, ordinal) in left:
                left.remove((point, ordinal))
                raise Death(f"{point}#{ordinal}")

        self.hook = hook

    def process(self, me: str | None = None) -> Process:
        """A fresh life of a worker; by default of a process that is dead when anybody looks."""
        self.lives += 1
        mine = Identity.mine()
        dead = str(replace(mine, pid=2**22 + self.lives, start=self.lives))
        kit = Kit(self.model.stream, self.tools, context.messages, NO_CLIENT)
        return Process(self.store, self.settings, kit, me or dead)

    def life(self, exiting: bool = False, rounds: int = 50, me: str | None = None) -> bool:
        """Let one worker live until there is nothing to do; whether it died."""
        process = self.process(me)
        process.exiting = exiting

        async def main() -> bool:
            lookout = Lookout(process.me, self.settings)
            exits = control.exits(self.store)
            try:
                for _ in range(rounds):
                    if lookout.next(self.store)[0] is None and not process.exiting:
                        _tidy(self.store)
                        return False
                    row = await _next(process, lookout, exits)
                    if row is None:
                        _leave(process)
                        return False
                    await _work(process, row)
            except Death:
                return True
            except BaseExceptionGroup as group:
                if group.split(Death)[1] is not None:
                    raise
                return True
            raise AssertionError("no rest after so many rounds")

        return anyio.run(main)

    def until_rest(self, lives_max: int = 30) -> int:
        """Let one life follow another until one does not die; how many died."""
        for died in range(lives_max):
            if not self.life():
                return died
        raise AssertionError("no life came to rest")

    def open(self, name: str | None = None) -> str:
        """A session."""
        return str(intake.create_session(self.store, None, name)["session"])

    def send(self, session: str, text: str, request_id: str | None = None) -> str:
        """An input; its work."""
        return str(intake.accept(self.store, session, request_id or f"r-{text}", text)[0]["work_id"])

    def control(self, session: str, action: str) -> dict[str, Any]:
        """A user's control."""
        return control.apply(self.store, session, action)

    def view(self, session: str) -> dict[str, Any]:
        """The snapshot of a session."""
        return snapshot.session(self.store, session)

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """Rows of the work database."""
        with self.store.read() as tx:
            return [dict(row) for row in tx.all(sql, *values)]


def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: dict[str, list[str | list[str]]], *fakes: Fake) -> Rig:
    """A rig in a fresh folder whose breakpoints are in the test's hand."""
    (tmp_path / "workspace").mkdir(exist_ok=True)
    settings = Settings(data=tmp_path, workspace=tmp_path / "workspace", backoff_s=0.01, pieces_per_commit=2)
    rig = Rig(settings, Store.open(settings), Model(script), Tools({fake.name: fake for fake in fakes}))
    for module in ("intake", "control", "ownership", "outbox", "running", "effects", "turns", "recovery", "worker"):
        monkeypatch.setattr(f"reference.{module}.reach", rig.reach)
    return rig
