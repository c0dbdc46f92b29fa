"""Owns the playing of one case: it starts the target, does what the users do, carries out the plan, and writes it down.

Two lines of action meet in a case. The *workload* goes on in one thread, step by step. The *plan* acts in a thread of
its own for each address that a process has reached and stands still at: it kills, starts, freezes, moves the clock, lets
users act, and then lets the process go on if it still lives. They meet only through the history and one condition variable,
so that every wait here is for an event and has a bound.

Nothing here decides whether a promise was kept; see `scenarios/judge.py`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from faults import plan as ops
from faults.catalogue import CONTROL_STORED, POINTS, WORKER_IDLE, point
from faults.clock import CaseClock, HostBoot
from faults.controller import Controller, Held
from faults.errors import HarnessFault
from faults.processes import Keeper, OomCount, Process, Proof, WaitStatus, prove, still
from faults.stores import CaseFolder, break_store, digest, inspect, locked, mend_store
from scenarios import case as steps
from scenarios.case import Case
from scenarios.clients import make_fifos
from scenarios.history import HistoryWriter
from scenarios.snapshot import AT_REST, Snapshot
from scenarios.target import Client, Places, Target
from scenarios.world.handle import World

READY_S_MAX = 20.0
EXIT_S_MAX = 20.0
EXIT_PART = 0.75
EXPIRED_GRACE_S = 0.2
LATE_POINT_S_MAX = 2.0
TIDY_S_MAX = 3.0
TELLING = frozenset({"projection", "graceful exit"})  # moments in which an app that is held tells clients nothing more
LAST_WORDS_MAX = 300
REFUSALS = ("recovery_failed", "state_unavailable")


@dataclass(frozen=True, slots=True)
class Played:
    """What is left when a case has been played: where its two logs are, and how long each phase took, in seconds."""

    history: Path
    world: Path
    phases: dict[str, float]


@dataclass(slots=True)
class Life:
    """One life of one role: its process, where it was started, and whether it was told to go."""

    role: str
    number: int
    process: Process
    places: Places
    told: bool = False

    @property
    def label(self) -> str:
        """How the probe names it, such as `worker.2`."""
        return f"{self.role}.{self.number}"


Ending = list[tuple[Life, bool]]
"""Who is to end by a quit; for each, whether it was only being started then (`Stagehand._await_end`)."""


@dataclass
class Stagehand:
    """Plays one case. Make one for each case; `play` once.

    record_all: have every point reported, the frequent ones too, whether the plan names them or not.
    late_point_s_max: how long, once all is at rest, a point of the plan that nobody has come to is still waited for.
    """

    case: Case
    target: Target
    keeper: Keeper
    world: World
    logs: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    record_all: bool = False
    late_point_s_max: float = LATE_POINT_S_MAX

    def __post_init__(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        self.history = HistoryWriter(self.logs / "history.jsonl")
        self._condition = threading.Condition()
        self._lives: dict[str, list[Life]] = {role: [] for role in self.target.roles}
        self._busy = self._settling = self._ups = self._launching = 0
        self.broken = False
        self.starting, self.killing = threading.Lock(), threading.Lock()
        self._frozen: set[str] = set()
        self._last_point: dict[str, str] = {}
        self._pending = {str(fault.at): fault for fault in self.case.plan}
        self._tells_idle = WORKER_IDLE.name in self.target.points
        planned = {fault.at.point for fault in self.case.plan}
        planned |= {op.at.point for fault in self.case.plan for op in fault.ops if isinstance(op, ops.Await)}
        self._quiet = {
            point.name for point in POINTS if point.frequent and point.name not in planned and not self.record_all
        }
        self._deaths = itertools.count(1)
        self._quit_stored: list[Life] | None = None
        self._idled: set[str] = set()
        self._world_id = f"{os.getpid()}-{time.monotonic_ns()}"
        self._faults: list[str] = []
        self._rest: dict[str, Any] | None = None  # what was there when the case had come to rest
        self._requests: list[str] = [step.request for step in self.case.steps if isinstance(step, steps.Send)]
        self._phases: dict[str, float] = {}
        self._events: dict[str, int] = {}

    # The stage that clients see --------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Somebody heard something; whoever waits looks again."""
        with self._condition:
            self._condition.notify_all()

    def run_tool(self, argv: list[str], env: Mapping[str, str]) -> str | None:
        """Run one of the target's own commands to its end and give what it printed; None if it failed."""
        log = self.folder.logs / f"tool-{time.monotonic_ns()}"
        process = self.keeper.start("tool.0", argv, dict(os.environ) | dict(env), self.folder.root, log, cold=True)
        status = process.wait(EXIT_S_MAX)
        return log.read_text() if status and status.code == 0 else None

    # One case --------------------------------------------------------------------------------------------------------

    def play(self) -> Played:
        """Play the case to its end. Raises HarnessFault if the harness itself failed; what was written stays."""
        with self._phase("set-up"):
            self.folder = CaseFolder()
            self.keeper.guard(self.folder.root)
            self.clock = CaseClock(self.folder.clock)
            self.boot = HostBoot(self.folder.boot)
        try:
            with self._staged():
                self._play()
        finally:
            self.history.close()
            self.folder.remove()
            self.keeper.forget(self.folder.root)
        if self._faults:
            raise HarnessFault(self._faults[0])
        return Played(self.history.path, self.logs / "world.jsonl", self._phases)

    @contextlib.contextmanager
    def _staged(self) -> Iterator[None]:
        self.controller = Controller(self.folder.socket, self._on_reached)
        log = self.logs / "world.jsonl"
        sites = [point.name for point in POINTS if point.role == "world" and point.name not in self._quiet]
        address = self.world.open(self._world_id, self.case.script, log, self.folder.socket, sites)
        self._provider_url, self._effects_url = address.provider_url, address.effects_url
        self.client: Client = self.target.client(self)
        try:
            yield
        finally:
            with self._phase("tear-down"):
                self._tear_down()

    def _tear_down(self) -> None:
        """End everything of this case. A part of the plan that is still under way may start a process after the others
        have been killed, so what lives is killed until no part is left."""
        self.client.close()
        deadline = time.monotonic() + EXIT_S_MAX
        while True:
            for life in self._alive():
                life.process.kill()
            for life in self._alive():
                life.process.wait(EXIT_S_MAX)
            self.controller.release_all()
            if self._until(lambda: self._busy == 0, min(deadline, time.monotonic() + 0.1)) and not self._alive():
                break
            if time.monotonic() > deadline:
                self._faults.append("a part of the plan was still under way when the case had ended")
                break
        for lives in self._lives.values():
            for life in lives:
                life.process.bury()
        self.client.join()
        self.world.close(self._world_id)
        self.controller.close()
        self._faults += [str(fault) for fault in self.controller.faults]

    def _play(self) -> None:
        case = self.case
        self.history.write(
            "case.opened",
            id=case.id,
            scenario=case.scenario,
            fault=case.fault,
            target=case.target,
            policy=case.policy,
            disarmed=case.disarmed,
        )
        with self._phase("start"):
            for step in case.steps:
                if isinstance(step, steps.File):
                    self._put_file(step)
            for role in self.target.roles:
                self._start(role)
            self._until(self._idle, time.monotonic() + READY_S_MAX)
        with self._phase("play"):
            for step in case.steps:
                self._step(step)
        with self._phase("settle"):
            self._settle_to_the_end()
        with self._phase("look"):
            if self._rest is None:
                self._look("final")
            else:
                self._keep("final", self._rest)
            if not self._look("again"):
                self._settle(self.case.settle_s_max)  # the first look has set something going; see what it does
            # What is committed last may still be on its way to a client that stays connected.
            self._until(lambda: self.client.caught_up(self._events), time.monotonic() + TIDY_S_MAX)
        self.history.write("case.closed")

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.monotonic() - began

    # What users do ----------------------------------------------------------------------------------------------------

    def _step(self, step: steps.Step, insisting: bool = True) -> None:
        """Do what the step says. insisting: a user whom a fault has left unheard asks again (`_insist`)."""
        match step:
            case steps.Open():
                self._insist("open", lambda: self.client.open(step.session), insisting)
            case steps.Send():
                if not self.client.send(step.session, step.request, step.text) and step.insist:
                    self._insist("send", lambda: self.client.send(step.session, step.request, step.text), insisting)
            case steps.Control():
                self._insist("control", lambda: self.client.control(step.session, step.action, step.version), insisting)
            case steps.Quit():
                self._await_exits(self.target.roles, self._quit(insisting))
            case steps.Watch(do="watch"):
                if step.anew:
                    self.client.forget(step.session)
                self.client.watch(step.session)
            case steps.Watch():
                self._hear_the_news(step.session)
                self.client.unwatch(step.session)
            case steps.Look():
                self._look(step.name)
            case steps.SettleStep():
                self._rest_awaited(self._settle(self.case.settle_s_max), "a step of the workload")
            case steps.MoveClockStep():
                self._move_clock(step.by_s, "a step of the workload")
            case steps.Bounce():
                self._bounce(step.role)
            case steps.File():
                pass

    def _hear_the_news(self, session: str) -> None:
        """Who leaves has been told what there was to tell: what they miss is what comes afterwards, and no race. Where the
        telling itself is held, or the entrance is on its way out, they leave as they are."""
        if self._telling_is_held():
            return
        view = (self.client.snapshot() or {}).get(session)
        news = {session: int(view.get("event") or 0)} if view else {}
        self._until(lambda: self.client.caught_up(news) or self._telling_is_held(), time.monotonic() + TIDY_S_MAX)

    def _telling_is_held(self) -> bool:
        points = [point(each.point) for each in self.controller.held() if each.kept]
        return any(each.role == "app" and each.moment in TELLING for each in points)

    def _quit(self, insisting: bool = True) -> Ending:
        """Have a user quit. Gives the processes that are to end by it: those that were there when it was stored, or when it
        was sent, if the target does not tell. One that a part of the plan has started since owes no end, and nobody does
        where nobody heard it."""
        self._quit_stored, there = None, self._alive()
        spoken = set(self._last_point)
        heard = self._insist("quit", self.client.quit, insisting)
        ending = self._quit_stored or (there if heard else [])
        return [(life, self._tells_idle and life.role == "worker" and life.label not in spoken) for life in ending]

    def _insist(self, what: str, act: Callable[[], bool], insisting: bool = True) -> bool:
        """Do it, and again whenever a fault has brought the entrance back, until it was heard. Once only, if `insisting`
        is false: the entrance cannot come back before this is over. Whether it was heard."""
        deadline = time.monotonic() + (self.case.settle_s_max if insisting else 0.0)
        ups = self._ups
        while not act():
            if not self._until(functools.partial(self._entrance_is_newer, ups), deadline):
                self.history.write("client.gave_up", op=what, why="the entrance did not come back within the bound")
                return False
            ups = self._ups
        return True

    def _entrance_is_newer(self, ups: int) -> bool:
        """Whether the entrance has come up since it had done so `ups` times. Asking one that is dying proves nothing."""
        return self._ups > ups

    def _put_file(self, step: steps.File) -> None:
        path = (self.folder.workspace / step.path).resolve()
        if not path.is_relative_to(self.folder.workspace):
            raise HarnessFault(f"case {self.case.id}: file {step.path!r} is outside the workspace")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(step.text)

    def _look(self, name: str) -> bool:
        """Take a snapshot and keep it. False if it shows that something is not at rest."""
        sessions = self.client.snapshot()
        if sessions is None:
            return True
        self._keep(name, sessions)
        return all(work.state in AT_REST for work in Snapshot.model_validate({"sessions": sessions}).works)

    def _keep(self, name: str, sessions: dict[str, Any]) -> None:
        self.history.write("snapshot.taken", when=name, sessions=sessions)
        self._events = {session: int(view.get("event") or 0) for session, view in sessions.items()}

    # Rest --------------------------------------------------------------------------------------------------------------

    def _until(self, true: Callable[[], bool], deadline: float) -> bool:
        """Wait for a change after which `true` holds, at most until `deadline` (monotonic seconds), and no longer once the
        harness itself has failed: such a case is void, whatever comes."""
        with self._condition:
            self._condition.wait_for(lambda: bool(self._faults) or true(), max(0.0, deadline - time.monotonic()))
            return true()

    def _settle(self, bound_s: float, beside: bool = False) -> bool:
        """Wait until all is at rest, by what clients were told and by what the snapshot says.

        beside: asked for by a part of the plan, which does not wait for itself, nor for another one that waits so. The
        workload waits for all of them: what such a part does next is still to come.
        """
        deadline = time.monotonic() + bound_s
        while self._until(lambda: self.client.at_rest() and self._idle(beside), deadline):
            self.world.hear(self._world_id)
            sessions = self._tidy()
            if sessions is None:
                return False
            with self._condition:
                if self._idle(beside):
                    self._rest = sessions
                    return True
        return False

    def _rest_awaited(self, came: bool, by: str, within_s: float | None = None) -> None:
        """Write down that the bound passed before all was at rest: what follows comes at a moment that the clock chose.

        within_s: the bound; None for the case's own."""
        if not came:
            self.history.write("rest.missed", by=by, within_s_max=within_s or self.case.settle_s_max)

    def _idle(self, beside: bool = False) -> bool:
        """Whether no part of the plan is under way and every worker that can act has said that it has nothing to do. A
        target that does not tell is taken at its clients' word alone."""
        busy = self._busy - (self._settling if beside else 0)
        if busy or not self._tells_idle:
            return busy == 0
        acting = [life for life in self._alive("worker") if life.label not in self._frozen]
        return all(self._last_point.get(life.label) == WORKER_IDLE.name for life in acting)

    def _tidy(self) -> dict[str, Any] | None:
        """A snapshot that agrees that all is at rest and every attempt closed; asked for again at each change."""
        deadline = time.monotonic() + TIDY_S_MAX
        while True:
            sessions = self.client.snapshot()
            if sessions is None:
                return None
            view = Snapshot.model_validate({"sessions": sessions})
            open_attempts = any(each.state == "open" for one in view.sessions.values() for each in one.attempts)
            if all(work.state in AT_REST for work in view.works) and not open_attempts:
                return sessions
            if time.monotonic() > deadline or self._faults:
                return None
            with self._condition:
                self._condition.wait(0.02)

    def _settle_to_the_end(self) -> None:
        self._rest = None
        settled = self._settle(self.case.settle_s_max)
        if self._pending and not self.case.disarmed:
            # A point may lie behind the last word that clients hear.
            self._until(lambda: not self._pending, time.monotonic() + self.late_point_s_max)
            self._rest = None
            settled = self._settle(self.case.settle_s_max)
        self.history.write(
            "case.settled", within_s_max=self.case.settle_s_max, settled=settled, why=None if settled else "bound passed"
        )

    # Processes ----------------------------------------------------------------------------------------------------------

    def _alive(self, role: str | None = None) -> list[Life]:
        return [
            life
            for each, lives in self._lives.items()
            for life in lives
            if (role is None or each == role) and not life.process.exited
        ]

    def _start(self, role: str) -> Life:
        number = len(self._lives[role]) + 1
        places = Places(self.folder.root, self._provider_url, self._effects_url, role, number)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("KILLPOINT_", "PYTEST", "COV_"))}
        env |= self.target.environment(places) | dict(self.environment)
        env |= {
            "KILLPOINT_SOCKET": str(self.controller.path),
            "KILLPOINT_PROCESS": f"{role}.{number}",
            "KILLPOINT_QUIET": ",".join(sorted(self._quiet)),
            "KILLPOINT_CLOCK": str(self.clock.path),
            "KILLPOINT_BOOT": str(self.boot.path),
        }
        pipes = make_fifos(places) if self.target.stdio else (None, None)
        ready = self.target.ready(places) if self.target.ready and role == self.target.entrance_role else None
        if ready is not None:
            ready.unlink(missing_ok=True)
        with self._launch():
            process = self.keeper.start(
                f"{role}.{number}",
                self.target.command(places),
                env,
                places.workspace,
                self.folder.logs / f"{role}.{number}.log",
                entry=self.target.entry,
                cold=self.case.cold or self.target.entry is None,
                stdin=pipes[0],
                stdout=pipes[1],
            )
            life = Life(role, number, process, places)
            self.history.write(
                "process.started",
                role=role,
                life=number,
                pid=process.pid,
                start_time=process.start_time,
                cold=self.case.cold or self.target.entry is None,
            )
            with self._condition:
                self._lives[role].append(life)
        process.on_exit(lambda status: self._on_exit(life, status))
        if role == self.target.entrance_role and self._await_ready(life, ready):
            self._up(places, ready)
        return life

    def _up(self, places: Places, ready: Path | None) -> None:
        """Tell clients that the entrance can be spoken to."""
        try:
            self.client.up(places)
        except FileNotFoundError:
            if ready is None or ready.exists():
                raise
            return  # another part of the plan had it go, and its address with it, before that was read
        with self._condition:
            self._ups += 1
            self._condition.notify_all()

    @contextlib.contextmanager
    def _launch(self) -> Iterator[None]:
        """Nobody stands at a point before it is known who that is: a process may come to one before the word that it was
        started has reached us, and a plan that acted then would find no process to kill, or the one before it."""
        with self._condition:
            self._launching += 1
        try:
            yield
        finally:
            with self._condition:
                self._launching -= 1
                self._condition.notify_all()

    def _await_ready(self, life: Life, ready: Path | None) -> bool:
        """Wait until the entrance can be spoken to; False if it ended first, which the history shows."""
        if ready is None:
            return True
        deadline = time.monotonic() + READY_S_MAX
        while not ready.exists():
            if life.process.exited or time.monotonic() > deadline:
                return False
            with self._condition:
                self._condition.wait(0.003)
        return True

    def _on_exit(self, life: Life, status: WaitStatus) -> None:
        last = _text(self.folder.logs / f"{life.label}.log").strip().rpartition("\n")[2]
        self.history.write(
            "process.exited",
            role=life.role,
            life=life.number,
            pid=life.process.pid,
            status=status.raw,
            signal=status.signal.name if status.signal else None,
            exit_code=status.code,
            said=last[:LAST_WORDS_MAX] if status.code else None,
            cpu_ms=life.process.cpu_ms,
        )
        if life.role == self.target.entrance_role:
            self.client.down()
        self.changed()

    def _await_exits(self, roles: Iterable[str], ending: Ending) -> None:
        """These end by themselves within the bound, and what is missing of the roles then is started as a person would."""
        deadline = self._exit_deadline()
        for life, new in ending:
            self._await_end(life, deadline, new)
        for role in roles:
            with self.starting:  # a part of the plan may want it back too
                if not self._alive(role):
                    self._start(role)

    def _exit_deadline(self) -> float:
        """Until when processes that are told to go now are waited for: a part of the case's bound, so that who waits comes
        to rest in the other part."""
        return time.monotonic() + min(EXIT_S_MAX, EXIT_PART * self.case.settle_s_max)

    def _await_end(self, life: Life, deadline: float, new: bool = False) -> bool:
        """Wait for the end of a process that was told to go; False, and written down, if it stays.

        new: it was only being started when a quit was sent, so it may have begun after that was stored and owe no end by
        it. Nobody can tell until it has nothing to do; then it is told to go itself, so that a quit leaves nobody."""
        if (
            new
            and self._until(lambda: life.process.exited or life.label in self._idled, deadline)
            and not life.process.exited
        ):
            self._tell_to_go(life, grace=True)
        ended = self._until(lambda: life.process.exited, deadline)
        if not ended:
            self.history.write("process.stayed", role=life.role, life=life.number, pid=life.process.pid)
        return ended

    def _tell_to_go(self, life: Life, grace: bool) -> None:
        life.told = True
        self.history.write("terminate", role=life.role, life=life.number, pid=life.process.pid, grace=grace)
        life.process.terminate()

    def _bounce(self, role: str) -> None:
        ending = self._alive(role)
        for life in ending:
            self._tell_to_go(life, grace=True)
        self._await_exits((role,), [(life, False) for life in ending])

    def _move_clock(self, by_s: float, why: str) -> None:
        self.clock.move(by_s)
        self.history.write("clock.moved", by_s=by_s, offset_s=self.clock.read(), why=why)

    # The plan ------------------------------------------------------------------------------------------------------------

    def _on_reached(self, held: Held) -> None:
        address = f"{held.point}#{held.ordinal}"
        role, _, life = held.process.partition(".")
        with self._condition:
            self._condition.wait_for(lambda: self._launching == 0)
        self.history.write(
            "point.reached",
            point=held.point,
            ordinal=held.ordinal,
            role=role,
            life=int(life or 0),
            pid=held.pid,
            nonce=held.nonce,
            local=held.local,
            work=held.work,
            detail=held.detail,
        )
        with self._condition:
            if held.point == CONTROL_STORED.name and (held.detail or {}).get("action") == "quit":
                self._quit_stored = self._alive()
                for each in self._quit_stored:
                    each.told = True
            if held.point == WORKER_IDLE.name:
                self._idled.add(held.process)
            first = held.process not in self._last_point
            self._last_point[held.process] = held.point
            fault = self._pending.get(address)
            if fault is None:
                if first or held.point == WORKER_IDLE.name:
                    self._condition.notify_all()
                return
            # The process speaks over one connection: as soon as it is let go, somebody must be there to hear it again.
            held.keep()
            self._busy += 1
            self._condition.notify_all()
        self.history.write(
            "point.fired",
            point=held.point,
            ordinal=held.ordinal,
            nonce=held.nonce,
            ops=[] if self.case.disarmed else [op.model_dump(mode="json") for op in fault.ops],
        )
        threading.Thread(target=self._carry_out, args=(held, fault), name=f"plan {address}", daemon=True).start()

    def _carry_out(self, held: Held, fault: ops.Fault) -> None:
        try:
            _Moment(self, held).carry_out(() if self.case.disarmed else fault.ops)
        except Exception as error:  # a fault of the harness, told when the case ends
            self._faults.append(f"{fault.at}: {type(error).__name__}: {error}")
            self.controller.release_all()
        finally:
            with self._condition:
                self._pending.pop(str(fault.at), None)
                self._busy -= 1
                self._condition.notify_all()


class _Moment:
    """A process stands at an address; the operations of the plan are carried out, in a thread of their own."""

    def __init__(self, hand: Stagehand, held: Held) -> None:
        self._hand, self._held = hand, held
        self._answered = False
        self._ending: Ending | None = None
        self._exit_deadline: float | None = None
        self._self = self._who_stands()

    def carry_out(self, plan: tuple[ops.Op, ...]) -> None:
        """Do the operations in order; then let the process go on, if it still lives and was not answered."""
        for op in plan:
            self._do(op)
        if not self._answered:
            self._go()

    def _who_stands(self) -> Life | None:
        label = self._held.process
        lives = [life for each in self._hand._lives.values() for life in each]
        if label != "world":
            return next((life for life in lives if life.label == label), None)
        workers = [life for life in lives if life.role == "worker"]
        return workers[-1] if workers else None

    def _of(self, role: str) -> list[Life]:
        if role != "self":
            return self._hand._alive(role)
        if self._self is None:
            raise HarnessFault(f"no process of this case is known as {self._held.process}, which stands there")
        return [self._self]

    def _do(self, op: ops.Op) -> None:
        hand = self._hand
        match op:
            case ops.Kill():
                for life in self._of(op.role):
                    if not op.reaped:
                        life.process.leave_unreaped()
                    self._kill(life)
            case ops.Terminate():
                for life in self._of(op.role):
                    self._terminate(life, op.grace)
            case ops.Start():
                if self._ending is not None:
                    self._await_end(op.role, self._ending)
                with hand.starting:  # two parts of a plan may want the same role back at the same time
                    started = hand._start(op.role) if op.extra or not hand._alive(op.role) else None
                if started and op.extra:
                    self._await_first_point(started)
            case ops.Freeze():
                for life in self._of(op.role):
                    self._freeze(life, op.do)
            case ops.Release():
                self._go()
            case ops.Raise():
                self._answer("raise", lambda: self._held.raise_(op.errno))
            case ops.Answer():
                self._answer(op.how, lambda: self._held.answer(op.how, op.status))
            case ops.MoveClock():
                hand._move_clock(op.by_s, "the plan")
            case ops.Reboot():
                before = hand.boot.read()
                hand.boot.reboot()
                hand.history.write("host.rebooted", before=before, boot=hand.boot.read())
            case ops.User():
                self._user(_STEP.validate_python(op.step))
            case ops.BreakStore():
                self._store(op.do)
            case ops.Settle():
                self._settle_beside()
            case ops.Await():
                self._await(op.at)
            case ops.LockStore():
                self._lock_store(op.for_s)
            case ops.AwaitRefusal():
                self._await_refusal(op.role)

    def _user(self, step: steps.Step) -> None:
        hand = self._hand
        # While the newest entrance stands here itself, no other one comes that could be asked again.
        insisting = self._self is not hand._lives[hand.target.entrance_role][-1]
        if isinstance(step, steps.Quit):
            # Whoever stands here cannot end before it is let go, so its end is waited for later, by `start`.
            self._ending = hand._quit(insisting)
        else:
            hand._step(step, insisting)

    def _await_end(self, role: str, ending: Ending) -> None:
        if not self._answered:
            self._go()
        self._exit_deadline = self._exit_deadline or self._hand._exit_deadline()
        for life, new in ending:
            if life.role == role:
                self._hand._await_end(life, self._exit_deadline, new)

    def _go(self) -> None:
        self._answer("go", self._held.go)

    def _answer(self, how: str, answer: Callable[[], None]) -> None:
        held = self._held
        self._hand.history.write("point.released", point=held.point, ordinal=held.ordinal, nonce=held.nonce, answer=how)
        self._answered = True
        answer()

    def _kill(self, life: Life, anywhere: bool = False) -> None:
        """Kill it. anywhere: not for standing here, but for staying when it was told to go."""
        if life is self._self and self._held.process != "world":
            self._answered = True
        with self._hand.killing:  # another part of the plan may be at the same process
            if not life.process.exited:
                self._kill_living(life, anywhere)

    def _kill_living(self, life: Life, anywhere: bool) -> None:
        hand, held = self._hand, self._held
        before = OomCount.read()
        sent = life.process.kill()
        status = life.process.wait(EXIT_S_MAX)
        if life.told and status is not None and status.code == 0:
            return  # it went as it had been told to, before this could strike
        proof = prove(status, held, sent, before, OomCount.read(), anywhere)
        hand.history.write(
            "kill",
            role=life.role,
            life=life.number,
            pid=life.process.pid,
            signal=status.signal.name if status and status.signal else "none",
            status=proof.status,
            point=proof.point,
            ordinal=proof.ordinal,
            nonce=proof.nonce,
            proved=proof.proved,
            why=proof.why,
        )
        if not self._hand.broken:
            self._copy_store(life.role, proof)

    def _freeze(self, life: Life, do: Literal["freeze", "thaw"]) -> None:
        hand = self._hand
        if do == "freeze":
            hand._frozen.add(life.label)
            life.process.freeze()
        else:
            life.process.thaw()
            hand._frozen.discard(life.label)
        hand.history.write(do, role=life.role, life=life.number, pid=life.process.pid, stopped=life.process.stopped)

    def _terminate(self, life: Life, grace: bool) -> None:
        self._hand._tell_to_go(life, grace)
        if grace:
            if not self._answered:
                self._go()
            if not self._hand._await_end(life, self._hand._exit_deadline()):
                self._kill(life, anywhere=True)
        else:
            # The process stands at the point, so its end is not waited for longer than the grace period itself.
            life.process.wait(EXPIRED_GRACE_S)
            self._kill(life)

    def _settle_beside(self) -> None:
        """Rest while this moment is still being played; it is not waited for by itself."""
        hand = self._hand
        with hand._condition:
            hand._settling += 1
            hand._condition.notify_all()
        try:
            hand._rest_awaited(hand._settle(hand.case.settle_s_max, beside=True), "the plan")
        finally:
            with hand._condition:
                hand._settling -= 1
                hand._condition.notify_all()

    def _copy_store(self, role: str, proof: Proof) -> None:
        """Copy the store before anything can heal it, while every other process of the case stands still."""
        hand = self._hand
        with still(*(life.process for life in hand._alive())):
            copy = hand.folder.copy_store(str(next(hand._deaths)))
        found = inspect(copy, hand._requests)
        shutil.rmtree(copy)
        hand.history.write("store.at_death", point=proof.point, ordinal=proof.ordinal, role=role, **found)

    def _store(self, do: Literal["break_store", "mend_store"]) -> None:
        hand = self._hand
        store = hand.folder.store
        if do == "break_store":
            broken = break_store(store)
            hand.broken = True
            hand.history.write("store.broken", how="the header of every database is overwritten", sha256=broken)
        else:
            hand.history.write("store.mended", sha256=digest(store))
            mend_store(store)
            hand.broken = False

    def _await(self, at: ops.Address) -> None:
        """Wait until some process has come to this address, for half of the case's bound: whoever stands here comes to rest
        in the other half."""
        hand = self._hand
        came = hand.controller.wait_for(at.point, at.ordinal, hand.case.settle_s_max / 2) is not None
        hand.history.write("point.awaited", point=at.point, ordinal=at.ordinal, came=came)

    def _await_first_point(self, life: Life) -> None:
        """Wait until a second process has found something to do, or nothing: whoever stands here goes on only then."""
        hand = self._hand
        if life.role == "worker" and hand._tells_idle:
            within_s = hand.case.settle_s_max / 2
            came = hand._until(lambda: life.label in hand._last_point or life.process.exited, time.monotonic() + within_s)
            hand._rest_awaited(came, "a second worker, until it comes to its first point", within_s)

    def _lock_store(self, for_s: float) -> None:
        hand = self._hand
        with locked(hand.folder.store) as count:
            hand.history.write("store.locked", databases=count, for_s=for_s)
            if not self._answered:
                self._go()
            hand._until(lambda: False, time.monotonic() + for_s)
        hand.history.write("store.unlocked")

    def _await_refusal(self, role: str) -> None:
        """Wait until the newest life of the role has ended, or has said in its log that it cannot go on."""
        hand = self._hand
        life = hand._lives[role][-1]
        log = hand.folder.root / "logs" / f"{life.label}.log"
        deadline = time.monotonic() + hand.case.settle_s_max
        said = False
        while not said and not life.process.exited and time.monotonic() < deadline:
            said = any(word in _text(log) for word in REFUSALS)
            with hand._condition:
                hand._condition.wait(0.005)
        hand.history.write("process.refused", role=role, life=life.number, said=said, exited=life.process.exited)


def _text(log: Path) -> str:
    """What a process has written so far; a process that has not opened its log yet has written nothing."""
    try:
        return log.read_text(errors="replace")
    except FileNotFoundError:
        return ""


_STEP: TypeAdapter[steps.Step] = TypeAdapter(steps.Step)
