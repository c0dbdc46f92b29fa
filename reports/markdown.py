"""Owns the summary in Markdown, as it stands below a CI run: verdict, counts, what broke and how to see it again.

CI services cut a summary that is too long, so this one stays below a bound and says what it left out.
"""

from __future__ import annotations

import re
from pathlib import Path

from reports import words
from reports.model import WORST_FIRST, Cell, Report
from reports.pages import GLYPH, all_violations

BYTES_MAX = 60_000
_FINDINGS_BYTES_MAX = 40_000
_LINES_MAX = 30
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&@])")


def plain(text: object, length_max: int = 300) -> str:
    """`text` as one line that Markdown shows as it is: no markup, no link, no mention in it takes effect."""
    return _SPECIAL.sub(r"\\\1", words.short(text, length_max))


def code(text: object) -> str:
    """`text` as a span of code, with a fence longer than any run of backticks in it."""
    line = " ".join(str(text).split())
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(text: str) -> str:
    """`text` as a block of code, whatever fences it holds itself."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"


def markdown(report: Report, folder: Path | None = None) -> str:
    """The summary of a report, below `BYTES_MAX` bytes of UTF-8."""
    totals = report.totals
    seconds = f"{totals.seconds:.1f} s"
    parts = [
        f"## {report.verdict.capitalize()}: {plain(report.target, 80)}",
        f"{totals.cells} cells, {totals.kills} proved kills, {seconds}, {totals.cases_per_hour:.0f} cases an hour"
        + ("" if report.finished else "; **the run did not finish**"),
        "\n".join(f"- {plain(line)}" for line in report.why[:_LINES_MAX]),
        _counts(report),
        _findings(report, folder),
        _undecided(report, folder),
        "### Not judged\n\n" + "\n".join(f"- {plain(line, 400)}" for line in report.not_judged[:_LINES_MAX]),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    while len(text.encode()) > BYTES_MAX:  # each list is bounded, so this is only for texts of unusual letters
        text = text[: len(text) * 3 // 4].rsplit("\n", 1)[0] + "\n\nThe rest was left out; report.html has it.\n"
    return text


def _counts(report: Report) -> str:
    rows = "\n".join(
        f"| {GLYPH[status]} {status} | {report.totals.by_status[status]} |"
        for status in WORST_FIRST
        if report.totals.by_status.get(status)
    )
    return f"| state | cells |\n|---|---:|\n{rows}" if rows else ""


def _findings(report: Report, folder: Path | None) -> str:
    broken = [cell for cell in report.cells if cell.status == "violated" and not cell.canary]
    if not broken:
        return ""
    text, told = f"### Broken promises ({len(broken)} cells)", 0
    for cell in broken:
        item = _finding(cell, folder)
        if len((text + item).encode()) > _FINDINGS_BYTES_MAX:
            break
        text, told = text + "\n\n" + item, told + 1
    return text if told == len(broken) else f"{text}\n\nAnd {len(broken) - told} more; report.html lists them all."


def _finding(cell: Cell, folder: Path | None) -> str:
    lines = [f"**{plain(cell.id, 160)}** at {code(words.address(cell))}, {plain(cell.fault, 80)}"]
    for violation in all_violations(cell)[:3]:
        clauses = ", ".join(violation.clauses)
        lines.append(
            f"- {plain(violation.promise)} ({plain(clauses, 80)}) expected: {plain(violation.expected.says)}; "
            f"seen: {plain(violation.seen.says)}"
        )
    return "\n".join(lines) + "\n\n" + block(words.replay_command(cell, folder))


def _undecided(report: Report, folder: Path | None) -> str:
    cells = [cell for cell in report.cells if cell.status in ("void", "inconclusive") and not cell.canary]
    if not cells:
        return ""
    lines = [
        f"- {GLYPH[cell.status]} {cell.status}: {plain(cell.id, 120)}: {plain(cell.why or 'no reason given', 160)} "
        f"{code(words.replay_command(cell, folder))}"
        for cell in cells[:_LINES_MAX]
    ]
    if len(cells) > _LINES_MAX:
        lines.append(f"- and {len(cells) - _LINES_MAX} more; report.html lists them all")
    return "### Undecided\n\n" + "\n".join(lines)
