"""Owns generated right runs for the tests of single checks: how they are drawn, broken, judged, and altered as a whole.

A *breach* takes the tape of a right run, breaks one promise in it, and gives the two lines that the check must name. It is
caught only if its check is violated by it, and of all the checks of these areas no other than those that are named beside.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from faults.catalogue import POINTS
from reports.model import CheckResult
from scenarios.case import Reply
from scenarios.checks import CHECKS, Check, Evidence, accepting, effects, judge, request_history, usage
from scenarios.history import History
from tests.scenarios.checks import examples_met
from tests.scenarios.checks.builder import Line, Scene, Tape, call, replies

READS = ("read", "grep")
WRITES = ("charge", "mail", "publish", "order", "note_plugin")
TEXTS = ("first", "second", "third", "fourth")

# Points at which the worker of the made runtime can die.
DEADLY = sorted(
    p.name
    for p in POINTS
    if p.role in {"worker", "world"} and not p.name.startswith(("exit.", "control.", "lease.", "outbox.", "work.released"))
)

_BASE = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
FEW = settings(_BASE, max_examples=3)
SOME = settings(_BASE, max_examples=5)
MANY = settings(_BASE, max_examples=12)

_SCALES = {size: st.integers(1, size) for size in range(1, 5)}
_COUNT, _BOOL = st.integers(0, 1), st.booleans()
_OUTCOME = st.sampled_from(["ok", "unknown"])
_DEATHS = {
    size: st.dictionaries(
        st.builds("{}#{}".format, st.sampled_from(DEADLY), _SCALES[3]), st.sampled_from(["worker", "both"]), max_size=size
    )
    for size in range(5)
}


@cache
def _some(values: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(values)


@cache
def _two(values: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=2) if values else st.just([])


Witnesses = tuple[Line | None, Line | None]
Pick = Callable[[Sequence[Any]], Any]
Breaking = Callable[[Tape, Pick], Witnesses]


@st.composite
def plays(
    draw: st.DrawFn,
    *,
    must: tuple[str, ...] = (),
    kills: tuple[str, ...] = (),
    tools: tuple[str, ...] = READS + WRITES,
    deaths: int = 2,
    sessions: int = 2,
    texts: int = 2,
    equal: bool = False,
    usage: tuple[str, ...] = ("last", "every", "none"),
    words: int = 1,
) -> Tape:
    """A right run.

    must: tools that the first text calls, in this order. kills: addresses at which the worker dies. deaths: how many more
    it may die, anywhere. equal: whether two calls may bear the same arguments. words: how many the last reply has at least.
    """
    numbers = iter(range(1000))
    script: dict[str, tuple[Reply, ...]] = {}
    for text in ("alpha", "beta", "gamma")[: draw(_SCALES[texts])]:
        wanted = [*(must if text == "alpha" else ()), *draw(_two(tools))]
        steps = []
        while wanted:
            size = draw(_SCALES[2])
            calls = tuple(call(tool, n=draw(_COUNT) if equal else next(numbers)) for tool in wanted[:size])
            said = f"thinking of {text} {len(steps)}" if draw(_BOOL) else ""
            steps.append(Reply(text=said, calls=calls, usage=draw(_some(usage))))
            wanted = wanted[size:]
        last = " ".join(f"{text}{i}" for i in range(words - 1 + draw(_SCALES[3])))
        script[text] = (*steps, Reply(text=last, usage=draw(_some(usage))))
    die = draw(_DEATHS[deaths])
    scene = Scene(script, die={**die, **dict.fromkeys(kills, "worker")})
    names = [f"s{i + 1}" for i in range(draw(_SCALES[sessions]))]
    for name in names:
        scene.open(name)
    for i, text in enumerate(script):
        session, heard = names[i % len(names)], draw(_OUTCOME)
        scene.send(f"r{i}", text, session, outcome=heard)
        if heard == "unknown" or draw(_BOOL):
            scene.send(f"r{i}", text, session)
    return scene.run().tape()


@st.composite
def queued(draw: st.DrawFn, *, inputs: int = 2, deaths: int = 2, same: bool = False) -> Tape:
    """Right runs in which one session gets at least so many inputs, all accepted before the first is begun."""
    texts = [TEXTS[0] if same else text for text in TEXTS[: draw(st.integers(inputs, 4))]]
    steps = st.lists(st.builds(lambda n: call("read", n=n), st.integers(0, 5)), max_size=1)
    script = {text: replies(*draw(steps), last=f"on {text}") for text in texts}
    scene = Scene(script, die=draw(_DEATHS[deaths]))
    scene.open()
    for i, text in enumerate(texts):
        scene.send(f"r{i}", text)
    return scene.run().tape()


# Judging -------------------------------------------------------------------------------------------------------------


def of_area(*areas: ModuleType) -> list[Check]:
    """The checks of these modules, in their order, but for those of cases that people have met."""
    names = {area.__name__ for area in areas}
    return [each for each in CHECKS.values() if each.judge.__module__ in names and each.name not in examples_met.names()]


MINE = of_area(accepting, effects, request_history, usage)


def results(tape: Tape, checks: Sequence[Check] = MINE) -> dict[str, CheckResult]:
    evidence = Evidence(History.join(tape.lines), tape.case)
    return {each.name: judge(evidence, each) for each in checks}


def result(tape: Tape, name: str) -> CheckResult:
    return results(tape, [CHECKS[name]])[name]


def held(tape: Tape, name: str) -> CheckResult:
    """The result of a check that must hold and must have looked at something."""
    found = result(tape, name)
    assert (found.status, found.violations, found.why) == ("held", [], None), f"{found}"
    assert found.examined > 0
    return found


def not_examined(tape: Tape, name: str) -> None:
    """Nothing is there to be judged, and that is no pass."""
    found = result(tape, name)
    assert (found.status, found.why, found.examined) == ("not run", "nothing to examine", 0), found.violations


def fair(tape: Tape, name: str) -> None:
    """Nothing of this is a violation, whatever else the check could look at."""
    found = result(tape, name)
    assert found.status in {"held", "not run"}, found.violations or found.why


def caught(tape: Tape, name: str, since: Line | None, at: Line | None, beside: Sequence[str] = ()) -> CheckResult:
    """The check is violated, none but `beside` may be too, and it names these witnesses and what was promised."""
    found = results(tape)
    assert found[name].status == "violated", f"{name} is {found[name].status}: {found[name].why}"
    others = {n: r.violations[0] for n, r in found.items() if r.violations and n not in {name, *beside}}
    assert not others, f"violated too: {others}"
    violations = found[name].violations
    places = [(v.expected.seq, v.seen.seq) for v in violations]
    wanted = tape.seq(since) if since else None, tape.seq(at) if at else None
    assert wanted in places, f"{wanted} is none of {places}"
    for each in violations:
        assert (each.check, each.clauses, each.promise) == (name, list(CHECKS[name].clauses), CHECKS[name].promise)
        assert each.expected.says and each.seen.says
    return found[name]


# Breaches ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Breach:
    check: str
    plays: st.SearchStrategy[Tape]
    how: Breaking
    beside: tuple[str, ...]

    def draw(self, data: st.DataObject) -> tuple[Tape, Witnesses]:
        """A right run that holds, now broken, with the witnesses that show it."""
        tape = data.draw(self.plays)
        assert result(tape, self.check).status != "violated"
        return tape, self.how(tape, lambda found: data.draw(st.sampled_from(list(found))))

    def is_caught(self, data: st.DataObject) -> None:
        tape, (since, at) = self.draw(data)
        caught(tape, self.check, since, at, self.beside)


class Breaches:
    """The breaches of one area."""

    def __init__(self) -> None:
        self.rows: list[Breach] = []

    def of(self, check: str, plays: st.SearchStrategy[Tape], *beside: str) -> Callable[[Breaking], Breaking]:
        """Register how this check is broken. beside: the checks that the same breach may break too."""

        def register(how: Breaking) -> Breaking:
            self.rows.append(Breach(check, plays, how, beside))
            return how

        return register

    @property
    def each(self) -> pytest.MarkDecorator:
        ids = [f"{row.check}:{row.how.__name__}" for row in self.rows]
        return pytest.mark.parametrize("breach", self.rows, ids=ids)

    @property
    def names(self) -> set[str]:
        return {row.check for row in self.rows}


# Lines of a tape -----------------------------------------------------------------------------------------------------


def after(tape: Tape, line: Line) -> list[Line]:
    """This line and all behind it, up to the final snapshot."""
    lines = sorted(tape.lines, key=lambda each: each["t_ns"])
    first, end = (next(i for i, each in enumerate(lines) if each is wanted) for wanted in (line, tape.final))
    return lines[first:end]


def reached(tape: Tape, point: str) -> list[Line]:
    return tape.all("point.reached", point=point)


def effects_of(tape: Tape, **match: Any) -> list[dict[str, Any]]:
    """The effects of the final snapshot that look so, to be changed in place."""
    views = [effect for session in tape.final["data"]["sessions"].values() for effect in session["effects"]]
    return [view for view in views if match.items() <= view.items()]


def everywhere(tape: Tape) -> Iterator[dict[str, Any]]:
    """Every session of every snapshot, to be changed in place."""
    for line in tape.all("snapshot.taken"):
        yield from line["data"]["sessions"].values()


# Whole histories -----------------------------------------------------------------------------------------------------

_NAMED = {"session", "request_id", "first_input", "input", "work", "work_id", "turn", "turn_id", "predecessor", "attempt"}
_NAMED |= {"call", "call_id", "tool_call_id", "id", "key", "tool_key", "idempotency_key"}


def renamed(tape: Tape) -> Tape:
    """The same history, in which every session, input, work, turn, attempt, call and key has another name."""
    names: dict[str, str] = {}

    def collect(value: Any, field: str = "") -> None:
        if isinstance(value, dict):
            names.update({name: f"{name[::-1]}~" for name in value if field == "sessions"})
            for name, each in value.items():
                collect(each, name)
        elif isinstance(value, list):
            for each in value:
                collect(each, "attempt" if field == "attempts" else field)
        elif isinstance(value, str) and field in _NAMED:
            names[value] = f"{value[::-1]}~"

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {names.get(name, name): rename(each) for name, each in value.items()}
        if isinstance(value, list):
            return [rename(each) for each in value]
        return names.get(value, value) if isinstance(value, str) else value

    for line in tape.lines:
        collect(line["data"])
    return Tape(tape.case, [{**line, "data": rename(line["data"])} for line in tape.lines])


def with_a_neighbour(tape: Tape) -> Tape:
    """The same history, in which an independent session is served just before the case settles."""
    scene = Scene()
    scene.open("far")
    scene.send("r_far", "elsewhere", "far")
    far = renamed(scene.run().tape())
    start = tape.get("case.settled")["t_ns"] - 1000
    lines = copy.deepcopy(tape.lines)
    for place, line in enumerate(far.lines):
        if line["kind"] == "snapshot.taken":
            for same in [x for x in lines if x["kind"] == line["kind"] and x["data"]["when"] == line["data"]["when"]]:
                same["data"]["sessions"].update(line["data"]["sessions"])
        elif line["kind"].startswith(("client.", "provider.", "point.")):
            data = {k: v + 1000 if k in {"n", "call"} and isinstance(v, int) else v for k, v in line["data"].items()}
            data |= {"nonce": f"far{data['nonce']}"} if "nonce" in data else {}
            lines.append({"t_ns": start + place, "kind": line["kind"], "data": data})
    return Tape(tape.case, lines)


def by_another_clock(tape: Tape, offset_ns: int, scale: int) -> Tape:
    """The same history on a clock that began elsewhere and runs faster."""
    return Tape(tape.case, [{**line, "t_ns": offset_ns + line["t_ns"] * scale} for line in tape.lines])


def at_one_moment(tape: Tape) -> Tape:
    """The same history, too fast for its clock: each record bears the same time."""
    lines = sorted(tape.lines, key=lambda line: line["t_ns"])
    return Tape(tape.case, [{**line, "t_ns": 7} for line in lines])


def cut(tape: Tape, length: int) -> Tape:
    """What is left of the history when the harness was killed after so many records."""
    return Tape(tape.case, sorted(tape.lines, key=lambda line: line["t_ns"])[:length])


def places(tape: Tape, checks: Sequence[Check]) -> dict[str, tuple[str, list[tuple[Any, Any]]]]:
    """What these checks say, without the names: the status, and where the witnesses stand."""
    return {
        name: (found.status, [(v.expected.seq, v.seen.seq) for v in found.violations])
        for name, found in results(tape, checks).items()
    }


def lines_named(tape: Tape, name: str) -> list[tuple[Any, Any]]:
    """The records that the violations of one check point at, as they are stored."""
    lines = sorted(tape.lines, key=lambda line: line["t_ns"])
    found = result(tape, name).violations
    return [
        tuple(
            None if w.seq is None or lines[w.seq]["kind"] == "snapshot.taken" else lines[w.seq]
            for w in (v.expected, v.seen)
        )
        for v in found
    ]


def invariant(tape: Tape, checks: Sequence[Check], offset_ns: int, scale: int) -> None:
    """What these checks say of a history does not depend on names, on the clock, or on who judges, or how often."""
    said = results(tape, checks)
    assert results(tape, checks) == said
    assert results(by_another_clock(tape, offset_ns, scale), checks) == said
    assert results(at_one_moment(tape), checks) == said
    where = {name: (found.status, [(v.expected.seq, v.seen.seq) for v in found.violations]) for name, found in said.items()}
    assert places(renamed(tape), checks) == where


def undisturbed(tape: Tape, name: str) -> None:
    """An independent session takes no violation away, adds none, and moves no witness."""
    beside = with_a_neighbour(tape)
    assert result(beside, name).status == result(tape, name).status
    assert lines_named(beside, name) == lines_named(tape, name)


def safe_when_cut(tape: Tape, checks: Sequence[Check], length: int) -> None:
    """No beginning of a right run is violated, and what needs its end says that it is missing."""
    torn = cut(tape, length)
    ended = tape.final in torn.lines
    for name, found in results(torn, checks).items():
        assert found.status != "violated", (name, found.violations)
        if "final" in CHECKS[name].needs and not ended:
            assert (found.status, found.why) == ("inconclusive", "no final snapshot was taken")


def open_without_its_end(tape: Tape, checks: Sequence[Check]) -> None:
    """Without a final snapshot, or with one of a case that never rested, what needs it decides nothing, broken or not."""
    lost = Tape(tape.case, [line for line in tape.lines if line is not tape.final])
    restless = copy.deepcopy(tape)
    restless.get("case.settled")["data"].update(settled=False, why="still at work")
    whys = ("no final snapshot was taken", "the case did not come to rest, so its final snapshot is not final")
    for torn, why in zip((lost, restless), whys, strict=True):
        for name, found in results(torn, checks).items():
            if "final" in CHECKS[name].needs:
                assert (found.status, found.why, found.violations) == ("inconclusive", why, [])
