"""Owns the track record: crashes that people have met elsewhere, what is right for each, and what here holds it to that.

Each case is the smallest form of a public report about some agent runtime or workflow engine, told anew. One that the
chat path can meet is played by the cells that it names; the named checks hold its right value; and a named defect, a
mutant of the reference or the plain script, shows that they can fail. One that cannot be met yet says what it waits for.
`killpoint show cases` lists them, `killpoint run --case C05` plays one, and the README's table is made from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from scenarios import matrix
from scenarios.case import Case
from scenarios.library import matching as scenarios_matching
from scenarios.target import Target

NAIVE = "naive"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a case shows: in this cell, by this check, on a mutant of the reference or on the plain script (`naive`)."""

    cell: str
    by: str
    check: str


@dataclass(frozen=True, slots=True)
class Met:
    """One case that people have met.

    symptom: what happens, in our words. source: where it was reported. right: what has to come of it. cells: what plays
    it here. checks: what holds its right value. shown: which defect breaks it; the first is the one that the README shows.
    part: what of it is not played yet. waits_for: the part of a runtime without which none of it can be.
    """

    id: str
    symptom: str
    source: str
    right: str
    cells: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    shown: tuple[Shown, ...] = ()
    part: str = ""
    waits_for: str = ""

    @property
    def command(self) -> str:
        """What a reader types to see it; nothing while it waits."""
        if not self.shown:
            return ""
        by = self.shown[0].by
        return f"killpoint run --case {self.id} " + (f"--target {NAIVE}" if by == NAIVE else f"--mutant {by}")

    @property
    def state(self) -> str:
        """What is said of it on the reference. The tests play every cell, so that `held` is no mere word."""
        if self.waits_for:
            return f"waits for {self.waits_for}"
        return f"held, without {self.part}" if self.part else "held"

    def row(self) -> dict[str, Any]:
        """The case as a row of a catalogue."""
        return {
            "name": self.id,
            "symptom": self.symptom,
            "right": self.right,
            "source": self.source,
            "cells": list(self.cells),
            "checks": list(self.checks),
            "shown_by": [f"{each.by}: {each.check} in {each.cell}" for each in self.shown],
            "command": self.command,
            "state": self.state,
        }


def _met(
    name: str,
    symptom: str,
    source: str,
    right: str,
    cells: str,
    checks: str,
    *shown: tuple[str, str, str],
    part: str = "",
) -> Met:
    return Met(
        name, symptom, source, right, tuple(cells.split()), tuple(checks.split()), tuple(Shown(*s) for s in shown), part
    )


def _waits(name: str, symptom: str, source: str, right: str, waits_for: str) -> Met:
    return Met(name, symptom, source, right, waits_for=waits_for)


MET: tuple[Met, ...] = (
    _met(
        "C01",
        "an input is acknowledged, and the runtime dies before a turn for it exists",
        "openclaw#50563",
        "it is worked on after the restart",
        "met-no-worker/none plain/work.claimed#1/worker-killed",
        "acknowledged-input-not-lost committed-before-accepted",
        ("met-no-worker/none", "queue-dropped-at-restart", "acknowledged-input-not-lost"),
    ),
    _met(
        "C02",
        "a graceful restart begins in a turn; one input comes while it drains, one when it is back",
        "openclaw#137355",
        "all three are worked on in their order, and none is refused as changed",
        "met-drain/none",
        "input-queued-not-refused inputs-in-first-order acknowledged-input-not-lost graceful-exit-order",
        ("met-drain/none", "busy-session-refuses", "input-queued-not-refused"),
    ),
    _met(
        "C03",
        "the stream breaks in the middle of a tool call's arguments, and the whole call comes on the second try",
        "open-interpreter fork#291",
        "only the whole call runs, with nothing of the first one's arguments",
        "met-half-call/none",
        "call-is-whole no-duplicate-write",
        ("met-half-call/none", "half-call-mended", "call-is-whole"),
    ),
    _met(
        "C04",
        "an input is stored, the provider fails before any output, and another input follows",
        "QwenPaw#4149",
        "the model is told the first one once, with what became of it, and does not act on it",
        "met-failed-first/none met-paused-then-stopped/none",
        "outcome-told-with-its-input input-appended-once",
        ("met-failed-first/none", "failure-not-told", "outcome-told-with-its-input"),
        ("met-paused-then-stopped/none", "stop-not-told", "outcome-told-with-its-input"),
    ),
    _met(
        "C05",
        "a call is dispatched, the worker dies, recovery stores its own result, and the user goes on",
        "software-agent-sdk#2298",
        "the call has one result and is not dispatched again",
        "after-the-mail/effect.applied#1/worker-killed after-the-mail/tool.dispatch.stored#1/worker-killed",
        "no-duplicate-write unknown-never-resent repair-is-stable",
        ("after-the-mail/effect.applied#1/worker-killed", NAIVE, "no-duplicate-write"),
        ("after-the-mail/effect.applied#1/worker-killed", "unknown-write-sent-again", "no-duplicate-write"),
    ),
    _met(
        "C06",
        "one reply calls several tools; the first is answered, and the worker dies before the next begins",
        "adk-python#7108",
        "the first is not run again, the next is run, and nothing goes on as if all were answered",
        "several/tool.result.stored#1/worker-killed",
        "told-results-are-stored stored-result-reused request-acceptable",
        ("several/tool.result.stored#1/worker-killed", "rest-of-reply-skipped", "told-results-are-stored"),
        ("several/tool.result.stored#1/worker-killed", "stored-result-not-used", "stored-result-reused"),
    ),
    _met(
        "C07",
        "a step writes outside, and the process dies before or behind the commit of its result",
        "langgraph#8039",
        "one write outside either way, or an explicit unknown",
        "mail/effect.applied#1/worker-killed mail/tool.effect.done#1/worker-killed mail/tool.result.stored#1/worker-killed",
        "no-duplicate-write unknown-never-resent stored-result-reused",
        ("mail/effect.applied#1/worker-killed", NAIVE, "no-duplicate-write"),
        ("mail/tool.result.stored#1/worker-killed", "stored-result-not-used", "stored-result-reused"),
    ),
    _met(
        "C08",
        "a tool has run, storing its output fails once, and the run is tried again",
        "openai-agents-python#4615",
        "the tool runs once, its output is stored, and run and history agree",
        "met-result-not-stored/none",
        "result-in-hand-kept no-duplicate-write done-means-done",
        ("met-result-not-stored/none", "result-in-hand-dropped", "result-in-hand-kept"),
        part="the approval before it",
    ),
    _waits(
        "C09",
        "as C08, and that output was the final answer",
        "openai-agents-python#4690",
        "the same answer, without another model call",
        "approvals, and tools whose output ends a run",
    ),
    _met(
        "C10",
        "the worker dies inside a tool; the session is opened again and another input sent",
        "strands harness-sdk#859",
        "a placeholder is stored once before the next request and is the same at every restore; the input is not lost",
        "met-slow-tool/none",
        "told-results-are-stored repair-is-stable acknowledged-input-not-lost request-acceptable",
        ("met-slow-tool/none", "repair-not-idempotent", "repair-is-stable"),
    ),
    _met(
        "C11",
        "the process dies right after a tool call is stored, and another process takes over",
        "software-agent-sdk#4487",
        "the placeholder stands behind its call, and no result is told without one",
        "mail/tool.dispatch.stored#1/both-killed mail/reply.stored#1/both-killed",
        "request-acceptable results-match-their-calls told-results-are-stored",
        ("mail/tool.dispatch.stored#1/both-killed", "orphan-results-sent", "request-acceptable"),
        part="branches: a conversation of the reference is one line, whose head is its last item",
    ),
    _waits(
        "C12",
        "a child ends while its parent's store is locked longer than the delivery is tried",
        "openclaw#100426",
        "the delivery stays pending, is tried again when the parent rests or restarts, and happens once",
        "children",
    ),
    _waits(
        "C13",
        "forty children end in any order; the parent is stopped at a gate and resumed",
        "claude-code#95076",
        "none that has ended starts again, and a result belongs to its child, not to its place",
        "children",
    ),
    _waits(
        "C14",
        "a verdict is stored, and the process dies before the Goal is marked as achieved",
        "gsd-core#3684",
        "the missing step happens once, and verification is not run again",
        "Goals",
    ),
    _waits(
        "C15",
        "a list of Todo with an open one is replaced by a finished one; restart; complete",
        "codegraff#844",
        "the requirement is still there, and the Goal is not achieved",
        "Goals and Todo",
    ),
    _met(
        "C16",
        "a resumed turn has replied, and the runtime dies before it has marked the reply as delivered",
        "openclaw#88015",
        "the reply is told under one number, and the turn does not run again",
        "met-reply-told-twice/none",
        "reply-told-once stored-reply-reused finished-stays-finished",
        ("met-reply-told-twice/none", "reply-told-anew", "reply-told-once"),
    ),
    _met(
        "C17",
        "a reply is committed, and the runtime dies before it is sent to the client",
        "openclaw PR#15636",
        "it is delivered after the restart, without the model",
        "met-reply-not-sent/none",
        "reply-told-once stored-reply-reused",
        ("met-reply-not-sent/none", "missed-replies-not-told", "reply-told-once"),
    ),
    _met(
        "C18",
        "the event stream is cut, the run ends, and the client comes back with its last number",
        "opencode#25657",
        "it gets every event after that number, in order and once, and ends with the view of the snapshot",
        "met-came-back/none",
        "events-only-grow events-equal-snapshot",
        ("met-came-back/none", "resume-skips-an-event", "events-only-grow"),
    ),
    _met(
        "C19",
        "some usage, a restart, some more usage",
        "software-agent-sdk#2459",
        "the total is the sum of both",
        "after-the-mail/turn.committed#1/worker-killed",
        "totals-can-be-rebuilt usage-equals-billed",
        ("after-the-mail/turn.committed#1/worker-killed", "totals-begin-anew", "totals-can-be-rebuilt"),
    ),
    _met(
        "C20",
        "a provider's counter goes on growing across an interruption",
        "multica#5568",
        "what comes after it is charged the difference, not the counter",
        "long-stream/provider.reply.chunk#4/worker-killed long-stream/provider.reply.chunk#4/stream-cut",
        "streamed-count-is-a-watermark usage-equals-billed totals-can-be-rebuilt",
        ("long-stream/provider.reply.chunk#4/worker-killed", "streamed-usage-summed", "streamed-count-is-a-watermark"),
        part="counters of a whole session: chat completions count a request, and its counter grows within one stream",
    ),
    _met(
        "C21",
        "a request is answered; then the run is stopped, its client leaves, or it dies before its last save",
        "dify PR#40937",
        "the answered request is in the ledger",
        "mail/tool.intent.stored#1/stop-at mail/tool.dispatch.stored#1/client-gone mail/reply.stored#1/worker-killed",
        "count-in-hand-kept usage-equals-billed",
        ("mail/reply.stored#1/worker-killed", "receipts-given-up-at-start", "count-in-hand-kept"),
    ),
    _met(
        "C22",
        "paused, killed, opened again, and left alone for two periods",
        "codex PR#20790",
        "it is still paused, and no model was called",
        "met-paused-for-hours/none",
        "user-control-obeyed control-is-durable reconnect-is-silent",
        ("met-paused-for-hours/none", "pause-kept-in-memory", "user-control-obeyed"),
    ),
    _met(
        "C23",
        "a cancellation is acknowledged before the input's row exists; killed; the same input is sent again",
        "StaffDeck#113",
        "the cancellation holds",
        "mail/input.received#1/stop-before mail/input.received#1/stop-at mail/input.received#1/quit-before",
        "stop-covers-what-had-come",
        ("mail/input.received#1/stop-before", "stop-misses-what-arrives", "stop-covers-what-had-come"),
    ),
    _waits(
        "C24",
        "power is lost in a turn of an active Goal; after the restart the context is full again and again",
        "codex#32973",
        "every turn that began has an end on record, and the Goal has one status everywhere",
        "Goals and compaction",
    ),
    _met(
        "C25",
        "killed in a turn, started again, and another input comes at once",
        "hermes-agent#45456",
        "one owner; the input waits behind the resumed turn",
        "met-message-after-restart/none",
        "resumed-turn-goes-first one-owner",
        ("met-message-after-restart/none", "session-run-by-two", "resumed-turn-goes-first"),
    ),
    _waits(
        "C26",
        "a tool was approved and has run; the provider then fails, and the same request comes again",
        "agent-framework#7458",
        "the tool runs once and its result is used; `approval not found` is wrong",
        "approvals",
    ),
    _waits(
        "C27",
        "approval was asked for some arguments; after a restart the model asks with others",
        "extra#139",
        "approval is asked for anew",
        "approvals",
    ),
    _met(
        "C28",
        "two recoverers have read the same row, and one has claimed it",
        "dbos-transact-py#742",
        "the one whose claim has changed no row does nothing",
        "met-two-recoverers/none",
        "one-owner continuation-once no-two-executions",
        ("met-two-recoverers/none", "claim-not-looked-at", "one-owner"),
    ),
    _met(
        "C29",
        "the owner is a zombie that its parent never reaped: pid and start time still match",
        "claudexor#159",
        "it counts as dead, and is replaced",
        "met-zombie/none",
        "everything-ends dead-owner-replaced",
        ("met-zombie/none", "zombie-counts-as-alive", "everything-ends"),
    ),
    _met(
        "C30",
        "a run has finished, and the worker's recovery at start reads a log that lacks its last steps",
        "n8n#23807",
        "a terminal state never changes",
        "plain/turn.committed#1/worker-killed plain/work.released#1/worker-killed",
        "terminal-never-changes finished-stays-finished",
        ("plain/turn.committed#1/worker-killed", "terminal-state-rewritten", "terminal-never-changes"),
    ),
    _met(
        "C31",
        "a turn hangs in the provider and is cancelled; a new turn runs; the old one comes back",
        "hermes-webui PR#6636",
        "its writes are refused, its usage is kept",
        "met-stopped-while-hung/none",
        "old-generation-refused count-in-hand-kept user-control-obeyed late-receipt-attributed",
        ("met-stopped-while-hung/none", "late-receipt-thrown-away", "count-in-hand-kept"),
        ("met-stopped-while-hung/none", "generation-not-checked", "old-generation-refused"),
    ),
    _met(
        "C32",
        "killed in a turn, and killed again in the resumed turn",
        "opencrabs#1280",
        "it recovers any number of times",
        "met-killed-every-time/none",
        "killed-again-same-outcome goes-on-by-itself everything-ends",
        ("met-killed-every-time/none", "second-crash-gives-up", "killed-again-same-outcome"),
    ),
    _waits(
        "C33",
        "the disk is full and half a record is written; space is freed, and the next record follows",
        "oh-my-pi#8596",
        "no record is lost in silence or joined to another, and the user was told",
        "full disks",
    ),
    _met(
        "C34",
        "another program holds the database's lock for five seconds at a commit",
        "hermes-agent#74478",
        "the turn waits within its time, or fails closed and keeps its input",
        "met-locked/none",
        "work-repeated-within-bound acknowledged-input-not-lost everything-ends",
        ("met-locked/none", "lock-not-waited-for", "work-repeated-within-bound"),
    ),
    _met(
        "C35",
        "the clock goes back three hours while a worker is alive, and another looks for stale work",
        "openclaw#128529",
        "nothing is taken from the live owner",
        "met-clock-back/none",
        "live-owner-kept no-two-executions",
        ("met-clock-back/none", "clock-back-is-stale", "live-owner-kept"),
    ),
    _met(
        "C36",
        "a machine sleeps past its lease, another takes the work, and the first wakes",
        "ever-works PR#2364",
        "the first is refused at its next write, and stops before its next effect",
        "mail/tool.intent.stored#1/overtaken mail/tool.dispatch.stored#1/overtaken",
        "old-generation-refused one-owner no-duplicate-write",
        ("mail/tool.intent.stored#1/overtaken", "generation-not-checked", "old-generation-refused"),
    ),
)


class UnknownCase(ValueError):
    """A name that is no case, or one that this target cannot play. The message says what would do."""


def find(name: str) -> Met:
    """The case called `name`. Raises UnknownCase with the nearest names."""
    for each in MET:
        if each.id.lower() == name.lower():
            return each
    near = get_close_matches(name.upper(), [each.id for each in MET], n=3, cutoff=0.4)
    hint = f"; nearest: {', '.join(near)}" if near else ""
    raise UnknownCase(f"unknown case {name!r}{hint}; `killpoint show cases` lists them all")


def cases(target: Target, name: str) -> list[Case]:
    """The cells of a case that this target can play, each scenario's fault-free play first.

    Raises UnknownCase if there is no such case, if it waits for something, or if the target can play none of it.
    """
    met = find(name)
    if met.waits_for:
        raise UnknownCase(f"{met.id} is not played yet: it waits for {met.waits_for}")
    mine = [cell for cell in met.cells if _can_play(target, cell)]
    if not mine:
        raise UnknownCase(f"{target.name} can play no cell of {met.id}; it would need: {', '.join(met.cells)}")
    bare = dict.fromkeys(f"{cell.partition('/')[0]}/none" for cell in mine)
    return [matrix.single(target, cell) for cell in dict.fromkeys([*bare, *mine])]


def _can_play(target: Target, cell: str) -> bool:
    name = cell.partition("/")[0]
    if scenarios_matching(name)[0] not in matrix.scenarios_for(target, name):
        return False
    try:
        matrix.single(target, cell)
    except ValueError:
        return False
    return True


def table(met: Iterable[Met] = MET) -> str:
    """The track record as a table in Markdown."""
    head = "| case | symptom | source | seen with | the reference |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| {each.id} | {each.symptom} | {each.source} | {f'`{each.command}`' if each.command else ''} | {each.state} |\n"
        for each in met
    )


if __name__ == "__main__":
    print(table(), end="")  # noqa: T201 (to be put into the README, between its two marks)
