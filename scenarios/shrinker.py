"""Owns the making small of a failing case: in a reasoned order, each step by really playing it.

    fewer lives, fewer kills, earlier ordinals, fewer actions, shorter scripts

First of all one moment and one input alone are tried, and all inputs at one moment, since that is what most failures come
down to. A candidate counts only if it is smaller in that order (`size`) and violates the same check when it is played.
What is left is a case in which nothing that was tried can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from faults.catalogue import point
from faults.plan import Address, Fault, Op, Release, User
from faults.table import FAULTS
from scenarios.case import Bounce, Case, Open, Quit, Reply, Script, Send, Step
from scenarios.schedules import fault_of, without_users

Fails = Callable[[list[Case]], list[bool]]
"""Plays these candidates, perhaps side by side, and says of each whether it still fails in the same way."""

SIMPLEST_FAULTS = ("worker-killed", "app-killed", "killed-again")
SHORT = "ok"
INPUTS_ALONE_MAX = 2
EXACT = frozenset({"freeze", "thaw", "await", "settle"})  # what makes an order exact: without it a case fails by chance


@dataclass(slots=True)
class Shrinking:
    """What came of it: the smallest case found, how many candidates were played for it, and whether all were tried. larger:
    the failing cases on the way to it, the one that was given first."""

    case: Case
    plays: int = 0
    finished: bool = True
    larger: list[Case] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)


def size(case: Case) -> tuple[int, ...]:
    """How large a case is: lives, deaths, moments and what is done at them, ordinals, actions, script."""
    ops = [op for fault in case.plan for op in fault.ops]
    return (
        sum(op.do == "start" for op in ops) + sum(isinstance(step, Bounce | Quit) for step in case.steps),
        sum(op.do in ("kill", "terminate") for op in ops),
        len(case.plan),
        sum(op.do not in ("user", "release") for op in ops),
        sum(fault.at.ordinal for fault in case.plan),
        len(case.steps) + sum(op.do == "user" for op in ops),
        sum(_weight(reply) for replies in case.script.replies.values() for reply in replies),
    )


def shrink(case: Case, fails: Fails, left: Callable[[], float], side_by_side: int = 1) -> Shrinking:
    """The smallest case that still fails. `case` itself is known to fail.

    left: how many plays may still be spent. side_by_side: how many candidates are played at once; of those that fail the
    first in order is taken, so the outcome is the same for any number.
    """
    state = Shrinking(case, _seen={case.digest})
    while True:
        before = state.case
        for smaller in (_one_of_each, _fewer_lives, _fewer_kills, _earlier, _fewer_actions, _shorter):
            if not _exhaust(state, smaller, fails, left, side_by_side):
                state.finished = False
                return state
        if state.case == before:
            return state


def _exhaust(
    state: Shrinking,
    smaller: Callable[[Case], Iterator[Case]],
    fails: Fails,
    left: Callable[[], float],
    side_by_side: int,
) -> bool:
    """Take candidates of one kind until none fails any more. False if the plays are used up."""
    candidates = _new(state, smaller)
    while batch := list(islice(candidates, max(0, int(min(side_by_side, left()))))):
        state.plays += len(batch)
        failing = [each for each, failed in zip(batch, fails(batch), strict=True) if failed]
        if failing:
            state.larger.append(state.case)
            state.case = failing[0]
            candidates = _new(state, smaller)
    return left() > 0


def _new(state: Shrinking, smaller: Callable[[Case], Iterator[Case]]) -> Iterator[Case]:
    """The candidates that are smaller than what there is and have not been played yet."""
    for each in smaller(state.case):
        if size(each) < size(state.case) and each.digest not in state._seen and fair(each):
            state._seen.add(each.digest)
            yield each


def fair(case: Case) -> bool:
    """Whether everything that the case takes away it also gives back: who is killed is started again, who is frozen is
    thawed, a broken store is mended, a client that goes comes back. A runtime that is never started again owes nothing."""
    return all(_gives_back(fault) for fault in case.plan) and _comes_back(_acts(case))


def _gives_back(fault: Fault) -> bool:
    own = "app" if point(fault.at.point).role == "app" else "worker"
    gone: set[str] = set()
    for op in fault.ops:
        if op.do in ("kill", "terminate"):
            gone.add(own if op.role == "self" else op.role)
        elif op.do == "start":
            gone.discard(op.role)
        elif op.do in ("freeze", "break_store"):
            gone.add(op.do)
        elif op.do in ("thaw", "mend_store"):
            gone.discard({"thaw": "freeze", "mend_store": "break_store"}[op.do])
        elif op.do == "user" and op.step.get("do") == "quit":
            gone |= {"app", "worker"}
    return not gone


def _acts(case: Case) -> list[str]:
    """What users do, by name: in the plan first, then at rest."""
    at_moments = [str(op.step.get("do")) for fault in case.plan for op in fault.ops if op.do == "user"]
    return at_moments + [step.do for step in case.steps]


def _comes_back(acts: list[str]) -> bool:
    return acts.count("unwatch") <= acts.count("watch")


def _with(case: Case, plan: tuple[Fault, ...] | None = None, steps: tuple[Step, ...] | None = None) -> Case:
    plan = case.plan if plan is None else plan
    steps = case.steps if steps is None else steps
    return case.model_copy(update={"plan": plan, "steps": steps, "fault": fault_of(plan[-1]) if plan else "none"})


def _without(items: tuple[Step, ...], start: int, count: int) -> tuple[Step, ...]:
    return items[:start] + items[start + count :]


def _one_of_each(case: Case) -> Iterator[Case]:
    """No moment or one, with one input, its script and nothing else; then one moment with all inputs."""
    for plan in ((), *((fault,) for fault in case.plan)):
        for send in _sends(case)[:INPUTS_ALONE_MAX]:
            yield _said_alone(_with(case, plan=plan, steps=(Open(session=send.session), send)))
    yield from _all_at_one_moment(case)


def _all_at_one_moment(case: Case) -> Iterator[Case]:
    """All inputs but the first, which is under way there, are sent at one moment, and nothing else is done by anybody."""
    acts = [op for fault in case.plan for op in fault.ops if op.do == "user" and op.step["do"] == "send"]
    acts += [User(step=send.model_dump(mode="json")) for send in _sends(case)[1:]]
    first = _sends(case)[:1]
    known = {(send.session, send.request) for send in first}
    later = {key: op for op in acts if (key := (op.step["session"], op.step["request"])) not in known}
    opens = (step for step in case.steps if isinstance(step, Open))
    steps: tuple[Step, ...] = (*opens, *first)
    for fault in case.plan if later else ():
        broken = without_users(fault.ops) or (Release(),)
        moment = Fault(at=fault.at, ops=(*later.values(), *broken))
        yield _said_alone(_with(case, plan=(moment,), steps=steps))


def _sends(case: Case) -> list[Send]:
    return [step for step in case.steps if isinstance(step, Send)]


def _said_alone(case: Case) -> Case:
    """With the script of what is said in it, and no more."""
    said = {send.text for send in _sends(case)}
    said |= {str(op.step.get("text")) for fault in case.plan for op in fault.ops if op.do == "user"}
    return _scripted(case, {text: found for text, found in case.script.replies.items() if text in said})


def _fewer_lives(case: Case) -> Iterator[Case]:
    yield _with(case, plan=())
    for each in case.plan:
        yield _with(case, plan=(each,))
    for place in range(len(case.plan)):
        yield _with(case, plan=case.plan[:place] + case.plan[place + 1 :])
    yield _with(case, steps=tuple(step for step in case.steps if not isinstance(step, Bounce | Quit)))
    for place, step in enumerate(case.steps):
        if isinstance(step, Bounce | Quit):
            yield _with(case, steps=_without(case.steps, place, 1))
    for at_address in _each_moment(case):
        yield from at_address(_simpler)


def _fewer_kills(case: Case) -> Iterator[Case]:
    for at_address in _each_moment(case):
        yield from at_address(_simpler)
        yield from at_address(_each_op_less)


def _each_moment(case: Case) -> Iterator[Callable[[Callable[[Fault], Iterator[tuple[Op, ...]]]], Iterator[Case]]]:
    """For each address of the plan, a way to try other operations there."""
    for place, fault in enumerate(case.plan):

        def tried(
            others: Callable[[Fault], Iterator[tuple[Op, ...]]], place: int = place, fault: Fault = fault
        ) -> Iterator[Case]:
            for ops in others(fault):
                moment = Fault(at=fault.at, ops=ops)
                yield _with(case, plan=(*case.plan[:place], moment, *case.plan[place + 1 :]))

        yield tried


def _simpler(fault: Fault) -> Iterator[tuple[Op, ...]]:
    """The simplest deaths that the table knows for this point, with and without what users do there."""
    where = point(fault.at.point)
    acts = tuple(op for op in fault.ops if op.do == "user")
    for name in SIMPLEST_FAULTS:
        if FAULTS[name].applies(where):
            ops = FAULTS[name].plan(fault.at, where)[0].ops
            yield ops
            yield (*acts, *ops)
    if acts:
        yield (*acts, Release())


def _each_op_less(fault: Fault) -> Iterator[tuple[Op, ...]]:
    for place, op in enumerate(fault.ops):
        if op.do not in EXACT:
            yield fault.ops[:place] + fault.ops[place + 1 :]


def _earlier(case: Case) -> Iterator[Case]:
    for place, fault in enumerate(case.plan):
        others = {str(each.at) for each in case.plan}
        for ordinal in range(1, fault.at.ordinal):
            at = Address(point=fault.at.point, ordinal=ordinal)
            if str(at) not in others:
                yield _with(case, plan=(*case.plan[:place], Fault(at=at, ops=fault.ops), *case.plan[place + 1 :]))


def _fewer_actions(case: Case) -> Iterator[Case]:
    sends = _sends(case)
    for send in sends:
        yield _with(case, steps=(Open(session=send.session), send))
    count = len(case.steps) // 2
    while count:
        for start in range(0, len(case.steps), count):
            yield _with(case, steps=_without(case.steps, start, count))
        count //= 2
    for place, fault in enumerate(case.plan):
        if all(op.do in ("user", "release") for op in fault.ops):
            yield _with(case, plan=case.plan[:place] + case.plan[place + 1 :])
    for at_address in _each_moment(case):
        yield from at_address(lambda fault: iter([without_users(fault.ops)]))
        yield from at_address(_each_op_less)
    if len({step.session for step in sends}) > 1:
        yield _in_one_session(case)


def _in_one_session(case: Case) -> Case:
    """The same acts, all in the session that comes first."""
    first = next(step.session for step in case.steps if isinstance(step, Open))
    steps: list[Step] = []
    for step in case.steps:
        moved = step.model_copy(update={"session": first}) if hasattr(step, "session") else step
        if not (isinstance(moved, Open) and moved in steps):
            steps.append(moved)
    return _with(case, steps=tuple(steps))


def _shorter(case: Case) -> Iterator[Case]:
    alone = _said_alone(case)
    yield _scripted(case, {text: tuple(map(_plain, found)) for text, found in alone.script.replies.items()})
    yield alone
    for text, found in case.script.replies.items():
        for place, reply in enumerate(found):
            if reply.calls:
                yield _scripted(case, {**case.script.replies, text: (*found[:place], *found[place + 1 :])})
            for other in _shorter_reply(reply):
                yield _scripted(case, {**case.script.replies, text: (*found[:place], other, *found[place + 1 :])})


def _plain(reply: Reply) -> Reply:
    return reply.model_copy(update={"text": "" if reply.calls else SHORT, "pieces": 1, "usage": "last"})


def _shorter_reply(reply: Reply) -> Iterator[Reply]:
    for place in range(len(reply.calls)):
        if len(reply.calls) > 1:
            yield reply.model_copy(update={"calls": reply.calls[:place] + reply.calls[place + 1 :]})
    if reply.text and reply.calls:
        yield reply.model_copy(update={"text": ""})
    if len(reply.text) > len(SHORT) and not reply.calls:
        yield reply.model_copy(update={"text": SHORT, "pieces": 1})
    if reply.pieces > 1:
        yield reply.model_copy(update={"pieces": 1})
        yield reply.model_copy(update={"pieces": 2})
    if reply.usage != "last":
        yield reply.model_copy(update={"usage": "last"})


def _scripted(case: Case, replies: dict[str, tuple[Reply, ...]]) -> Case:
    return case.model_copy(update={"script": Script(replies=replies)})


def _weight(reply: Reply) -> int:
    return len(reply.text) + 10 * reply.pieces + 100 * len(reply.calls) + (reply.usage != "last")
