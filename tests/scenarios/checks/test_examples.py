"""Each check holds on its good history, is the one that catches its broken ones, and cannot be a check that never fails."""

from __future__ import annotations

import pytest

from scenarios.checks import CHECKS, judge
from tests.scenarios.checks import ALL_EXAMPLES
from tests.scenarios.checks.builder import Tape
from tests.scenarios.checks.examples import EXAMPLES, Breaking, Making

assert ALL_EXAMPLES
BROKEN = [
    pytest.param(name, of or example.good, breaking, id=f"{name}:{breaking.__name__}")
    for name, example in EXAMPLES.items()
    for breaking, of in example.broken
]
GOOD = sorted(
    {making.__name__: making for e in EXAMPLES.values() for making in (e.good, *(o for _, o in e.broken)) if making}.items()
)


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_has_a_good_history_and_two_that_break_it(name: str) -> None:
    missing = name not in EXAMPLES
    assert not missing, f"{name}: a check without examples may be one that cannot fail"
    assert EXAMPLES[name].good is not None
    assert len(EXAMPLES[name].broken) >= 2


def test_no_example_speaks_of_a_check_that_is_gone() -> None:
    assert not set(EXAMPLES) - set(CHECKS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_check_examines_its_good_history_and_holds(name: str) -> None:
    making = EXAMPLES[name].good
    assert making is not None
    result = judge(making().evidence(), CHECKS[name])
    assert (result.status, result.violations, result.why) == ("held", [], None)
    assert result.examined > 0


@pytest.mark.parametrize(("name", "making"), GOOD)
def test_no_check_complains_about_any_good_history(name: str, making: Making) -> None:
    results = making().results()
    assert {n: r.violations or r.why for n, r in results.items() if r.status not in {"held", "not run"}} == {}


@pytest.mark.parametrize(("name", "good", "breaking"), BROKEN)
def test_a_check_catches_what_breaks_it_with_both_witnesses(name: str, good: Making, breaking: Breaking) -> None:
    tape: Tape = good()
    assert judge(tape.evidence(), CHECKS[name]).status != "violated"
    since, at = breaking(tape)
    result = judge(tape.evidence(), CHECKS[name])
    assert result.status == "violated", result.why
    places = [(v.expected.seq, v.seen.seq) for v in result.violations]
    assert (tape.seq(since) if since else None, tape.seq(at) if at else None) in places
    for violation in result.violations:
        assert violation.check == name
        assert violation.clauses == list(CHECKS[name].clauses)
        assert violation.promise == CHECKS[name].promise
        assert violation.kind == CHECKS[name].kind
        assert violation.expected.says and violation.seen.says
