"""Owns the wording of plain data: a record of the history, a plan, a step, each in one line of English.

Pages, bug reports and summaries all say the same thing the same way because they ask here. Nothing secret gets through:
values under names of credentials are replaced before anything is shown.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.files import safe_name
from reports.model import Cell, Comparisons

HIDDEN = "[hidden]"
_SECRET = re.compile(r"(^|[-_])(authorization|api[-_]?key|token|secret|password|cookie|set-cookie)$", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{4,}|\bsk-[a-z0-9_-]{8,}")

# What neither XML 1.0 nor HTML has a way to carry: control characters, lone surrogates, two non-characters.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")

Data = Mapping[str, Any]


def clean(text: object) -> str:
    """`text` with each character that a document may not hold replaced by the sign for such."""
    return _FORBIDDEN.sub("\ufffd", str(text))


def scrub(value: Any) -> Any:
    """`value` with everything that stands under the name of a credential, or looks like one, replaced."""
    if isinstance(value, Mapping):
        return {key: HIDDEN if _SECRET.search(str(key)) and item else scrub(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub(item) for item in value]
    return _BEARER.sub(HIDDEN, value) if isinstance(value, str) else value


def short(text: object, length_max: int = 80) -> str:
    """`text` on one line, cut to `length_max` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= length_max else line[: length_max - 1] + "…"


def plain_json(value: Any, length_max: int) -> str:
    """`value` as JSON without secrets, cut to `length_max` characters, saying how much was cut."""
    text = json.dumps(scrub(value), ensure_ascii=False, default=str, separators=(", ", ": "))
    return text if len(text) <= length_max else f"{text[:length_max]}… ({len(text) - length_max} more characters)"


def ordinal(number: int) -> str:
    """1 as `1st`, 12 as `12th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def address(cell: Cell) -> str:
    """Where a cell breaks, as `point#ordinal`."""
    return f"{cell.point}#{cell.ordinal or 1}" if cell.point else "no breakpoint"


def replay_command(cell: Cell, folder: Path | None = None) -> str:
    """The command that plays this cell again, with the path as seen from where the run was started."""
    path = Path(cell.case or f"cases/{safe_name(cell.id)}.json")
    if folder is not None:
        path = folder / path
        if path.is_absolute() and path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
    defect = f" --mutant {shlex.quote(cell.mutant)}" if cell.mutant else ""
    return f".venv/bin/killpoint replay {shlex.quote(str(path))}{defect}"


# Records -------------------------------------------------------------------------------------------------------------


def _who(data: Data) -> str:
    return f"{data.get('role', 'process')}.{data.get('life', '?')}"


def _kill(data: Data) -> str:
    at = f" at {data['point']}#{data.get('ordinal') or 1}" if data.get("point") else ""
    proof = "proved" if data.get("proved") else f"not proved: {data.get('why') or 'no reason given'}"
    return f"{_who(data)} (pid {data.get('pid')}) killed by {data.get('signal')}{at}, {proof}"


def _exited(data: Data) -> str:
    how = f"by {data['signal']}" if data.get("signal") else f"with exit code {data.get('exit_code')}"
    return f"{_who(data)} (pid {data.get('pid')}) ended {how}"


def _heard(data: Data) -> str:
    outcome = data.get("outcome")
    if outcome == "unknown":
        return f"call {data.get('call')}: no reply, so the outcome is unknown to the client"
    return f"call {data.get('call')}: {outcome}, status {data.get('status')}"


def _invoked(data: Data) -> str:
    what = " ".join(str(data[name]) for name in ("session", "request_id", "action") if data.get(name))
    text = f" “{short(data['text'], 50)}”" if data.get("text") else ""
    return f"call {data.get('call')}: {data.get('op')} {what}{text}".rstrip()


def _applied(data: Data) -> str:
    twice = f", a duplicate of write {data['duplicate_of']}" if data.get("duplicate_of") is not None else ""
    return f"write {data.get('n')} applied by the {data.get('receiver')} receiver{twice}"


def _billed(data: Data) -> str:
    whole = "" if data.get("complete", True) else ", reply cut off"
    return f"request {data.get('n')} billed: {data.get('input_tokens')} in, {data.get('output_tokens')} out{whole}"


def _at_death(data: Data) -> str:
    files = data.get("files") or {}
    bad = [name for name, state in files.items() if not (isinstance(state, Mapping) and state.get("ok"))]
    return "store copied at the moment of death: " + (f"not whole: {', '.join(map(str, bad))}" if bad else "whole")


_SAY: dict[str, Callable[[Data], str]] = {
    "case.opened": lambda d: f"case opened against {d.get('target')}",
    "case.settled": lambda d: "at rest" if d.get("settled") else f"not at rest: {d.get('why')}",
    "case.closed": lambda _: "case closed",
    "process.started": lambda d: f"{_who(d)} started, pid {d.get('pid')}{' (cold)' if d.get('cold') else ''}",
    "process.exited": _exited,
    "point.reached": lambda d: f"{d.get('point')}#{d.get('ordinal')} reached by {_who(d)}",
    "point.fired": lambda d: f"{d.get('point')}#{d.get('ordinal')}: the plan is carried out",
    "point.released": lambda d: f"{d.get('point')}#{d.get('ordinal')}: let go",
    "point.awaited": lambda d: (
        f"{d.get('point')}#{d.get('ordinal')} waited for, and {'reached' if d.get('came') else 'not reached'}"
    ),
    "process.stayed": lambda d: f"{_who(d)} was told to end and is still there",
    "process.refused": lambda d: f"{_who(d)} refused to start: {d.get('said')}",
    "rest.missed": lambda d: f"not at rest within {d.get('within_s_max')} s, waited for by {d.get('by')}",
    "client.gave_up": lambda d: f"{d.get('op')} given up: {d.get('why')}",
    "kill": _kill,
    "terminate": lambda d: f"{_who(d)} told to end (SIGTERM)",
    "freeze": lambda d: f"{_who(d)} frozen (SIGSTOP)",
    "thaw": lambda d: f"{_who(d)} thawed (SIGCONT)",
    "client.invoked": _invoked,
    "client.heard": _heard,
    "client.event": lambda d: f"event {d.get('event')} {d.get('type') or ''} of {d.get('session')}",
    "client.connected": lambda d: f"{d.get('client')} watches {d.get('session')} after event {d.get('after')}",
    "client.disconnected": lambda d: f"{d.get('client')} gone from {d.get('session')}",
    "provider.request": lambda d: f"request {d.get('n')} received, attempt {d.get('attempt')}",
    "provider.chunk": lambda d: f"request {d.get('n')}: piece {d.get('i')} sent",
    "provider.repeated": lambda d: f"request {d.get('n')}: piece {d.get('i')} sent again",
    "provider.billed": _billed,
    "provider.answered": lambda d: f"request {d.get('n')} answered, status {d.get('status')}",
    "provider.refused": lambda d: f"request {d.get('n')} refused: {d.get('why')}",
    "effect.received": lambda d: f"write {d.get('n')} received by the {d.get('receiver')} receiver",
    "effect.applied": _applied,
    "effect.answered": lambda d: f"write {d.get('n')} answered, status {d.get('status')}",
    "effect.queried": lambda d: f"state of {d.get('key')} asked for: {'found' if d.get('found') else 'not found'}",
    "clock.moved": lambda d: f"clock moved by {d.get('by_s')} s",
    "host.rebooted": lambda _: "the host got a new boot identity",
    "store.at_death": _at_death,
    "store.digest": lambda d: f"digest of the store taken ({d.get('when')})",
    "store.broken": lambda d: f"store made unreadable ({d.get('how')})",
    "store.mended": lambda _: "store put back",
    "snapshot.taken": lambda d: f"snapshot “{d.get('when')}” taken",
}


def say(kind: str, data: Data) -> str:
    """One record in words. A kind that is not known here is shown as its data."""
    tell = _SAY.get(kind)
    try:
        return short(scrub(tell(data)), 200) if tell else plain_json(data, 120)
    except (TypeError, ValueError, AttributeError):
        return plain_json(data, 120)  # a record of another shape than agreed is still shown


# Plans and steps -----------------------------------------------------------------------------------------------------

_THE = {"self": "the process that stands there", "app": "the app", "worker": "the worker"}


def _the(op: Data) -> str:
    role = str(op.get("role", "self"))
    return _THE.get(role, role)


_OPS: dict[str, Callable[[Data], str]] = {
    "kill": lambda o: f"kill {_the(o)} (SIGKILL)",
    "terminate": lambda o: (
        f"ask {_the(o)} to end (SIGTERM)" + ("" if o.get("grace", True) else " and kill it after its grace period")
    ),
    "start": lambda o: (
        f"start {'another' if o.get('extra') else 'a new life of the'} {o.get('role')}"
        + (" beside the running one" if o.get("extra") else "")
    ),
    "freeze": lambda o: f"freeze {_the(o)} (SIGSTOP)",
    "thaw": lambda o: f"thaw {_the(o)} (SIGCONT)",
    "release": lambda _: "let the process at the point go on",
    "raise": lambda o: f"let it go on with the error {o.get('errno')}",
    "answer": lambda o: {
        "cut": "cut the connection",
        "drop": "carry the request out and never answer",
        "error": f"answer with status {o.get('status')}",
        "repeat": "send the piece twice",
    }.get(str(o.get("how")), f"answer: {o.get('how')}"),
    "clock": lambda o: f"move the clock by {o.get('by_s')} s",
    "reboot": lambda _: "give the host a new boot identity",
    "user": lambda o: "a user acts: " + step_in_words(o.get("step") or {}),
    "break_store": lambda _: "make the stored databases unreadable",
    "mend_store": lambda _: "put the stored databases back",
    "settle": lambda _: "wait until everything is at rest",
    "await_refusal": lambda o: f"wait until the {o.get('role', 'worker')} has ended or refused to go on",
}

_STEPS: dict[str, Callable[[Data], str]] = {
    "open": lambda s: f"open session {s.get('session')}",
    "send": lambda s: f"send “{short(s.get('text', ''), 60)}” to {s.get('session')} as {s.get('request')}",
    "control": lambda s: f"{s.get('action')} {s.get('session')}",
    "quit": lambda _: "quit and stop everything",
    "watch": lambda s: f"watch the events of {s.get('session')}",
    "unwatch": lambda s: f"go away from {s.get('session')}",
    "look": lambda s: f"take the snapshot “{s.get('name')}”",
    "settle": lambda _: "wait until everything is at rest",
    "clock": lambda s: f"move the clock by {s.get('by_s')} s",
    "bounce": lambda s: f"restart the {s.get('role')}",
    "file": lambda s: f"put the file {s.get('path')} into the workspace",
}


def _in_words(table: Mapping[str, Callable[[Data], str]], item: Data) -> str:
    tell = table.get(str(item.get("do")))
    try:
        return scrub(tell(item)) if tell else plain_json(item, 160)
    except (TypeError, ValueError, AttributeError):
        return plain_json(item, 160)


def op_in_words(op: Data) -> str:
    """One operation of a plan."""
    return _in_words(_OPS, op)


def step_in_words(step: Data) -> str:
    """One step of a workload."""
    return _in_words(_STEPS, step)


# What a fault leaves -------------------------------------------------------------------------------------------------

_PLACES = {
    "kill": "proved kills of the {}",
    "life": "lives begun of the {}",
    "extra": "lives of the {} begun beside another",
    "end": "ends of the {}",
    "freeze": "freezes of the {}, stopped by the kernel's word",
    "thaw": "thaws of the {}",
    "refusal": "refusals of the {} to go on",
    "copy": "copies of the store at a death",
    "clock": "seconds of the clock, {}",
    "reboot": "new boot identities",
    "break_store": "stores made unreadable",
    "lock_store": "stores locked from outside",
    "mend_store": "stores put back",
    "go": "processes let go there",
    "raise": "errors raised there",
    "act": "answered calls of a user to {}",
    "watch": "clients that came to {}",
    "unwatch": "clients that left {}",
    "look": "snapshots “{}”",
    "cut": "requests there that the world cut off",
    "drop": "requests there that the world carried out and never answered",
    "error": "requests there that the world answered with an error",
    "repeat": "pieces there that the world sent twice",
    "lost": "requests that the {} never answered",
    "failed": "requests that the {} answered with an error",
    "repeated": "pieces that the {} sent twice",
}
_WORLD = {"provider": "model provider", "effect": "effect service"}


def place_in_words(place: str) -> str:
    """What is counted at a place of a cell's evidence, such as `kill worker`."""
    what, _, whom = place.partition(" ")
    return _PLACES[what].format(_WORLD.get(whom, whom)) if what in _PLACES else place


def amount(value: float) -> str:
    """How much of a place: whole where it is whole."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def comparisons_in_words(of: Comparisons) -> str:
    """What was found when the cells of a run were compared with each other, in a sentence or two."""
    if not of.planned:
        return "No cell had a fault of which anything could be missed."
    told = (
        f"Of {of.planned} cells with a fault, each was held against what its plan must leave behind, and {of.compared} also"
        " against the same scenario fault-free and the same play disarmed"
    )
    told += f" ({of.lacking} lacked one of the two)" if of.lacking else ""
    return (
        f"{told}. {f'{of.vacuous} did not differ where they should.' if of.vacuous else 'All differed where they should.'}"
    )


def plan_in_words(case: Data) -> list[tuple[str, list[str]]]:
    """The plan of a case: for each address, when it strikes and what is then done, in order."""
    return [
        (_when(fault.get("at")), [op_in_words(op) for op in _list(fault.get("ops"))]) for fault in _list(case.get("plan"))
    ]


def _when(at: Any) -> str:
    """An address in words, whether it is written `point#ordinal` or as its two parts."""
    if isinstance(at, Mapping):
        at = f"{at.get('point')}#{at.get('ordinal', 1)}"
    name, _, number = str(at).partition("#")
    return f"When {name} is reached for the {ordinal(int(number) if number.isdecimal() else 1)} time"


def steps_in_words(case: Data) -> list[str]:
    """What the users of a case do, in order."""
    return [step_in_words(step) for step in _list(case.get("steps"))]


def _list(value: Any) -> Sequence[Data]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, (list, tuple)) else []
