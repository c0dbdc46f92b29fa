"""Owns the breakpoints: every named moment at which a process can be made to die, as one typed constant each.

A breakpoint is described by a sentence in three parts, *fires after X, before Y; recovery must Z*, and by the clauses of
the recovery contract that a death there puts to the test. The sentence is printed when a case at that point fails, so it
is written for the person who has to mend the runtime.

Points are grouped by the rows of the contract's table "Where it must be able to break" (`moment`). `role` says which
process stands still there: `app` and `worker` are processes of the target; `world` is the harness's own world, which
holds the target's request while the target is killed.

To add a breakpoint: add a `Point` here, and call `reach("its.name")` at the site (or let the world hold it). The tests
refuse a point without a site, a site without a point, and a point that no case kills.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Literal

Role = Literal["app", "worker", "world"]


@dataclass(frozen=True, slots=True)
class Point:
    """One breakpoint.

    name: dotted, stable, the first half of an address such as `tool.effect.done#3`.
    moment: the row of the contract's table it stands in.
    role: which process reaches it.
    after, before, recovery: the three parts of its sentence.
    clauses: the contract clauses that a death here is about.
    frequent: reached many times in every case, so a process says so only where a plan names it, or when it is recorded
        which points there are.
    repeats_max: model calls that one death here may make a runtime pay a second time. Beyond it the harness reports
        *work repeated*.
    """

    name: str
    moment: str
    role: Role
    after: str
    before: str
    recovery: str
    clauses: tuple[str, ...]
    repeats_max: int = 0
    frequent: bool = False

    @property
    def sentence(self) -> str:
        """The promise in one sentence, as it is printed with a violation."""
        return f"fires after {self.after}, before {self.before}; recovery must {self.recovery}"

    def __str__(self) -> str:
        return self.name


_ALL: dict[str, Point] = {}


def _point(
    name: str,
    role: Role,
    moment: str,
    after: str,
    before: str,
    recovery: str,
    clauses: str,
    repeats_max: int = 0,
    frequent: bool = False,
) -> Point:
    point = Point(name, moment, role, after, before, recovery, tuple(clauses.split()), repeats_max, frequent)
    _ALL[name] = point
    return point


INPUT_RECEIVED = _point(
    "input.received",
    "app",
    "input",
    "the request has been read and checked",
    "the input is committed",
    "have it once if the client sends it again, and not at all if nobody does",
    "ADM-2",
)
INPUT_COMMITTED = _point(
    "input.committed",
    "app",
    "input",
    "the input and its run intent are committed",
    "the client hears `accepted`",
    "work on it once, and show the same input when the client sends it again",
    "ADM-1 ADM-2 INT-2",
)
INPUT_ACKNOWLEDGED = _point(
    "input.acknowledged",
    "app",
    "input",
    "the client has heard `accepted`",
    "a worker claims the work",
    "queue it in its first order and admit it once",
    "ADM-1 ADM-3 INT-2",
)
CONTROL_RECEIVED = _point(
    "control.received",
    "app",
    "control",
    "a pause, resume or stop has been read and checked",
    "it is stored",
    "go on as if it had never been asked for, since nobody heard otherwise",
    "INT-3 INT-12",
)
CONTROL_STORED = _point(
    "control.stored",
    "app",
    "control",
    "the new desired state and control version are committed",
    "the user hears so",
    "obey the stored control",
    "INT-3 INT-12",
)
CONTROL_ACKNOWLEDGED = _point(
    "control.acknowledged",
    "app",
    "control",
    "the user has heard that the control holds",
    "the worker has seen it",
    "obey the control: no request and no effect after it",
    "INT-3 INT-6 ADM-4",
)
CONTROL_APPLIED = _point(
    "control.applied",
    "worker",
    "control",
    "the worker has seen the control and let go of what ran",
    "it gives the work back",
    "leave the work as the control says",
    "INT-3 INT-12",
)
WORK_CLAIMED = _point(
    "work.claimed",
    "worker",
    "claim of the work",
    "the claim is committed with a new generation and lease",
    "anything is done for the work",
    "take it over under the next generation, and begin it once",
    "OWN-1 OWN-3 OWN-7 INT-2",
)
LEASE_RENEWING = _point(
    "lease.renewing",
    "worker",
    "claim of the work",
    "the owner has decided to renew its lease",
    "the renewal is committed",
    "let exactly one owner go on",
    "OWN-1 OWN-2 OWN-3",
)
TURN_BEGUN = _point(
    "turn.begun",
    "worker",
    "claim of the work",
    "the turn is committed and its input consumed",
    "a request to the model is prepared",
    "serve the same work without a second copy of the input",
    "ADM-1 ADM-5 REC-2",
)
ATTEMPT_STORED = _point(
    "attempt.stored",
    "worker",
    "provider request",
    "the attempt stands in the ledger",
    "its request is sent",
    "close the attempt and ask anew under another one",
    "USE-1 USE-2 USE-4",
)
PROVIDER_REQUEST_RECEIVED = _point(
    "provider.request.received",
    "world",
    "provider request",
    "the provider has the whole request and has begun to bill it",
    "it answers",
    "keep the attempt as unknown, never as zero, and ask anew",
    "USE-2 USE-4 REC-11",
    1,
)
PROVIDER_REPLY_CHUNK = _point(
    "provider.reply.chunk",
    "world",
    "provider request",
    "the provider has sent one more piece of its reply",
    "it sends the next",
    "keep committed text marked as incomplete, and ask for the rest anew",
    "REC-11 USE-2 USE-3 HIS-5",
    1,
    frequent=True,
)
STREAM_TEXT_COMMITTED = _point(
    "stream.text.committed",
    "worker",
    "provider request",
    "a piece of the reply has been committed as partial text",
    "the next piece is read",
    "keep that text, marked, and never join it into a reply that looks whole",
    "REC-11 HIS-5 USE-2",
    1,
)
REPLY_RECEIVED = _point(
    "reply.received",
    "worker",
    "provider request",
    "the reply has arrived whole",
    "it is stored",
    "ask anew as a new attempt and keep the first one's usage as unknown or reconciled",
    "REC-11 USE-2 USE-4",
    1,
)
REPLY_STORED = _point(
    "reply.stored",
    "worker",
    "provider request",
    "the reply and its receipt are committed",
    "a call in it is looked at or the turn ends",
    "go on from that reply without asking the model again",
    "REC-2 REC-3 REC-13 USE-2",
)
USAGE_RECEIPT_RECEIVED = _point(
    "usage.receipt.received",
    "worker",
    "usage",
    "the provider's count is in hand",
    "the receipt is stored",
    "keep the attempt as unknown, never as zero",
    "USE-2 USE-5",
    1,
)
OUTBOX_ROW_STORED = _point(
    "outbox.row.stored",
    "worker",
    "two databases",
    "a row for the ledger is committed in the work database",
    "the ledger is written",
    "deliver the row once",
    "REC-6 USE-5",
)
OUTBOX_DELIVERED = _point(
    "outbox.delivered",
    "worker",
    "two databases",
    "the ledger has committed the row",
    "the row is cleared in the work database",
    "deliver it again without counting it again",
    "REC-6 USE-5",
)
USAGE_RECEIPT_STORED = _point(
    "usage.receipt.stored",
    "worker",
    "usage",
    "the receipt is committed in the ledger",
    "the totals are refreshed",
    "derive the totals again from the receipts",
    "USE-2 USE-5",
)
TOOL_INTENT_STORED = _point(
    "tool.intent.stored",
    "worker",
    "tool call",
    "the intent to call a tool is committed",
    "its dispatch is stored",
    "treat the call as not started and call it once",
    "EFF-1 EFF-2",
)
TOOL_DISPATCH_STORED = _point(
    "tool.dispatch.stored",
    "worker",
    "tool call",
    "the dispatch is committed",
    "the tool is called",
    "treat the outcome as unknown: read again, send the same key, or reconcile, and never send a write blindly",
    "EFF-1 EFF-3 EFF-6 EFF-7",
)
EFFECT_RECEIVED = _point(
    "effect.received",
    "world",
    "tool call",
    "the service has the whole request",
    "it applies the write",
    "treat the outcome as unknown: read again, send the same key, or reconcile, and never send a write blindly",
    "EFF-3 EFF-6",
)
EFFECT_APPLIED = _point(
    "effect.applied",
    "world",
    "tool call",
    "the service has applied the write",
    "it answers",
    "find out that the write happened, or keep it as unknown; never write twice",
    "EFF-3 EFF-6 EFF-12",
)
TOOL_EFFECT_DONE = _point(
    "tool.effect.done",
    "worker",
    "tool call",
    "the tool has returned",
    "its result is stored",
    "find out that the effect happened, or keep it as unknown; never cause it twice",
    "EFF-1 EFF-3 EFF-6 EFF-12",
)
TOOL_RESULT_STORED = _point(
    "tool.result.stored",
    "worker",
    "tool call",
    "the tool's result is committed",
    "the next call or request",
    "use the stored result and call nothing again",
    "EFF-4 REC-2 REC-13 HIS-2",
)
EVENT_COMMITTED = _point(
    "event.committed",
    "app",
    "projection",
    "a numbered event is committed",
    "it is sent to the client",
    "send it when the client asks for what follows its last number",
    "REC-13 UIX-1",
    frequent=True,
)
EVENT_SENT = _point(
    "event.sent",
    "app",
    "projection",
    "an event has been sent to the client",
    "the announced number is stored",
    "announce it again under the same number, and compute nothing again",
    "REC-13 UIX-1",
    frequent=True,
)
EVENT_CURSOR_STORED = _point(
    "event.cursor.stored",
    "app",
    "projection",
    "the announced number is committed",
    "the next event",
    "go on after it and never go back",
    "UIX-1",
    frequent=True,
)
TURN_COMMITTED = _point(
    "turn.committed",
    "worker",
    "projection",
    "the turn's end is committed with its event",
    "the worker gives the work back",
    "announce the stored result and run nothing again",
    "REC-13 ADM-6",
)
WORK_RELEASED = _point(
    "work.released",
    "worker",
    "claim of the work",
    "the owner has given the work back",
    "it looks for the next work",
    "leave the ended work as it is",
    "ADM-6 INT-4 OWN-1",
)
WORKER_IDLE = _point(
    "worker.idle",
    "worker",
    "claim of the work",
    "the worker has looked for work and found none",
    "it waits for some",
    "miss nothing that is accepted meanwhile",
    "INT-2 ADM-1 OWN-7",
)
_STREAM_CUT = 1  # whoever leaves cuts its stream, killed on its way or not
EXIT_ADMISSION_CLOSED = _point(
    "exit.admission.closed",
    "worker",
    "graceful exit",
    "the process has been told to go and admits nothing new",
    "accepted controls are stored",
    "go on with everything that was accepted",
    "INT-6 INT-7",
    repeats_max=_STREAM_CUT,
)
EXIT_CONTROLS_STORED = _point(
    "exit.controls.stored",
    "worker",
    "graceful exit",
    "the controls accepted so far are stored",
    "the checkpoint is stored",
    "obey those controls and lose nothing",
    "INT-6 INT-7",
    repeats_max=_STREAM_CUT,
)
EXIT_CHECKPOINT_STORED = _point(
    "exit.checkpoint.stored",
    "worker",
    "graceful exit",
    "the checkpoint is committed and the lease given back",
    "the process ends",
    "go on from that checkpoint",
    "INT-6 INT-7 REC-3",
    repeats_max=_STREAM_CUT,
)
APP_EXIT_CLOSED = _point(
    "app.exit.closed",
    "app",
    "graceful exit",
    "the app has been told to go and refuses new work",
    "open requests are finished",
    "hold everything it acknowledged, as run, not as paused",
    "INT-6 INT-7 ADM-1",
)
APP_EXIT_STORED = _point(
    "app.exit.stored",
    "app",
    "graceful exit",
    "every accepted input and control is stored",
    "the app ends",
    "hold everything it acknowledged, as run, not as paused",
    "INT-6 INT-7 ADM-1",
)
RECOVERY_FACTS_LOADED = _point(
    "recovery.facts.loaded",
    "worker",
    "recovery",
    "recovery has read the facts",
    "it confirms who owns the work",
    "begin again with the same outcome",
    "REC-1 REC-9 OWN-4",
)
RECOVERY_OWNERSHIP_TAKEN = _point(
    "recovery.ownership.taken",
    "worker",
    "recovery",
    "the old owner is certainly dead and the new generation is committed",
    "context is repaired",
    "take it over once more with the same outcome",
    "REC-1 REC-9 OWN-3 OWN-7",
)
RECOVERY_REPAIR_WRITTEN = _point(
    "recovery.repair.written",
    "worker",
    "recovery",
    "the repair of the context is committed under its key",
    "the way is decided",
    "change nothing when it repairs again",
    "REC-4 REC-9",
)
RECOVERY_DECISION_STORED = _point(
    "recovery.decision.stored",
    "worker",
    "recovery",
    "the one way is stored with control version and continuation key",
    "it is admitted",
    "follow the stored decision, or void it where a newer control decides",
    "REC-2 REC-5 REC-9 INT-14",
)
RECOVERY_ADMITTED = _point(
    "recovery.admitted",
    "worker",
    "recovery",
    "the continuation is admitted under its key",
    "the intent is consumed",
    "admit no second one",
    "REC-2 REC-6 REC-9",
)
RECOVERY_INTENT_CONSUMED = _point(
    "recovery.intent.consumed",
    "worker",
    "recovery",
    "the intent is consumed",
    "the interface is restored",
    "admit no second one",
    "REC-6 REC-9",
)
RECOVERY_INTERFACE_RESTORED = _point(
    "recovery.interface.restored",
    "worker",
    "recovery",
    "the client's view has been told of the recovery",
    "the turn goes on",
    "tell it again under the same number at most once",
    "REC-9 UIX-1 UIX-3",
)

POINTS: tuple[Point, ...] = tuple(_ALL.values())
RECOVERY_POINTS: tuple[Point, ...] = tuple(point for point in POINTS if point.moment == "recovery")


class UnknownPoint(ValueError):
    """A name that is no breakpoint. The message gives the nearest names."""


def point(name: str) -> Point:
    """The breakpoint called `name`. Raises UnknownPoint with the nearest names."""
    try:
        return _ALL[name]
    except KeyError:
        near = get_close_matches(name, _ALL, n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise UnknownPoint(f"unknown breakpoint {name!r}{hint}; `killpoint show points` lists them all") from None


def matching(glob: str) -> tuple[Point, ...]:
    """The breakpoints whose name matches the shell pattern `glob`. Raises UnknownPoint if there is none."""
    found = tuple(each for each in POINTS if fnmatchcase(each.name, glob))
    return found or (point(glob),)
