"""One ordered log for each case: it survives the one who writes it, and what is read is what was written."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from scenarios.history import History, HistoryWriter, read_lines
from tests.scenarios.runs import ROOT, environment

WRITES_AND_DIES = """
import os, signal, sys
from pathlib import Path
from scenarios.history import HistoryWriter
writer = HistoryWriter(Path(sys.argv[1]))
for number in range(3):
    writer.write("client.invoked", call=number)
os.write(writer._fd, b'{"t_ns": 1, "kind": "client.he')
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_written_is_there_after_the_writer_was_killed_and_a_torn_line_is_not(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    words = [sys.executable, "-c", WRITES_AND_DIES, str(path)]
    done = subprocess.run(words, cwd=ROOT, env=environment(), timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [line["data"]["call"] for line in read_lines(path)] == [0, 1, 2]
    assert path.stat().st_mode & 0o777 == 0o600


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "history.jsonl")

    def write(thread: int) -> None:
        for number in range(200):
            writer.write("client.event", client=str(thread), event=number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    writer.close()
    records = History.read(writer.path).of("client.event")
    assert len(records) == 800
    for thread in range(4):
        assert [each["event"] for each in records if each["client"] == str(thread)] == list(range(200))


def line(t_ns: int, kind: str, **data: object) -> dict[str, object]:
    return {"t_ns": t_ns, "kind": kind, "data": data}


def test_logs_are_joined_by_the_clock_and_a_tie_keeps_the_order_given() -> None:
    ours = [line(1, "client.invoked", call=1), line(5, "client.heard", call=1), line(5, "case.closed")]
    worlds = [line(3, "provider.request", n=1), line(5, "provider.billed", n=1)]
    history = History.join(ours, worlds)
    kinds = ["client.invoked", "provider.request", "client.heard", "case.closed", "provider.billed"]
    assert [record.kind for record in history.records] == kinds
    assert [record.seq for record in history.records] == [0, 1, 2, 3, 4]
    assert History.join(history.lines()) == history
    assert history.of("provider.billed", "client.invoked") == [history.records[0], history.records[4]]
    assert history.heard[1].seq == 2 and 2 not in history.heard


def test_a_file_that_is_not_there_adds_nothing(tmp_path: Path) -> None:
    assert History.read(tmp_path / "nothing.jsonl").records == ()
    assert History().final is None and History().kills == []


def test_addresses_are_those_reached_after_the_workloads_own_plan_has_fired() -> None:
    def reached(t_ns: int, point: str, ordinal: int) -> dict[str, object]:
        return line(t_ns, "point.reached", point=point, ordinal=ordinal)

    history = History.join(
        [reached(1, "turn.begun", 1), line(2, "point.fired", point="turn.begun", ordinal=1), reached(3, "turn.begun", 2)]
    )
    assert history.addresses() == {"turn.begun": (1, 2)}
    assert history.addresses(after=["turn.begun#1"]) == {"turn.begun": (2,)}
    assert history.addresses(after=["turn.begun#7"]) == {}
