"""Owns what a verdict depends on beside the case: harness, catalogue, target, Python and system, each by a short name.

A version number changes at a release; the sources change every day. So each is told with a digest of what stands on disk.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from faults.catalogue import POINTS
from faults.table import FAULTS
from scenarios.checks import CHECKS

if TYPE_CHECKING:
    from scenarios.target import Target

DIGITS = 12


def versions(target: Target) -> dict[str, str]:
    """What is recorded with every verdict: name of the part, and which one it was."""
    return {
        "killpoint": f"{version('killpoint')} {of_package('faults', 'scenarios')}",
        "catalogue": _catalogue(),
        "target": f"{target.name} {target.version()}",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


@cache
def of_package(*names: str) -> str:
    """A digest of the sources of these packages as they stand on disk; none of them is imported for it."""
    files: list[tuple[str, Path]] = []
    for name in names:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            files += ((f"{name}/{path.relative_to(folder)}", path) for path in Path(folder).rglob("*.py"))
    return _digest(f"{name}\0{path.read_text('utf-8')}" for name, path in sorted(files))


def of_file(path: Path) -> str:
    """A digest of this one file."""
    return _digest([path.read_text("utf-8")])


@cache
def _catalogue() -> str:
    """A digest of the points, the faults and the promises that are checked."""
    parts = [repr(sorted(asdict(point).items())) for point in POINTS]
    parts += [f"{line.name}: {line.sentence}" for line in FAULTS.values()]
    parts += [f"{check.name} {' '.join(check.clauses)}: {check.promise}" for check in CHECKS.values()]
    return f"{len(POINTS)} points, {len(FAULTS)} faults, {len(CHECKS)} checks, {_digest(parts)}"


def _digest(parts: Iterable[str]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode() + b"\0")
    return f"sha256:{found.hexdigest()[:DIGITS]}"
