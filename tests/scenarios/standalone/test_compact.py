"""The stand-in for orjson writes what orjson writes, to whoever reads it, and refuses what it refuses."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults import jsontext
from scenarios.standalone import compact

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner)
)


@given(VALUES)
def test_it_says_the_same(value: object) -> None:
    assert json.loads(compact.dumps(value)) == json.loads(orjson.dumps(value))


@pytest.mark.parametrize("value", [{1}, object(), b"x", [1, {"x": {2}}]])
def test_what_json_has_not_is_refused(value: object) -> None:
    for dumps in (orjson.dumps, compact.dumps):
        with pytest.raises(TypeError):
            dumps(value)


@given(VALUES)
def test_a_line_of_a_history_comes_back_the_same_with_either(value: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        before = jsontext.loads(jsontext.dumps(value))
        patch.setattr(jsontext, "orjson", compact)
        assert jsontext.loads(jsontext.dumps(value)) == before
