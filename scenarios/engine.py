"""Owns what many cases share in one process of the harness: the fork server of the target and the way to the world.

Nothing that could tell one case from its neighbour is shared: store, workspace, world log, sockets and processes belong
to one case. A case is played, judged and written down here, and its scratch folder is gone afterwards.
"""

from __future__ import annotations

import gc
import gzip
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from faults import jsontext
from faults.errors import HarnessFault
from faults.processes import Keeper
from reports.model import Cell
from scenarios.case import Case
from scenarios.history import History, as_line, read_lines
from scenarios.judge import broken_off, judge
from scenarios.runner import LATE_POINT_S_MAX, Stagehand
from scenarios.target import Target
from scenarios.versions import versions
from scenarios.world.handle import World


def processes() -> int:
    """How many processes play cases side by side, if the user does not say: one more than this process may use cores,
    since a case waits now and then for a disk or an event, and its core would stand idle meanwhile."""
    return len(os.sched_getaffinity(0)) + 1


@dataclass(frozen=True, slots=True)
class Judged:
    """One case, played and judged: its cell, and its history as the lines that are stored, in order."""

    cell: Cell
    lines: list[dict[str, Any]]


@dataclass
class Engine:
    """Plays cases one after another. A context manager: leaving it ends the fork server, and the world if it is ours.

    world: an already running world that others use too, or None to start one. scratch: where logs are written while a
    case runs. environment: variables that every process of the target gets as well.
    """

    target: Target
    scratch: Path
    world: World | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    late_point_s_max: float = LATE_POINT_S_MAX

    def __enter__(self) -> Self:
        self._own_world = self.world is None
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._world = self.world or World.start()
        self._keeper = Keeper(self.target.python, self.target.preload, dict(os.environ))
        self.versions = versions(self.target)
        gc.collect()
        gc.freeze()  # what was imported is there for good; looking through it again was a twentieth of a case's time
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._keeper.close()
        if self._own_world:
            self._world.stop()

    def play(self, case: Case, record_all: bool = False) -> Judged:
        """Play one case and judge it. A fault of the harness gives a `void` cell and keeps what was logged so far.

        record_all: have every point reported, the frequent ones too.
        """
        began = time.monotonic()
        logs = self.scratch / f"{os.getpid()}-{time.monotonic_ns()}"
        hand = Stagehand(case, self.target, self._keeper, self._world, logs, self.environment, record_all)
        hand.late_point_s_max = self.late_point_s_max
        try:
            played = hand.play()
        except Exception as fault:  # whatever it is, it is ours and says nothing about the target
            lines = [line for name in ("history", "world") for line in _lines(logs / f"{name}.jsonl")]
            shutil.rmtree(logs, ignore_errors=True)
            why = str(fault) if isinstance(fault, HarnessFault) else f"{type(fault).__name__}: {fault}"
            return Judged(broken_off(case, why, time.monotonic() - began), History.join(lines).lines())
        lines = [*read_lines(played.history), *read_lines(played.world)]
        history = History.join(lines)
        judging = time.monotonic()
        cell = judge(case, history, self.target.claims, self.versions, played.phases)
        ended = time.monotonic()
        shutil.rmtree(logs)
        cell.phases["judge"] = round(ended - judging, 4)
        cell.seconds = round(ended - began, 4)
        return Judged(cell, history.lines())


def store_history(path: Path, lines: list[dict[str, Any]]) -> None:
    """Store the history of a case for judging it again; the whole file or none."""
    text = b"".join(map(as_line, lines))
    temporary = path.with_name(f".kp-{os.getpid()}.tmp")
    temporary.write_bytes(gzip.compress(text, 1, mtime=0))
    temporary.replace(path)


def load_history(path: Path) -> History:
    """The history that `store_history` stored."""
    return History.join(jsontext.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines())


def _lines(path: Path) -> list[dict[str, Any]]:
    return list(read_lines(path)) if path.exists() else []
