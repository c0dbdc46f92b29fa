"""Every breakpoint promises something in one complete sentence."""

from __future__ import annotations

import re

import pytest

from faults.catalogue import POINTS, RECOVERY_POINTS, Point, UnknownPoint, matching, point

# The rows of the contract's table "Where it must be able to break" that a chat turn meets.
MOMENTS = {
    "input",
    "control",
    "claim of the work",
    "provider request",
    "tool call",
    "two databases",
    "usage",
    "projection",
    "graceful exit",
    "recovery",
}


@pytest.mark.parametrize("each", POINTS, ids=str)
def test_a_point_has_a_complete_sentence_and_clauses(each: Point) -> None:
    parts = re.fullmatch(r"fires after (.+), before (.+); recovery must (.+)", each.sentence)
    assert parts is not None
    for part in (each.after, each.before, each.recovery):
        assert len(part.split()) >= 2 and part == part.strip() and not part.endswith(".")
    assert ";" not in each.after + each.before
    assert re.fullmatch(r"[a-z]+(\.[a-z]+)+", each.name)
    assert each.clauses and all(re.fullmatch(r"(ADM|INT|OWN|REC|EFF|HIS|USE|UIX|ENV)-\d+", id) for id in each.clauses)
    assert each.repeats_max >= 0


def test_every_moment_of_a_chat_turn_has_its_points() -> None:
    assert {each.moment for each in POINTS} == MOMENTS
    assert len(POINTS) >= 30 and len({each.name for each in POINTS}) == len(POINTS)
    assert {each.role for each in RECOVERY_POINTS} == {"worker"}
    assert len({each.sentence for each in POINTS}) == len(POINTS)


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    assert point("tool.effect.done").name == "tool.effect.done"
    with pytest.raises(UnknownPoint, match=r"unknown breakpoint 'tool.efect.done'; nearest: tool\.effect\.done"):
        point("tool.efect.done")
    assert {each.name for each in matching("effect.*")} == {"effect.received", "effect.applied"}
    with pytest.raises(UnknownPoint):
        matching("nothing.like.*")
