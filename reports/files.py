"""Owns how a report reaches the disk: safe file names, atomic writing, and which folders may be written to.

A reader, or a run that follows a killed one, finds each file either as it was or as it is to be, never half of it. That
holds for a killed harness; against a power cut nothing is claimed, so nothing is synced and a cell's page stays cheap.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from itertools import count
from pathlib import Path

MARKER = ".killpoint-report"
MARKER_TEXT = "This folder holds a killpoint report. The next run may replace its report files.\n"
TEMPORARY = ".kp-"
NAME_LENGTH_MAX = 96

REPORT_FILES = ("report.json", "junit.xml", "report.md", "report.html", "plan.json")
FOLDERS = {
    "cells": (".html", ".json"),
    "repro": (".json", ".md", ".py"),
    "cases": (".json",),
    "histories": (".jsonl.gz",),
    "running": (".jsonl",),
}

_UNSAFE = re.compile(r"[^a-z0-9._-]+")
_counter = count()


def safe_name(cell_id: str) -> str:
    """A file name (without ending) for a cell id: lower-case ASCII, never hidden, never with a path in it.

    An id that had to be changed gets a piece of its own hash, so that two ids never share a file, also where the file
    system does not tell `A` from `a`.
    """
    cleaned = _UNSAFE.sub("-", cell_id.lower()).strip(".-")[:NAME_LENGTH_MAX].rstrip(".-")
    if cleaned == cell_id and cleaned:
        return cleaned
    mark = hashlib.sha256(cell_id.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{cleaned or 'cell'}-{mark}"


def atomic_write(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, so that a reader sees the old file or the new one. Lone surrogates, which UTF-8
    cannot carry, become question marks."""
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{next(_counter)}.tmp"
    try:
        temporary.write_bytes(text.encode("utf-8", "replace"))
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def prepare(folder: Path, *, fresh: bool = True) -> None:
    """Make `folder` ready for a report. With `fresh`, the files of an earlier report there are removed first.

    Raises ValueError, in one line, if it is no folder, cannot be made, or holds other things than an earlier report. Only
    files that a report consists of are ever removed; whatever else stands there is left alone.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise ValueError(
            f"{folder}: cannot be used as a report folder ({error.strerror}); give the path of a folder you may write to"
        ) from None
    if found and MARKER not in found:
        raise ValueError(
            f"{folder}: holds other things than an earlier report (such as {found[0]!r}); give an empty or a new folder"
        )
    for name in FOLDERS:
        if (folder / name).is_symlink() or ((folder / name).exists() and not (folder / name).is_dir()):
            raise ValueError(f"{folder}: {name!r} there is not a folder of its own; give an empty or a new folder")
    if fresh:
        _clear(folder)
    for name in FOLDERS:
        (folder / name).mkdir(exist_ok=True)
    atomic_write(folder / MARKER, MARKER_TEXT)


def _clear(folder: Path) -> None:
    """Remove the files of an earlier report, the temporary ones of a killed run too, and nothing else."""
    ours = [folder / name for name in REPORT_FILES]
    for name, endings in FOLDERS.items():
        if (folder / name).is_dir():
            ours += [entry for entry in (folder / name).iterdir() if entry.name.endswith(endings)]
            ours += (folder / name).glob(f"{TEMPORARY}*.tmp")
    ours += folder.glob(f"{TEMPORARY}*.tmp")
    for path in ours:
        if path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)
