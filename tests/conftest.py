"""Owns what every test of the project shares: how Hypothesis behaves, and what is said at the end of a run."""

from __future__ import annotations

import os

from hypothesis import settings

from tests.reports.browser import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

# A busy machine is no failure, so no example has a deadline; in CI every run tries the same examples.
settings.register_profile("killpoint", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("killpoint")
