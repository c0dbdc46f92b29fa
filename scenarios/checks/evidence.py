"""Owns the views over a history that checks share: inputs, controls, requests, effects, lives, claims.

Everything is derived once and kept. What belongs to whom is read from the client's and the world's records first; the
target's own word is used only to tell apart what those leave open, and what stays open is None and is not judged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

from faults.catalogue import Point, UnknownPoint, point
from scenarios.case import Call, Case, Reply
from scenarios.history import History, Record
from scenarios.snapshot import EffectView, ItemView, SessionView, Snapshot, WorkView
from scenarios.world.model import UNSCRIPTED, active_input, step_index
from scenarios.world.strict import content_text

# Which receiver of the world a tool of the scripted model writes to. A tool that is not listed may write to any.
RECEIVERS = {"charge": "keyed", "mail": "plain", "publish": "plain", "note_plugin": "plain", "order": "ambiguous"}

# Tools without an effect in the world's log: reads, and writes inside the workspace.
LOCAL_TOOLS = frozenset({"read", "grep", "glob", "list", "write"})

# Points that stand right behind a write which only the owner of the work may make.
OWNERS_WRITES = frozenset(
    {f"recovery.{step}" for step in ("repair.written", "decision.stored", "admitted", "intent.consumed")}
    | {f"tool.{step}.stored" for step in ("intent", "dispatch", "result")}
    | {"turn.begun", "attempt.stored", "stream.text.committed", "reply.stored", "turn.committed", "work.released"}
)
CLAIMS = frozenset({"work.claimed", "recovery.ownership.taken"})
GIVEN_BACK = frozenset({"work.released", "turn.committed", "control.applied", "exit.checkpoint.stored"})

Process = tuple[str, int]
WORLD: Process = ("world", 0)
content = content_text
Each = TypeVar("Each")
Key = TypeVar("Key")


def canonical(value: Any) -> str:
    """The one text of a JSON value, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, eq=False)
class Input:
    """One input that a client sent, by its request id: every sending, and the first time `accepted` was heard."""

    session: str
    request_id: str
    text: str
    sends: tuple[Record, ...]
    answers: tuple[Record, ...]

    @property
    def invoked(self) -> Record:
        """Its first sending."""
        return self.sends[0]

    @property
    def accepted(self) -> Record | None:
        """The record in which a client first heard that it is accepted, or None while that is unknown or refused."""
        return self.answers[0] if self.answers else None

    @property
    def work_id(self) -> str | None:
        """The work that the client was told, if it was told one."""
        bodies = (_body(answer) for answer in self.answers)
        return next((str(body["work_id"]) for body in bodies if body.get("work_id")), None)


@dataclass(frozen=True, eq=False)
class Command:
    """One pause, resume, stop or quit that a user gave. `session` is None for a quit, which speaks of all."""

    action: str
    session: str | None
    invoked: Record
    heard: Record | None

    @property
    def acknowledged(self) -> Record | None:
        """The record in which the user heard that it holds, or None."""
        return self.heard if self.heard is not None and self.heard["outcome"] == "ok" else None

    @property
    def version(self) -> int | None:
        """The control version that the user heard."""
        found = _body(self.heard).get("control_version") if self.heard else None
        return found if isinstance(found, int) else None

    def concerns(self, session: str) -> bool:
        """Whether it speaks of this session."""
        return self.session is None or self.session == session

    def may_follow(self, other: Command) -> bool:
        """Whether it may have been carried out after `other`: by the control versions, where both were heard; else if it
        was not over when the other was asked for."""
        if self.version is not None and other.version is not None:
            return self.version > other.version
        return self.heard is None or self.heard.seq > other.invoked.seq


@dataclass(frozen=True, eq=False)
class Hold:
    """The time in which a user's pause, stop or quit is in force, from its acknowledgement until something that could
    have ended it was asked for."""

    command: Command
    since: Record
    until: Record | None

    def covers(self, seq: int) -> bool:
        """Whether the place `seq` of the history lies inside."""
        return self.since.seq < seq and (self.until is None or seq < self.until.seq)


@dataclass(frozen=True, eq=False)
class Request:
    """One request that the provider received. `active` is the text it asks to be served, `step` the place in that
    text's script; `billed` and `answered` are the provider's own records of it."""

    record: Record
    n: int
    attempt: str | None
    messages: tuple[dict[str, Any], ...]
    active: str
    step: int
    billed: Record | None
    answered: Record | None
    refused: Record | None

    @property
    def complete(self) -> bool:
        """Whether the whole reply was sent, by the provider's own record."""
        return bool(self.billed and self.billed.get("complete"))

    @property
    def failed(self) -> bool:
        """Whether the provider answered with an error."""
        return self.refused is not None or bool(self.answered and (self.answered.get("status") or 200) >= 400)

    @property
    def call_ids(self) -> list[str]:
        """The ids of the calls in the provider's reply, in order."""
        return list((self.answered.get("call_ids") if self.answered else None) or [])

    @property
    def senseless(self) -> bool:
        """Whether the provider's reply holds one call id twice, so that nobody can work with it (HIS-6)."""
        return len(set(self.call_ids)) < len(self.call_ids)

    def texts(self, role: str) -> list[str]:
        """The texts of the messages of this role, in order."""
        return [content(message) for message in self.messages if message.get("role") == role]


@dataclass(frozen=True, eq=False)
class Life:
    """One life of a process of the target, from its start to its end; `death` is the kill that the harness recorded."""

    role: str
    life: int
    started: Record
    exited: Record | None
    death: Record | None

    @property
    def end(self) -> Record | None:
        """Where it ended: the kill or the exit, whichever stands first."""
        ends = [record for record in (self.exited, self.death) if record is not None]
        return min(ends, key=lambda record: record.seq) if ends else None

    def alive_at(self, seq: int) -> bool:
        """Whether it lived at the place `seq` of the history."""
        return self.started.seq < seq and (self.end is None or seq < self.end.seq)


@dataclass(frozen=True, eq=False)
class Claim:
    """One taking of a work by a process."""

    work: str
    process: Process
    generation: int | None
    record: Record


@dataclass(frozen=True, eq=False)
class Evidence:
    """A case and its history, with the views that checks share."""

    history: History
    case: Case

    # The plan -----------------------------------------------------------------------------------------------------

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The breakpoints that the plan names, in its order."""
        return tuple(point(fault.at.point) for fault in self.case.plan)

    @cached_property
    def settled_record(self) -> Record | None:
        """The last record that says whether the case came to rest."""
        found = self.history.of("case.settled")
        return found[-1] if found else None

    @property
    def settled(self) -> bool:
        """Whether the case came to rest within its bound."""
        return bool(self.settled_record and self.settled_record["settled"])

    @cached_property
    def final(self) -> Snapshot:
        """The final snapshot; an empty one if none was taken."""
        return self.history.final or Snapshot()

    @property
    def final_record(self) -> Record | None:
        """Where the final snapshot stands."""
        return self.history.final_record

    @cached_property
    def snapshots(self) -> list[tuple[Record, Snapshot]]:
        """Every snapshot, in order."""
        return [
            (record, Snapshot.model_validate({"sessions": record["sessions"]}))
            for record in self.history.of("snapshot.taken")
        ]

    @cached_property
    def _closed(self) -> int:
        """Where the case was closed: what comes behind it is the harness clearing up, which says nothing of the target."""
        found = self.history.of("case.closed")
        return found[-1].seq if found else len(self.history.records)

    def of_case(self, *kinds: str) -> list[Record]:
        """The records of these kinds up to the place where the case was closed, in order."""
        return [record for record in self.history.of(*kinds) if record.seq <= self._closed]

    # What clients did -----------------------------------------------------------------------------------------------

    @cached_property
    def inputs(self) -> list[Input]:
        """Every input that a client sent, by its first sending."""
        sent = [record for record in self.history.of("client.invoked") if record["op"] == "send"]
        sends = _grouped(sent, lambda record: (record["session"], record["request_id"]))
        return [
            Input(session, request_id, found[0]["text"], tuple(found), tuple(self._answers(found)))
            for (session, request_id), found in sends.items()
        ]

    def _answers(self, sends: Iterable[Record]) -> list[Record]:
        heard = (self.history.heard.get(send["call"]) for send in sends)
        return sorted((each for each in heard if each and each["outcome"] == "ok"), key=lambda each: each.seq)

    @cached_property
    def accepted(self) -> list[tuple[Input, Record]]:
        """The inputs that a client heard to be accepted, with that record, in the order of hearing."""
        found = [(each, each.accepted) for each in self.inputs if each.accepted is not None]
        return sorted(found, key=lambda pair: pair[1].seq)

    @cached_property
    def by_request_id(self) -> dict[tuple[str, str], Input]:
        """The inputs by session and request id."""
        return {(each.session, each.request_id): each for each in self.inputs}

    @cached_property
    def commands(self) -> list[Command]:
        """Every pause, resume, stop and quit, in the order of asking."""
        found = []
        for record in self.history.of("client.invoked"):
            if record["op"] in {"control", "quit"}:
                action, session = (record["action"], record["session"]) if record["op"] == "control" else ("quit", None)
                found.append(Command(action, session, record, self.history.heard.get(record["call"])))
        return found

    def commands_of(self, session: str) -> list[Command]:
        """The controls that speak of this session."""
        return [command for command in self.commands if command.concerns(session)]

    def controlled(self, session: str) -> bool:
        """Whether any control of this session was ever asked for, whatever was heard."""
        return bool(self.commands_of(session))

    def holds(self, session: str) -> list[Hold]:
        """The times in which a pause, stop or quit holds this session. A resume ends a pause from the moment it is asked
        for, if the two may have been carried out in this order; nothing ends a stop for what was accepted before it."""
        commands = self.commands_of(session)
        found = []
        for command in commands:
            if command.acknowledged is None or command.action == "resume":
                continue
            resumes = [c.invoked for c in commands if c.action == "resume" and c.may_follow(command)]
            until = resumes[0] if resumes and command.action == "pause" else None
            found.append(Hold(command, command.acknowledged, until))
        return found

    def known_before(self, each: Input, seq: int) -> bool:
        """Whether the target certainly had this input before the place `seq`: a client had heard so, the provider had
        seen it, or the store of a death held it."""
        if each.accepted is not None and each.accepted.seq < seq:
            return True
        if any(request.record.seq < seq for request in self.requests_of(each)):
            return True
        if sum(other.request_id == each.request_id for other in self.inputs) > 1:
            return False  # a store is searched for the id alone, and another session has sent the same one
        deaths = (record for record in self.history.of("store.at_death") if record.seq < seq)
        return any(record.get("holds", {}).get(each.request_id) for record in deaths)

    def turn_begun(self, each: Input, before: int) -> bool:
        """Whether a turn of this input had begun before this place."""
        work = self.work_id(each)
        return work is not None and any(
            record.get("work") == work and record.seq < before for record in self.reached_at("turn.begun")
        )

    # What the model was to say ----------------------------------------------------------------------------------------

    def script(self, text: str) -> tuple[Reply, ...]:
        """The replies scripted for this text; the plain `ok` for any other."""
        return self.case.script.replies.get(text) or (UNSCRIPTED,)

    def reply(self, request: Request) -> Reply:
        """The reply that the script has for this request."""
        replies = self.script(request.active)
        return replies[min(request.step, len(replies) - 1)]

    def calls(self, text: str) -> list[Call]:
        """Every tool call that serving this text makes."""
        return [call for reply in self.script(text) for call in reply.calls]

    def writes(self, text: str) -> list[Call]:
        """The tool calls of this text that the world's effect log must show."""
        return [call for call in self.calls(text) if call.tool in RECEIVERS]

    def writes_allowed(self, receiver: str, arguments: str) -> int:
        """How many writes of these arguments everything that was sent asks for."""
        return sum(asks_for(call, receiver, arguments) for each in self.inputs for call in self.calls(each.text))

    # What the world saw -----------------------------------------------------------------------------------------------

    @cached_property
    def requests(self) -> list[Request]:
        """Every request that the provider received, in order."""
        billed, answered, refused = (self._by_n(f"provider.{kind}") for kind in ("billed", "answered", "refused"))
        found = []
        for record in self.history.of("provider.request"):
            n = record["n"]
            messages = tuple(_messages(record.get("body")))
            active = active_input(self.case.script, messages) if messages else ""
            step = step_index(self.case.script, active, messages)
            told = billed.get(n), answered.get(n), refused.get(n)
            found.append(Request(record, n, record.get("attempt"), messages, active, step, *told))
        return found

    def _by_n(self, kind: str) -> dict[int, Record]:
        return {record["n"]: record for record in self.history.of(kind)}

    @cached_property
    def _owners(self) -> dict[int, Input | None]:
        return {request.n: self._find_input(request) for request in self.requests}

    def _find_input(self, request: Request) -> Input | None:
        found = [each for each in self.inputs if each.text == request.active]
        if len(found) < 2:
            return found[0] if found else None
        if len({each.session for each in found}) == 1:
            copies = request.texts("user").count(request.active)
            return found[min(copies, len(found)) - 1] if copies else None
        work = self.work_of_attempt.get(request.attempt or "")
        told = [each for each in found if work is not None and self.work_id(each) == work]
        return told[0] if len(told) == 1 else None

    def input_of(self, request: Request) -> Input | None:
        """The input that this request serves, or None where the evidence leaves it open."""
        return self._owners[request.n]

    def requests_of(self, each: Input) -> list[Request]:
        """The requests that serve this input, in order."""
        return self._served.get(id(each), [])

    @cached_property
    def _served(self) -> dict[int, list[Request]]:
        return _grouped(self.requests, lambda request: id(self.input_of(request)))

    def last_step_billed(self, each: Input, before: int | None = None) -> bool:
        """Whether the provider has sent the whole last reply of this input's script (before the place `before`)."""
        last = len(self.script(each.text)) - 1
        return any(
            request.step >= last
            for request in self.requests_of(each)
            if request.billed and request.complete and (before is None or request.billed.seq < before)
        )

    @cached_property
    def trouble(self) -> bool:
        """Whether the surroundings themselves failed: an error or a senseless reply of the provider, a disk, the store."""
        return (
            any(request.failed or request.senseless for request in self.requests)
            or bool(self.history.of("store.broken"))
            or any("raise" in canonical(record.get("answer")) for record in self.history.of("point.released"))
        )

    @cached_property
    def doubled(self) -> bool:
        """Whether the plan made the provider send pieces twice, so that what was received is not what was scripted."""
        ops = (op for record in self.history.of("point.fired") for op in record.get("ops") or ())
        return any(isinstance(op, dict) and op.get("how") == "repeat" for op in ops)

    @cached_property
    def applied(self) -> dict[tuple[str, str], list[Record]]:
        """The writes that happened, by receiver and canonical arguments."""
        return _grouped(self.history.of("effect.applied"), _write)

    @cached_property
    def received(self) -> dict[tuple[str, str], list[Record]]:
        """The writes that were asked for, by receiver and canonical arguments."""
        return _grouped(self.history.of("effect.received"), _write)

    def inputs_of_effect(self, record: Record) -> list[Input]:
        """The inputs whose script calls a tool that makes this write."""
        return [each for each in self.inputs if any(asks_for(call, *_write(record)) for call in self.calls(each.text))]

    # The target's own word ------------------------------------------------------------------------------------------

    def session(self, name: str) -> SessionView | None:
        """A session of the final snapshot."""
        return self.final.sessions.get(name)

    @cached_property
    def works(self) -> dict[str, tuple[str, WorkView]]:
        """The works of the final snapshot by id, each with the name of its session."""
        return {work.work_id: (name, work) for name, session in self.final.sessions.items() for work in session.works}

    def work_id(self, each: Input) -> str | None:
        """The work of this input: as the client heard it, else as the final snapshot says."""
        if each.work_id is not None:
            return each.work_id
        session = self.session(each.session)
        views = session.inputs if session else []
        return next((view.work_id for view in views if view.request_id == each.request_id), None)

    def work(self, each: Input) -> WorkView | None:
        """The final view of this input's work."""
        found = self.works.get(self.work_id(each) or "")
        return found[1] if found else None

    def input_of_work(self, work: str | None) -> Input | None:
        """The input that this work serves."""
        return next((each for each in self.inputs if work is not None and self.work_id(each) == work), None)

    @cached_property
    def work_of_attempt(self) -> dict[str, str]:
        """The work of each attempt, by the final snapshot."""
        return {
            attempt.attempt: attempt.work_id
            for session in self.final.sessions.values()
            for attempt in session.attempts
            if attempt.work_id is not None
        }

    @cached_property
    def effects(self) -> list[tuple[str, EffectView]]:
        """The effects of the final snapshot, each with the name of its session."""
        return [(name, effect) for name, session in self.final.sessions.items() for effect in session.effects]

    @cached_property
    def items(self) -> list[tuple[str, ItemView]]:
        """The transcript items of the final snapshot, each with the name of its session."""
        return [(name, item) for name, session in self.final.sessions.items() for item in session.transcript]

    @cached_property
    def placeholders(self) -> set[str]:
        """The texts that stand for a missing result, in any snapshot."""
        return {
            item.text
            for _, snapshot in self.snapshots
            for session in snapshot.sessions.values()
            for item in session.transcript
            if item.placeholder
        }

    def excused(self, each: Input) -> bool:
        """Whether this input rests unfinished with a reason that the surroundings gave it."""
        work = self.work(each)
        return bool(self.trouble and work and work.state in {"failed", "waiting", "recovery_failed"} and work.reason_code)

    # Processes --------------------------------------------------------------------------------------------------------

    @cached_property
    def lives(self) -> dict[Process, Life]:
        """Every life of a process, by role and number."""
        exited, deaths = ({process(r): r for r in self.of_case(kind)} for kind in ("process.exited", "kill"))
        started = {process(record): record for record in self.history.of("process.started")}
        return {who: Life(*who, record, exited.get(who), deaths.get(who)) for who, record in started.items()}

    @cached_property
    def reached(self) -> list[Record]:
        """Every breakpoint that any process reached, in order."""
        return self.history.of("point.reached")

    def reached_at(self, *points: str) -> list[Record]:
        """The records in which one of these breakpoints was reached."""
        found = [record for name in set(points) for record in self._by_point.get(name, ())]
        return sorted(found, key=lambda record: record.seq)

    @cached_property
    def _by_point(self) -> dict[str, list[Record]]:
        return _grouped(self.reached, lambda record: record["point"])

    def key_of(self, reached: Record) -> str | None:
        """The idempotency key that this breakpoint speaks of: as its detail says, else as the final snapshot says of its
        call. None if neither does."""
        said = detail(reached)
        found = said.get("key") or self._key_of_call.get(str(said.get("call")))
        return str(found) if found is not None else None

    @cached_property
    def _key_of_call(self) -> dict[str, str]:
        return {e.call_id: e.idempotency_key for _, e in self.effects if e.idempotency_key is not None}

    @cached_property
    def by_nonce(self) -> dict[str, Record]:
        """Where each nonce was reached."""
        return {record["nonce"]: record for record in self.reached if record.get("nonce")}

    @cached_property
    def kills_beside_points(self) -> list[Record]:
        """Kills of a worker that stood at no point: it may have died just between a commit and the word of it."""
        standing = {nonce: at["pid"] for nonce, at in self.by_nonce.items()}
        return [k for k in self.history.kills if k["role"] == "worker" and standing.get(k["nonce"]) != k["pid"]]

    @cached_property
    def claims(self) -> dict[str, list[Claim]]:
        """Who took each work, in order."""
        taken = [record for record in self.reached_at(*CLAIMS) if record.get("work")]
        claims = [Claim(r["work"], process(r), detail(r).get("generation"), r) for r in taken]
        return _grouped(claims, lambda claim: claim.work)

    @cached_property
    def takeovers(self) -> list[tuple[Claim, Claim]]:
        """Each pair of claims of one work in a row by two different lives."""
        return [
            (before, after)
            for claims in self.claims.values()
            for before, after in pairwise(claims)
            if before.process != after.process
        ]

    def acts_after(self, claim: Claim, seq: int) -> Iterator[Record]:
        """What the process of this claim did for its work after the place `seq`: its owner's writes, and the requests
        that carry what those had stored, until it claims the work again."""
        for record in self.reached:
            if record.seq > seq and process(record) == claim.process and record.get("work") == claim.work:
                if record["point"] in CLAIMS:
                    return
                if record["point"] in OWNERS_WRITES:
                    yield record

    def world_acts_after(self, claim: Claim, seq: int) -> Iterator[Record]:
        """The requests and writes of this claim's process that the world received after the place `seq`, while it lived.

        A request is known by its attempt. A write is known only where the process was let go behind its stored dispatch
        and then came back from the tool: the key alone does not tell it from its successor's lawful resend.
        """
        life = self.lives.get(claim.process)
        again = [c.record.seq for c in self.claims[claim.work] if c.process == claim.process and c.record.seq > seq]
        mine = [r for r in self.reached if process(r) == claim.process and r.get("work") == claim.work]
        mine = [r for r in mine if not again or r.seq < again[0]]  # what it did as an owner once more is its own
        attempts = {detail(r)["attempt"] for r in mine if r["point"] == "attempt.stored" and detail(r).get("attempt")}
        for record in self.history.of("provider.request"):
            if record.seq > seq and record.get("attempt") in attempts and life and life.alive_at(record.seq):
                yield record
        for done in mine:
            dispatch = next((r for r in reversed(mine) if r.seq < done.seq), None)
            if done["point"] != "tool.effect.done" or dispatch is None or dispatch["point"] != "tool.dispatch.stored":
                continue
            released = self.held_until(dispatch)
            for record in self.history.of("effect.received"):
                if released and seq < released.seq < record.seq < done.seq and record["key"] == self.key_of(done):
                    yield record

    def stalled_between(self, who: Process, first: int, last: int) -> bool:
        """Whether the harness froze this process, or held it at a point, between two places of the history."""
        if any(process(r) == who and first < r.seq < last for r in self.history.of("freeze")):
            return True
        return any(held == who and begin < last and end > first for held, begin, end in self._holds)

    def stands_still(self, who: Process, seq: int) -> bool:
        """Whether the harness had frozen this process, or held it at a point, at a place of the history."""
        stops = [record for record in self.history.of("freeze", "thaw") if process(record) == who and record.seq < seq]
        frozen = bool(stops) and stops[-1].kind == "freeze"
        return frozen or any(held == who and begin < seq < end for held, begin, end in self._holds)

    @cached_property
    def _holds(self) -> list[tuple[Process, int, float]]:
        """Which process the harness held at a point, from which place of the history to which."""
        fired = [(record, self.by_nonce.get(record["nonce"])) for record in self.history.of("point.fired")]
        ends = {nonce: record.seq for nonce, record in self._released.items()}
        return [(process(at), record.seq, ends.get(record["nonce"], math.inf)) for record, at in fired if at is not None]

    def was_held(self, reached: Record) -> bool:
        """Whether the process stood still at this point, because the plan named it."""
        return any(record["nonce"] == reached.get("nonce") for record in self.history.of("point.fired"))

    def held_until(self, reached: Record) -> Record | None:
        """The record that let go of the process which stood still at this point; None if it never was held or let go."""
        return self._released.get(reached.get("nonce")) if self.was_held(reached) else None

    @cached_property
    def _released(self) -> dict[str | None, Record]:
        return {record["nonce"]: record for record in reversed(self.history.of("point.released"))}

    def outlived(self, reached: Record) -> bool:
        """Whether the process that reached this point went on from there and was not killed afterwards."""
        life = self.lives.get(process(reached))
        return life is not None and life.death is None and (life.exited is None or life.exited.get("exit_code") == 0)

    @cached_property
    def sent_calls(self) -> set[tuple[str, str]]:
        """The tool calls, by name and canonical arguments, of the replies that the provider has sent to their end."""
        return {
            (call.tool, canonical(call.arguments))
            for request in self.requests
            if request.complete
            for call in self.reply(request).calls
        }

    @cached_property
    def repeats_allowed(self) -> int:
        """How many model calls everything that happened in this case may make the target pay a second time."""
        answers = sum(
            1
            for record in self.history.of("point.fired")
            for op in record.get("ops") or ()
            if isinstance(op, dict) and (op.get("how") in {"cut", "drop"} or op.get("do") == "raise")
        )
        failed = sum(request.failed for request in self.requests)
        stalls = len(self.history.of("freeze"))
        held = sum(1 for before, after in self.takeovers if self._alive(before, after))
        left = sum(1 for life in self.lives.values() if life.role != "app" and life.exited and not life.death)
        deaths = sum(self._repeats(kill) for kill in self.history.kills)
        return deaths + answers + failed + max(stalls, held) + left + len(self.commands)

    def _alive(self, before: Claim, after: Claim) -> bool:
        life = self.lives.get(before.process)
        return life is not None and life.alive_at(after.record.seq)

    def _repeats(self, kill: Record) -> int:
        """A process that stood at the point may repeat what the point allows; one that was killed beside it stood
        anywhere, perhaps in the middle of a model call."""
        if kill["role"] == "app":
            return 0
        try:
            where = point(kill["point"]) if kill.get("point") else None
        except UnknownPoint:
            where = None
        at = self.by_nonce.get(kill.get("nonce") or "")
        if where is None or where.role == "app" or (at is not None and where.role == "worker" and at["pid"] != kill["pid"]):
            return 1
        return where.repeats_max

    @cached_property
    def ends(self) -> list[Record]:
        """Every end of a process of the target, killed or not, in order."""
        ends = (life.end for life in self.lives.values())
        return sorted((end for end in ends if end is not None), key=lambda record: record.seq)

    @cached_property
    def disturbances(self) -> list[Record]:
        """Everything that may make a second executor lawful: deaths, exits, freezes, and points at which one was held."""
        return self.of_case("process.exited", "kill", "freeze", "thaw", "point.fired", "clock.moved")


def _grouped(found: Iterable[Each], key: Callable[[Each], Key]) -> dict[Key, list[Each]]:
    groups: dict[Key, list[Each]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return groups


def _write(record: Record) -> tuple[str, str]:
    """What a write is told apart by: its receiver and canonical arguments."""
    return record["receiver"], canonical(record["arguments"])


def asks_for(call: Call, receiver: str, arguments: str) -> bool:
    """Whether this call may make a write of these canonical arguments at this receiver."""
    return may_write(call.tool, receiver) and canonical(call.arguments) == arguments


def may_write(tool: str, receiver: str) -> bool:
    """Whether calls of this tool may write to this receiver."""
    return tool not in LOCAL_TOOLS and RECEIVERS.get(tool, receiver) == receiver


def process(record: Record) -> Process:
    """The life that this record speaks of."""
    return record["role"], record["life"]


def detail(record: Record) -> dict[str, Any]:
    """The detail that the process gave with a breakpoint."""
    found = record.get("detail")
    return found if isinstance(found, dict) else {}


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool calls of one message; none where what stands there is no list of calls."""
    found = message.get("tool_calls")
    return [call for call in found if isinstance(call, dict)] if isinstance(found, list) else []


def _messages(body: Any) -> list[dict[str, Any]]:
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            return []
    found = body.get("messages") if isinstance(body, dict) else None
    return [message for message in found if isinstance(message, dict)] if isinstance(found, list) else []


def _body(heard: Record | None) -> dict[str, Any]:
    found = heard.get("body") if heard else None
    return found if isinstance(found, dict) else {}
