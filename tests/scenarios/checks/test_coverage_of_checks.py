"""Every check has been seen to hold on a right history and to be violated by a broken one: told by playing them.

The tables of examples and of generated histories are the data; each entry is made and judged here, so that an entry which
shows nothing counts for nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.checks import AREAS, CHECKS, judge
from tests.scenarios.checks import (
    ALL_EXAMPLES,
    examples_met,
    test_harness,
    test_intent,
    test_interface,
    test_ownership,
    test_recovery,
)
from tests.scenarios.checks.builder import Tape
from tests.scenarios.checks.examples import EXAMPLES
from tests.scenarios.checks.generated_a import BROKEN, GOOD, ONCE

GENERATED = (test_recovery, test_intent, test_ownership, test_interface, test_harness)
assert ALL_EXAMPLES and GENERATED  # importing them fills the tables


def status(tape: Tape, name: str) -> str:
    return judge(tape.evidence(), CHECKS[name]).status


def played() -> Iterator[tuple[str, str]]:
    """The status that each check has on each example that is about it."""
    for name, example in EXAMPLES.items():
        if example.good is not None:
            yield name, status(example.good(), name)
        for breaking, of in example.broken:
            making = of or example.good
            assert making is not None, f"{name}: {breaking.__name__} breaks no history"
            breaking(tape := making())
            yield name, status(tape, name)


@cache
def seen() -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, said in played():
        found[name][said] += 1
    return found


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_was_seen_to_hold_and_to_be_violated(name: str) -> None:
    assert seen()[name]["held"] >= 1, f"{name}: no history on which it holds"
    assert seen()[name]["violated"] >= 1, f"{name}: no history that breaks it, so it may be one that cannot fail"
    assert set(seen()[name]) == {"held", "violated"}, "an entry of the table shows nothing"


@pytest.mark.parametrize("name", sorted({each.name for each in BROKEN} | set(GOOD)))
@ONCE
@given(data=st.data())
def test_what_is_generated_for_a_check_shows_the_same(name: str, data: st.DataObject) -> None:
    assert status(data.draw(GOOD[name]), name) == "held"
    ways = [each for each in BROKEN if each.name == name]
    broken = ways[data.draw(st.integers(0, len(ways) - 1))]
    tape = data.draw(broken.histories)
    broken.breaking(tape, data.draw)
    assert status(tape, name) == "violated"


def test_every_check_of_an_area_that_is_generated_has_right_and_broken_histories() -> None:
    areas = {f"scenarios.checks.{module.__name__.rpartition('.test_')[2]}" for module in GENERATED}
    assert areas < {area.__name__ for area in AREAS}
    mine = {name for name, each in CHECKS.items() if each.judge.__module__ in areas} - examples_met.names()
    assert mine == set(GOOD) == {each.name for each in BROKEN}


def test_no_two_ways_to_break_a_check_are_one() -> None:
    ways = Counter((each.name, each.breaking.__name__) for each in BROKEN)
    assert [way for way, times in ways.items() if times > 1] == []
    examples = Counter((name, breaking.__name__) for name, each in EXAMPLES.items() for breaking, _ in each.broken)
    assert [way for way, times in examples.items() if times > 1] == []
