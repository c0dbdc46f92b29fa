"""Owns the making of names: short, random, told apart by their first letters."""

from __future__ import annotations

import hashlib
import os


def new(prefix: str) -> str:
    """A fresh name such as `w_3f0c9a1b22d4`, with 48 random bits."""
    return f"{prefix}_{os.urandom(6).hex()}"


def derived(prefix: str, *parts: object) -> str:
    """The name that these parts always have. Used where a second making must give the same name (REC-6)."""
    text = "\x1f".join(str(part) for part in parts)
    return f"{prefix}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
