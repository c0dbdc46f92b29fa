"""Owns the report's folder: what is written there, when, and under which names.

```
report.json  report.html  report.md  junit.xml
cells/<name>.html            one page for each cell
repro/<name>.json  .md  .py  for each cell that failed: the evidence, the draft of a bug report, and a file that plays
                             the case by itself
cases/<name>.json            put there by whoever runs the cases, under the same name
```

A cell's page is written when its verdict is known, the index at intervals and at the end. Each file is replaced
atomically, so a run that was killed leaves a report that can be read, and it says by itself that it is incomplete, since
the index of a running run is written as unfinished. Several processes may write cells into one folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.files import atomic_write, prepare, safe_name
from reports.junit import junit
from reports.markdown import markdown
from reports.model import NO_SCRIPT, Cell, Report, Script
from reports.pages import cell_page, report_page
from reports.repro import bug_report, repro

__all__ = ["atomic_write", "has_repro", "prepare", "safe_name", "write_cell", "write_index"]


def write_cell(
    folder: Path,
    cell: Cell,
    history_records: Sequence[Mapping[str, Any]],
    case: Mapping[str, Any],
    point: Mapping[str, Any] | None = None,
    *,
    versions: Mapping[str, str] | None = None,
    script: Script = NO_SCRIPT,
) -> Cell:
    """Write the page of one cell and, if it was violated, its repro. Gives the cell back with `page` and `repro` filled in;
    that one belongs into the report. `folder` has been prepared; `history_records` are in order, so a witness's `seq` is
    a place in them. `script` is the file that plays the case by itself. Raises OSError if the disk refuses."""
    name = safe_name(cell.id)
    failed = has_repro(cell)
    cell = cell.model_copy(update={"page": f"cells/{name}.html", "repro": f"repro/{name}.json" if failed else None})
    if failed:
        known = versions or {}
        atomic_write(folder / "repro" / f"{name}.json", _json(repro(cell, case, known)))
        atomic_write(folder / "repro" / f"{name}.md", bug_report(cell, history_records, case, point, known, folder, script))
        if script.text:
            atomic_write(folder / "repro" / f"{name}.py", script.text)
    atomic_write(folder / f"cells/{name}.html", cell_page(cell, history_records, case, point, folder=folder, script=script))
    return cell


def has_repro(cell: Cell) -> bool:
    """Whether a cell gets the files for its makers: one that failed, and was not meant to."""
    return cell.status == "violated" and not cell.canary


def write_index(folder: Path, report: Report) -> None:
    """Write the four files that tell of the whole run. `report.json` goes last: who finds it new finds the others new.

    Raises OSError if the disk refuses.
    """
    atomic_write(folder / "report.html", report_page(report, folder))
    atomic_write(folder / "report.md", markdown(report, folder))
    atomic_write(folder / "junit.xml", junit(report, folder))
    atomic_write(folder / "report.json", _json(report.to_json()))


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=True) + "\n"
