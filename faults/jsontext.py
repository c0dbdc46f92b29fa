"""Owns JSON on the ways that every report, call and event of a case takes: the standard library's values, made faster.

The fast library refuses what JSON text should not hold and Python's allows (lone surrogates, NaN), refuses to write
integers beyond 64 bits, and reads those as floats. A history must say what was there, so these go through the standard
library.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_encode = json.JSONEncoder(separators=(",", ":")).encode


def dumps(value: Any) -> bytes:
    """`value` as one line of compact JSON; NaN, which JSON cannot say, as null. Raises TypeError for what JSON has not."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encode(value).encode()


def loads(text: bytes) -> Any:
    """The value that stands in this JSON. Raises ValueError if it is none."""
    if _LONG_NUMBER.search(text) is None:
        try:
            return orjson.loads(text)
        except ValueError:
            pass  # what only the standard library takes, or no JSON at all: it says which
    return json.loads(text)
