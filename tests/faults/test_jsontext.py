"""JSON on the hot ways: the values and texts are those of the standard library, also where the fast one would differ."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults import jsontext

ODD = [
    "\ud800",
    {"text": "half \udfff of a pair"},
    2**63,
    2**64,
    -(2**80),
    [10**18, 10**19],
    {1: "a key that is no text"},
    (1, 2),
    "\x7f\u2028é",
    1e22,
    5e-324,
]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def same(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_odd_values_come_back_as_the_standard_library_gives_them(value: Any) -> None:
    text = jsontext.dumps(value)
    assert b"\n" not in text
    assert json.loads(text) == jsontext.loads(text) == same(value)
    assert repr(jsontext.loads(json.dumps(value).encode())) == repr(same(value))


@given(JSON)
def test_every_value_comes_back(value: Any) -> None:
    assert jsontext.loads(jsontext.dumps(value)) == value
    assert jsontext.loads(json.dumps(value).encode()) == value
    assert json.loads(jsontext.dumps(value)) == value


def test_what_python_alone_takes_for_json_is_read_and_written_as_null() -> None:
    assert math.isnan(jsontext.loads(b"NaN"))
    assert jsontext.loads(b"-Infinity") == -math.inf
    assert jsontext.dumps(math.nan) == b"null"


@pytest.mark.parametrize("text", [b"", b"{", b"[1,]", b"nul", b'"\xff"', b"1 2"])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        jsontext.loads(text)


def test_what_json_has_not_is_refused() -> None:
    with pytest.raises(TypeError):
        jsontext.dumps({"set": {1}})
