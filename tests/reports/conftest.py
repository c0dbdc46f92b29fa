"""Owns what of the report tests is collected: those in a browser only where there is one."""

from __future__ import annotations

from tests.reports.browser import BROWSER, pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

collect_ignore = [] if BROWSER else ["test_browser.py"]
