"""Owns a stand-in for the part of orjson that the harness uses, for a file that has no packages to import.

Of what it does not do itself `faults/jsontext.py` goes through the standard library, as it does for what orjson refuses.
"""

from __future__ import annotations

import json
import math
from typing import Any

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def dumps(value: Any) -> bytes:
    """`value` as compact JSON, numbers that JSON cannot say as null. Raises TypeError for what JSON has not."""
    try:
        return _encode(value).encode()
    except ValueError:
        return _encode(_sayable(value)).encode()


def loads(text: bytes) -> Any:
    """Nothing: this is left to the standard library, which takes all that orjson does."""
    raise ValueError


def _sayable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sayable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sayable(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
