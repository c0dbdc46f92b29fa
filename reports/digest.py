"""Owns the digest of a case's evidence: one number over case, history, snapshots and versions.

The digest is over canonical JSON, so the same evidence gives the same digest on every machine, and one altered letter
gives another. It shows that stored evidence was changed after it was judged; it does not show who judged it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any

PREFIX = "sha256:"

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(value: Any) -> str:
    """`value` as JSON in the one form that is hashed: sorted keys, no spaces, ASCII only.

    Raises ValueError for what JSON cannot say, such as NaN, and TypeError for a value that is no JSON data.
    """
    return _CANONICAL.encode(value)


def digest(
    case: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    snapshots: Mapping[str, Any],
    versions: Mapping[str, str],
) -> str:
    """The digest over a case, the records of its history in order, its snapshots by name and the versions in use.

    Of a record only `t_ns`, `kind` and `data` count: `seq` is its place, and the order is hashed anyway.
    """
    about = {"case": dict(case), "snapshots": dict(snapshots), "versions": dict(versions)}
    history = [[record["t_ns"], record["kind"], record["data"]] for record in records]
    return PREFIX + hashlib.sha256(canonical([about, history]).encode()).hexdigest()


def verify(
    expected: str,
    case: Mapping[str, Any],
    records: Sequence[Mapping[str, Any]],
    snapshots: Mapping[str, Any],
    versions: Mapping[str, str],
) -> bool:
    """Whether this is the evidence that `expected` was made from. Evidence that is no JSON data any more is not."""
    try:
        found = digest(case, records, snapshots, versions)
    except (ValueError, TypeError, KeyError):
        return False
    return hmac.compare_digest(found.encode(), expected.encode())
