"""Owns the name for faults of the harness itself, so that they are never taken for a verdict about a target."""

from __future__ import annotations


class HarnessFault(RuntimeError):
    """Something that Killpoint itself got wrong or could not do. A case that meets one is `void`, never judged."""
