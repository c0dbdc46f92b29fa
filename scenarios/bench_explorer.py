"""Owns the measurement of exploring: `python -m scenarios.bench_explorer`, in one run on one machine.

Seeded defects are drawn by a seed, not chosen. For each, schedules are explored until a failure was found and made small;
its case is then played again and again with the defect, and on the sound reference. At last the sound reference itself
is explored.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios import explorer, mutants
from scenarios.case import Case, load
from scenarios.engine import Engine
from scenarios.explorer import Wish
from scenarios.lanes import Lanes
from scenarios.targets import target as target_named

TARGET = "reference"
PLAYS_MAX = 200
ACTIONS_MAX = 3


@dataclass
class Found:
    """What exploring one seeded defect came to. kills, actions: the size of the smallest case; smallest: whether all that
    could make it smaller was tried. again: how often it failed again with the defect; sound: how often on the sound
    reference; each of `times` plays."""

    mutant: str
    check: str = ""
    found_after: int = 0
    plays: int = 0
    seconds: float = 0.0
    kills: int = 0
    actions: int = 0
    smallest: bool = False
    size: str = "nothing was found"
    again: int = 0
    sound: int = 0
    times: int = 0

    @property
    def reached(self) -> bool:
        """Whether it is as it should be: found and small within the plays, the same each time, and gone without it."""
        # Where not one death is what it takes, none or several, the measure is that nothing is left to take out.
        small = self.actions <= ACTIONS_MAX if self.kills == 1 else self.smallest
        return bool(self.check) and self.plays <= PLAYS_MAX and small and self.again == self.times and not self.sound


def explore_mutant(name: str, seed: int, times: int, jobs: int, folder: Path) -> Found:
    """Explore this defect and replay what was found."""
    out = folder / name
    wish = Wish(
        examples=PLAYS_MAX,
        seed=seed,
        mutant=name,
        database=folder / "kept",
        first=True,
        plays_max=PLAYS_MAX,
    )
    explorer.explore(target_named(TARGET), wish, out, jobs, Console(file=io.StringIO()))
    data = json.loads((out / "explore.json").read_bytes())
    found = Found(name, plays=data["plays"], seconds=data["seconds"], times=times)
    if data["failures"]:
        failure = max(data["failures"], key=lambda each: (each["seen"] == each["of"], each["smallest"], each["seen"]))
        case = load(out / failure["case"])
        found.check, found.found_after, found.size = failure["check"], failure["found_after"], failure["size"]
        found.smallest = failure["smallest"]
        found.kills, found.actions = explorer.deaths_and_acts(case)
        found.again = _replayed(case, found.check, mutants.environment(name), times, jobs)
        found.sound = _replayed(case, found.check, {}, times, jobs)
    return found


def _replayed(case: Case, check: str, environment: dict[str, str], times: int, jobs: int) -> int:
    with Lanes(target_named(TARGET), jobs, environment) as lanes:
        plays = lanes.map(Engine.play, [case] * times)
        return sum(any(violation.check == check for violation in each.cell.violations) for each in plays)


def explore_sound(schedules: int, seed: int, jobs: int, folder: Path) -> dict[str, Any]:
    """Explore the sound reference; what `explore.json` says of it, without its coverage."""
    wish = Wish(examples=schedules, seed=seed, database=folder / "kept")
    explorer.explore(target_named(TARGET), wish, folder / "sound", jobs, Console(stderr=True))
    data: dict[str, Any] = json.loads((folder / "sound" / "explore.json").read_bytes())
    coverage = data.pop("coverage")
    return data | {"fired": len(coverage["fired"]), "points_never_reached": coverage["points_never_reached"]}


def main(arguments: list[str] | None = None) -> int:
    """The command; exit status 1 if something was not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m scenarios.bench_explorer", description=__doc__)
    parser.add_argument("--mutants", type=int, default=10, help="how many seeded defects are drawn")
    parser.add_argument("--only", nargs="*", help="these defects instead of drawn ones")
    parser.add_argument("--seed", type=int, default=0, help="of the draw and of the schedules")
    parser.add_argument("--times", type=int, default=50, help="how often each reproducer is replayed")
    parser.add_argument("--sound", type=int, default=1000, help="how many schedules the sound reference is explored with")
    parser.add_argument("--jobs", type=int, default=0, help="side by side; 0 takes one more than there are cores")
    parser.add_argument("--json", action="store_true", help="as data")
    given = parser.parse_args(arguments)
    names = given.only or _drawn(given.seed, given.mutants)
    console = Console(stderr=given.json, soft_wrap=True, highlight=False)
    found: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="killpoint-bench-") as folder:
        for name in names:
            found.append(explore_mutant(name, given.seed, given.times, given.jobs, Path(folder)))
            console.print(_line(found[-1]), markup=False)
        sound = explore_sound(given.sound, given.seed, given.jobs, Path(folder)) if given.sound else None
    if sound is not None:
        console.print(
            f"sound reference: {sound['schedules']} schedules {sound['statuses']}, {len(sound['failures'])} failures"
            f" in {sound['seconds']:.0f} s",
            markup=False,
        )
    if given.json:
        sys.stdout.write(json.dumps({"mutants": [asdict(each) for each in found], "sound": sound}, indent=1) + "\n")
    clean = sound is None or not (sound["failures"] or sound["void"])
    return 0 if clean and all(each.reached for each in found) else 1


def _drawn(seed: int, number: int) -> list[str]:
    return random.Random(seed).sample([each.name for each in mutants.listed()], number)  # noqa: S311 (a draw, no secret)


def _line(each: Found) -> str:
    verdict = "ok  " if each.reached else "MISS"
    again = f"again {each.again} of {each.times}, sound {each.sound} of {each.times}" if each.check else ""
    return (
        f"{verdict} {each.mutant}: {each.check} after {each.found_after}, {each.plays} plays, {each.seconds:.0f} s;"
        f" {each.size}; {again}"
    )


if __name__ == "__main__":
    sys.exit(main())
