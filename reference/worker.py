"""Owns the worker process: it waits for work that it may take, runs one work at a time, and goes when it is told to.

A worker that cannot read its store stays alive, says so in one line, calls no model and no tool, and tries again with a
bounded backoff (EFF-10).
"""

from __future__ import annotations

import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from faults.probe import reach
from reference import context, control, effects, outbound, outbox, ownership, provider, recovery, turns
from reference.identity import Identity
from reference.model import Fenced, StateUnavailable
from reference.ownership import Lookout
from reference.running import POLL_S, Kit, Late, LetGo, Process, Run, rung
from reference.settings import Settings
from reference.store import Row, Store
from reference.tools import registry

OWNERS_LOOK_S = 0.05
FAULT_WAIT_S_MAX = 2.0


def main(settings: Settings, kit: Kit | None = None) -> int:
    """Run a worker until it is told to go; its exit status. kit: other ways out into the world, for tests."""
    return anyio.run(_main, settings, kit)


async def _main(settings: Settings, kit: Kit | None) -> int:
    own = kit is None
    if kit is None:
        kit = Kit(provider.stream, registry(settings), context.messages, outbound.client(settings))
    told = _Told()
    try:
        with _signals(told, restored=not own):
            return await _live(settings, kit, told)
    finally:
        if own:
            await kit.client.close()


class _Told:
    """Whether this process was told to go, as its signal handler saw it."""

    def __init__(self) -> None:
        self.go = False
        self.process: Process | None = None

    def __call__(self, *_: object) -> None:
        self.go = True
        if self.process is not None:
            self.process.exiting = True
            self.process.store.bell.ring()  # it may be waiting for just that


@contextmanager
def _signals(told: _Told, restored: bool) -> Iterator[None]:
    """Handle SIGTERM and SIGINT between two steps of Python, so that a process held at a breakpoint has seen the signal
    when it is let go. A process that lives for this alone keeps them: a late signal must not kill it on its way out."""
    before = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items() if restored else ():
            signal.signal(number, handler)


async def _live(settings: Settings, kit: Kit, told: _Told) -> int:
    """Open the store and serve it; after a fault of the store, let go of everything and begin again."""
    wait_s = OWNERS_LOOK_S
    lookout, kept = Lookout(str(Identity.mine()), settings), list[Late]()
    exits: int | None = None
    while not told.go:
        try:
            store = Store.open(settings)
        except StateUnavailable as error:
            _say(f"recovery_failed: {error}")
        else:
            told.process = process = Process(store, settings, kit, lookout.me, kept)
            process.exiting = told.go  # read after the handler can reach the process, so that no signal falls between
            served = 0
            try:
                with _closing(store):
                    exits = control.exits(store) if exits is None else exits
                    while kept:
                        effects.leave_late(store, kept[0])
                        kept.pop(0)
                    while (row := await _next(process, lookout, exits)) is not None:
                        status = await _work(process, row)
                        served += 1
                        if status is not None:
                            return status
                    _leave(process)
                    return 0
            except (sqlite3.Error, OSError) as error:
                _say(f"store: {error}; what ran is let go and taken up again")
            finally:
                told.process = None
            wait_s = OWNERS_LOOK_S if served > 1 else wait_s
        await _pause(told, wait_s)
        wait_s = min(2 * wait_s, FAULT_WAIT_S_MAX)
    return 0


@contextmanager
def _closing(store: Store) -> Iterator[None]:
    try:
        yield
    finally:
        store.close()


async def _pause(told: _Told, wait_s: float) -> None:
    """Wait before the store is tried again. A signal handler can set a flag, not an event, so the flag is looked at."""
    until = anyio.current_time() + wait_s
    while not told.go and anyio.current_time() < until:  # noqa: ASYNC110
        await anyio.sleep(POLL_S)


async def _next(process: Process, lookout: Lookout, exits: int) -> Row | None:
    """The next work to take up; None when this process is to go. exits: how often everyone had been asked to exit when
    this process began."""
    store, resting = process.store, False
    while True:
        store.bell.clear()
        token = store.changed()
        if process.exiting or control.exits(store) != exits:
            process.exiting = True
            return None
        row, pending = lookout.next(store)
        if row is not None:
            return row
        if _tidy(store) or not resting:
            reach("worker.idle")
            resting = True
        await _idle(process, token, pending)


def _tidy(store: Store) -> bool:
    """Bring to its place what an earlier owner left and no owner is about to take up; whether there was something."""
    strays = outbox.strays(store)
    for work_id in strays:
        outbox.deliver(store, work_id)
    effects.take_late_at_rest(store)
    return bool(strays)


async def _idle(process: Process, token: object, pending: bool) -> None:
    """Wait until something was committed, or until it is time to look at other owners and at tries that fall due."""
    until = anyio.current_time() + OWNERS_LOOK_S
    while not process.exiting and process.store.changed(token) == token:
        if pending and anyio.current_time() >= until:
            return
        await rung(process.store.bell)


async def _work(process: Process, row: Row) -> int | None:
    """Take up one work and run it as far as it goes. An exit status if the process must end with it."""
    holding: list[Run] = []
    try:
        run = await _take_up(process, row, holding)
        if run is not None:
            await turns.go_on(run)
    except Fenced as fault:
        _say(str(fault))
    except LetGo as reason:
        return _let_go(holding[0], reason.why)
    return None


async def _take_up(process: Process, row: Row, holding: list[Run]) -> Run | None:
    fresh = not row["begun"] and row["desired_state"] == "run"
    if not (fresh or row["parked"]):
        return await recovery.recover(process, row, holding)
    held = ownership.claim(process.store, row, process.me, process.settings)
    if held is None:
        return None
    run = turns.take_up(process, held)
    holding.append(run)
    if fresh:
        turns.begin(run)
    return run


def _let_go(run: Run, why: str) -> int | None:
    """Give up the work in hand, each reason in its own way."""
    if why == "overrun":
        _say(f"{run.held.work_id}: a tool outlasted the grace period; its outcome is left to the next owner")
        return 1
    try:
        if why == "exit":
            turns.checkpoint(run)
        else:
            turns.obey(run)
    except Fenced as fault:
        _say(str(fault))
    return None


def _leave(process: Process) -> None:
    """The end of a graceful exit: nothing is in hand any more."""
    process.close_admission()
    reach("exit.checkpoint.stored")


def _say(line: str) -> None:
    sys.stderr.write(f"worker: {line}\n")
    sys.stderr.flush()
