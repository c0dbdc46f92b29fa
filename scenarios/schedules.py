"""Owns generated schedules: workloads and fault plans that nobody wrote down, drawn by Hypothesis, as plain cases.

A schedule is sessions, inputs with what the model answers to them, acts of users, and moments: addresses at which
something breaks. Its order is exact. A user acts either while everything is at rest, or while a process stands at an
address of the plan; never beside a process that runs on.

Drawing is pure: it starts nothing, and the same seed and leaning give the same schedules. What generation leans towards
is given from outside (`Leaning`), since it depends on what earlier schedules have reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider

from faults import catalogue
from faults.catalogue import Point, point
from faults.plan import Address, Fault, MoveClock, Op, Reboot, Start, User
from faults.table import FAULTS, SESSION, FaultLine
from scenarios.case import (
    PLANNED,
    Bounce,
    Call,
    Case,
    Control,
    File,
    Look,
    MoveClockStep,
    Open,
    Reply,
    Script,
    Send,
    SettleStep,
    Step,
    Watch,
)
from scenarios.matrix import possible
from scenarios.target import Target

INPUTS_MAX = 3
SESSIONS_MAX = 2
MOMENTS = (1, 2, 2, 3, 3, 4)
MOMENTS_MAX = 4
BUILT_ON = (False, True)
ACTS = (*("nothing",) * 6, *("input",) * 3, "again", "pause", "stop", "resume", "reconnect")
PLAIN = (True, True, True, False)
NEAR = (8, 16, 200)  # how many addresses after what broke last may break next
FIRST_HITS = (1, 1, 1, 1, 1, 1)
LATER_HITS = (2, 3)
MISSING_WEIGHT = 6
CLOCK_S = (3 * 3600.0, -3 * 3600.0)
RENEWAL_DUE_S = 6.0
PIECES_PER_COMMIT_MAX = 8
LONG_TEXT = " ".join(f"word{i}" for i in range(64))
NOTES = File(path="notes.txt", text="one lamp\ntwo chairs\n")

# What a death in mid-turn is, after which recovery runs; and what sends a process on its way out. Rather one at a call:
# recoveries differ in what became of it.
_FIRST_DEATHS = (
    catalogue.TURN_BEGUN,
    catalogue.PROVIDER_REQUEST_RECEIVED,
    catalogue.STREAM_TEXT_COMMITTED,
    catalogue.REPLY_STORED,
    catalogue.TOOL_INTENT_STORED,
    catalogue.TOOL_DISPATCH_STORED,
    catalogue.EFFECT_APPLIED,
    catalogue.EFFECT_APPLIED,
    catalogue.TOOL_RESULT_STORED,
)
CALLING_REPLIES = (0, 1, 1, 2)
# Deaths after which a turn is left to recovery, where one is under way, and the plainest of them: most of what goes wrong
# takes no more than that.
_LEAVES_A_TURN = frozenset(
    {"worker-killed", "both-killed", "graceful-restart-expired", "downtime-3h", "downtime-30d", "killed-again"}
)
_NO_TURN = frozenset({"worker.idle", "work.claimed", "work.released", "turn.committed", "control.applied"})
_PLAIN_DEATHS = ("worker-killed", "killed-again")
_ACTS_ALONE = ("pause-at", "stop-at", "input-during")
_KINDS = {"deeper": (*_PLAIN_DEATHS, *_ACTS_ALONE), "death": _PLAIN_DEATHS, "user": _ACTS_ALONE}
# Where a process may be when it is told to go.
_FIRST_EXITS = (catalogue.TURN_BEGUN, catalogue.PROVIDER_REPLY_CHUNK, catalogue.TOOL_DISPATCH_STORED)
_FIRST_EXITS_APP = (catalogue.INPUT_ACKNOWLEDGED, catalogue.PROVIDER_REPLY_CHUNK, catalogue.TOOL_DISPATCH_STORED)
# Each of these wants the stage for itself: it takes the store away, or puts a second owner beside the first.
_ALONE = frozenset({"store-unreadable", "overtaken", "raced"})
# Not a fault: after it, an owner's lease is soon to be renewed.
_TIME_PASSES = FaultLine(
    "time-passes",
    "a part of the lease passes by the case's clock",
    (),
    frozenset({"worker"}),
    lambda at, _: (Fault(at=at, ops=(MoveClock(by_s=RENEWAL_DUE_S),)),),
)

_TOOLS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "charge": (None, {"account": "acme {n}", "cents": 4200}),
    "mail": (None, {"to": "ann{n}@example.org", "subject": "Invoice", "body": "Forty-two."}),
    "publish": (None, {"title": "Notes {n}", "text": "Version one."}),
    "order": (None, {"item": "lamp {n}", "count": 1}),
    "read": ("files", {"path": "notes.txt"}),
    "grep": ("files", {"pattern": "lamp", "path": "."}),
    "write": ("files", {"path": "out/{n}.txt", "text": "Forty-two.\n"}),
    "note_plugin": ("plugins", {"text": "remember lamp {n}"}),
}
_CALLED = (*_TOOLS, "mail", "mail", "note_plugin")  # rather those of which nobody can say what became of a call
SECOND_WORKERS = (False, False, False, True)
SAME_IDS = (False, False, False, False, False, True)


@dataclass(frozen=True, slots=True)
class Ground:
    """A schedule that was played, and where it can break once more. case: it, with the moments alone that came about.
    reached: the addresses that it came to after these."""

    case: Case
    reached: tuple[Address, ...]

    @property
    def kind(self) -> str:
        """What it broke last, in short: of grounds that are alike one is as good as another."""
        return f"{self.case.plan[-1].at.point} {self.case.fault}" if self.case.plan else ""

    @property
    def plain(self) -> bool:
        """Whether nobody decides about the work in it and no second worker looks for it, so that it goes on as it was."""
        ops = [op for fault in self.case.plan for op in fault.ops]
        return not any(
            (isinstance(op, User) and op.step["do"] in ("control", "quit")) or (isinstance(op, Start) and op.extra)
            for op in ops
        )


@dataclass(frozen=True, slots=True)
class Leaning:
    """What generation leans towards. missing: pairs of point and fault that no schedule has brought about yet. fault: the
    one whose turn it is, for the first moment; `none` draws no moment, None leaves it open. reached: addresses that some
    schedule has come to, as point and ordinal; later hits of a point are drawn from these alone. None leaves them open.
    often: those that most schedules have come to. grounds: schedules that have been played, on which another may build.
    followed: how often a pair of point and fault has come about after another moment."""

    missing: frozenset[tuple[str, str]] = frozenset()
    fault: str | None = None
    reached: frozenset[tuple[str, int]] | None = None
    often: frozenset[tuple[str, int]] = frozenset()
    grounds: tuple[Ground, ...] = ()
    followed: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class _Draft:
    """A schedule while it is drawn. alone: there is one session. watched: a second worker is started in it."""

    target: Target
    alone: bool = False
    watched: bool = False
    replies: dict[str, tuple[Reply, ...]] = field(default_factory=dict)
    first: Send | None = None
    sent: list[Send] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    plan: dict[str, Fault] = field(default_factory=dict)
    controlled: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    calls: int = 0


@cache
def pairs(target: Target) -> tuple[tuple[str, str], ...]:
    """Every pair of point and fault that can be played on this target, in a stable order."""
    return tuple(
        (name, line.name)
        for name in target.points
        for line in FAULTS.values()
        if line.applies(point(name))
        and possible(target, line.plan(Address(point=name), point(name)))
        and not (target.stdio and line.name == "input-during")  # who stands there is the one who would have to hear it
    )


@cache
def _of_point(target: Target, name: str) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in pairs(target) if pair[0] == name)


@cache
def turns(target: Target) -> tuple[str, ...]:
    """The faults that take turns in the first moments of schedules: each that the target can be played, and none."""
    return ("none", *dict.fromkeys(fault for _, fault in pairs(target)))


def draw(target: Target, seed_: str, leaning: Leaning = Leaning()) -> Case:
    """The schedule of this seed for this target; the same for the same leaning.

    One seed gives one schedule: of several that one seed gave, most would be small changes of each other.
    """
    found: list[Case] = []

    @settings(
        backend=_backend(seed_),
        max_examples=2,  # the first one drawn is always the simplest there is
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(schedules(target, leaning))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found[-1].model_copy(update={"id": f"explored/{seed_}"})


class _Choices(PrimitiveProvider):
    """Where Hypothesis's strategies take their choices from: one seed and nothing else.

    Its own provider also takes constants that stand in whatever source happens to be imported and not installed, so that a
    seed would give other schedules after a change anywhere, or from an installed copy.
    """

    random: Random

    def draw_boolean(self, p: float = 0.5) -> bool:
        return self.random.random() < p

    def draw_integer(self, min_value: int | None = None, max_value: int | None = None, **_: Any) -> int:
        assert min_value is not None and max_value is not None, "a schedule has no number without bounds"
        return self.random.randint(min_value, max_value)

    def draw_float(self, **_: Any) -> float:
        raise NotImplementedError("no schedule draws a float")

    def draw_string(self, *_: Any, **__: Any) -> str:
        raise NotImplementedError("no schedule draws a text")

    def draw_bytes(self, *_: Any, **__: Any) -> bytes:
        raise NotImplementedError("no schedule draws bytes")


def _backend(seed_: str) -> str:
    """The name of the backend that draws from this seed."""
    AVAILABLE_PROVIDERS["killpoint"] = type("Choices", (_Choices,), {"random": Random(seed_)})  # noqa: S311 (no secret)
    return "killpoint"


@st.composite
def schedules(draw_: st.DrawFn, target: Target, leaning: Leaning = Leaning()) -> Case:
    """The strategy: one case for this target, with nothing in it that the target cannot be asked for.

    Half of them, once there are any, build on one that was played: they break once more where that one surely came.
    """
    if leaning.grounds and leaning.fault != "none" and draw_(st.sampled_from(BUILT_ON)):
        built = _built_on(draw_, target, leaning)
        if built is not None:
            return built
    sessions = [f"s{i + 1}" for i in range(draw_(st.integers(1, SESSIONS_MAX if target.sends_controls else 1)))]
    draft = _Draft(target, alone=len(sessions) == 1)
    inputs = [_input(draw_, draft, session) for session in draw_(_sessions_of_inputs(sessions))]
    draft.first, later = inputs[0], inputs[1:] if target.sends_controls else []
    for where, fault in _moments(draw_, target, leaning):
        if _add_moment(draw_, draft, where, fault, later):
            _provide(draft, where)
    at_rest = [each for each in inputs if each in later or each is inputs[0] or not target.sends_controls]
    for number, send in enumerate(at_rest):
        if number:
            draft.steps.append(SettleStep())
            draft.steps += draw_(_acts_at_rest(target, draft.sent))
        draft.steps.append(send)
        draft.sent.append(send)
    return _case(draft, sessions)


def ground(case: Case, lines: Iterable[Mapping[str, Any]]) -> Ground | None:
    """What can be built on this schedule, which was played with this history; None where nothing more can break in it.

    Of an app's points all count, and of the others those after the last moment, unless that was an app's: which of them
    comes first there is nobody's choice.
    """
    reached: list[Address] = []
    fired: list[Address] = []
    later = 0
    for line in lines:
        if line["kind"] in ("point.reached", "point.fired"):
            at = Address(point=line["data"]["point"], ordinal=line["data"]["ordinal"])
            if line["kind"] == "point.reached":
                reached.append(at)
            else:
                fired.append(at)
                later = 0 if point(at.point).role == "app" else len(reached)
    plan = tuple(each for each in case.plan if each.at in fired)
    ops = [op for each in plan for op in each.ops]
    if len(plan) >= MOMENTS_MAX or any(op.do in ("freeze", "await", "break_store") for op in ops):
        return None
    usable = [
        at for at in reached if at not in fired and not point(at.point).frequent and at.point != catalogue.WORKER_IDLE.name
    ]
    app = [at for at in usable if point(at.point).role == "app"]
    others = [at for at in reached[later:] if at in usable and at not in app]
    if not (app or others):
        return None
    return Ground(case.model_copy(update={"plan": plan}), (*others, *sorted(app, key=str)))


def _built_on(draw_: st.DrawFn, target: Target, leaning: Leaning) -> Case | None:
    """A schedule that was played, with more moments; None where there is no room for one.

    What is to break comes first, and then where it can: each pair of point and fault has its turn after something else,
    whatever few or many schedules come to that point.
    """
    near, kind = draw_(st.sampled_from(NEAR)), draw_(st.sampled_from(_DEEPER))
    faults = {(name, fault) for name, fault in _later(target, kind) if fault not in _ALONE}
    found: dict[tuple[str, str], list[tuple[Ground, Address]]] = {}
    for ground in leaning.grounds:
        for at in ground.reached[:near]:
            for pair in _of_point(target, at.point):
                if pair in faults:
                    found.setdefault(pair, []).append((ground, at))
    if not found:
        return None
    pair = draw_(st.sampled_from(_fewest(leaning, found)))
    plain = [each for each in found[pair] if each[0].plain] if draw_(st.sampled_from(PLAIN)) else []
    kinds: dict[str, list[tuple[Ground, Address]]] = {}
    for each in plain or found[pair]:
        kinds.setdefault(each[0].kind, []).append(each)
    ground, at = draw_(st.sampled_from(kinds[draw_(st.sampled_from(list(kinds)))]))
    case = ground.case
    opened = [step.session for step in case.steps if isinstance(step, Open)]
    draft = _Draft(
        target,
        alone=len(opened) == 1,
        watched=any(isinstance(op, Start) and op.extra for each in case.plan for op in each.ops),
        replies=dict(case.script.replies),
        first=next(step for step in case.steps if isinstance(step, Send)),
        steps=list(case.steps),
        plan={str(each.at): each for each in case.plan},
        calls=sum(len(reply.calls) for replies in case.script.replies.values() for reply in replies),
    )
    later = [_input(draw_, draft, draw_(st.sampled_from(opened)))] if target.sends_controls else []
    if not _add_moment(draw_, draft, at, FAULTS[pair[1]], later):
        return None
    # What comes after a death or a control is other than it was; after one more input, much the same.
    left = ground.reached[ground.reached.index(at) + 1 :] if pair[1] == "input-during" else ()
    while left and len(draft.plan) < MOMENTS_MAX:
        among = {each: at for at in reversed(left[:near]) for each in _of_point(target, at.point) if each in faults}
        if not among:
            break
        pair = draw_(st.sampled_from(_fewest(leaning, among)))
        if not _add_moment(draw_, draft, among[pair], FAULTS[pair[1]], later):
            break
        left = left[left.index(among[pair]) + 1 :] if pair[1] == "input-during" else ()
    if later:
        del draft.replies[later[0].text]
    if draft.controlled and not isinstance(case.steps[-1], Control):
        draft.steps += _afterwards(draft)
    return case.model_copy(
        update={
            "fault": draft.faults[-1],
            "script": Script(replies=draft.replies),
            "steps": (*(each for each in _files(draft) if each not in draft.steps), *draft.steps),
            "plan": tuple(draft.plan.values()),
        }
    )


def _fewest(leaning: Leaning, found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of these pairs that have followed something else least often."""
    among = list(found)
    least = min(leaning.followed.get(pair, 0) for pair in among)
    return [pair for pair in among if leaning.followed.get(pair, 0) == least]


def _sessions_of_inputs(sessions: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(sessions), min_size=len(sessions), max_size=INPUTS_MAX)


def _input(draw_: st.DrawFn, draft: _Draft, session: str) -> Send:
    number = len(draft.replies) + 1
    text = f"input {number}"
    replies = [
        Reply(
            text=draw_(st.sampled_from(("", "On it."))),
            calls=(calls := draw_(_calls(draft))),
            pieces=1,
            same_ids=len(calls) > 1 and draw_(st.sampled_from(SAME_IDS)),
        )
        for _ in range(draw_(st.sampled_from(CALLING_REPLIES)))
    ]
    last = Reply(
        text=f"Answer {number}, which is long enough for pieces.",
        pieces=draw_(st.integers(1, 4)),
        usage=draw_(st.sampled_from(("last", "every", "none"))),
    )
    draft.replies[text] = (*replies, last)
    return Send(session=session, request=f"r{number}", text=text)


@st.composite
def _calls(draw_: st.DrawFn, draft: _Draft) -> tuple[Call, ...]:
    names = [name for name in _CALLED if _TOOLS[name][0] is None or _TOOLS[name][0] in draft.target.abilities]
    return tuple(_call(draft, name) for name in draw_(st.lists(st.sampled_from(names), min_size=1, max_size=2)))


def _call(draft: _Draft, tool: str) -> Call:
    """A call whose arguments no other call has, so that a second write is known to be one."""
    draft.calls += 1
    filled = {
        name: value.replace("{n}", str(draft.calls)) if isinstance(value, str) else value
        for name, value in _TOOLS[tool][1].items()
    }
    return Call(tool=tool, arguments=filled)


# Moments -------------------------------------------------------------------------------------------------------------


def _moments(draw_: st.DrawFn, target: Target, leaning: Leaning) -> Iterator[tuple[Address, FaultLine]]:
    """Where something breaks, and how. What has to have happened before a point can be reached comes first; where something
    else is to happen there, the point would not be reached, and nothing is planned at it."""
    taken: dict[Address, str] = {}
    count = draw_(st.sampled_from(MOMENTS))
    for place in range(0 if leaning.fault == "none" else count):
        left = sum(_leaves_a_turn(at, line) for at, line in taken.items())
        if place == 0 and leaning.fault is not None:
            among = [pair for pair in pairs(target) if pair[1] == leaning.fault]
        else:
            among = _later(target, draw_(st.sampled_from(_LATER_IN_RECOVERY if left else _LATER)))
        name, fault = draw_(_pair(leaning, among if place == 0 else _fewest(leaning, among)))
        recovers = point(name).moment == "recovery"
        ordinals = [each for each in _ordinals(leaning, name) if each <= max(1, left) or not recovers]
        address = Address(point=name, ordinal=draw_(st.sampled_from(ordinals)))
        before = [] if left and recovers else list(_before(draw_, target, point(name)))
        if any(taken.get(each, line.name) != line.name for each, line in before):
            continue
        for each, line in (*before, (address, FAULTS[fault])):
            if each in taken or (line.name in _ALONE and place):
                continue
            taken[each] = line.name
            yield each, line
        if fault in _ALONE and place == 0:
            return


def _leaves_a_turn(at: Address, line: str) -> bool:
    """Whether this death leaves a turn to recovery: one of a worker that is in it."""
    where = point(at.point)
    return line in _LEAVES_A_TURN and where.role != "app" and where.moment != "graceful exit" and where.name not in _NO_TURN


_DEEPER = ("deeper", "deeper", "deeper", "deeper", "any")
# Of which kind a later moment is: any pair, a plain death, or a user who acts with nobody dead; these last ones alone in a
# recovery, where a turn is left to one.
_LATER = ("any", "any", "any", "death", "user")
_LATER_IN_RECOVERY = ("any", "death", "recovery: any", "recovery: user")


@cache
def _later(target: Target, kind: str) -> list[tuple[str, str]]:
    """The pairs of this kind; all, where the target has none."""
    where, _, what = kind.rpartition(": ")
    faults = _KINDS.get(what)
    found = [
        (name, fault)
        for name, fault in pairs(target)
        if (not where or point(name).moment == where)
        and (faults is None or fault in faults)
        and (what != "deeper" or point(name).role != "app")
    ]
    return found or list(pairs(target))


def _ordinals(leaning: Leaning, name: str) -> list[int]:
    """Which hit of the point: rather a first one, and of the later ones rather those that most schedules come to; of a
    point that is hit often, any of those."""
    often = sorted(ordinal for point, ordinal in leaning.often if point == name)
    if len(often) > max(LATER_HITS):
        return often
    later = [each for each in LATER_HITS if leaning.reached is None or (name, each) in leaning.reached]
    return [*FIRST_HITS, *later, *(each for each in later if each in often)]


def _pair(leaning: Leaning, among: list[tuple[str, str]]) -> st.SearchStrategy[tuple[str, str]]:
    """A point and a fault, rather one of those that are missing."""
    missing = [pair for pair in among if pair in leaning.missing]
    return st.sampled_from([*missing * MISSING_WEIGHT, *among])


def _before(draw_: st.DrawFn, target: Target, where: Point) -> Iterator[tuple[Address, FaultLine]]:
    """What brings a process to this point at all."""
    if where.moment == "recovery":
        first = draw_(st.sampled_from([each for each in _FIRST_DEATHS if each.name in target.points]))
        yield Address(point=first.name), FAULTS["worker-killed"]
    elif where.moment == "graceful exit":
        how, firsts = ("app-exit", _FIRST_EXITS_APP) if where.role == "app" else ("graceful-restart", _FIRST_EXITS)
        first = draw_(st.sampled_from([each for each in firsts if each.name in target.points]))
        yield Address(point=first.name), FAULTS[how]
    elif where.moment == "control":
        first = draw_(st.sampled_from([each for each in _FIRST_DEATHS if each.name in target.points]))
        yield Address(point=first.name), FAULTS["pause-at"]
    elif where == catalogue.LEASE_RENEWING:
        yield Address(point=catalogue.TURN_BEGUN.name), _TIME_PASSES


def _provide(draft: _Draft, at: Address) -> None:
    """Let the first input's replies hold what has to happen for this address to be reached: so many calls, so much text."""
    assert draft.first is not None
    found = draft.replies[draft.first.text]
    if at.point.startswith(("tool.", "effect.")):
        tools = [name for name, (needs, _) in _TOOLS.items() if needs is None]
        for _ in range(at.ordinal - sum(call.tool in tools for reply in found for call in reply.calls)):
            found = (Reply(calls=(_call(draft, tools[draft.calls % len(tools)]),), pieces=1), *found)
    elif at.point == catalogue.STREAM_TEXT_COMMITTED.name:
        pieces = max(found[-1].pieces, at.ordinal * PIECES_PER_COMMIT_MAX + 1)
        found = (*found[:-1], found[-1].model_copy(update={"text": LONG_TEXT, "pieces": pieces}))
    draft.replies[draft.first.text] = found


def _add_moment(draw_: st.DrawFn, draft: _Draft, where: Address, line: FaultLine, later: list[Send]) -> bool:
    """Plan this fault here, with what users do; False where something else is planned that leaves no room for it."""
    plan = line.plan(where, point(where.point))
    if any(str(each.at) in draft.plan for each in plan) or (draft.watched and _reboots(plan)):
        return False
    acts: tuple[Op, ...] = ()
    if draft.target.sends_controls and line.name not in _ALONE and line.name not in _ACTS_ALONE:
        acts = tuple(User(step=step.model_dump(mode="json")) for step in _acts_at(draw_, draft, later))
    if _may_be_watched(draft, where, line) and not _reboots(plan) and draw_(st.sampled_from(SECOND_WORKERS)):
        draft.watched = True
        acts += (MoveClock(by_s=draw_(st.sampled_from(CLOCK_S))), Start(role="worker", extra=True))
    for number, fault in enumerate(plan):
        ops = (*acts, *fault.ops) if number == 0 else fault.ops
        draft.plan[str(fault.at)] = Fault(at=fault.at, ops=ops)
    draft.faults.append(line.name)
    if line.name.startswith(("pause-", "quit-", "stop-")):
        draft.controlled.add(SESSION)
    if line.name == "input-during":
        draft.replies.setdefault("and one thing more", (Reply(text="One thing more."),))
    return True


def _reboots(plan: tuple[Fault, ...]) -> bool:
    """Whether the host restarts in it, which a second worker would not survive."""
    return any(isinstance(op, Reboot) for fault in plan for op in fault.ops)


def _may_be_watched(draft: _Draft, where: Address, line: FaultLine) -> bool:
    """Whether another worker may be started here that looks for work, by a clock that was moved. Not where work waits in
    two sessions: it would go on in both of them at once, in no order."""
    return (
        draft.target.has_clock
        and draft.alone
        and not draft.plan
        and point(where.point).role != "app"
        and line.name not in _ALONE
    )


def _acts_at(draw_: st.DrawFn, draft: _Draft, later: list[Send]) -> list[Step]:
    """What users do while a process stands at an address: at most one thing."""
    kind = draw_(st.sampled_from(ACTS))
    match kind:
        case "input":
            return [later.pop()] if later else []
        case "again":
            return [draft.first] if draft.first else []
        case "pause" | "stop" | "resume":
            draft.controlled.add(SESSION)
            return [Control(session=SESSION, action=kind)]
        case "reconnect":
            return [Watch(do="unwatch", session=SESSION), Watch(do="watch", session=SESSION)]
    return []


@st.composite
def _acts_at_rest(draw_: st.DrawFn, target: Target, sent: list[Send]) -> list[Step]:
    """What happens between two inputs while nothing runs: at most one thing."""
    kinds = ["nothing", "nothing"]
    if target.sends_controls:
        kinds += ["again", "pause and resume", "reconnect", "look"]
        kinds += [f"bounce {role}" for role in target.roles]
    if target.has_clock:
        kinds.append("clock")
    kind = draw_(st.sampled_from(kinds))
    session = sent[-1].session
    match kind.split():
        case ["again"]:
            return [draw_(st.sampled_from(sent)), SettleStep()]
        case ["pause", *_]:
            settled = SettleStep()  # the pause may itself be an address of the plan, at which others act
            return [Control(session=session, action="pause"), settled, Control(session=session, action="resume"), settled]
        case ["reconnect"]:
            return [Watch(do="unwatch", session=session), Watch(do="watch", session=session)]
        case ["look"]:
            return [Look(name="between")]
        case ["bounce", "app"]:
            return [Bounce(role="app")]
        case ["bounce", "worker"]:
            return [Bounce(role="worker")]
        case ["clock"]:
            return [MoveClockStep(by_s=draw_(st.sampled_from(CLOCK_S)))]
    return []


# The case ------------------------------------------------------------------------------------------------------------


def _case(draft: _Draft, sessions: Iterable[str]) -> Case:
    return Case(
        id="explored",
        target=draft.target.name,
        scenario="explored",
        family="explored",
        fault=draft.faults[-1] if draft.faults else "none",
        entrance=draft.target.entrances[0],
        script=Script(replies=draft.replies),
        steps=(*_files(draft), *(Open(session=each) for each in sessions), *draft.steps, *_afterwards(draft)),
        plan=tuple(draft.plan.values()),
    )


def _files(draft: _Draft) -> list[Step]:
    """The files that have to be there for its calls."""
    tools = {call.tool for replies in draft.replies.values() for reply in replies for call in reply.calls}
    return [NOTES] if tools & {"read", "grep"} else []


def _afterwards(draft: _Draft) -> Iterator[Step]:
    """What a user does once the controls of this schedule have been obeyed: look, and let the work go on."""
    if draft.controlled:
        yield SettleStep()
        yield Look(name="controlled")
        for session in sorted(draft.controlled):
            yield Control(session=session, action="resume")


def without_users(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """These operations without what users do among them."""
    return tuple(op for op in ops if op.do != "user")


def fault_of(fault: Fault) -> str:
    """The name that the table of faults has for what is done at this address, whoever acts there first; PLANNED if it has
    none."""
    where = point(fault.at.point)
    lines = [line for line in FAULTS.values() if line.applies(where)]
    # That a second worker looks for work is no other fault.
    unwatched = tuple(op for op in fault.ops if not (isinstance(op, MoveClock) or (isinstance(op, Start) and op.extra)))
    for ops in (each for known in (fault.ops, unwatched) for each in (known, without_users(known))):
        for line in lines:
            if ops and ops == next(each.ops for each in line.plan(fault.at, where) if each.at == fault.at):
                return line.name
    return PLANNED
