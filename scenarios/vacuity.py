"""Owns the question whether a fault did anything: a case's evidence, what its plan was to leave there, and the comparison
of the two, with the same scenario fault-free, and with the same play disarmed.

A harness whose kill does nothing stays green: everything goes on as if nobody had died, and every promise is kept. So a
cell counts only if its history differs where its plan acted. What is counted is called a *place*, such as `kill worker` or
`lost provider` (all of them are in `reports.words.place_in_words`). From each operation of a plan follows what it leaves:

- by itself, after its address was reached: a kill one proved kill *there* and one copy of the store, a start one life
  begun, a freeze a process that the kernel calls stopped, a moved clock its offset as read back, a user's act a call that
  was made and heard, an answer of the world a request of which the world's own log says that it ended so;
- beside the fault-free play of the same scenario, and beside the disarmed play of the same fault: so much more in the same
  places. What the scenario's own plan leaves is in the fault-free play too, and is not due a second time.

Of each the history shows what the other side of the operation wrote, where there is one: the keeper's wait status, the file
that a target reads its clock from, the log of the world. A check that says that it depends on a kill is looked at the same
way: where nothing died it must have found less to examine.

What did not differ makes a cell `inconclusive` (`judge`, for what its plan says; `compared`, for what other cells say). It
outweighs `held`, but neither a violation nor a death that was not ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from faults import plan as ops
from faults.catalogue import point
from reports import words
from reports.model import Cell, Evidence, Status, worst
from scenarios import checks
from scenarios.case import Case
from scenarios.history import History, Record

FAULT_FREE = "the same scenario fault-free"
DISARMED = "the same play disarmed"

_VACUOUS = "vacuous: "
_ANSWERS = frozenset({"cut", "drop", "error", "repeat"})
_OWN_LOOKS = frozenset({"final", "again"})  # these the harness takes by itself, in every case
_NOT_HEARD = frozenset({503})  # the app was on its way out and looked at nothing

# What of a fault-free or disarmed play says that something might have been recovered from there after all.
_STIRRED = ("kill ", "end ", "freeze ", "act pause", "act stop", "act quit", "clock ")

# An address is let go in the end whether the plan says so or not, so this is only looked for at the address itself.
_ONLY_THERE = frozenset({"go"})


@dataclass(frozen=True, slots=True)
class Due:
    """So much of a place must be there because of this operation of the plan."""

    place: str
    amount: float
    op: ops.Op


@dataclass(frozen=True, slots=True)
class Seen:
    """So much of a place, at this record; `at` is the address for which it was done, where the record names one."""

    seq: int
    place: str
    amount: float = 1
    at: str | None = None


# What a plan leaves --------------------------------------------------------------------------------------------------


@dataclass
class _Address:
    """Goes through the operations of one address and notes what each must leave. `down`: the roles that these operations
    have ended and not started again. `quitting`: a user has quit, and every role is on its way out by itself."""

    own: str
    down: set[str] = field(default_factory=set)
    quitting: bool = False
    broken: bool = False
    due: list[Due] = field(default_factory=list)

    def leaves(self, op: ops.Op) -> Iterator[tuple[str, float]]:
        """What this operation leaves, as place and amount."""
        match op:
            case ops.Kill():
                yield from self._kill(self._role(op.role))
            case ops.Terminate(grace=False):
                yield from self._kill(self._role(op.role))
            case ops.Terminate():
                role = self._role(op.role)
                if role not in self.down:  # it may be told to end after it has; a kill may not
                    yield f"end {role}", 1
                self.down.add(role)
            case ops.Start():
                if self.quitting and not op.extra and op.role not in self.down:
                    yield f"end {op.role}", 1
                self.down.discard(op.role)
                yield f"{'extra' if op.extra else 'life'} {op.role}", 1
            case ops.Freeze():
                yield f"{op.do} {self._role(op.role)}", 1
            case ops.Release():
                yield "go", 1
            case ops.Raise():
                yield "raise", 1
            case ops.Answer():
                yield op.how, 1
            case ops.MoveClock():
                yield from _moved(op.by_s)
            case ops.Reboot():
                yield "reboot", 1
            case ops.User():
                yield from self._user(op.step)
            case ops.BreakStore():
                self.broken = op.do == "break_store"
                yield op.do, 1
            case ops.AwaitRefusal():
                yield f"refusal {op.role}", 1
            case ops.LockStore():
                yield "lock_store", 1
                yield "go", 1
            case ops.Settle() | ops.Await():
                pass  # a wait; whether anything came to rest is a check's question

    def _role(self, role: str) -> str:
        return self.own if role == "self" else role

    def _kill(self, role: str) -> Iterator[tuple[str, float]]:
        self.down.add(role)
        yield f"kill {role}", 1
        if not self.broken:
            yield "copy", 1

    def _user(self, step: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
        match step["do"]:
            case "clock":
                yield from _moved(step["by_s"])
            case "bounce":
                yield f"end {step['role']}", 1
                yield f"life {step['role']}", 1
            case "look":
                yield f"look {step['name']}", 1
            case "watch" | "unwatch":
                yield f"{step['do']} {step.get('session', 's1')}", 1
            case "settle" | "file":
                pass  # a wait; and a file is put down before anything starts
            case _:
                self.quitting = self.quitting or step["do"] == "quit"
                yield _act(step["do"], {"session": "s1", **step}), 1


def _moved(by_s: float) -> Iterator[tuple[str, float]]:
    if by_s:
        yield ("clock forward", by_s) if by_s > 0 else ("clock back", -by_s)


def _act(op: str, about: Mapping[str, Any]) -> str:
    """The place of a user's act, from a step as well as from the record of its call."""
    request = about.get("request") or about.get("request_id")
    what = {"control": about.get("action"), "send": f"send {request}"}.get(op, op)
    return f"act {what}" if op == "quit" else f"act {what} {about.get('session')}"


def due(fault: ops.Fault) -> list[Due]:
    """What the operations of one address must leave in a history after it was reached."""
    role = point(fault.at.point).role
    address = _Address("worker" if role == "world" else role)
    return [Due(place, amount, op) for op in fault.ops for place, amount in address.leaves(op)]


def _over_all(fault: ops.Fault, dues: Iterable[Due]) -> Iterator[tuple[str, float]]:
    """What one address adds to the whole case, where it is compared with another case."""
    for each in dues:
        if each.place in _ANSWERS:
            yield _world_place(fault.at.point, each.place), each.amount
        elif each.place not in _ONLY_THERE:
            yield each.place, each.amount


def _world_place(point_name: str, how: str) -> str:
    """The place of an answer: how the request ended, or that a piece of its reply was repeated."""
    kind = point_name.partition(".")[0]
    if how == "repeat":
        return f"repeated {kind}"
    begun = point_name.startswith("provider.reply")  # the status is out; the error is an event, and the reply ends there
    return f"failed {kind}" if how == "error" and not begun else f"lost {kind}"


# What a history shows ------------------------------------------------------------------------------------------------


def _shown(history: History) -> Iterator[Seen]:
    yield from _processes(history)
    yield from _surroundings(history)
    yield from _users(history)
    yield from _world(history)
    for record in history.of("point.released"):
        if record["answer"] in ("go", "raise"):
            yield Seen(record.seq, record["answer"], at=_address(record))


def _address(record: Record) -> str:
    return f"{record.get('point')}#{record.get('ordinal')}"


def _processes(history: History) -> Iterator[Seen]:
    settled = history.of("case.settled")
    over = settled[-1].seq if settled else len(history.records)
    for record in history.kills:
        if record["proved"]:
            yield Seen(record.seq, f"kill {record['role']}", at=_address(record))
    for record in history.of("process.started"):
        yield Seen(record.seq, f"life {record['role']}")
    for record in history.of("process.exited"):
        if record.seq < over:
            yield Seen(record.seq, f"end {record['role']}")
    for kind in ("freeze", "thaw"):
        for record in history.of(kind):
            if record.get("stopped") is (kind == "freeze"):
                yield Seen(record.seq, f"{kind} {record['role']}")
    for record in history.of("process.refused"):
        if record["said"] or record["exited"]:
            yield Seen(record.seq, f"refusal {record['role']}")


def _surroundings(history: History) -> Iterator[Seen]:
    offset = 0.0
    for record in history.of("clock.moved"):
        for place, amount in _moved(record["offset_s"] - offset):
            yield Seen(record.seq, place, amount)
        offset = record["offset_s"]
    for record in history.of("host.rebooted"):
        if record.get("boot") != record.get("before"):
            yield Seen(record.seq, "reboot")
    for record in history.of("store.at_death"):
        if record["files"]:
            yield Seen(record.seq, "copy", at=_address(record))
    for kind, place in (("store.broken", "break_store"), ("store.mended", "mend_store"), ("store.locked", "lock_store")):
        for record in history.of(kind):
            if record.get("databases", 1):
                yield Seen(record.seq, place)


def _users(history: History) -> Iterator[Seen]:
    # A program that reads its input between two turns accepts one long after its user has stopped waiting for the answer.
    late = {record["data"].get("accepted") for record in history.of("client.event") if record["type"] == "accepted"}
    for record in history.of("client.invoked"):
        if record["op"] == "snapshot":
            continue
        heard = history.heard.get(record["call"])
        if (heard is not None and _answered(heard)) or (record["op"] == "send" and record.get("request_id") in late):
            yield Seen(record.seq, _act(record["op"], record.data))
    closed = history.of("case.closed")
    over = closed[0].seq if closed else len(history.records)
    for kind, place in (("client.connected", "watch"), ("client.disconnected", "unwatch")):
        for record in history.of(kind):
            if record.seq < over:
                yield Seen(record.seq, f"{place} {record['session']}")
    for record in history.of("snapshot.taken"):
        if record["when"] not in _OWN_LOOKS:
            yield Seen(record.seq, f"look {record['when']}")


def _answered(heard: Record) -> bool:
    """Whether the user got an answer for good, be it yes or no."""
    status = heard.get("status")
    return heard["outcome"] == "ok" or (heard["outcome"] == "failed" and status is not None and status not in _NOT_HEARD)


def _world(history: History) -> Iterator[Seen]:
    for kind, asked in (("provider", "provider.request"), ("effect", "effect.received")):
        answered = {record["n"]: record for record in history.of(f"{kind}.answered")}
        for record in history.of(asked):
            end = answered.get(record["n"])
            if end is None or end["status"] >= 400:
                yield Seen(record.seq, f"{'lost' if end is None else 'failed'} {kind}")
    for record in history.of("provider.repeated"):
        yield Seen(record.seq, "repeated provider")


def _ended_so(history: History, fired: Record, how: str) -> bool:
    """Whether the world's own log says that the request it held at this address ended as it was told to."""
    reached = next((each for each in history.of("point.reached") if each["nonce"] == fired["nonce"]), None)
    n = (reached.get("detail") or {}).get("n") if reached else None
    kind = fired["point"].partition(".")[0]
    if n is None:
        return False

    def of(name: str) -> list[Record]:
        return [each for each in history.of(f"{kind}.{name}") if each["n"] == n]

    if how == "repeat":
        return bool(of("repeated"))
    answered = of("answered")
    if how == "error" and not fired["point"].startswith("provider.reply"):
        return any(each["status"] >= 400 for each in answered)
    carried_out = any(each["complete"] for each in of("billed")) if kind == "provider" else bool(of("applied"))
    if how == "drop" and kind == "provider" and not carried_out:
        return False
    if how == "cut" and (kind == "provider" or fired["point"].endswith("received")) and carried_out:
        return False
    return not answered


# Evidence ------------------------------------------------------------------------------------------------------------


def evidence(case: Case, history: History) -> Evidence:
    """What the history shows, what the plan was to leave there as far as its addresses were reached, and what of that is
    not there."""
    shown = list(_shown(history))
    planned: dict[str, int | float] = {}
    missing: list[str] = []
    if not case.disarmed:
        fired = {_address(record): record for record in history.of("point.fired")}
        for fault in case.plan:
            if (record := fired.get(str(fault.at))) is not None:
                dues = due(fault)
                for place, amount in _over_all(fault, dues):
                    planned[place] = planned.get(place, 0) + amount
                missing += _missing(history, record, str(fault.at), dues, shown)
        if case.fault != "none" and not any(due(fault) for fault in case.plan):
            missing.append("the plan holds nothing of which a history could show that it was done")
    return Evidence(seen=_sums(shown), planned=dict(sorted(planned.items())), missing=missing)


def _sums(shown: Iterable[Seen]) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for each in shown:
        if each.place not in _ONLY_THERE:
            found[each.place] = found.get(each.place, 0) + each.amount
    return dict(sorted(found.items()))


def _missing(history: History, fired: Record, address: str, dues: Iterable[Due], shown: Collection[Seen]) -> Iterator[str]:
    """What was due after this address was reached and is not there, one line for each place."""
    wanted: dict[str, list[Due]] = {}
    for each in dues:
        wanted.setdefault(_as_seen(each.place), []).append(each)
    for place, ordered in wanted.items():
        amount = sum(each.amount for each in ordered)
        found = _found(history, fired, address, place, shown)
        if found < amount:
            said = words.op_in_words(ordered[0].op.model_dump(mode="json"))
            yield f"at {address} the plan is: {said}; {_told(place, found)} of {words.amount(amount)}"


def _found(history: History, fired: Record, address: str, place: str, shown: Collection[Seen]) -> float:
    if place in _ANSWERS:
        return float(_ended_so(history, fired, place))
    return sum(
        each.amount
        for each in shown
        if each.place == place and (each.at == address if each.at is not None else each.seq > fired.seq)
    )


def _told(place: str, amount: float) -> str:
    return f"{words.place_in_words(place)}: {words.amount(amount)}"


def _as_seen(place: str) -> str:
    """A life begun beside another one is seen as a life."""
    return place.replace("extra ", "life ")


# Comparison ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Partner:
    """A cell to compare with: what it is, its evidence, and by check how many facts were examined in it by those that say
    that they depend on a kill, if nothing happened there from which anything could have recovered."""

    name: str
    id: str
    evidence: Evidence
    examined: Mapping[str, int]

    @classmethod
    def of(cls, cell: Cell, name: str) -> _Partner | None:
        """The cell as a partner; None if it shows nothing."""
        if cell.canary or cell.evidence is None or cell.status == "void":
            return None
        quiet = not any(place.startswith(_STIRRED) for place in cell.evidence.seen)
        dependent = {check.name for check in checks.CHECKS.values() if check.depends_on_kill} if quiet else ()
        examined = {each.check: each.examined for each in cell.checks if each.examined and each.check in dependent}
        return cls(name, cell.id, cell.evidence, examined)


def compared(cells: Iterable[Cell]) -> list[Cell]:
    """The cells of a run, each compared with the fault-free play of its scenario and the disarmed play of its fault.

    A cell whose plan left nothing to compare comes back as it is, and so does a canary. One whose partner is not there says
    so in `not_compared`.
    """
    cells = list(cells)
    bare: dict[str, _Partner] = {}
    disarmed: dict[tuple[str, str], _Partner] = {}
    for cell in cells:
        if cell.disarmed and (partner := _Partner.of(cell, DISARMED)):
            disarmed.setdefault((cell.scenario, cell.fault), partner)
            disarmed.setdefault((cell.scenario, "none"), partner)  # whatever the fault, no plan at all is carried out there
        elif cell.fault == "none" and (partner := _Partner.of(cell, FAULT_FREE)):
            bare.setdefault(cell.scenario, partner)
    return [_compared(cell, bare.get(cell.scenario), disarmed.get((cell.scenario, cell.fault))) for cell in cells]


def _compared(cell: Cell, bare: _Partner | None, disarmed: _Partner | None) -> Cell:
    if cell.canary or cell.disarmed or cell.evidence is None or not cell.evidence.planned:
        return cell
    wanted = {DISARMED: disarmed} if cell.fault == "none" else {FAULT_FREE: bare, DISARMED: disarmed}
    partners = [partner for partner in wanted.values() if partner is not None]
    found = list(cell.evidence.missing)
    for partner in partners:
        found += _no_more(cell.evidence, partner)
        found += _blind(cell, partner)
    said = {
        "compared": [partner.id for partner in partners],
        "not_compared": [name for name, partner in wanted.items() if partner is None],
        "vacuous": found,
    }
    return cell.model_copy(update=said | _worse(cell, found))


def _worse(cell: Cell, found: list[str]) -> dict[str, Any]:
    """What becomes of the verdict: `inconclusive`, unless it is as bad or worse for another reason."""
    status: Status = worst((cell.status, "inconclusive"))
    if found and (status != cell.status or (cell.why or "").startswith(_VACUOUS)):
        return {"status": status, "why": why(found)}
    return {}


def why(found: list[str]) -> str:
    """What these findings say in one line."""
    return f"{_VACUOUS}{found[0]}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")


def _no_more(mine: Evidence, partner: _Partner) -> Iterator[str]:
    """The places where this cell does not show as much more as its plan leaves."""
    for place in mine.planned:
        amount = _due_beside(place, mine, partner.evidence)
        here, there = (each.seen.get(_as_seen(place), 0) for each in (mine, partner.evidence))
        if here - there < amount:
            yield (
                f"{_told(_as_seen(place), here)}, and {words.amount(there)} in {partner.name}"
                f" ({partner.id}); {words.amount(amount)} more were due"
            )


def _due_beside(place: str, mine: Evidence, other: Evidence) -> float:
    """How much more of a place is due than in the other play. A life begins only where one has ended, and two parts of a
    plan may start the same one; so no more of them are due than ended."""

    def planned(name: str) -> float:
        return mine.planned.get(name, 0) - other.planned.get(name, 0)

    what, _, role = place.partition(" ")
    if what not in ("life", "extra"):
        return planned(place)
    ended = mine.seen.get(f"end {role}", 0) - other.seen.get(f"end {role}", 0)
    return max(0.0, min(planned(f"life {role}"), ended)) + planned(f"extra {role}")


def _blind(cell: Cell, partner: _Partner) -> Iterator[str]:
    """The checks that say that they depend on a kill and found no less to examine where nothing had died."""
    if not partner.examined:
        return
    here = {result.check: result.examined for result in cell.checks}
    for check, examined in partner.examined.items():
        if examined >= here.get(check, 0):
            yield (
                f"the check {check} says that it depends on a kill, and examined {examined} facts in {partner.name}"
                f" ({partner.id}), no fewer than the {here.get(check, 0)} here"
            )
