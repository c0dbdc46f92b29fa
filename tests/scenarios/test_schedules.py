"""A generated schedule is a plain case that its target can be asked to play, the same each time for one seed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.catalogue import point
from faults.plan import Address, Fault, Kill, MoveClock, Op, Start, Terminate, User
from faults.table import FAULTS
from scenarios.case import PLANNED, Case, Control, File, Open, Send, parse
from scenarios.schedules import Ground, Leaning, draw, fault_of, ground, pairs, schedules, turns
from scenarios.shrinker import fair
from scenarios.targets import TARGETS
from tests.scenarios.plans import at, moment

REFERENCE, NAIVE = TARGETS["reference"], TARGETS["naive"]


def user_steps(case: Case) -> list[dict[str, object]]:
    return [op.step for fault in case.plan for op in fault.ops if isinstance(op, User)]


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    first = [draw(REFERENCE, f"7/{n}").digest for n in range(6)]
    assert first == [draw(REFERENCE, f"7/{n}").digest for n in range(6)]
    assert len({*first, *(draw(REFERENCE, f"8/{n}").digest for n in range(6))}) == 12


def test_a_seed_means_the_same_whatever_is_imported() -> None:
    """Neither the constants of other sources nor an installed copy change what is drawn."""
    drawn = [draw(REFERENCE, f"5/{number}").digest for number in range(40)]
    script = (
        "from hypothesis.internal.conjecture import providers\n"
        "providers.is_local_module_file = lambda path: False\n"
        "from scenarios.schedules import draw\n"
        "from scenarios.targets import target\n"
        "print(*(draw(target('reference'), f'5/{number}').digest for number in range(40)))\n"
    )
    alone = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert alone.stdout.split() == drawn


def test_the_same_seed_with_another_leaning_leans_elsewhere() -> None:
    wanted = ("tool.effect.done", "overtaken")
    plain = Counter(draw(REFERENCE, f"1/{n}").fault for n in range(30))
    leaning = Counter(draw(REFERENCE, f"1/{n}", Leaning(frozenset([wanted]))).fault for n in range(30))
    assert leaning == Counter(draw(REFERENCE, f"1/{n}", Leaning(frozenset([wanted]))).fault for n in range(30))
    assert plain != leaning


def test_what_is_missing_is_drawn_more_often() -> None:
    missing = frozenset(pairs(REFERENCE)[:40])

    def share(leaning: Leaning) -> float:
        played = Counter[bool]()
        for n in range(80):
            case = draw(REFERENCE, f"2/{n}", leaning)
            played.update((fault.at.point, fault_of(fault)) in missing for fault in case.plan)
        return played[True] / played.total()

    assert share(Leaning(missing)) > 2 * share(Leaning())


def test_a_second_worker_looks_where_one_session_waits_alone() -> None:
    watched = [case for case in (draw(REFERENCE, f"5/{n}") for n in range(200)) if any(map(_is_watched, case.plan))]
    assert len(watched) > 5
    for case in watched:
        assert [step.session for step in case.steps if isinstance(step, Open)] == ["s1"]
        assert _is_watched(case.plan[0]) and sum(map(_is_watched, case.plan)) == 1
        assert not any(op.do == "reboot" for fault in case.plan for op in fault.ops), "it would not survive that"


def _is_watched(fault: Fault) -> bool:
    """Whether a second worker is started here by another clock, beside an owner who is not frozen."""
    done = [op.do for op in fault.ops]
    second = any(isinstance(op, Start) and op.extra for op in fault.ops)
    return second and "clock" in done and "freeze" not in done


def test_what_a_turn_leaves_to_recovery_meets_more_in_it() -> None:
    """Where a death leaves a turn unfinished, a third of what follows falls into the recovery from that. No point of a
    recovery stands alone: some death before it leaves a turn."""
    later = Counter[str]()
    for n in range(200):
        plan = draw(REFERENCE, f"6/{n}", Leaning(fault="worker-killed")).plan
        later.update(point(fault.at.point).moment for fault in plan[1:])
        deaths = [fault.at.point for fault in plan if any(map(_kills, fault.ops))]
        if any(point(fault.at.point).moment == "recovery" for fault in plan):
            assert set(deaths) - {"turn.committed", "work.released", "work.claimed", "worker.idle"}, plan
    assert later["recovery"] > later.total() / 3


def _kills(op: Op) -> bool:
    return isinstance(op, Kill) or (isinstance(op, Terminate) and not op.grace)


def _history(*lines: tuple[str, str]) -> list[dict[str, object]]:
    """A history of points that were reached and fired, each given as its kind and address."""
    ats = [(kind, Address.parse(text)) for kind, text in lines]
    return [{"kind": f"point.{kind}", "data": {"point": at.point, "ordinal": at.ordinal}} for kind, at in ats]


def _ground() -> Ground:
    case = draw(REFERENCE, "9/0", Leaning(fault="none"))
    planned = case.model_copy(
        update={"plan": (moment("turn.begun#7", Kill(), Start(role="worker")), moment("reply.stored#7"))}
    )
    found = ground(
        planned,
        _history(
            ("reached", "input.received#1"),
            ("reached", "work.claimed#1"),
            ("reached", "turn.begun#7"),
            ("fired", "turn.begun#7"),
            ("reached", "recovery.facts.loaded#1"),
            ("reached", "event.sent#1"),
            ("reached", "worker.idle#1"),
            ("reached", "recovery.decision.stored#1"),
        ),
    )
    assert found is not None
    return found


def test_a_schedule_that_was_played_is_built_on_where_it_came_after_it_broke() -> None:
    found = _ground()
    assert [str(each.at) for each in found.case.plan] == ["turn.begun#7"], "what nobody came to is left out"
    assert [str(each) for each in found.reached] == [
        "recovery.facts.loaded#1",
        "recovery.decision.stored#1",
        "input.received#1",  # an app's: nobody chooses whether it comes before or after
    ]


def test_nothing_is_built_on_what_wants_the_stage_for_itself() -> None:
    case = draw(REFERENCE, "9/0", Leaning(fault="none"))
    taken_over = case.model_copy(
        update={"plan": FAULTS["overtaken"].plan(Address(point="turn.begun"), point("turn.begun"))}
    )
    lines = _history(("fired", "turn.begun#1"), ("reached", "reply.stored#1"))
    assert ground(taken_over, lines) is None
    assert ground(case, _history()) is None, "nothing was reached"


def test_what_builds_on_a_schedule_keeps_it_and_breaks_where_it_came() -> None:
    base = _ground()
    drawn = [draw(REFERENCE, f"3/{n}", Leaning(grounds=(base,))) for n in range(60)]
    built = [case for case in drawn if case.plan[:1] == base.case.plan[:1] and len(case.plan) > 1]
    assert 15 < len(built) < 50
    for case in built:
        assert case.plan[1].at in base.reached
        kept = [step for step in case.steps if not isinstance(step, File)]
        assert kept[: len(base.case.steps)] == list(base.case.steps)
        assert dict(case.script.replies).items() >= dict(base.case.script.replies).items()
        assert fair(case) and parse(json.loads(case.to_json()), "here") == case
        sent = [op.step["text"] for fault in case.plan for op in fault.ops if isinstance(op, User) and "text" in op.step]
        assert set(sent) <= set(case.script.replies), "the model has an answer to each input"


def test_what_followed_least_has_its_turn() -> None:
    base = _ground()
    pair = ("recovery.decision.stored", "input-during")
    often = {each: 5 for each in pairs(REFERENCE) if each != pair}
    drawn = [draw(REFERENCE, f"3/{n}", Leaning(grounds=(base,), followed=often)) for n in range(60)]
    chosen = [case for case in drawn if len(case.plan) > 1 and case.plan[0] == base.case.plan[0]]
    second = Counter((case.plan[1].at.point, fault_of(case.plan[1])) for case in chosen)
    assert second[pair] > len(chosen) / 2


def test_a_second_worker_leaves_the_fault_its_name() -> None:
    watched = (MoveClock(by_s=10800.0), Start(role="worker", extra=True))
    for name in ("worker-killed", "pause-at", "both-killed"):
        fault = FAULTS[name].plan(Address(point="turn.begun"), point("turn.begun"))[0]
        assert fault_of(Fault(at=fault.at, ops=(*watched, *fault.ops))) == name
    assert fault_of(Fault(at=Address(point="turn.begun"), ops=watched)) == PLANNED


def test_later_hits_are_drawn_where_some_schedule_has_come_to_them() -> None:
    known = frozenset([("turn.begun", 2), ("reply.stored", 3)])
    drawn = Counter[tuple[str, int]]()
    for n in range(80):
        wanted = frozenset(pair for pair in pairs(REFERENCE) if pair[0] in ("turn.begun", "reply.stored"))
        case = draw(REFERENCE, f"5/{n}", Leaning(wanted, reached=known))
        drawn.update((fault.at.point, fault.at.ordinal) for fault in case.plan)
    later = {each for each in drawn if each[1] > 1 and point(each[0]).moment != "recovery"}
    assert later and later <= known, "a fault may itself come back at a later hit, but in recovery only"


def test_of_a_point_that_is_hit_often_every_hit_is_drawn() -> None:
    often = frozenset(("event.sent", ordinal) for ordinal in range(1, 9))
    wanted = frozenset(pair for pair in pairs(REFERENCE) if pair[0] == "event.sent")
    cases = [draw(REFERENCE, f"8/{n}", Leaning(wanted, "app-killed", often, often)) for n in range(120)]
    drawn = Counter(fault.at.ordinal for case in cases for fault in case.plan if fault.at.point == "event.sent")
    assert set(drawn) == set(range(1, 9)) and max(drawn.values()) < len(cases) / 3


@pytest.mark.parametrize("name", ["tool.dispatch.stored", "effect.applied", "stream.text.committed"])
def test_the_script_holds_what_its_points_need(name: str) -> None:
    wanted = frozenset(pair for pair in pairs(REFERENCE) if pair[0] == name)
    seen = 0
    for n in range(40):
        case = draw(REFERENCE, f"6/{n}", Leaning(wanted))
        for fault in case.plan:
            if fault.at.point == name:
                seen += 1
                replies = case.script.replies["input 1"]
                calls = [call for reply in replies for call in reply.calls]
                room = len(calls) if name != "stream.text.committed" else replies[-1].pieces // 8
                assert room >= fault.at.ordinal
    assert seen > 4


def test_time_passes_before_a_lease_is_renewed() -> None:
    wanted = frozenset(pair for pair in pairs(REFERENCE) if pair[0] == "lease.renewing")
    plans = [draw(REFERENCE, f"7/{n}", Leaning(wanted)).plan for n in range(90)]
    leases = [plan for plan in plans if any(fault.at.point == "lease.renewing" for fault in plan)]
    before = [fault for plan in leases for fault in plan if str(fault.at) == "turn.begun#1"]
    assert leases and len(before) == len(leases) and all(fault.ops[-1].do == "clock" for fault in before)


@given(schedules(REFERENCE))
@settings(max_examples=40, deadline=None)
def test_a_schedule_is_data_that_reads_back_as_itself(case: Case) -> None:
    assert parse(json.loads(case.to_json()), "here") == case


@given(schedules(REFERENCE))
@settings(max_examples=40, deadline=None)
def test_a_schedule_gives_back_what_it_takes(case: Case) -> None:
    assert fair(case)
    addresses = [str(fault.at) for fault in case.plan]
    assert len(set(addresses)) == len(addresses)
    sent = {step.text for step in case.steps if isinstance(step, Send)} | {
        str(step.get("text")) for step in user_steps(case)
    }
    assert {step.text for step in case.steps if isinstance(step, Send)} <= set(case.script.replies)
    assert sent & set(case.script.replies)
    opened = {step.session for step in case.steps if isinstance(step, Open)}
    assert {step.session for step in case.steps if isinstance(step, Send | Control)} <= opened


@given(schedules(REFERENCE))
@settings(max_examples=40, deadline=None)
def test_no_two_calls_of_a_schedule_write_the_same(case: Case) -> None:
    writes = [
        json.dumps(call.model_dump(), sort_keys=True)
        for replies in case.script.replies.values()
        for reply in replies
        for call in reply.calls
        if call.tool not in ("read", "grep")
    ]
    assert len(set(writes)) == len(writes)


@given(schedules(NAIVE))
@settings(max_examples=40, deadline=None)
def test_a_target_is_asked_for_nothing_that_it_has_not(case: Case) -> None:
    assert {fault.at.point for fault in case.plan} <= set(NAIVE.points)
    assert not user_steps(case)
    assert {step.do for step in case.steps} <= {"open", "send", "settle"}
    assert {op.do for fault in case.plan for op in fault.ops}.isdisjoint({"clock", "user"})
    assert "app" not in {getattr(op, "role", "self") for fault in case.plan for op in fault.ops}
    tools = {call.tool for replies in case.script.replies.values() for reply in replies for call in reply.calls}
    assert tools <= {"charge", "mail", "publish", "order"}


@pytest.mark.parametrize("moment", ["recovery", "graceful exit", "control"])
def test_what_leads_to_a_point_is_drawn_with_it(moment: str) -> None:
    """Recovery needs a death, a way out needs somebody who is told to go, and a control somebody who gives it."""
    wanted = frozenset(pair for pair in pairs(REFERENCE) if point(pair[0]).moment == moment)
    target = replace(REFERENCE, points=REFERENCE.points)
    seen = 0
    for n in range(40):
        case = draw(target, f"3/{n}", Leaning(wanted))
        places = [i for i, fault in enumerate(case.plan) if point(fault.at.point).moment == moment]
        if places:
            seen += 1
            assert places[0] > 0, f"{case.plan[places[0]].at} comes first"
    assert seen > 10


@given(st.sampled_from(pairs(REFERENCE)))
@settings(max_examples=60, deadline=None)
def test_a_fault_of_the_table_is_known_by_what_it_does(pair: tuple[str, str]) -> None:
    name, fault = pair
    line = FAULTS[fault]
    planned = line.plan(at(name), point(name))[0]
    known = fault_of(planned)
    assert FAULTS[known].plan(at(name), point(name))[0] == planned
    acts = (User(step={"do": "control", "session": "s1", "action": "resume"}), *planned.ops)
    if not any(isinstance(op, User) for op in planned.ops):
        assert fault_of(Fault(at=planned.at, ops=acts)) == known


def test_what_no_line_of_the_table_does_is_called_planned() -> None:
    odd = Fault(at=at("turn.begun"), ops=(Kill(role="worker"), Kill(role="app"), Start(role="worker"), Start(role="app")))
    assert fault_of(odd) == PLANNED


def test_each_fault_has_its_turn() -> None:
    faults = turns(REFERENCE)
    assert faults[0] == "none" and set(faults[1:]) == {fault for _, fault in pairs(REFERENCE)}
    for n, fault in enumerate(faults):
        case = draw(REFERENCE, f"4/{n}", Leaning(fault=fault))
        assert (fault == "none") == (not case.plan)
        if case.plan:
            line = FAULTS[fault]
            applies = [each for each in case.plan if line.applies(point(each.at.point))]
            wanted = [(each.ops, line.plan(each.at, point(each.at.point))[0].ops) for each in applies]
            assert any(ops[-len(mine) :] == mine for ops, mine in wanted), (fault, case.plan)
