"""Warming, in a process of its own: what it leaves must be fit to fork, and the fork must be worth it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.reference.processes import ROOT

PROGRAM = """
import json, os, signal, sys, threading, time
from pathlib import Path
from reference.warm import warm
from reference.entry import main

warm()
assert threading.active_count() == 1, threading.enumerate()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
links = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.exists() or entry.is_symlink()]
assert not [link for link in links if "socket" in link or ".db" in link or "eventpoll" in link], links

data = Path(sys.argv[1])
for life in range(2):
    imported = set(sys.modules)
    pid = os.fork()
    if pid == 0:
        status = main(["serve", "--data", str(data), "--workers", "0"])
        late = sorted(name for name in set(sys.modules) - imported)
        print("imported after the fork:", late, flush=True)
        os._exit(status)
    until = time.monotonic() + 30
    while not (data / "serve.json").exists():
        assert time.monotonic() < until
        time.sleep(0.002)
    assert json.loads((data / "serve.json").read_text())["pid"] == pid
    os.kill(pid, signal.SIGTERM)
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_warm_process_has_nothing_that_must_not_be_forked_and_its_children_serve(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path / "data")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "imported after the fork: []\n" * 2, "nothing is left to be imported by a child"
    assert done.stderr == ""
