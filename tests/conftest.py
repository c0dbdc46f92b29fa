"""Owns what every test of the project shares: how Hypothesis behaves, and what is said at the end of a run."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

from tests.reports.browser import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

# A busy machine is no failure, so no example has a deadline; in CI every run tries the same examples.
settings.register_profile("killpoint", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("killpoint")

# A shell has what it starts in its background ignore Ctrl-C, and the programs under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
