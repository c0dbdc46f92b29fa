"""Owns which browser the tests of the pages use, and the line that says so when there is none.

A `conftest.py` that imports `pytest_terminal_summary` from here shows that line; under xdist it has to be one that the
controlling process loads. However many do, the line is written once.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

BROWSER = os.environ.get("KILLPOINT_BROWSER") or shutil.which("chromium") or shutil.which("chromium-browser")

_said = pytest.StashKey[bool]()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was not tested, so that its absence does not pass for success."""
    stash = terminalreporter.config.stash
    if BROWSER or stash.get(_said, False):
        return
    stash[_said] = True
    terminalreporter.write_line(
        "not run: tests/reports/test_browser.py, for want of a browser (install chromium or set KILLPOINT_BROWSER)"
    )
