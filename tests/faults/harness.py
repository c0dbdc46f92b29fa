"""Owns a harness that can be killed: it starts processes that have children, says all pids, and rests."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from faults.controller import Controller, Held
from faults.processes import Keeper
from faults.stores import CaseFolder


def main() -> None:
    """Print one JSON line with `pids` and `folder`, and rest until a signal comes."""
    keeper = Keeper(preload="tests.faults.programs:warm")
    folder = CaseFolder()
    keeper.guard(folder.root)
    controller = Controller(folder.socket, Held.keep)
    processes, children = [], []
    for life, cold in ((1, False), (2, True)):
        label, note = f"worker.{life}", folder.workspace / f"child.{life}"
        processes.append(
            keeper.start(
                label,
                [sys.executable, "-m", "tests.faults.programs", "family", str(note)],
                {**os.environ, "KILLPOINT_SOCKET": str(folder.socket), "KILLPOINT_PROCESS": label},
                Path.cwd(),
                folder.logs / label,
                entry="tests.faults.programs:family",
                cold=cold,
                arguments=[str(note)],
            )
        )
        assert controller.wait_for("turn.begun", life, 20)
        children.append(int(note.read_text()))
    pids = [keeper.pid, *(process.pid for process in processes), *children]
    sys.stdout.write(json.dumps({"pids": pids, "folder": str(folder.root)}) + "\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
