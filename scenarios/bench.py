"""Owns the measurement of what a case costs: `python -m scenarios.bench`, in one run on one machine.

A fixed set of cases, one scenario with its worker killed at every point, is played as a run plays it: by as many
processes as a run takes, each with a fork server of its own, all with one world; played, judged and written down.
Starting the processes is not counted, a run does that once. Then fewer of the same cases with every process of the
target started cold, one case again and again, and the unarmed breakpoint.

Processor time is told by kind of process: the target's lives from the kernel's account of each, the harness's own from
its processes. Memory is the largest sum of proportional set sizes (PSS) that was seen, sampled while cases are played.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from rich.console import Console

from faults.bench import unarmed_cost
from scenarios import campaign, replaying
from scenarios.case import Case, load, parse
from scenarios.engine import Engine, processes, store_history
from scenarios.matrix import Wanted
from scenarios.targets import target as target_named
from scenarios.world.handle import World

TARGET = "reference"
SET = Wanted(scenario="mail", fault="worker-killed")
READY_S_MAX = 120.0
PLAYED_S_MAX = 600.0
SAMPLE_S = 1.0  # a sample walks the page tables of some ten processes: more often, it takes what it is to measure
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


@dataclass
class Throughput:
    """What playing a set of cases took. `cpu_ms` and `phases_ms` are per case, the memory is in MB (10^6 bytes)."""

    cases: int
    processes: int
    seconds: float
    statuses: dict[str, int] = field(default_factory=dict)
    cpu_ms: dict[str, float] = field(default_factory=dict)
    phases_ms: dict[str, float] = field(default_factory=dict)
    harness_mb: float = 0.0
    whole_mb: float = 0.0

    @property
    def per_second(self) -> float:
        """Complete cases a second."""
        return self.cases / self.seconds


@dataclass
class Bench:
    """All that was measured."""

    reach_ns: float
    imported: list[str]
    warm: Throughput
    cold: Throughput
    replays: int
    equal: bool
    verdicts: str


def measure(cases: int, cold: int, replays: int, processes: int) -> Bench:
    """Measure everything. cases, cold: how many are played warm and cold; replays: how often one is played again."""
    with World.start() as world, tempfile.TemporaryDirectory(prefix="killpoint-bench-") as folder:
        out = Path(folder)
        plan = campaign.prepare(TARGET, SET, out, world)
        chosen = [case for name in plan.cases if _counts(case := load(out / "cases" / name))]
        warm = play(list(islice(cycle(chosen), cases)), processes, out, world)
        frozen = [case.model_copy(update={"cold": True}) for case in islice(cycle(chosen), cold)]
        said = io.StringIO()
        return Bench(
            reach_ns=round(unarmed_cost().net_ns, 1),
            imported=imported_unarmed(),
            warm=warm,
            cold=play(frozen, processes, out, world),
            replays=replays,
            equal=_replay(campaign.case_path(out, chosen[0].id), replays, said),
            verdicts=said.getvalue().strip(),
        )


def _counts(case: Case) -> bool:
    return case.fault == SET.fault and not case.disarmed and not case.canary


def _replay(file: Path, times: int, said: io.StringIO) -> bool:
    """Whether one case gives the same verdict each time, through the very function behind `killpoint replay`."""
    return replaying.replay(file, times, None, None, False, Console(file=said, width=200)) in replaying.EXIT.values()


def imported_unarmed() -> list[str]:
    """The modules that a program has loaded, besides the probe itself, once it has reached an unarmed breakpoint."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "from faults.probe import reach; reach('tool.effect.done')\n"
        "print(*sorted(set(sys.modules) - before - {'faults', 'faults.probe'}))"
    )
    root = str(Path(__file__).resolve().parents[1])
    env = {name: value for name, value in os.environ.items() if not name.startswith("KILLPOINT_")} | {"PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


# Playing -------------------------------------------------------------------------------------------------------------


def play(cases: Sequence[Case], processes: int, out: Path, world: World) -> Throughput:
    """Play these cases in so many processes, each taking the next one as soon as it is free."""
    spawn = multiprocessing.get_context("spawn")
    waiting, results, used = spawn.Queue(), spawn.Queue(), spawn.Queue()
    for case in cases:
        waiting.put(case.to_json())
    for _ in range(processes):
        waiting.put(None)
    start = spawn.Barrier(processes + 1)
    given = (world.url, world.token, str(out), cases[0].to_json(), waiting, results, used, start)
    players = [spawn.Process(target=_player, args=given) for _ in range(processes)]
    for player in players:
        player.start()
    try:
        start.wait(READY_S_MAX)
        began = time.monotonic()
        world_ms = _cpu_ms(world.pid)
        with _memory([os.getpid(), *(player.pid or 0 for player in players)], world.pid) as peak:
            rows = [results.get(timeout=PLAYED_S_MAX) for _ in cases]
            seconds = time.monotonic() - began
        world_ms = _cpu_ms(world.pid) - world_ms
        own = [used.get(timeout=READY_S_MAX) for _ in players]
    finally:
        for player in players:
            player.join(READY_S_MAX)
            player.kill()
    cpu_ms = _sum((*(row["cpu_ms"] for row in rows), *own), len(cases)) | {"world": round(world_ms / len(cases), 1)}
    return Throughput(
        cases=len(cases),
        processes=processes,
        seconds=round(seconds, 3),
        statuses=dict(Counter(row["status"] for row in rows)),
        cpu_ms=dict(sorted(cpu_ms.items(), key=lambda each: -each[1])),
        phases_ms=_sum((row["phases_ms"] for row in rows), len(cases)),
        harness_mb=round(peak["harness"] / 1e6, 1),
        whole_mb=round(peak["whole"] / 1e6, 1),
    )


def _player(url: str, token: str, out: str, first: str, waiting: Any, results: Any, used: Any, start: Barrier) -> None:
    """One process of the harness: play one case that does not count, then whatever waits, then tell what it used itself."""
    folder = Path(out)
    with World.attach(url, token) as world, Engine(target_named(TARGET), folder / "running", world) as engine:
        engine.play(parse(json.loads(first), "bench"))
        start.wait(READY_S_MAX)
        mine, keeper_ms = time.process_time(), _cpu_ms(engine._keeper.pid)
        while (text := waiting.get(timeout=READY_S_MAX)) is not None:
            results.put(_one(engine, parse(json.loads(text), "bench"), folder))
        keeper_ms = _cpu_ms(engine._keeper.pid) - keeper_ms
        used.put({"harness": (time.process_time() - mine) * 1000, "keeper": keeper_ms})


def _one(engine: Engine, case: Case, out: Path) -> dict[str, Any]:
    """Play one case, judge it and write it down; what it took."""
    judged = engine.play(case)
    writing = time.monotonic()
    store_history(campaign.history_path(out, case.id), judged.lines)
    campaign.write_cell(out, case, judged.cell, judged.lines, engine.versions)
    phases = judged.cell.phases | {"write": time.monotonic() - writing}
    cpu: Counter[str] = Counter()
    for line in judged.lines:
        if line["kind"] == "process.exited":
            cpu[line["data"]["role"]] += line["data"]["cpu_ms"]
    return {
        "status": judged.cell.status,
        "phases_ms": {name: seconds * 1000 for name, seconds in phases.items()},
        "cpu_ms": dict(cpu),
    }


def _sum(rows: Iterable[dict[str, float]], count: int) -> dict[str, float]:
    """The sums of all rows by name, for each of `count` cases."""
    total: dict[str, float] = {}
    for row in rows:
        for name, value in row.items():
            total[name] = total.get(name, 0.0) + value
    return {name: round(value / count, 1) for name, value in total.items()}


# The kernel's accounts -------------------------------------------------------------------------------------------------


def _cpu_ms(pid: int | None) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_MS


@contextmanager
def _memory(harness: Sequence[int], world: int | None) -> Iterator[dict[str, int]]:
    """The largest sums of PSS in bytes that were seen: of the harness (its processes, keepers and world), and of the
    whole, with the target's processes."""
    peak = {"harness": 0, "whole": 0}
    over = threading.Event()

    def sample() -> None:
        while True:
            keepers = [child for pid in harness for child in _children(pid) if _is_keeper(child)]
            own = _pss([*harness, *keepers, world or 0])
            peak["harness"] = max(peak["harness"], own)
            peak["whole"] = max(peak["whole"], own + _pss(child for keeper in keepers for child in _children(keeper)))
            if over.wait(SAMPLE_S):
                return

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        over.set()
        sampler.join()


def _pss(pids: Iterable[int]) -> int:
    return sum(int(line.split()[1]) * 1024 for pid in pids for line in _lines(pid, "smaps_rollup") if line[:4] == "Pss:")


def _children(pid: int) -> list[int]:
    """The children of every thread of a process."""
    threads = Path(f"/proc/{pid}/task").glob("*")
    return [
        int(child) for thread in threads for line in _lines(pid, f"task/{thread.name}/children") for child in line.split()
    ]


def _is_keeper(pid: int) -> bool:
    return any("faults/keeper.py" in line for line in _lines(pid, "cmdline"))


def _lines(pid: int, name: str) -> list[str]:
    """A file of the kernel about a process; nothing if the process has gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []


# Telling -------------------------------------------------------------------------------------------------------------


def tell(bench: Bench) -> str:
    """The measurement as a plain table."""
    warm, cold = bench.warm, bench.cold
    rows = [
        ("unarmed breakpoint", f"{bench.reach_ns:.0f} ns; imports {', '.join(bench.imported) or 'nothing'}"),
        ("warm", _rate(warm)),
        ("cold", _rate(cold)),
        ("warm against cold", f"{warm.per_second / cold.per_second:.1f} times as many"),
        ("memory of the harness", f"{warm.harness_mb:.0f} MB at most; with the target's processes {warm.whole_mb:.0f} MB"),
        ("processor time per case", f"{sum(warm.cpu_ms.values()):.0f} ms: {_each(warm.cpu_ms)}"),
        ("wall time per case", f"{sum(warm.phases_ms.values()):.0f} ms in one process: {_each(warm.phases_ms)}"),
        ("replay", f"{bench.replays} times, {'equal' if bench.equal else 'DIFFERENT'} verdicts"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _rate(played: Throughput) -> str:
    statuses = ", ".join(f"{count} {status}" for status, count in played.statuses.items())
    return (
        f"{played.per_second:.1f} complete cases a second, {played.per_second * 3600:.0f} an hour"
        f" ({statuses} in {played.seconds:.1f} s, {played.processes} processes)"
    )


def _each(parts: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.0f}" for name, value in parts.items())


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and tell. Status 0, or 1 if a case was not held or verdicts differed."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200, help="cases played warm")
    parser.add_argument("--cold", type=int, default=12, help="cases played cold")
    parser.add_argument("--replays", type=int, default=20, help="how often one case is played again")
    parser.add_argument("--processes", type=int, default=processes(), help="as many as a run takes by default")
    parser.add_argument("--json", action="store_true", help="as JSON")
    wanted = parser.parse_args(argv)
    bench = measure(wanted.cases, wanted.cold, wanted.replays, wanted.processes)
    rates = {"warm_per_second": round(bench.warm.per_second, 2), "cold_per_second": round(bench.cold.per_second, 2)}
    print(json.dumps(asdict(bench) | rates, indent=1) if wanted.json else tell(bench))  # noqa: T201
    held = all(set(played.statuses) == {"held"} for played in (bench.warm, bench.cold))
    return 0 if held and bench.equal else 1


if __name__ == "__main__":
    sys.exit(main())
