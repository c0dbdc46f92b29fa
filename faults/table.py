"""Owns the table of faults: what can be done to a target that stands at a breakpoint, one line each.

A line builds a plan out of the operations of plan.py; it does nothing itself. To add a fault: add a line here.

Who dies, and in which order, follows one thought:

- *The one at the point.* `self` is the process that stands there; at a point of the world, it is the worker whose request
  the world holds. A fault that names another process kills that one, and the one at the point is let go afterwards.
- *The world goes on first.* After a death at a point of the world, the world is let go before anything is started again:
  a network does not keep a request back until its sender's successor has looked for it. The one exception is an overtaken
  owner, whose reply may well come late, but never its write (`effect.received`).
- *An app that stands at a point stands there in one request.* Others are served meanwhile, so a user's control can be
  acknowledged then as well. A target whose app stands still as a whole leaves such a control unheard, and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Literal

from faults import catalogue
from faults.catalogue import Point, Role
from faults.plan import (
    Address,
    Answer,
    Await,
    AwaitRefusal,
    BreakStore,
    Fault,
    Freeze,
    Kill,
    LockStore,
    MoveClock,
    Op,
    Raise,
    Reboot,
    Release,
    Settle,
    Start,
    Terminate,
    User,
)

BEYOND_LEASE_S = 60.0
THREE_HOURS_S = 3 * 3600.0
THIRTY_DAYS_S = 30 * 24 * 3600.0
LOCKED_S = 1.0

# Points at which a program can be told that the system refused it something. None is claimed yet.
ERROR_POINTS: frozenset[str] = frozenset()

SESSION = "s1"

_ANYWHERE: frozenset[Role] = frozenset({"app", "worker", "world"})
_BESIDE_APP: frozenset[Role] = frozenset({"worker", "world"})
_WORLD: frozenset[Role] = frozenset({"world"})
_ON_THE_WAY_OUT = frozenset({"graceful exit"})

Ops = tuple[Op, ...]


class UnknownFault(ValueError):
    """A name that is no fault. The message gives the nearest names."""


@dataclass(frozen=True, slots=True)
class FaultLine:
    """One line of the table.

    sentence: what happens, for a reader of a report. clauses: what it puts to the test, besides those of the point.
    roles, points, not_moments, not_points: where it applies: in which processes' points, at which points alone (None: all
    of these roles), and in which rows of the contract's table and at which points not.
    """

    name: str
    sentence: str
    clauses: tuple[str, ...]
    roles: frozenset[Role]
    build: Callable[[Address, Point], tuple[Fault, ...]]
    points: frozenset[str] | None = None
    not_moments: frozenset[str] = frozenset()
    not_points: frozenset[str] = frozenset()

    def applies(self, point: Point) -> bool:
        """Whether this fault can be played at `point`."""
        return (
            point.role in self.roles
            and point.moment not in self.not_moments
            and (self.points is None or point.name in self.points)
            and point.name not in self.not_points
        )

    def plan(self, address: Address, point: Point) -> tuple[Fault, ...]:
        """The plan that plays this fault at `address`, which is of `point`. Raises ValueError where it does not apply."""
        if address.point != point.name:
            raise ValueError(f"{address} is no address of {point.name}")
        if not self.applies(point):
            raise ValueError(f"{self.name} does not apply at {point.name}, a point of the {point.role}")
        return self.build(address, point)


# Parts of plans ------------------------------------------------------------------------------------------------------


def _released(point: Point) -> Ops:
    """The world goes on before anything is started again; a program's point is released, if it lives, at the end."""
    return (Release(),) if point.role == "world" else ()


def _kill_worker(point: Point) -> Ops:
    return (Kill(role="worker" if point.role == "app" else "self"), *_released(point))


def _kill_app(point: Point) -> Ops:
    return (Kill(role="self" if point.role == "app" else "app"), *_released(point))


def _kill_both(point: Point) -> Ops:
    other: Literal["app", "worker"] = "worker" if point.role == "app" else "app"
    return (Kill(), Kill(role=other), *_released(point))


def _kill_self(point: Point) -> Ops:
    return (Kill(), *_released(point))


def _start_self(point: Point) -> Ops:
    return (Start(role="app" if point.role == "app" else "worker"),)


_START_BOTH: Ops = (Start(role="app"), Start(role="worker"))


def _at(build: Callable[[Point], Ops]) -> Callable[[Address, Point], tuple[Fault, ...]]:
    """A plan of one address out of a function that gives its operations."""
    return lambda address, point: (Fault(at=address, ops=build(point)),)


def _control(action: str) -> Ops:
    step: dict[str, Any] = {"do": "quit"} if action == "quit" else {"do": "control", "session": SESSION, "action": action}
    return (User(step=step),)


def _ended(action: str, *roles: Literal["app", "worker"]) -> Ops:
    """After a quit both processes end by themselves; wait for those that still run, and start both again."""
    return tuple(Terminate(role=role) for role in roles) if action == "quit" else ()


# Plans ---------------------------------------------------------------------------------------------------------------


def _input_during(_: Point) -> Ops:
    return (User(step={"do": "send", "session": SESSION, "request": "r-during", "text": "and one thing more"}),)


def _worker_killed(point: Point) -> Ops:
    return (*_kill_worker(point), Start(role="worker"))


def _app_killed(point: Point) -> Ops:
    return (*_kill_app(point), Start(role="app"))


def _both_killed(point: Point) -> Ops:
    return (*_kill_both(point), Reboot(), *_START_BOTH)


def _graceful_restart(point: Point) -> Ops:
    return (Terminate(role="worker" if point.role == "app" else "self"), Start(role="worker"))


def _graceful_restart_expired(point: Point) -> Ops:
    return (Terminate(grace=False), *_released(point), *_start_self(point))


def _app_exit(point: Point) -> Ops:
    return (Terminate(role="self" if point.role == "app" else "app"), Start(role="app"))


def _overtaken(point: Point) -> Ops:
    # A write that the service has not applied yet must not come after the successor has looked for it.
    early = point.name == catalogue.EFFECT_RECEIVED.name
    return (
        Freeze(do="freeze"),
        *((Release(),) if early else ()),
        MoveClock(by_s=BEYOND_LEASE_S),
        Start(role="worker", extra=True),
        Settle(),
        Freeze(do="thaw"),
        *(() if early else (Release(),)),
    )


def _downtime(by_s: float) -> Callable[[Point], Ops]:
    return lambda point: (*_kill_both(point), MoveClock(by_s=by_s), *_START_BOTH)


def _client_gone(_: Point) -> Ops:
    return (
        User(step={"do": "unwatch", "session": SESSION}),
        Release(),
        Settle(),
        User(step={"do": "watch", "session": SESSION}),
    )


def _answer(how: Literal["cut", "drop", "error", "repeat"]) -> Callable[[Point], Ops]:
    return lambda _: (Answer(how=how),)


def _store_unreadable(point: Point) -> Ops:
    return (
        *_kill_both(point),
        BreakStore(do="break_store"),
        *_START_BOTH,
        AwaitRefusal(role="worker"),
        Terminate(role="app"),
        Terminate(role="worker"),
        BreakStore(do="mend_store"),
        *_START_BOTH,
    )


def _store_locked(_: Point) -> Ops:
    return (LockStore(for_s=LOCKED_S),)


def _error(name: str) -> Callable[[Point], Ops]:
    return lambda _: (Raise(errno=name),)


def _control_before(action: str) -> Callable[[Point], Ops]:
    def build(point: Point) -> Ops:
        restart = _START_BOTH if action == "quit" else _start_self(point)
        return (*_control(action), *_kill_self(point), *_ended(action, "app"), *restart)

    return build


def _control_at(action: str) -> Callable[[Point], Ops]:
    def build(_: Point) -> Ops:
        restart = _START_BOTH if action == "quit" else ()
        return (*_control(action), Release(), *_ended(action, "app", "worker"), *restart)

    return build


def _control_after(action: str) -> Callable[[Point], Ops]:
    def build(point: Point) -> Ops:
        if point.role == "app":
            down: Ops = (*_kill_both(point), Start(role="app"))
        else:
            down = _kill_self(point)
        restart = _START_BOTH if action == "quit" else (Start(role="worker"),)
        return (*down, *_control(action), *_ended(action, "app"), *restart)

    return build


def third_death(second: Address) -> Address:
    """Where the next death surely falls: each life that recovers loads the facts, whatever an earlier one has repaired
    and decided already, and one more life has done so by then."""
    facts = catalogue.RECOVERY_FACTS_LOADED.name
    return Address(point=facts, ordinal=second.ordinal + 1)


def _killed_once_more(address: Address, point: Point) -> tuple[Fault, ...]:
    facts = third_death(address)
    return (
        Fault(at=address, ops=_worker_killed(point)),
        Fault(at=facts, ops=_worker_killed(catalogue.point(facts.point))),
    )


def _raced(address: Address, point: Point) -> tuple[Fault, ...]:
    """Whoever stands here has read the work and not taken it; it goes on when another one has read the same, and that one
    when the first has taken it."""
    other = Address(point=point.name, ordinal=address.ordinal + 1)
    taken = Address(point=catalogue.RECOVERY_OWNERSHIP_TAKEN.name, ordinal=address.ordinal)
    return (
        Fault(at=address, ops=(Start(role="worker", extra=True), Await(at=other))),
        Fault(at=other, ops=(Await(at=taken),)),
    )


def _line(
    name: str,
    sentence: str,
    clauses: str,
    build: Callable[[Address, Point], tuple[Fault, ...]],
    roles: frozenset[Role] = _ANYWHERE,
    points: frozenset[str] | None = None,
    not_moments: frozenset[str] = frozenset(),
    not_points: frozenset[str] = frozenset(),
) -> FaultLine:
    return FaultLine(name, sentence, tuple(clauses.split()), roles, build, points, not_moments, not_points)


def _names(*points: Point) -> frozenset[str]:
    return frozenset(point.name for point in points)


_RECOVERY = _names(*catalogue.RECOVERY_POINTS)
_REQUESTS = _names(catalogue.PROVIDER_REQUEST_RECEIVED)
_CHUNKS = _names(catalogue.PROVIDER_REPLY_CHUNK)
_EFFECTS = _names(catalogue.EFFECT_RECEIVED, catalogue.EFFECT_APPLIED)

# Both processes die there, or neither does: what differs from point to point is only what the store and the world hold.
_STANDS = _names(
    catalogue.INPUT_ACKNOWLEDGED,
    catalogue.TURN_BEGUN,
    catalogue.ATTEMPT_STORED,
    catalogue.PROVIDER_REPLY_CHUNK,
    catalogue.REPLY_STORED,
    catalogue.TOOL_INTENT_STORED,
    catalogue.TOOL_DISPATCH_STORED,
    catalogue.EFFECT_APPLIED,
    catalogue.TOOL_RESULT_STORED,
    catalogue.TURN_COMMITTED,
    catalogue.WORK_RELEASED,
    catalogue.CONTROL_ACKNOWLEDGED,
)
# Where somebody is listening to the app, or waits for its answer.
_HEARD = _names(
    catalogue.INPUT_COMMITTED,
    catalogue.INPUT_ACKNOWLEDGED,
    catalogue.EVENT_COMMITTED,
    catalogue.EVENT_SENT,
    catalogue.EVENT_CURSOR_STORED,
    catalogue.PROVIDER_REPLY_CHUNK,
    catalogue.TOOL_DISPATCH_STORED,
    catalogue.TURN_COMMITTED,
)

# What comes next is written into a database.
_WRITES_NEXT = _names(
    catalogue.INPUT_RECEIVED,
    catalogue.CONTROL_RECEIVED,
    catalogue.REPLY_RECEIVED,
    catalogue.TOOL_EFFECT_DONE,
)

# A worker has nothing to do before anybody has opened a session, so what a user does to one there would reach nobody.
_BEFORE_A_SESSION = _names(catalogue.WORKER_IDLE)

_CONTROLS: tuple[tuple[str, str, str], ...] = (
    ("pause", "the user pauses the session", "INT-3 INT-12 INT-14"),
    ("stop", "the user stops the session", "INT-3 INT-12 INT-14 ADM-4"),
    ("quit", "the user quits and stops everything", "INT-3 INT-6 INT-14"),
)


def _control_lines(action: str, act: str, clauses: str) -> tuple[FaultLine, ...]:
    back = "both processes are started again" if action == "quit" else "it is started again"
    too_early = frozenset() if action == "quit" else _BEFORE_A_SESSION
    return (
        _line(
            f"{action}-before",
            f"{act} and hears so while the process stands at the point; only then it is killed, and {back}",
            clauses,
            _at(_control_before(action)),
            # Whom the world holds is not held itself, and after a quit it may well have ended before it is killed.
            _ANYWHERE if action != "quit" else frozenset({"app", "worker"}),
            not_points=too_early,
        ),
        _line(
            f"{action}-at",
            f"{act} and hears so while the process stands at the point; it is let go and nobody is killed"
            + ("; both end and are started again" if action == "quit" else ""),
            clauses,
            _at(_control_at(action)),
            not_points=too_early,
        ),
        _line(
            f"{action}-after",
            f"the process is killed at the point; {act} and hears so while the worker is down; then {back}",
            clauses,
            _at(_control_after(action)),
            not_points=too_early,
        ),
    )


_LINES: tuple[FaultLine, ...] = (
    _line(
        "worker-killed",
        "the worker is killed and started again",
        "INT-2 OWN-3 REC-2",
        _at(_worker_killed),
        _BESIDE_APP,  # at a point of the app it would be a death in idleness, which every restart meets anyway
        not_moments=frozenset({"recovery"}),
    ),
    _line("app-killed", "the app is killed and started again", "INT-2 ADM-1 UIX-1", _at(_app_killed)),
    _line(
        "both-killed",
        "app and worker are killed, the host gets a new boot identity, and both are started again",
        "INT-2 ADM-1 OWN-6 REC-1",
        _at(_both_killed),
    ),
    _line(
        "graceful-restart",
        "the worker is told to end, does so within its grace period, and is started again",
        "INT-6 INT-7",
        _at(_graceful_restart),
        _BESIDE_APP,
        not_moments=_ON_THE_WAY_OUT,
    ),
    _line(
        "graceful-restart-expired",
        "the process at the point is told to end, stands there until its grace period is over, is killed, and is started"
        " again",
        "INT-6 INT-7",
        _at(_graceful_restart_expired),
        frozenset({"app", "worker"}),  # whom the world holds is not held itself, and may well end in time
        not_moments=_ON_THE_WAY_OUT,
    ),
    _line(
        "app-exit",
        "the app is told to end as in ordinary use, does so, and is started again",
        "INT-5 INT-6 INT-7",
        _at(_app_exit),
        not_moments=_ON_THE_WAY_OUT,
        points=_HEARD,
    ),
    _line(
        "overtaken",
        "the owner is frozen at the point until its lease is over, another worker takes over and finishes, and the first"
        " one is thawed and goes on",
        "OWN-1 OWN-3 OWN-7 USE-6",
        _at(_overtaken),
        _BESIDE_APP,
        not_moments=_ON_THE_WAY_OUT,
    ),
    _line(
        "raced",
        "another worker has read the same interrupted work when the one at the point takes it, and then tries too",
        "OWN-1 OWN-3",
        _raced,
        points=_names(catalogue.RECOVERY_FACTS_LOADED),
    ),
    _line(
        "downtime-3h",
        "app and worker are killed and started again three hours later by the case's clock",
        "INT-2 INT-8",
        _at(_downtime(THREE_HOURS_S)),
        points=_STANDS,
    ),
    _line(
        "downtime-30d",
        "app and worker are killed and started again thirty days later by the case's clock",
        "INT-2 INT-8",
        _at(_downtime(THIRTY_DAYS_S)),
        points=_STANDS,
    ),
    _line(
        "client-gone",
        "the client goes away at the point, and comes back when all is done",
        "INT-5 UIX-1",
        _at(_client_gone),
        points=_HEARD,
    ),
    _line(
        "reply-lost",
        "the request is carried out and its reply is lost, with nobody dead",
        "EFF-3 EFF-6 USE-2 REC-8",
        _at(_answer("drop")),
        _WORLD,
        _REQUESTS | _EFFECTS,
    ),
    _line(
        "stream-cut",
        "the provider's stream is cut at the point, with nobody dead",
        "REC-11 USE-2 HIS-5",
        _at(_answer("cut")),
        _WORLD,
        _CHUNKS,
    ),
    _line(
        "provider-error",
        "the provider answers with an error, with nobody dead",
        "REC-8 USE-2",
        _at(_answer("error")),
        _WORLD,
        _REQUESTS,
    ),
    _line(
        "chunk-doubled",
        "the provider sends one piece of its stream twice",
        "USE-3 REC-11",
        _at(_answer("repeat")),
        _WORLD,
        _CHUNKS,
    ),
    _line(
        "store-unreadable",
        "app and worker are killed and started on databases that cannot be read; when they have refused, the databases are"
        " put back and both are started again",
        "OWN-4 REC-1 EFF-10",
        _at(_store_unreadable),
        points=_STANDS,
    ),
    _line(
        "store-locked",
        "another program holds the write locks of the databases for a second when the process at the point would write",
        "ADM-1 REC-2 REC-13",
        _at(_store_locked),
        points=_WRITES_NEXT,
    ),
    _line(
        "process-error",
        "the system refuses the process at the point with an input/output error",
        "REC-8 ADM-1",
        _at(_error("EIO")),
        frozenset({"app", "worker"}),
        ERROR_POINTS,
    ),
    _line(
        "process-error-full",
        "the system refuses the process at the point because the disk is full",
        "REC-8 ADM-1",
        _at(_error("ENOSPC")),
        frozenset({"app", "worker"}),
        ERROR_POINTS,
    ),
    *(line for control in _CONTROLS for line in _control_lines(*control)),
    _line(
        "killed-again",
        "the worker, killed before in its turn, is killed again at the point, in the recovery from that",
        "REC-9 REC-2 REC-4",
        _at(_worker_killed),
        points=_RECOVERY,
    ),
    _line(
        "killed-thrice",
        "the worker, killed before in its turn, is killed again at the point, and once more in the recovery from that",
        "REC-9 REC-2 REC-4",
        _killed_once_more,
        points=_RECOVERY,
    ),
    _line(
        "input-during",
        "the user sends another input while the process stands at the point; it is let go and nobody is killed",
        "INT-13 INT-14 ADM-3",
        _at(_input_during),
        _BESIDE_APP,
        not_points=_BEFORE_A_SESSION,
    ),
)

FAULTS: dict[str, FaultLine] = {line.name: line for line in _LINES}


def fault(name: str) -> FaultLine:
    """The fault called `name`. Raises UnknownFault with the nearest names."""
    try:
        return FAULTS[name]
    except KeyError:
        near = get_close_matches(name, FAULTS, n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise UnknownFault(f"unknown fault {name!r}{hint}; `killpoint show faults` lists them all") from None


def matching(glob: str) -> tuple[FaultLine, ...]:
    """The faults whose name matches the shell pattern `glob`. Raises UnknownFault if there is none."""
    found = tuple(line for line in _LINES if fnmatchcase(line.name, glob))
    return found or (fault(glob),)
