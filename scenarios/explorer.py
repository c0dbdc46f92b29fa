"""Owns exploring: schedules that nobody wrote down are drawn, played on real processes, and judged by every check.

What failed before is tried first. What fails is played again before it is believed, made as small as it can be, and
written down as a case, its evidence and a reproducer. What was reached is counted, and generation leans towards what is
still missing.

Schedules are drawn and played in batches, and the next batch is already drawn while one is played, so that no process
stands idle while the slowest schedule of a batch ends. What a schedule is depends on its seed and on what the
batches before the last one reached, on nothing else: the same seed gives the same schedules for a target that does the
same.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis.database import DirectoryBasedExampleDatabase
from rich.console import Console

from reports import writer
from scenarios import campaign, mutants, progress, schedules
from scenarios.case import Bounce, Case, CaseError, File, Look, Open, SettleStep, parse
from scenarios.engine import Engine, Judged, store_history
from scenarios.lanes import Lanes
from scenarios.schedules import Ground, Leaning
from scenarios.shrinker import Shrinking, shrink
from scenarios.target import Target
from scenarios.versions import versions

SCHEMA = "killpoint.explored/1"
BATCH = 16  # how many schedules are drawn before what they reached is looked at; part of what a seed means
CONFIRM_PLAYS = 5
AGAIN_PLAYS = 2  # how often a smaller case must fail again before it is taken
SMALL_PLAYS = 10
LARGER_TRIED_MAX = 3
CHANCE_PLAYS = 30  # what a rate of none is measured with: below 3/30 with 95 % confidence
CHANCE_TRIES = 3
CHANCES_MAX = 3  # how many failures of one check that came by chance are told
SHRUNK_RATE_MIN = 1 / 3  # what comes more rarely would be made small by chance alone
SHRINK_PLAYS_MAX = 200
LATE_POINT_S_MAX = 0.25
SETTLE_S_MAX = 8.0
WAITS = ("rest.missed", "point.awaited", "process.stayed")
GROUNDS_MAX = 100
GROUND = ("held", "inconclusive")  # what another schedule may build on
NOTHING_TOLD = "nothing told yet"
MISSING_SHOWN_MAX = 12


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for: so many schedules, from which seed, kept where.

    seconds: no schedule is begun after so many; a failure that was found is still made small. mutant: a seeded defect to
    put into the reference. first: end with the first failure that was made small and comes each time. shrink_plays_max: how
    many plays one failure may cost to be made small. plays_max: how many plays the whole may cost, those that confirm a
    failure and make it small included.
    """

    examples: int = 200
    seconds: float | None = None
    seed: int = 0
    mutant: str | None = None
    database: Path = Path(".killpoint")
    first: bool = False
    shrink_plays_max: int = SHRINK_PLAYS_MAX
    plays_max: int | None = None


@dataclass(slots=True)
class Failure:
    """One failure: which check saw it, the schedule it was found in, the smallest case of it, and how often it came.

    found_after: how many cases had been played when it was seen. plays: how many it took to confirm it and to make it
    small. seen, of: how often `case` failed again, and in how many plays. finished: whether all that could make it smaller
    was tried. shrunk: whether it came often enough to be made small.
    """

    check: str
    schedule: Case
    case: Case
    found_after: int
    plays: int = 0
    seen: int = 0
    of: int = 0
    finished: bool = False
    shrunk: bool = False
    judged: Judged | None = None

    @property
    def each_time(self) -> bool:
        """Whether it is small and has failed each time that it was played again."""
        return self.shrunk and 0 < self.of == self.seen

    @property
    def rate(self) -> str:
        """How often it came, in words; a rate of none is given with its bound."""
        if self.seen or not self.of:
            return f"{self.seen} of {self.of}"
        return f"0 of {self.of}, below 3/{self.of} = {3 / self.of:.0%}"


@dataclass(slots=True)
class Coverage:
    """What the schedules reached: addresses and in how many of them, and at which of these, in which state of the session,
    which fault was played. The state is what clients had been told last before it.
    """

    reached: Counter[tuple[str, int]] = field(default_factory=Counter)
    fired: Counter[tuple[str, int, str, str]] = field(default_factory=Counter)
    followed: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, case: Case, lines: Iterable[Mapping[str, Any]]) -> None:
        """Count what this play reached."""
        faults = {str(fault.at): schedules.fault_of(fault) for fault in case.plan}
        state, first = NOTHING_TOLD, True
        for line in lines:
            data = line["data"]
            match line["kind"]:
                case "client.event":
                    state = str(data["data"].get("state") or state)
                case "point.reached":
                    self.reached[data["point"], data["ordinal"]] += 1
                case "point.fired":
                    fault = faults[f"{data['point']}#{data['ordinal']}"]
                    self.fired[data["point"], data["ordinal"], state, fault] += 1
                    self.followed[data["point"], fault] += not first
                    first = False

    def often(self) -> frozenset[tuple[str, int]]:
        """The addresses that came in most of the schedules in which their point was heard of at all: one that every message
        hits is silent where the plan does not name it."""
        return frozenset(
            (point, ordinal) for (point, ordinal), times in self.reached.items() if 2 * times > self.reached[point, 1]
        )

    def missing(self, target: Target) -> list[tuple[str, str]]:
        """The pairs of point and fault that were never brought about, in a stable order."""
        done = {(point, fault) for point, _, _, fault in self.fired}
        return [pair for pair in schedules.pairs(target) if pair not in done]

    def unreached(self, target: Target) -> list[str]:
        """The points that no schedule reached at all."""
        points = {point for point, _ in self.reached}
        return [name for name in target.points if name not in points]

    def lines(self, target: Target) -> Iterator[str]:
        """What was reached and what never was, for a reader."""
        pairs = len(schedules.pairs(target))
        missing = self.missing(target)
        yield (
            f"reached {len(target.points) - len(self.unreached(target))} of {len(target.points)} points at"
            f" {len(self.reached)} addresses; {pairs - len(missing)} of {pairs} pairs of point and fault;"
            f" {len(self.fired)} of point, ordinal, state and fault"
        )
        if unreached := self.unreached(target):
            yield f"never reached: {', '.join(unreached)}"
        if missing:
            shown = ", ".join(f"{point} × {fault}" for point, fault in missing[:MISSING_SHOWN_MAX])
            more = f" and {len(missing) - MISSING_SHOWN_MAX} more" if len(missing) > MISSING_SHOWN_MAX else ""
            yield f"never played: {shown}{more}"


@dataclass(slots=True)
class Explored:
    """What an exploration found: how the schedules were judged, what they reached, and the failures."""

    wish: Wish
    target: Target
    statuses: Counter[str] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)
    failures: list[Failure] = field(default_factory=list)
    voids: list[str] = field(default_factory=list)
    plays: int = 0
    seconds: float = 0.0

    @property
    def status(self) -> int:
        """The exit status: 1 with a failure; 3 if a death was not ours, or nothing was held; else 0."""
        if self.failures:
            return 1
        return 3 if self.voids or not self.statuses["held"] else 0


def explore(target: Target, wish: Wish, out: Path, jobs: int, console: Console) -> int:
    """Explore this target, write what was found into `out`, and give the exit status.

    Raises ValueError, in one line, for a folder that holds other things.
    """
    writer.prepare(out)
    explored = Explored(wish, target)
    with Lanes(target, jobs, mutants.environment(wish.mutant), LATE_POINT_S_MAX) as lanes:
        try:
            _Exploration(explored, lanes, out, console).run()
        finally:
            _write(explored, out)
    _tell(explored, out, console)
    return explored.status


class _Exploration:
    def __init__(self, explored: Explored, lanes: Lanes, out: Path, console: Console) -> None:
        self._explored, self._lanes, self._out, self._console = explored, lanes, out, console
        self._wish = explored.wish
        self._database = DirectoryBasedExampleDatabase(self._wish.database)
        self._key = f"{lanes.target.name} {self._wish.mutant or ''}".strip().encode()
        self._known: set[str] = set()
        self._chances = Counter[str]()
        self._grounds: list[Ground] = []
        self._unjudged = 0
        self._evidence: dict[str, Judged] = {}
        self._began = self._told = time.monotonic()

    def run(self) -> None:
        self._judge(*self._begin(self._kept()), drawn=False)
        begun: deque[tuple[list[Case], Iterator[Judged]]] = deque()
        following = self._drawn(0)
        for number in range(BATCH, self._wish.examples + BATCH, BATCH):
            if self._done():
                break
            begun.append(self._begin(following))
            if len(begun) > 1:
                self._judge(*begun.popleft())
            following = self._drawn(number)
            if self._frugal:
                self._judge(*begun.popleft())
        while begun:
            self._judge(*begun.popleft())
        self._look_at_chances()
        self._explored.seconds = time.monotonic() - self._began

    def _drawn(self, number: int) -> list[Case]:
        """The batch of schedules that begins with this one."""
        target, coverage = self._lanes.target, self._explored.coverage
        turns, missing = schedules.turns(target), frozenset(coverage.missing(target))
        reached, often, grounds = (
            frozenset(coverage.reached),
            coverage.often(),
            tuple(self._grounds[:: 1 + len(self._grounds) // GROUNDS_MAX]),
        )
        followed = dict(coverage.followed)
        drawn = (
            schedules.draw(
                target,
                f"{self._wish.seed}/{n}",
                Leaning(missing, turns[n % len(turns)], reached, often, grounds, followed),
            )
            for n in range(number, min(number + BATCH, self._wish.examples))
        )
        bound_s = mutants.SETTLE_S_MAX if self._wish.mutant else SETTLE_S_MAX
        return [case.model_copy(update={"settle_s_max": bound_s}) for case in drawn]

    @property
    def _frugal(self) -> bool:
        """Whether plays are counted: no more are begun at once then than can be played side by side."""
        return self._wish.first or self._wish.plays_max is not None

    def _begin(self, cases: list[Case]) -> tuple[list[Case], Iterator[Judged]]:
        return cases, self._part_by_part(cases) if self._frugal else self._played(cases)

    def _part_by_part(self, cases: list[Case]) -> Iterator[Judged]:
        place = 0
        while part := cases[place : place + int(min(self._lanes.count, self._left()))]:
            place += len(part)
            yield from self._played(part)

    def _played(self, cases: list[Case]) -> Iterator[Judged]:
        self._explored.plays += len(cases)
        self._unjudged += len(cases)
        return self._lanes.map(Engine.play, cases)

    def _done(self) -> bool:
        late = self._wish.seconds is not None and time.monotonic() - self._began > self._wish.seconds
        return late or self._left() <= 0 or self._has_its_failure()

    def _left(self) -> float:
        """How many plays may still be played."""
        return math.inf if self._wish.plays_max is None else self._wish.plays_max - self._explored.plays

    def _has_its_failure(self) -> bool:
        return self._wish.first and any(each.each_time for each in self._explored.failures)

    def _kept(self) -> list[Case]:
        """The failures of earlier explorations. What cannot be read any more is taken out."""
        found = []
        for value in sorted(self._database.fetch(self._key)):
            try:
                case = parse(json.loads(value), "the database of examples")
            except (ValueError, CaseError):
                self._database.delete(self._key, value)
                continue
            found.append(case)
        if found:
            self._console.print(f"{len(found)} failures of earlier times are tried first", markup=False)
        return found

    def _judge(self, cases: list[Case], played: Iterator[Judged], drawn: bool = True) -> None:
        """Judge what was begun. drawn: not kept from earlier times, on which this seed's schedules must not depend."""
        for case, judged in zip(cases, played, strict=False):
            explored, cell = self._explored, judged.cell
            self._unjudged -= 1
            explored.statuses[cell.status] += 1
            if drawn:
                explored.coverage.add(case, judged.lines)
                if cell.status in GROUND and (ground := schedules.ground(case, judged.lines)):
                    self._grounds.append(ground)
            if cell.status == "void":
                path = campaign.case_path(self._out, case.id)
                writer.atomic_write(path, case.to_json())
                explored.voids.append(f"{path}: {cell.why}")
            fresh = [violation.check for violation in cell.violations if violation.check not in self._known]
            if fresh:
                self._failed(Failure(fresh[0], case, case, explored.plays - self._unjudged, judged=judged), fresh)
            self._say_how_far()
            if self._has_its_failure():
                return

    def _failed(self, failure: Failure, fresh: list[str]) -> None:
        """Play it again before it is believed. What fails each time is made small at once; what came by chance, last.

        fresh: the checks that it violated and that are not known yet. The one that is violated most often again stands for
        it: what breaks in one way each time may break in another by chance."""
        before = self._explored.plays
        again = self._again(failure, CONFIRM_PLAYS)
        seen = Counter(check for judged in again for check in {each.check for each in judged.cell.violations})
        failure.check = max(fresh, key=seen.__getitem__)
        failure.seen, failure.of = self._rate(failure, again)
        if failure.seen == failure.of:
            self._make_small(failure)
        self._explored.failures.append(failure)
        self._keep(failure, before)
        # What came by chance may yet come each time, in another schedule.
        self._chances[failure.check] += not failure.each_time
        if failure.each_time or self._chances[failure.check] >= CHANCES_MAX:
            self._known.add(failure.check)

    def _look_at_chances(self) -> None:
        """What came by chance gets its rate measured and, if it comes often enough, is made small; the likeliest first."""
        for failure in sorted(self._explored.failures, key=lambda each: -each.seen):
            if not failure.shrunk and not self._has_its_failure() and self._left() > 0:
                before = self._explored.plays
                self._database.delete(self._key, failure.case.to_json().encode())
                if not failure.seen:
                    seen, of = self._count(failure, CHANCE_PLAYS - CONFIRM_PLAYS)
                    failure.seen, failure.of = seen, failure.of + of
                if failure.of and failure.seen / failure.of >= SHRUNK_RATE_MIN:
                    self._make_small(failure)
                self._keep(failure, before)

    def _make_small(self, failure: Failure) -> None:
        """Make it small, and count how often the small one fails."""
        tries = 1 if failure.seen == failure.of else CHANCE_TRIES
        self._console.print(
            f"{failure.schedule.id}: {failure.check} is violated, {failure.seen} of {failure.of} times again; made smaller",
            markup=False,
        )
        failure.shrunk = True
        missed = _waits_missed(failure.judged) if tries == 1 else math.inf
        end = self._explored.plays + self._wish.shrink_plays_max
        small = shrink(
            failure.case,
            lambda cases: self._fails(failure.check, cases, tries, missed),
            lambda: min(end - self._explored.plays, self._left() - SMALL_PLAYS) / tries,
            self._lanes.count,
        )
        failure.finished = small.finished
        failure.seen, failure.of = self._settled_on(failure, small, SMALL_PLAYS if tries == 1 else CHANCE_PLAYS)
        failure.case = _named(failure.case, failure.check)

    def _keep(self, failure: Failure, before: int) -> None:
        """Keep it as it is now, for next time and for a reader, who is told what it cost since so many plays."""
        failure.plays += self._explored.plays - before
        self._database.save(self._key, failure.case.to_json().encode())
        _write_failure(failure, self._out, self._lanes.target, mutants.environment(self._wish.mutant))
        self._evidence.clear()
        self._console.print(
            f"  {failure.check}: {_words(failure.case)}; {failure.rate}, after {failure.plays} plays", markup=False
        )

    def _fails(self, check: str, cases: list[Case], tries: int, missed: float = math.inf) -> list[bool]:
        """Which of these fail, with at most so many waits whose bound passed.

        Where the failure came each time, so must the first of them: one that fails by chance is no smaller case of it. Nor
        is one that waits in vain where it did not: what comes after such a wait comes at a moment that the clock chose.
        """
        failing = [found is not None and _waits_missed(found) <= missed for found in self._tried(check, cases, tries)]
        if tries > 1:
            return failing
        for place, case in enumerate(cases):
            if failing[place]:
                again = self._tried(check, [case] * AGAIN_PLAYS, 1) if self._left() - SMALL_PLAYS >= AGAIN_PLAYS else [None]
                failing[place] = None not in again
            if failing[place]:
                break
        return failing

    def _settled_on(self, failure: Failure, small: Shrinking, times: int) -> tuple[int, int]:
        """Take the smallest case, or one shortly before it that fails each time where the smallest does not; how often it
        fails, of how many plays."""
        larger = small.larger[: -1 - LARGER_TRIED_MAX : -1] if times == SMALL_PLAYS else []
        rates: dict[str, tuple[int, int]] = {}
        for case in (small.case, *larger):
            self._take(failure, case)
            rates[case.digest] = seen, of = self._count(failure, times)
            if seen == of:
                break
        if not 0 < seen == of:
            self._take(failure, small.case)
        return rates[failure.case.digest]

    def _take(self, failure: Failure, case: Case) -> None:
        failure.case, failure.judged = case, self._evidence.get(case.digest, failure.judged)

    def _again(self, failure: Failure, times: int) -> list[Judged]:
        times = int(min(times, max(0, self._left())))
        self._explored.plays += times
        return list(self._lanes.map(Engine.play, [failure.case] * times))

    def _rate(self, failure: Failure, again: list[Judged]) -> tuple[int, int]:
        failing = [each for each in again if _violates(each, failure.check)]
        if failing:
            failure.judged = self._evidence[failure.case.digest] = failing[-1]
        return len(failing), len(again)

    def _count(self, failure: Failure, times: int) -> tuple[int, int]:
        return self._rate(failure, self._again(failure, times))

    def _tried(self, check: str, cases: list[Case], tries: int) -> list[Judged | None]:
        """For each case, a play in which this check was violated, of so many; None if there was none."""

        def play(engine: Engine, case: Case) -> tuple[Judged | None, int]:
            for number in range(tries):
                judged = engine.play(case)
                if _violates(judged, check):
                    return judged, number + 1
            return None, tries

        found = list(self._lanes.map(play, cases))
        self._explored.plays += sum(plays for _, plays in found)
        self._evidence |= {case.digest: each for case, (each, _) in zip(cases, found, strict=True) if each is not None}
        return [judged for judged, _ in found]

    def _say_how_far(self) -> None:
        if time.monotonic() - self._told >= progress.PLAIN_LINE_EVERY_S:
            self._told = time.monotonic()
            self._console.print(_counts(self._explored), markup=False)


def _violates(judged: Judged, check: str) -> bool:
    return any(violation.check == check for violation in judged.cell.violations)


def _waits_missed(judged: Judged | None) -> int:
    """How many waits in this play ended with their bound instead of what was waited for."""
    assert judged is not None
    return sum(line["kind"] in WAITS and not line["data"].get("came", False) for line in judged.lines)


def _named(case: Case, check: str) -> Case:
    return case.model_copy(update={"id": f"{check}/{case.digest[:8]}"})


def deaths_and_acts(case: Case) -> tuple[int, int]:
    """How many processes the case kills or tells to end, and how many acts there are beside that: what users do in their
    sessions (inputs, resends, controls, a quit, going and coming back) and moves of the clock. Neither the sessions
    themselves count nor what the harness waits for or looks at."""
    ops = [op for fault in case.plan for op in fault.ops]
    deaths = sum(op.do in ("kill", "terminate") for op in ops) + sum(isinstance(step, Bounce) for step in case.steps)
    acts = sum(not isinstance(step, Open | SettleStep | Look | File | Bounce) for step in case.steps)
    return deaths, acts + sum(op.do in ("user", "clock") for op in ops)


def _words(case: Case) -> str:
    """How small a case is."""
    kills, acts = deaths_and_acts(case)
    where = f" at {', '.join(str(fault.at) for fault in case.plan)}" if case.plan else ""
    return f"{kills} kill{'' if kills == 1 else 's'}{where}, {acts} action{'' if acts == 1 else 's'}"


def _counts(explored: Explored) -> str:
    told = ", ".join(f"{count} {status}" for status, count in sorted(explored.statuses.items()))
    return f"{explored.statuses.total()} schedules ({told}), {len(explored.failures)} failures"


def _write_failure(failure: Failure, out: Path, target: Target, environment: Mapping[str, str]) -> None:
    assert failure.judged is not None
    case = failure.case
    writer.atomic_write(campaign.case_path(out, case.id), case.to_json())
    store_history(campaign.history_path(out, case.id), failure.judged.lines)
    cell = failure.judged.cell.model_copy(update={"id": case.id, "mutant": environment.get(mutants.VARIABLE)})
    known = versions(target)
    script = campaign.script_of(out, case, cell, target, known, environment)
    campaign.write_cell(out, case, cell, failure.judged.lines, known, script)


def _write(explored: Explored, out: Path) -> None:
    writer.atomic_write(out / "explore.json", json.dumps(_data(explored, out), indent=1) + "\n")


def _data(explored: Explored, out: Path) -> dict[str, Any]:
    target, coverage = explored.target, explored.coverage
    return {
        "schema": SCHEMA,
        "target": target.name,
        "mutant": explored.wish.mutant,
        "seed": explored.wish.seed,
        "schedules": explored.statuses.total(),
        "plays": explored.plays,
        "seconds": round(explored.seconds, 1),
        "statuses": dict(sorted(explored.statuses.items())),
        "void": explored.voids,
        "versions": versions(target),
        "failures": [
            {
                "check": each.check,
                "case": str(campaign.case_path(out, each.case.id).relative_to(out)),
                "found_after": each.found_after,
                "plays": each.plays,
                "seen": each.seen,
                "of": each.of,
                "smallest": each.finished,
                "size": _words(each.case),
                "schedule": json.loads(each.schedule.to_json()),
            }
            for each in explored.failures
        ],
        "coverage": {
            "points_never_reached": coverage.unreached(target),
            "pairs_never_played": [list(pair) for pair in coverage.missing(target)],
            "reached": sorted(f"{point}#{ordinal}" for point, ordinal in coverage.reached),
            "fired": [
                {"point": point, "ordinal": ordinal, "state": state, "fault": fault, "times": times}
                for (point, ordinal, state, fault), times in sorted(coverage.fired.items())
            ],
        },
    }


def _tell(explored: Explored, out: Path, console: Console) -> None:
    console.print(f"{_counts(explored)} in {explored.seconds:.0f} s, seed {explored.wish.seed}", markup=False, style="bold")
    for line in explored.coverage.lines(explored.target):
        console.print(f"  {line}", markup=False)
    for line in explored.voids[:MISSING_SHOWN_MAX]:
        console.print(f"void: {line}", markup=False)
    for failure in explored.failures:
        violations = failure.judged.cell.violations if failure.judged else []
        first = next((each for each in violations if each.check == failure.check), None)
        console.print(f"violated: {failure.check}: {first.promise if first else ''}", markup=False)
        if first:
            console.print(f"  expected: {first.expected.says}", markup=False)
            console.print(f"  seen:     {first.seen.says}", markup=False)
        console.print(f"  {_words(failure.case)}; fails again {failure.rate}", markup=False)
        defect = f" --mutant {explored.wish.mutant}" if explored.wish.mutant else ""
        console.print(f"  killpoint replay {campaign.case_path(out, failure.case.id)}{defect}", markup=False)
    with suppress(ValueError):
        out = out.relative_to(Path.cwd())
    console.print(f"written to {out / 'explore.json'}", markup=False)
