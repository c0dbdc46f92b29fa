"""A failing case is made small in a fixed order, by playing; what is left cannot be left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from faults.plan import BreakStore, Freeze, Kill, Release, Start, User
from scenarios.case import Bounce, Call, Case, Control, Open, Reply, Script, Send, SettleStep, Watch
from scenarios.schedules import schedules
from scenarios.shrinker import Shrinking, fair, shrink, size
from scenarios.targets import TARGETS
from tests.scenarios.plans import death, moment

REFERENCE = TARGETS["reference"]
MAIL = Call(tool="mail", arguments={"to": "ann"})
GREP = Call(tool="grep", arguments={"pattern": "x"})


def case_of(*steps: object, plan: tuple[object, ...] = (), replies: tuple[Reply, ...] | None = None) -> Case:
    script = Script(replies={"one": replies or (Reply(text="A long answer.", pieces=4),), "two": (Reply(text="Two."),)})
    return Case.model_validate(
        {"id": "c", "target": "reference", "scenario": "explored", "script": script, "steps": steps, "plan": plan}
    )


LARGE = case_of(
    Open(session="s1"),
    Open(session="s2"),
    Send(session="s1", request="r1", text="one"),
    SettleStep(),
    Bounce(role="worker"),
    Control(session="s1", action="pause"),
    Control(session="s1", action="resume"),
    Send(session="s2", request="r2", text="two"),
    plan=(
        death("turn.begun#1"),
        moment("effect.applied#3", Kill(), Release(), Start(role="worker")),
        death("recovery.facts.loaded#2"),
    ),
    replies=(Reply(text="On it.", calls=(MAIL, GREP)), Reply(text="A long answer.", pieces=4, usage="every")),
)


def played(fails: Callable[[Case], bool], case: Case = LARGE, plays_max: int = 1000, side: int = 1) -> Shrinking:
    assert fails(case)
    spent = Counter[str]()

    def each(cases: list[Case]) -> list[bool]:
        spent["plays"] += len(cases)
        return [fails(each) for each in cases]

    return shrink(case, each, lambda: plays_max - spent["plays"], side)


def kills_at(case: Case, name: str) -> bool:
    return any(fault.at.point == name and any(op.do == "kill" for op in fault.ops) for fault in case.plan)


def calls(case: Case, tool: str) -> bool:
    return any(call.tool == tool for reply in case.script.replies.get("one", ()) for call in reply.calls)


def sends(case: Case, text: str) -> bool:
    return any(isinstance(step, Send) and step.text == text for step in case.steps)


def test_what_needs_no_death_loses_them_all() -> None:
    small = played(lambda case: sends(case, "one")).case
    assert small.plan == () and small.fault == "none"
    assert [step.do for step in small.steps] == ["send"] or [step.do for step in small.steps] == ["open", "send"]
    assert set(small.script.replies) <= {"one"}


def test_one_death_that_is_needed_stays_and_comes_as_early_as_it_may() -> None:
    small = played(lambda case: kills_at(case, "effect.applied") and calls(case, "mail") and sends(case, "one")).case
    assert [str(fault.at) for fault in small.plan] == ["effect.applied#1"]
    assert [op.do for op in small.plan[0].ops][-1] == "start" and small.fault == "worker-killed"
    assert len(small.steps) <= 2
    assert [call.tool for reply in small.script.replies["one"] for call in reply.calls] == ["mail"]


def test_one_death_and_one_input_are_come_to_at_once() -> None:
    """Each way down costs plays of its own: what most failures come down to is tried first."""
    small = played(lambda case: kills_at(case, "turn.begun") and sends(case, "one"))
    assert [fault.at.point for fault in small.case.plan] == ["turn.begun"] and len(small.larger) <= 5
    first = small.larger[1]
    assert len(first.plan) == 1 and [step.do for step in first.steps] == ["open", "send"]
    assert set(first.script.replies) == {"one"} and small.plays <= 30


def test_inputs_that_wait_side_by_side_are_sent_at_one_moment() -> None:
    """However they came to wait: at two moments, or in a pause."""
    sent = [Send(session="s1", request=f"r{n}", text="two") for n in (2, 3)]
    told = [User(step=each.model_dump(mode="json")) for each in sent]
    first = Send(session="s1", request="r1", text="one")
    two_moments = (moment("turn.begun#1", told[0], Release()), moment("reply.stored#1", told[1], Release()))
    pause = User(step=Control(session="s1", action="pause").model_dump(mode="json"))
    a_pause = moment("turn.begun#1", pause, Release())

    def waiting(case: Case) -> int:
        at_moments = sum(op.do == "user" and op.step["do"] == "send" for fault in case.plan for op in fault.ops)
        paused = any(isinstance(step, Control) for step in case.steps)
        return at_moments + sum(isinstance(step, Send) and step.text == "two" for step in case.steps if paused)

    for case in (
        case_of(Open(session="s1"), first, plan=two_moments),
        case_of(Open(session="s1"), first, *sent, Control(session="s1", action="resume"), plan=(a_pause,)),
    ):
        small = played(lambda case: waiting(case) == 2 and sends(case, "one"), case).case
        assert [step.do for step in small.steps if step.do != "open"] == ["send"]
        assert [[op.do for op in fault.ops] for fault in small.plan] == [["user", "user", "release"]]


def test_an_ordinal_that_is_needed_stays() -> None:
    def fails(case: Case) -> bool:
        return any(str(fault.at) in ("effect.applied#2", "effect.applied#3") for fault in case.plan)

    assert [str(fault.at) for fault in played(fails).case.plan] == ["effect.applied#2"]


def test_actions_that_are_needed_stay_in_their_order() -> None:
    def fails(case: Case) -> bool:
        actions = [step.action for step in case.steps if isinstance(step, Control)]
        return actions == ["pause", "resume"] and sends(case, "two")

    steps = played(fails).case.steps
    assert [step.do for step in steps if not isinstance(step, Open)] == ["control", "control", "send"]
    assert not any(isinstance(step, Bounce | SettleStep) for step in steps)


def test_the_script_is_as_short_as_it_may_be() -> None:
    small = played(lambda case: len(case.script.replies.get("one", ())[-1:]) == 1 and sends(case, "one")).case
    (reply,) = small.script.replies["one"]
    assert (reply.calls, reply.pieces, reply.usage) == ((), 1, "last") and len(reply.text) <= 2


def test_two_kinds_of_deaths_at_one_moment_become_one() -> None:
    both = moment("turn.begun#1", Kill(), Kill(role="app"), Start(role="app"), Start(role="worker"))
    case = case_of(Open(), Send(request="r1", text="one"), plan=(both,))
    small = played(lambda each: kills_at(each, "turn.begun"), case).case
    assert [op.do for op in small.plan[0].ops] == ["kill", "start"]


def test_a_moment_at_which_nothing_is_broken_goes_as_soon_as_its_actions_do() -> None:
    """In one pass over the actions: the next one over the moments may come when no plays are left."""
    act = User(step={"do": "control", "session": "s1", "action": "pause"})
    plan = (death("turn.begun#1"), moment("reply.stored#1", act, Release()))
    case = case_of(Open(), Send(request="r1", text="one"), plan=plan)
    tried: list[Case] = []

    def fails(each: Case) -> bool:
        tried.append(each)
        # As if the moment were needed while the script is long: it cannot go before the actions are looked at.
        return kills_at(each, "turn.begun") and (len(each.plan) == 2 or len(tried) > 8)

    assert [str(fault.at) for fault in played(fails, case).case.plan] == ["turn.begun#1"]


def test_no_more_is_played_than_was_allowed() -> None:
    plays = 0

    def fails(cases: list[Case]) -> list[bool]:
        nonlocal plays
        plays += len(cases)
        return [False] * len(cases)

    done = shrink(LARGE, fails, lambda: 7 - plays, side_by_side=2)
    assert (plays, done.plays, done.finished, done.case) == (7, 7, False, LARGE)


def test_nothing_is_played_twice() -> None:
    seen: list[str] = []

    def fails(case: Case) -> bool:
        seen.append(case.digest)
        return sends(case, "two")

    assert played(fails).finished
    assert len(set(seen)) == len(seen)


@given(schedules(REFERENCE), st.integers(0, 3), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_the_outcome_is_smaller_still_fails_is_fair_and_does_not_depend_on_how_many_play(
    case: Case, kind: int, side: int
) -> None:
    conditions: list[Callable[[Case], bool]] = [
        lambda each: any(isinstance(step, Send) for step in each.steps),
        lambda each: any(op.do == "kill" for fault in each.plan for op in fault.ops),
        lambda each: any(reply.calls for replies in each.script.replies.values() for reply in replies),
        lambda each: len(each.plan) >= 2,
    ]
    fails = conditions[kind]
    assume(fails(case))
    alone = played(fails, case)
    assert fails(alone.case) and fair(alone.case) and size(alone.case) <= size(case)
    assert played(fails, case, side=side).case == alone.case
    assert played(fails, alone.case).case == alone.case, "a smallest case cannot be made smaller"


@pytest.mark.parametrize(
    "ops",
    [
        (Kill(),),
        (Kill(role="app"), Start(role="worker")),
        (Freeze(do="freeze"),),
        (BreakStore(do="break_store"),),
        (User(step={"do": "quit"}), Start(role="app")),
    ],
)
def test_a_case_that_takes_without_giving_back_is_not_fair(ops: tuple[object, ...]) -> None:
    assert not fair(case_of(Open(), plan=({"at": "turn.begun#1", "ops": ops},)))


def test_a_client_that_goes_for_good_is_not_fair() -> None:
    gone = Watch(do="unwatch", session="s1")
    assert not fair(case_of(Open(), gone))
    assert fair(case_of(Open(), gone, Watch(do="watch", session="s1")))


def test_deaths_are_dearer_than_actions_and_actions_dearer_than_words() -> None:
    one = case_of(Open(), Send(request="r1", text="one"))
    more_words = case_of(Open(), Send(request="r1", text="one"), replies=(Reply(text="x" * 500, pieces=9),))
    more_acts = case_of(Open(), Send(request="r1", text="one"), SettleStep())
    one_death = case_of(Open(), Send(request="r1", text="one"), plan=(death("turn.begun#1"),))
    later = case_of(Open(), Send(request="r1", text="one"), plan=(death("turn.begun#2"),))
    assert size(one) < size(more_words) < size(more_acts) < size(one_death) < size(later)
