"""Owns generated histories for the checks of recovery, intent, ownership, interface and harness, and how they are tried.

`good` registers from what right histories a check is tried, `breaks` one way to break its promise. A breaking changes a
drawn history in place and gives the two lines that the check must name, as in `examples`. `try_good` and `try_broken` play
them: besides the verdict they ask what no verdict may depend on, which is how things are called, when all of it happened,
who reads it a second time, and what an unrelated session did before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from reports.model import CheckResult
from scenarios.case import Reply
from scenarios.checks import CHECKS, Evidence, judge
from tests.scenarios.checks import examples_met
from tests.scenarios.checks.builder import Line, Scene, Tape, call, replies
from tests.scenarios.checks.examples import Witnesses

T = TypeVar("T")
Histories = st.SearchStrategy[Tape]
# Each way to break something has its own test, so a failure names it, and a smaller history is not worth the time.
QUICK = settings(
    deadline=None,
    max_examples=4,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
FEW = settings(QUICK, max_examples=2)
ONCE = settings(QUICK, max_examples=1)

SURE = ("read", "charge", "publish", "order")  # what recovery can find out or do again, so that a checkpoint is safe
RECOVERY = tuple(
    f"recovery.{step}"
    for step in (
        "facts.loaded",
        "ownership.taken",
        "repair.written",
        "decision.stored",
        "admitted",
        "intent.consumed",
        "interface.restored",
    )
)
BEFORE_THE_REPLY = ("turn.begun", "attempt.stored", "provider.request.received", "reply.received", "usage.receipt.received")
IN_A_CALL = ("tool.intent.stored", "tool.dispatch.stored", "effect.received", "effect.applied", "tool.effect.done")
ANYWHERE = (*BEFORE_THE_REPLY, "reply.stored", *IN_A_CALL, "tool.result.stored")


class Draw(Protocol):
    """What draws one value from a strategy."""

    def __call__(self, strategy: st.SearchStrategy[T], /) -> T: ...


Breaking = Callable[[Tape, Draw], Witnesses]
GOOD: dict[str, Histories] = {}
BROKEN: list[Broken] = []


@dataclass(frozen=True)
class Broken:
    """One way to break the promise of a check: of which right histories, and which of its neighbours must see it too."""

    name: str
    breaking: Breaking
    of: Histories | None
    also: frozenset[str]

    @property
    def histories(self) -> Histories:
        return GOOD[self.name] if self.of is None else self.of

    def __str__(self) -> str:
        return f"{self.name}:{self.breaking.__name__}"


def good(name: str, histories: Histories) -> None:
    """Register from what right histories the check is tried."""
    assert name in CHECKS and name not in GOOD, name
    GOOD[name] = histories


def breaks(name: str, *also: str, of: Histories | None = None) -> Callable[[Breaking], Breaking]:
    """Register one way to break the promise of a check. also: the checks of its own area that may see it too."""

    def register(breaking: Breaking) -> Breaking:
        BROKEN.append(Broken(name, breaking, of, frozenset(also)))
        return breaking

    return register


def names_of(module: str) -> list[str]:
    """The checks of one module of `scenarios.checks`, but for those of cases that people have met."""
    found = [name for name, each in CHECKS.items() if each.judge.__module__ == f"scenarios.checks.{module}"]
    return [name for name in found if name not in examples_met.names()]


def broken_of(module: str) -> list[Broken]:
    """Every registered breaking of the checks of one module."""
    return [each for each in BROKEN if each.name in names_of(module)]


# How they are tried ------------------------------------------------------------------------------------------------------


def verdict(tape: Tape, name: str) -> CheckResult:
    return judge(tape.evidence(), CHECKS[name])


def held(tape: Tape, name: str) -> int:
    """That the check examined this history and holds; how many facts it examined."""
    result = verdict(tape, name)
    assert (result.status, result.why, result.violations) == ("held", None, []), name
    assert result.examined > 0
    return result.examined


def not_examined(tape: Tape, name: str) -> None:
    """That the check says of this history that there was nothing to examine."""
    result = verdict(tape, name)
    assert (result.status, result.examined, result.why) == ("not run", 0, "nothing to examine"), result.violations


def caught(tape: Tape, name: str, witnesses: Witnesses) -> CheckResult:
    """That the check is violated, in its own words, and names these two lines."""
    result = verdict(tape, name)
    assert result.status == "violated", result.why
    since, at = (tape.seq(line) if line else None for line in witnesses)
    assert (since, at) in [(v.expected.seq, v.seen.seq) for v in result.violations]
    check = CHECKS[name]
    for each in result.violations:
        assert (each.check, each.clauses, each.promise) == (name, list(check.clauses), check.promise)
        assert each.kind == check.kind
        assert each.expected.says and each.seen.says
    assert result.examined >= 1
    return result


def try_good(name: str, draw: Draw) -> None:
    """One right history: the check examines it and holds, however it is told, and beside whatever happened before."""
    tape = draw(GOOD[name])
    examined = held(tape, name)
    assert verdict(tape, name) == verdict(tape, name)
    told = one_of(draw, [renamed, later, beside])
    again = held(told(tape), name)
    assert again == examined or (told is beside and again > examined)


def try_broken(broken: Broken, draw: Draw) -> None:
    """One broken history: of its area just this check is violated, at the same place by whatever name."""
    tape, name = draw(broken.histories), broken.name
    assert verdict(tape, name).status != "violated"
    result = caught(tape, name, broken.breaking(tape, draw))
    evidence = tape.evidence()
    assert judge(evidence, CHECKS[name]) == result
    area = names_of(CHECKS[name].judge.__module__.rpartition(".")[2])
    others = {each for each in area if each != name and judge(evidence, CHECKS[each]).violations}
    assert others <= broken.also, f"{name}: seen by {sorted(others - broken.also)} too"
    told = one_of(draw, [renamed, later, beside])
    again = verdict(told(tape), name)
    assert len(again.violations) == len(result.violations)
    assert told is beside or places(again) == places(result)


def places(result: CheckResult) -> list[tuple[int | None, int | None]]:
    """Where the two witnesses of each violation stand."""
    return [(each.expected.seq, each.seen.seq) for each in result.violations]


def renamed(tape: Tape) -> Tape:
    """The same history in which sessions, clients, requests, works, attempts, keys and nonces are called otherwise."""
    sessions = sorted({x["data"]["session"] for x in tape.lines if x["data"].get("session")})
    requests = sorted({x["data"]["request_id"] for x in tape.lines if x["data"].get("request_id")})
    names = {name: f"room-{i}" for i, name in enumerate(sessions)} | {name: f"ask-{i}" for i, name in enumerate(requests)}
    names |= {"c1": "browser", "c2": "phone", "w": "job", "a": "try", "k": "idem", "t": "leg"}
    pattern = re.compile(rf"(?<![A-Za-z0-9-])({'|'.join(map(re.escape, names))})(?=[_:]|$)")

    def say(value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            return {pattern.sub(lambda m: names[m[1]], k): say(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [say(each, field) for each in value]
        if isinstance(value, str) and field not in {"text", "content", "tool", "arguments", "name", "kind"}:
            return pattern.sub(lambda m: names[m[1]], value) if field != "nonce" else value[::-1]
        return value

    return Tape(tape.case, [{**line, "data": say(line["data"])} for line in tape.lines])


def later(tape: Tape) -> Tape:
    """The same history on a machine that was started long before, with other pids."""
    lines = []
    for line in tape.lines:
        data = {**line["data"], "pid": line["data"]["pid"] + 30_000} if "pid" in line["data"] else line["data"]
        lines.append({**line, "t_ns": line["t_ns"] + 86_400 * 10**9, "data": data})
    return Tape(tape.case, lines)


def beside(tape: Tape) -> Tape:
    """The same history after the same processes have served a session that has nothing to do with it."""
    scene = Scene({"aside": replies(call("charge", cents=1), last="beside the point")})
    scene.open("aside")
    scene.send("r_aside", "aside", "aside")
    other = scene.run().tape()
    own = ("case.", "process.", "snapshot.")
    new = [x for x in other.lines if not x["kind"].startswith(own) and x["data"].get("client") != "c2"]
    new = new[: new.index(next(x for x in reversed(new) if x["kind"] == "point.reached")) + 1]
    lines = list(tape.lines)
    start = max(lines[:3], key=lambda x: x["t_ns"])
    assert start["kind"] == "process.started"
    for i, line in enumerate(new):
        data = json.loads(re.sub(r"\b(a_|call_|t_|k_call_)(?=\d)", r"\g<1>99", json.dumps(line["data"])))
        for number in ("n", "call"):
            if number in data:
                data[number] = data[number] + 9000 if isinstance(data[number], int) else data[number]
        if "nonce" in data:
            data["nonce"] = f"aside-{data['nonce']}"
        lines.append({"t_ns": start["t_ns"] + 1 + i, "kind": line["kind"], "data": data})
    view = json.loads(re.sub(r"\b(a_|call_|t_|k_call_)(?=\d)", r"\g<1>99", json.dumps(other.view("aside"))))
    for i, line in enumerate(lines):
        if line["kind"] == "snapshot.taken":
            sessions = {**line["data"]["sessions"], "aside": view}
            lines[i] = {**line, "data": {**line["data"], "sessions": sessions}}
    script = tape.case.script.model_copy(update={"replies": {**tape.case.script.replies, **scene.script}})
    return Tape(tape.case.model_copy(update={"script": script}), lines)


# What is generated -------------------------------------------------------------------------------------------------------


def one_of(draw: Draw, choices: Sequence[T]) -> T:
    return choices[draw(st.integers(0, len(choices) - 1))]


def number(draw: Draw, low: int, high: int) -> int:
    return draw(st.integers(low, high))


def spoken(draw: Draw, text: str, words: int) -> str:
    return " ".join(f"{text}{i}" for i in range(number(draw, words, words + 3)))


def tools_at(point: str, tools: Sequence[str] = SURE) -> list[str]:
    """The tools with which this point is reached: a read never comes to a service that writes."""
    return [tool for tool in tools if tool != "read" or not point.startswith("effect.")]


def answers(draw: Draw, text: str, tools: Sequence[str], steps: tuple[int, int], words: int = 1) -> tuple[Reply, ...]:
    """A script for one text: some replies with one or two calls, and a last one of some words."""
    made = []
    for step in range(number(draw, *steps)):
        calls = tuple(call(one_of(draw, tools), of=text, step=step, i=i) for i in range(number(draw, 1, 2)))
        made.append(Reply(text=one_of(draw, ["", f"now {text}"]), calls=calls))
    return (*made, Reply(text=spoken(draw, text, words)))


def send_all(draw: Draw, scene: Scene, sessions: int) -> None:
    """Open the sessions and send each scripted text, some with a reply that is lost and a second sending."""
    for i in range(sessions):
        scene.open(f"s{i + 1}")
    for i, text in enumerate(scene.script):
        outcome = one_of(draw, ["ok", "ok", "unknown"])
        for heard in (outcome, "ok") if outcome == "unknown" else (outcome,):
            scene.send(f"r{i + 1}", text, f"s{i % sessions + 1}", outcome=heard)


@st.composite
def runs(
    draw: st.DrawFn,
    at: Sequence[str] = (),
    tools: Sequence[str] = (*SURE, "mail", "note_plugin"),
    steps: tuple[int, int] = (0, 2),
    words: int = 1,
    then: Sequence[str] = (),
    again: tuple[int, int] = (0, 0),
    sessions: int = 2,
    dies: Sequence[str] = ("worker", "both"),
) -> Tape:
    """A right run. at: where its first worker dies. then, again: at which points, and how often, recovery dies as well."""
    texts = ("alpha", "beta", "gamma")[: number(draw, 1, 3)]
    point = one_of(draw, at) if at else ""
    script = {text: answers(draw, text, tools_at(point, tools), steps, words) for text in texts}
    die = {f"{point}#1": one_of(draw, dies)} if point else {}
    for n in range(number(draw, *again)):
        die[f"{one_of(draw, then)}#{n + 1}"] = one_of(draw, dies)
    scene = Scene(script, die=die)
    send_all(draw, scene, number(draw, 1, sessions))
    return scene.run().tape()


def recovered(tools: Sequence[str] = (*SURE, "mail"), again: tuple[int, int] = (0, 2), sessions: int = 2) -> Histories:
    """Right runs whose first worker dies in a call or before a reply, and whose recoveries may die as well."""
    return runs(ANYWHERE, tools, (1, 2), then=RECOVERY, again=again, sessions=sessions)


# What breakings have in common -------------------------------------------------------------------------------------------


def reached(t: Tape, point: str, nth: int = 0, **match: Any) -> Line:
    return t.get("point.reached", nth, point=point, **match)


def views(t: Tape, session: str = "s1") -> list[dict[str, Any]]:
    """What every snapshot of the end says of a session, to be changed alike: a target that keeps to its wrong word."""
    return [t.view(session, when) for when in ("final", "again")]


def heard_of(t: Tape, request: str) -> Line:
    """Where a client first heard that this input is accepted."""
    calls = [x["data"]["call"] for x in t.all("client.invoked", op="send", request_id=request)]
    return next(x for x in t.all("client.heard", outcome="ok") if x["data"]["call"] in calls)


def birth(t: Tape, line: Line) -> Line:
    """Where the process began that reached this line."""
    return t.get("process.started", role=line["data"]["role"], life=line["data"]["life"])


def ask(t: Tape, after: Line, text: str, n: int = 700, **data: Any) -> Line:
    """A request to the model for this text, right after a line, that nobody's script asks for."""
    body = {"messages": [{"role": "user", "content": text}]}
    return t.put("provider.request", after, **{"n": n, "attempt": f"a_{n}", "body": body, **data})


def taken_out(t: Tape, *kinds: str) -> Tape:
    """The history without any record of these kinds."""
    t.drop(*(line for kind in kinds for line in t.all(kind)))
    return t


def evidence_of(t: Tape, lines: Sequence[Line]) -> Evidence:
    return Tape(t.case, list(lines)).evidence()
