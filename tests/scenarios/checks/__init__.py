"""Owns the tests of the checks; importing it fills the table of examples."""

from tests.scenarios.checks import (
    examples_accepting,
    examples_effects,
    examples_intent,
    examples_met,
    examples_ownership,
    examples_recovery,
    examples_told,
)

ALL_EXAMPLES = (
    examples_accepting,
    examples_effects,
    examples_intent,
    examples_met,
    examples_ownership,
    examples_recovery,
    examples_told,
)
