"""Owns what a target is: how to start what is judged, how to speak to it, what it claims and where it can be held.

A target is described, never imported: its processes are started from a command line, in its own environment, and it is
read through its public entrances. To add one, make a `Target` and register it in `scenarios/targets/__init__.py`, or
hand it to the command line as `--target package.module:NAME`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from scenarios.history import HistoryWriter


@dataclass(frozen=True, slots=True)
class Places:
    """Where one life of a process finds its things: the case's folder and the two addresses of the world."""

    folder: Path
    provider_url: str
    effects_url: str
    role: str
    life: int

    @property
    def store(self) -> Path:
        """The folder of the target's databases."""
        return self.folder / "store"

    @property
    def workspace(self) -> Path:
        """The folder that the target's file tools may touch."""
        return self.folder / "workspace"

    def fifo(self, direction: str) -> Path:
        """The named pipe that is this life's standard input (`in`) or output (`out`)."""
        return self.folder / "sock" / f"{self.role}.{self.life}.{direction}"


class Client(Protocol):
    """One user's way into a target. Each call is logged before it is made and after it is heard; a call whose reply
    never came is heard as `unknown`.

    Every method returns False where the outcome is unknown or the target could not be reached at all.
    """

    def up(self, places: Places) -> None:
        """A fresh life of the entrance is ready at these places."""

    def down(self) -> None:
        """The entrance has died or been told to go."""

    def open(self, session: str) -> bool:
        """Create a session, and watch it."""

    def send(self, session: str, request: str, text: str) -> bool:
        """Send an input under a client request id."""

    def control(self, session: str, action: str, version: int | None) -> bool:
        """Pause, resume or stop a session."""

    def quit(self) -> bool:
        """Quit and stop everything."""

    def watch(self, session: str) -> None:
        """Connect to the session's events after the last number seen."""

    def unwatch(self, session: str) -> None:
        """Let go of the session's events."""

    def forget(self, session: str) -> None:
        """Be as a client that has seen no event of the session yet."""

    def snapshot(self) -> dict[str, Any] | None:
        """The sessions as `scenarios.snapshot` shapes them, under the case's names; None if it could not be had."""

    def at_rest(self) -> bool:
        """Whether everything that was accepted has been told to be at rest."""

    def caught_up(self, events: Mapping[str, int]) -> bool:
        """Whether each session that is watched has been heard up to the event that `events` gives for it."""

    def close(self) -> None:
        """Let go of everything."""

    def join(self) -> None:
        """Wait, after `close` and once every process has ended, until nothing more is written into the history."""


class Stage(Protocol):
    """What a client may ask of the case it plays in."""

    @property
    def history(self) -> HistoryWriter:
        """Where to log."""

    def changed(self) -> None:
        """Tell whoever waits that something was heard."""

    def run_tool(self, argv: list[str], env: Mapping[str, str]) -> str | None:
        """Run one of the target's own commands to its end and give what it printed; None if it failed."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is judged.

    roles: its processes, in the order in which they start. `entrance_role` is the one that clients speak to.
    command: the command line of one life. entry: `module:function` to call it in a warm fork, or None (always cold).
    environment: the variables that one life gets, beside the probe's.
    ready: the file whose appearance says that a life of `entrance_role` can be spoken to, or None.
    client: makes a client. preload: `module:function` for the fork server, or None.
    claims: the clauses it claims. points: the names of the breakpoints that it declares.
    entrances: how it can be spoken to. sends_controls: whether a user can pause, resume, stop and quit. has_clock:
    whether it obeys the case's clock. abilities: what scenarios may need of it, such as `files` or `plugins`.
    """

    name: str
    title: str
    roles: tuple[str, ...]
    entrance_role: str
    command: Callable[[Places], list[str]]
    environment: Callable[[Places], dict[str, str]]
    client: Callable[[Stage], Client]
    claims: tuple[str, ...]
    points: tuple[str, ...]
    entrances: tuple[str, ...] = ("http",)
    entry: str | None = None
    preload: str | None = None
    ready: Callable[[Places], Path] | None = None
    stdio: bool = False
    sends_controls: bool = True
    has_clock: bool = False
    abilities: frozenset[str] = frozenset()
    policies: tuple[str, ...] = ("continue",)
    python: str = sys.executable
    version: Callable[[], str] = field(default=lambda: "unknown")
