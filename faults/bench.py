"""Owns the measurement of what the machinery of faults costs.

    python -m faults.bench

An unarmed `reach` in nanoseconds; an armed one, there and back, in microseconds; a warm and a cold start to the first
line of the program, and a SIGKILL to the reaped process, in milliseconds.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from faults import probe

AIM_NS = 60.0
WAIT_S_MAX = 20.0


class Cost(NamedTuple):
    """Nanoseconds per turn of the loop: empty, and with one unarmed call."""

    loop_ns: float
    with_call_ns: float

    @property
    def net_ns(self) -> float:
        """What one unarmed call costs."""
        return self.with_call_ns - self.loop_ns


class Machinery(NamedTuple):
    """Medians: an armed call, starts to the first line, and from our SIGKILL to the wait status in the keeper and here."""

    armed_us: float
    warm_ms: float
    cold_ms: float
    reaped_ms: float
    told_ms: float


def _empty(calls: int) -> None:
    for _ in repeat(None, calls):
        pass


def _reaching(calls: int) -> None:
    reach = probe.reach
    for _ in repeat(None, calls):
        reach("tool.effect.done")


def _ns_per_turn(loop: Callable[[int], None], calls: int, rounds: int) -> float:
    def once() -> int:
        begun = time.perf_counter_ns()
        loop(calls)
        return time.perf_counter_ns() - begun

    return min(once() for _ in range(rounds)) / calls


def unarmed_cost(calls: int = 2_000, rounds: int = 500) -> Cost:
    """The cost of an unarmed call, the best of `rounds`, since noise only ever adds; a round is shorter than a slice of
    the scheduler, so that some round is undisturbed on a busy machine too. Raises RuntimeError if armed."""
    if probe._ask is not None:
        raise RuntimeError("the probe is armed; unset KILLPOINT_SOCKET to measure the unarmed call")
    return Cost(_ns_per_turn(_empty, calls, rounds), _ns_per_turn(_reaching, calls, rounds))


def warm() -> None:
    """What the keeper preloads: this module."""


def stamp(_: list[str]) -> int:
    """A program whose first line says when it runs, on the monotonic clock, in nanoseconds."""
    os.write(1, b"%d" % time.monotonic_ns())
    return 0


def rest(_: list[str]) -> int:
    """A program that rests until a signal ends it."""
    signal.pause()
    return 0


def call_armed(arguments: list[str]) -> int:
    """A program that reaches a point so many times, and says how long the median call took, in nanoseconds."""
    took = []
    for _ in range(int(arguments[0])):
        begun = time.perf_counter_ns()
        probe.reach("tool.effect.done", "w_1", {"n": 1})
        took.append(time.perf_counter_ns() - begun)
    os.write(1, b"%d" % statistics.median(took))
    return 0


def machinery_cost(rounds: int = 30) -> Machinery:
    """Medians over `rounds` real processes, with a keeper of its own. Takes seconds."""
    # Not imported above: a program that is started here measures itself, not these.
    from faults.controller import Controller  # noqa: PLC0415
    from faults.processes import Keeper  # noqa: PLC0415
    from faults.stores import CaseFolder  # noqa: PLC0415

    env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(Path(__file__).parents[1])}
    with CaseFolder() as folder, Keeper(preload="faults.bench:warm", env=env) as keeper, Controller(folder.socket):

        def run(program: str, *arguments: str, cold: bool = False, more: dict[str, str] | None = None) -> tuple[int, int]:
            """When it was ordered, and what the program says."""
            said = folder.logs / "said"
            said.unlink(missing_ok=True)
            argv = [sys.executable, "-m", "faults.bench", program, *arguments]
            begun = time.monotonic_ns()
            process = keeper.start(
                "worker.1",
                argv,
                {**env, **(more or {})},
                folder.root,
                folder.logs / "log",
                entry=f"faults.bench:{program}",
                cold=cold,
                stdout=said,
                arguments=arguments,
            )
            process.wait(WAIT_S_MAX)
            return begun, int(said.read_text())

        def kill() -> tuple[int, int]:
            argv = [sys.executable, "-m", "faults.bench", "rest"]
            process = keeper.start("worker.1", argv, env, folder.root, folder.logs / "log", entry="faults.bench:rest")
            sent = process.kill()
            process.wait(WAIT_S_MAX)
            return (process.exited_ns or 0) - sent.t_ns, time.monotonic_ns() - sent.t_ns

        armed = {"KILLPOINT_SOCKET": str(folder.socket), "KILLPOINT_PROCESS": "worker.1"}
        _, armed_ns = run("call_armed", "2000", more=armed)
        warm_starts = [said - begun for begun, said in (run("stamp") for _ in range(rounds))]
        cold_starts = [said - begun for begun, said in (run("stamp", cold=True) for _ in range(max(3, rounds // 6)))]
        kills = [kill() for _ in range(rounds)]
    return Machinery(
        armed_us=armed_ns / 1e3,
        warm_ms=statistics.median(warm_starts) / 1e6,
        cold_ms=statistics.median(cold_starts) / 1e6,
        reaped_ms=statistics.median(reaped for reaped, _ in kills) / 1e6,
        told_ms=statistics.median(told for _, told in kills) / 1e6,
    )


def main() -> int:
    """Print the measurements. Exit status 1 if the unarmed call misses its aim."""
    cost = unarmed_cost()
    machinery = machinery_cost()
    sys.stdout.write(
        f"unarmed reach(): loop baseline {cost.loop_ns:.1f} ns, with the call {cost.with_call_ns:.1f} ns, "
        f"net {cost.net_ns:.1f} ns (aim below {AIM_NS:.0f} ns)\n"
        f"armed reach(), there and back: {machinery.armed_us:.0f} us\n"
        f"start to the first line: warm {machinery.warm_ms:.2f} ms, cold {machinery.cold_ms:.2f} ms\n"
        f"SIGKILL to reaped: {machinery.reaped_ms:.2f} ms, known to the harness: {machinery.told_ms:.2f} ms\n"
    )
    return 0 if cost.net_ns < AIM_NS else 1


if __name__ == "__main__":
    program = sys.argv[1] if len(sys.argv) > 1 else ""
    programs = {"stamp": stamp, "rest": rest, "call_armed": call_armed}
    sys.exit(programs[program](sys.argv[2:]) if program in programs else main())
