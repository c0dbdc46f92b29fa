"""Owns the table of examples: for each check a history on which it holds, and what breaks it.

A breaking takes the tape of the good history, changes it in place, and gives the two lines that the check must name as
its witnesses: since when the promise held, and what broke it. None means that there is no such line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.scenarios.checks.builder import Line, Tape

Witnesses = tuple[Line | None, Line | None]
Breaking = Callable[[Tape], Witnesses]
Making = Callable[[], Tape]


@dataclass
class Example:
    good: Making | None = None
    broken: list[tuple[Breaking, Making | None]] = field(default_factory=list)


EXAMPLES: dict[str, Example] = {}


def good(*names: str) -> Callable[[Making], Making]:
    def register(making: Making) -> Making:
        for name in names:
            example = EXAMPLES.setdefault(name, Example())
            assert example.good is None, f"{name} has two good histories"
            example.good = making
        return making

    return register


def breaks(name: str, of: Making | None = None) -> Callable[[Breaking], Breaking]:
    def register(breaking: Breaking) -> Breaking:
        EXAMPLES.setdefault(name, Example()).broken.append((breaking, of))
        return breaking

    return register


def change(line: Line, **data: object) -> Line:
    line["data"].update(data)
    return line
