"""Owns the JUnit file: the report as a CI server reads it, one suite for each family and one case for each cell.

`failure` is a broken promise; `error` is what could not be decided, since a CI server shows a skipped case as harmless;
`skipped` is only what was not run or not claimed. The verdict is a case of its own, so that a run that is incomplete for a
reason of no single cell (a breakpoint that nobody killed, a run that died) is red there too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from reports import words
from reports.model import Cell, Report
from reports.pages import all_violations
from reports.words import clean


def junit(report: Report, folder: Path | None = None) -> str:
    """The report as JUnit XML."""
    root = Element("testsuites", name=clean(f"killpoint {report.target}"), time=f"{report.totals.seconds:.3f}")
    families: dict[str, list[Cell]] = {}
    for cell in report.cells:
        families.setdefault(cell.family, []).append(cell)
    suites = [_suite(root, family, cells, folder) for family, cells in families.items()]
    suites.append(_verdict(root, report))
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, family: str, cells: Sequence[Cell], folder: Path | None) -> Element:
    suite = SubElement(root, "testsuite", name=clean(family), time=f"{sum(cell.seconds for cell in cells):.3f}")
    for cell in cells:
        case = SubElement(
            suite, "testcase", classname=clean(f"{family}.{cell.scenario}"), name=clean(cell.id), time=f"{cell.seconds:.3f}"
        )
        _outcome(case, cell, folder)
    return _counted(suite)


def _counted(suite: Element) -> Element:
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(1 for _ in suite.iter(tag))))
    return suite


def _outcome(case: Element, cell: Cell, folder: Path | None) -> None:
    if cell.canary:
        if cell.status != "violated":
            _add(case, "error", "canary", f"a canary must be violated and was {cell.status}", "")
        return
    why = cell.why or ""
    if cell.status == "violated":
        found = all_violations(cell)
        text = "\n\n".join(
            f"{violation.promise}\nclauses: {', '.join(violation.clauses)}; check: {violation.check}\n"
            f"expected: {violation.expected.says}\nseen: {violation.seen.says}"
            for violation in found
        )
        message = found[0].promise if found else why or "a promise was broken"
        _add(case, "failure", "violated", message, f"{text}\n\n{words.replay_command(cell, folder)}")
    elif cell.status in ("inconclusive", "void"):
        _add(case, "error", cell.status, f"{cell.status}: {why}", words.replay_command(cell, folder))
    elif cell.status in ("not run", "not claimed"):
        SubElement(case, "skipped", message=clean(f"{cell.status}: {why}" if why else cell.status))


def _verdict(root: Element, report: Report) -> Element:
    suite = SubElement(root, "testsuite", name="killpoint", time="0.000")
    case = SubElement(suite, "testcase", classname="killpoint", name="verdict", time="0.000")
    if report.verdict != "accepted":
        tag = "failure" if report.verdict == "rejected" else "error"
        _add(case, tag, report.verdict, f"{report.verdict}: {'; '.join(report.why)}", "\n".join(report.why))
    return _counted(suite)


def _add(case: Element, tag: str, kind: str, message: str, text: str) -> None:
    SubElement(case, tag, type=kind, message=clean(words.short(message, 400))).text = clean(text)
