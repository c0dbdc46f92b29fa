"""The way in of the two processes: what is read in the plain form means what the command line means by it."""

from __future__ import annotations

from typing import Any

import pytest

from reference import __main__ as command_line
from reference import entry

PLAIN = [
    ["serve", "--data", "d"],
    ["serve", "--workers", "0", "--workspace", "w", "--data", "d"],
    ["serve", "--data", "d", "--host", "::1", "--port", "8080", "--workers", "3"],
    ["worker", "--data", "d"],
    ["worker", "--workspace", "w", "--data", "d"],
    ["worker", "--supervised", "--data", "d", "--workspace", "w"],
]
OTHER = [
    [],
    ["serve"],
    ["worker"],
    ["serve", "--help"],
    ["serve", "--data=d"],
    ["serve", "--data"],
    ["serve", "--data", ""],
    ["serve", "--data", "d", "--data", "e"],
    ["serve", "--data", "d", "--port", "x"],
    ["serve", "--data", "d", "--port", "-1"],
    ["serve", "--data", "d", "--port", "²"],
    ["serve", "--data", "--workers", "--workers", "0"],
    ["serve", "--supervised", "--data", "d"],
    ["worker", "--data", "d", "--supervised"],
    ["worker", "--data", "d", "--port", "0"],
    ["worker", "--data", "d", "more"],
    ["send", "--data", "d"],
]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have been run, with what."""
    calls: list[Any] = []

    def record(name: str) -> Any:
        return lambda *given: calls.append((name, given)) or 0

    for name in ("serve", "worker"):
        monkeypatch.setattr(entry, name, record(name))
    return calls


@pytest.mark.parametrize("arguments", PLAIN, ids=" ".join)
def test_the_plain_form_runs_what_the_command_line_runs(started: list[Any], arguments: list[str]) -> None:
    run = entry.plain(arguments)
    assert run is not None
    assert run() == 0
    assert command_line.main(arguments) == 0
    assert len(started) == 2
    assert started[0] == started[1]


@pytest.mark.parametrize("arguments", OTHER, ids=" ".join)
def test_what_is_written_otherwise_is_left_to_the_command_line(arguments: list[str]) -> None:
    assert entry.plain(arguments) is None


def test_a_mistake_is_told_as_the_command_line_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["serve", "--data", "d", "--port", "x"]
    assert entry.main(arguments) == command_line.main(arguments) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == second
    assert "--port" in first


@pytest.mark.parametrize("arguments", [["serve", "--data", "d", "--workers", "65"], ["serve", "--data", "\0"]])
def test_what_cannot_begin_says_why_in_one_line_either_way(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status = entry.main(arguments)
    assert status in (1, 2)
    assert command_line.main(arguments) == status
    first, second = capsys.readouterr().err.splitlines()
    assert first == second
