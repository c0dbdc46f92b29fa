"""Owns the HTML pages: what stands on the report's page and on a cell's page, in which order.

Templates hold the words and the markup, this module holds the choices. Everything that came from data is escaped by the
template engine; the few pieces made here by hand, because there are thousands of them, escape for themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from reports import timeline, words
from reports.model import NO_SCRIPT, WORST_FIRST, Cell, ClauseRow, Report, Script, Violation

GLYPH: dict[str, str] = {
    "held": "✓",
    "violated": "✗",
    "inconclusive": "?",
    "void": "⊘",
    "not run": "·",
    "not shown": "○",
    "not claimed": "–",
}
KEY: tuple[tuple[str, str], ...] = (
    ("held", "held"),
    ("violated", "violated"),
    ("inconclusive", "inconclusive"),
    ("void", "void: not our death"),
    ("not run", "not run"),
)
LINKS_MAX = 12
FINDINGS_MAX = 40
SLOWEST = 10
ROWS_MAX = 1500
DATA_LENGTH_MAX = 4000
NO_POINT = "no breakpoint"

_CLAUSE = re.compile(r"\b[A-Z]{3}-[0-9]{1,3}\b")


def css(status: str) -> str:
    """The class name of a status."""
    return status.replace(" ", "-")


def _number(value: float) -> str:
    """A count with thin spaces between thousands."""
    return f"{round(value):,}".replace(",", "\u2009")


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _ids(text: str) -> Markup:
    """`text` with its clause ids kept whole where a line ends."""
    return Markup(_CLAUSE.sub(r'<span class="nw">\g<0></span>', str(escape(text))))  # noqa: S704 - escaped first


def _dots(name: str) -> Markup:
    """A dotted name that may end a line after a dot, and nowhere else."""
    return Markup(".<wbr>").join(name.split("."))


@cache
def _environment() -> Environment:
    folder = Path(__file__).parent / "templates"
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters |= {
        "css": css,
        "num": _number,
        "duration": _duration,
        "words": lambda text: str(text).replace("_", " "),
    }
    environment.filters |= {"ids": _ids, "dots": _dots}
    environment.globals |= {
        "glyph": GLYPH,
        "style": Markup((folder / "style.css").read_text("utf-8")),  # noqa: S704 - a file of this package
        "legend": [(timeline.shape(name), said) for name, said in timeline.LEGEND],
    }
    return environment


# The report's page ---------------------------------------------------------------------------------------------------


def report_page(report: Report, folder: Path | None = None) -> str:
    """The whole run as one HTML page. `folder` is where it will stand, for the commands that it shows."""
    matrix = [cell for cell in report.cells if not (cell.canary or cell.disarmed)]
    findings = _findings(report.cells, folder)
    claimed = [(name, row) for name, row in report.clauses.items() if row.status != "not claimed"]
    return words.clean(
        _environment()
        .get_template("report.html")
        .render(
            report=report,
            counts=[
                (status, report.totals.by_status[status]) for status in WORST_FIRST if report.totals.by_status.get(status)
            ],
            findings=findings[:FINDINGS_MAX],
            findings_left=len(findings) - FINDINGS_MAX if len(findings) > FINDINGS_MAX else 0,
            undecided=_undecided(report.cells),
            baseline=(report.baseline or {}).get("lines", []),
            faults=list(dict.fromkeys(cell.fault for cell in matrix)),
            families=_families(matrix, list(report.points)),
            controls=_controls(report.cells),
            comparisons=words.comparisons_in_words(report.comparisons),
            clauses=claimed,
            unclaimed=[(name, row) for name, row in report.clauses.items() if row.status == "not claimed"],
            clause_summary=_clause_summary(report.clauses.values()),
            point_summary=_point_summary(report),
            phases=_phases(report.cells),
            slowest=sorted(report.cells, key=lambda cell: -cell.seconds)[:SLOWEST],
            key=KEY,
            canaries=sum(cell.canary for cell in report.cells),
            most=LINKS_MAX,
        )
    )


def all_violations(cell: Cell) -> list[Violation]:
    """Every violation of a cell once, those that its checks carry and those that stand on the cell itself."""
    found = [*cell.violations, *(violation for check in cell.checks for violation in check.violations)]
    return list({repr(violation): violation for violation in found}.values())  # JSON cannot carry a lone surrogate


def _findings(cells: Iterable[Cell], folder: Path | None) -> list[dict[str, Any]]:
    """Violations of one kind together, the most frequent first. A canary's violation is no finding."""
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for cell in cells:
        if cell.canary:
            continue
        for violation in all_violations(cell):
            group = groups.setdefault(
                (violation.check, violation.kind, violation.promise),
                {
                    "promise": violation.promise,
                    "check": violation.check,
                    "kind": violation.kind,
                    "clauses": violation.clauses,
                    "expected": violation.expected.says,
                    "seen": violation.seen.says,
                    "cells": [],
                    "command": words.replay_command(cell, folder),
                },
            )
            if not group["cells"] or group["cells"][-1] is not cell:
                group["cells"].append(cell)
    return sorted(groups.values(), key=lambda group: -len(group["cells"]))


def _undecided(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in cells:
        if cell.status in ("void", "inconclusive", "not run") and not cell.canary:
            why = cell.why or "no reason given"
            groups.setdefault((cell.status, why), {"status": cell.status, "why": why, "cells": []})["cells"].append(cell)
    order = {status: place for place, status in enumerate(WORST_FIRST)}
    return sorted(groups.values(), key=lambda group: (order[group["status"]], -len(group["cells"])))


def _families(cells: Sequence[Cell], order: Sequence[str]) -> list[dict[str, Any]]:
    """The matrix: families, in each the breakpoints in the catalogue's order, in each one square for every fault."""
    faults = list(dict.fromkeys(cell.fault for cell in cells))
    place = {name: i for i, name in enumerate(order)}
    squares: dict[str, dict[str, dict[str, list[Markup]]]] = {}
    for cell in cells:
        points = squares.setdefault(cell.family, {})
        points.setdefault(cell.point or "", {}).setdefault(cell.fault, []).append(_mark(cell))
    families = []
    for name, points in squares.items():
        rows = [
            {"point": point or NO_POINT, "squares": [points[point].get(fault, ()) for fault in faults]}
            for point in sorted(points, key=lambda point: (bool(point), place.get(point, len(place)), point))
        ]
        mine = [cell for cell in cells if cell.family == name]
        counts = [(status, sum(cell.status == status for cell in mine)) for status in WORST_FIRST]
        families.append(
            {"name": name, "rows": rows, "summary": ", ".join(f"{number} {status}" for status, number in counts if number)}
        )
    return families


def _mark(cell: Cell) -> Markup:
    """One cell in the matrix. Its name for a reader without sight says what row and column do not."""
    said = f"{cell.status}: {cell.scenario}" + (f" #{cell.ordinal}" if cell.ordinal else "")
    number = f"<sub>{cell.ordinal}</sub>" if cell.ordinal else ""
    begin, end = (f'a href="{escape(cell.page)}"', "a") if cell.page else ("span", "span")
    return Markup(  # noqa: S704 - every value is escaped or a number
        f'<{begin} class="m {css(cell.status)}" title="{escape(said)}">'
        f'<span aria-hidden="true">{GLYPH[cell.status]}{number}</span><span class="sr">{escape(said)}</span></{end}>'
    )


def _controls(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in cells:
        if cell.canary or cell.disarmed:
            kind = "canary" if cell.canary else "disarmed"
            group = groups.setdefault((kind, cell.status), {"kind": kind, "status": cell.status, "cells": []})
            group["must"] = kind == "canary" and cell.status == "violated"
            group["cells"].append(cell)
    return list(groups.values())


def _clause_summary(rows: Iterable[ClauseRow]) -> str:
    counts = Counter(row.status for row in rows)
    states = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    return f"{counts.total()} clauses: {states}." if counts else "The contract was not given."


def _point_summary(report: Report) -> str:
    rows = report.points.values()
    return (
        f"{sum(row.declared for row in rows)} declared, {sum(bool(row.reached) for row in rows)} reached, "
        f"{sum(bool(row.killed) for row in rows)} killed, "
        f"{sum(bool(row.killed) and row.recovered == row.killed for row in rows)} recovered from every time."
    )


def _phases(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    sums: dict[str, float] = {}
    for cell in cells:
        for name, seconds in cell.phases.items():
            sums[name] = sums.get(name, 0.0) + seconds
    whole = sum(sums.values()) or 1.0
    return [
        {"name": name, "seconds": seconds, "share": 100 * seconds / whole, "each_ms": 1000 * seconds / len(cells)}
        for name, seconds in sorted(sums.items(), key=lambda item: -item[1])
    ]


# A cell's page -------------------------------------------------------------------------------------------------------


def cell_page(
    cell: Cell,
    records: Sequence[Mapping[str, Any]],
    case: Mapping[str, Any],
    point: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    script: Script = NO_SCRIPT,
) -> str:
    """One cell as an HTML page. `records` are those of its history, in order; `point` is its breakpoint as declared."""
    said = [words.say(record["kind"], record["data"]) for record in records]
    rows, shown = _rows(records, said, whole=cell.status != "held")
    about = point or {}
    return words.clean(
        _environment()
        .get_template("cell.html")
        .render(
            cell=cell,
            address=words.address(cell),
            point={name: about.get(name, "") for name in ("sentence", "moment", "role")} if point else None,
            violations=all_violations(cell),
            shown=shown,
            command=words.replay_command(cell, folder),
            repro=cell.repro.removesuffix(".json") if cell.repro else None,
            script=script,
            steps=words.steps_in_words(case),
            plan=words.plan_in_words(case),
            records=bool(records),
            records_left=len(records) - len(shown),
            rows=rows,
            checks=_check_rows(cell),
            left=_left_behind(cell),
            timeline=timeline.draw(records, f"Timeline of {cell.id}", said=said) if records else None,
        )
    )


def _rows(records: Sequence[Mapping[str, Any]], said: Sequence[str], *, whole: bool) -> tuple[Markup, set[int]]:
    """The table of records, and which are in it. `said` is each in words. With `whole`,
    each can be opened to its data: for a cell that held
    nobody reads them, and a thousand pages are kept small."""
    half = ROWS_MAX // 2
    show = [i for i in range(len(records)) if i < half or i >= len(records) - half]
    start = records[0]["t_ns"] if records else 0
    parts = []
    for i in show:
        record = records[i]
        kind, data = record["kind"], record["data"]
        more = str(escape(said[i]))
        if whole and data:
            full = escape(words.plain_json(data, DATA_LENGTH_MAX))
            more = f"<details><summary>{more}</summary><pre><code>{full}</code></pre></details>"
        parts.append(
            f'<tr id="r{i}"><th class="c r" scope="row">{i}</th><td class="r">{timeline.since(record["t_ns"] - start)}</td>'
            f'<td class="mono">{escape(kind)}</td><td class="w">{more}</td></tr>\n'
        )
    return Markup("".join(parts)), set(show)  # noqa: S704 - every value is escaped above


def _left_behind(cell: Cell) -> list[tuple[str, str, str]]:
    """What the plan of a cell was to leave behind: in words, how much, and how much the history shows."""
    if cell.evidence is None:
        return []
    seen = cell.evidence.seen
    return [
        (words.place_in_words(place), words.amount(due), words.amount(seen.get(place.replace("extra ", "life "), 0)))
        for place, due in cell.evidence.planned.items()
    ]


def _check_rows(cell: Cell) -> Markup:
    """The table of checks. Not in the template, where these some seventy rows cost as much as the rest of the page."""
    parts = []
    for check in cell.checks:
        why = check.why or (
            "nothing to look at, so it shows nothing" if check.status == "held" and not check.examined else ""
        )
        parts.append(
            f'<tr><th scope="row">{escape(check.check)}</th><td><span class="st {css(check.status)}">'
            f'<span aria-hidden="true">{GLYPH[check.status]}</span> {check.status}</span></td>'
            f'<td class="r">{check.examined}</td><td>{escape(", ".join(check.clauses))}</td>'
            f'<td class="w">{escape(why)}</td></tr>\n'
        )
    return Markup("".join(parts))  # noqa: S704 - every text is escaped above
