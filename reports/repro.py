"""Owns what is handed to the makers of a runtime when a cell failed: `repro.json` and the draft of a bug report.

Both stand by themselves. `repro.json` holds the case, what was seen to break, with which versions, and the digests that
tie it to the stored evidence. The draft says what was promised, what was seen, and the command that shows it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reports import words
from reports.digest import PREFIX, canonical
from reports.files import safe_name
from reports.markdown import block, code, plain
from reports.model import NO_SCRIPT, Cell, Script, Violation
from reports.pages import all_violations
from reports.timeline import since

SCHEMA = "killpoint.repro/1"
RECORDS_BEFORE_END = 30
RECORDS_AROUND = 4
_ALONE = (
    "With the file beside this report, which needs Python's standard library and the runtime's command only. It ends with"
    " status 1 if this is reproduced, 3 if another violation comes, 0 if it is no longer reproduced; its first lines say"
    " what has to be there:"
)


def repro(cell: Cell, case: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """The content of `repro.json`: the case, the violations that a replay must show again, versions and digests."""
    return {
        "schema": SCHEMA,
        "cell": cell.id,
        "status": cell.status,
        "why": cell.why,
        "case": dict(case),
        "expected_violations": [violation.model_dump(mode="json") for violation in all_violations(cell)],
        "kills": [kill.model_dump(mode="json") for kill in cell.kills],
        "versions": dict(versions),
        "digests": {"case": PREFIX + hashlib.sha256(canonical(dict(case)).encode()).hexdigest(), "evidence": cell.digest},
    }


def bug_report(
    cell: Cell,
    records: Sequence[Mapping[str, Any]],
    case: Mapping[str, Any],
    point: Mapping[str, Any] | None,
    versions: Mapping[str, str],
    folder: Path | None = None,
    script: Script = NO_SCRIPT,
) -> str:
    """The draft of a bug report, in Markdown. Someone reads it before it is sent; it names nobody and sends nothing."""
    found = all_violations(cell)
    head = found[0].promise if found else cell.why or cell.status
    fault = plain(cell.fault.replace("_", " "), 80)
    target = plain(case.get("target", "the runtime"), 60)
    parts = [
        f"# {target}: {plain(head, 140)}",
        f"The case breaks at {code(words.address(cell))}; the fault: {fault}."
        if cell.point
        else f"The case has no breakpoint; the fault: {fault}.",
        f"The breakpoint {plain(point['sentence'], 400)}." if point and point.get("sentence") else "",
        *(_broken(violation) for violation in found),
        "## How to see it\n\n" + _how(cell, script, folder) + "\n\n" + _plan(case),
        "## The last part of the timeline\n\n" + block(_timeline(records, found)) if records else "",
        "## Versions\n\n" + "\n".join(f"- {plain(name, 60)}: {plain(version, 120)}" for name, version in versions.items())
        if versions
        else "",
        f"Evidence: {code(cell.digest)}" if cell.digest else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _how(cell: Cell, script: Script, folder: Path | None) -> str:
    """The command that plays it again; and, where there is one, the file that does so by itself."""
    replay = block(words.replay_command(cell, folder))
    if script.text:
        alone = f"python3 {safe_name(cell.id)}.py"
        return f"{_ALONE}\n\n{block(alone)}\n\nWith Killpoint:\n\n{replay}"
    return (
        f"{replay}\n\nThere is no file that plays it by itself: {plain(script.why_not, 300)}." if script.why_not else replay
    )


def _broken(violation: Violation) -> str:
    where = {
        name: f" (record {witness.seq})" if witness.seq is not None else ""
        for name, witness in (("expected", violation.expected), ("seen", violation.seen))
    }
    return (
        f"## What was promised\n\n{plain(violation.promise, 600)} ({plain(', '.join(violation.clauses), 100)})\n\n"
        f"Expected: {plain(violation.expected.says, 600)}{where['expected']}\n\n"
        f"## What was seen\n\n{plain(violation.seen.says, 600)}{where['seen']}\n\n"
        f"Found by the check {code(violation.check)}."
    )


def _plan(case: Mapping[str, Any]) -> str:
    lines = [f"{i}. {plain(step)}" for i, step in enumerate(words.steps_in_words(case), 1)]
    for when, ops in words.plan_in_words(case):
        lines += ["", f"{plain(when)}: {plain('; '.join(ops) or 'nothing is done', 500)}."]
    return "\n".join(lines)


def _timeline(records: Sequence[Mapping[str, Any]], found: Sequence[Violation]) -> str:
    """The end of the history, and what stands around the witnesses, as text; a gap is shown as a gap."""
    show = set(range(max(0, len(records) - RECORDS_BEFORE_END), len(records)))
    for seq in (witness.seq for violation in found for witness in (violation.expected, violation.seen)):
        if seq is not None:
            show |= set(range(max(0, seq - RECORDS_AROUND), min(len(records), seq + RECORDS_AROUND + 1)))
    show |= {i for i, record in enumerate(records) if record["kind"] == "kill"}
    lines, before = [], -1
    for i in sorted(show):
        if i != before + 1:
            lines.append("      …")
        record = records[i]
        after = since(record["t_ns"] - records[0]["t_ns"])
        lines.append(f"{i:>5}  {after:>9}  {record['kind']:<20} {words.say(record['kind'], record['data'])}")
        before = i
    return "\n".join(lines)
