"""Owns the checks of the history that is sent to a model (HIS): bodies as a strict provider takes them, true to what is
stored, and a stored history that only grows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import Evidence, Request, content, detail
from scenarios.history import Record
from scenarios.snapshot import ItemView, SessionView

# One of these a placeholder has to say, so that a model does not take silence for failure.
OPEN_WORDS = ("unknown", "not known", "no result is known", "may or may not")
RESULTS = frozenset({"tool_result", "reconciliation"})


@check(
    "request-acceptable",
    "HIS-1 HIS-3 HIS-4",
    "every request is one that a strict provider accepts: call and result next to each other, none without the other",
)
def request_acceptable(e: Evidence, found: Findings) -> None:
    for request in e.requests:
        fault = next(_faults(request), None)
        refused = request.refused
        found.verify(
            fault is None and refused is None,
            "a request that a strict provider accepts",
            f"request {request.n}: {fault or (refused and refused.get('why'))}",
            since=None,
            at=refused or request.record,
        )


def _faults(request: Request) -> Iterator[str]:
    """What is wrong with the body of this request, by the rules of the chat-completions protocol."""
    waiting: list[str] = []
    if not request.messages:
        yield "it has no messages"
    for place, message in enumerate(request.messages):
        role = message.get("role")
        if role == "tool":
            call = message.get("tool_call_id")
            if call not in waiting:
                yield f"message {place} is a result of {call!r}, which is no call right before it"
            else:
                waiting.remove(call)
            continue
        if waiting:
            yield f"message {place} comes before the result of {waiting[0]!r}"
            waiting = []
        if role not in {"system", "user", "assistant"}:
            yield f"message {place} has the role {role!r}"
        yield from _call_faults(place, message)
        waiting = [str(call.get("id")) for call in message.get("tool_calls") or ()]
        if role == "assistant" and not waiting and not content(message):
            yield f"message {place} is an empty reply without calls"
    if waiting:
        yield f"the result of {waiting[0]!r} is missing"
    if request.messages and request.messages[-1].get("role") == "assistant":
        yield "its last message is a reply"


def _call_faults(place: int, message: dict[str, Any]) -> Iterator[str]:
    calls = message.get("tool_calls") or ()
    ids = [call.get("id") for call in calls]
    if len(set(ids)) < len(ids):
        yield f"message {place} holds the same call id twice"
    for call in calls:
        try:
            json.loads(call["function"]["arguments"])
        except (KeyError, TypeError, ValueError):
            yield f"the arguments of the call {call.get('id')!r} are not JSON"


@check(
    "user-messages-in-order",
    "HIS-3",
    "user messages keep their order in every request",
)
def user_messages_in_order(e: Evidence, found: Findings) -> None:
    for request in e.requests:
        owner = e.input_of(request)
        if owner is None:
            continue
        accepted = [each for each, _ in e.accepted if each.session == owner.session]
        places = {each.text: place for place, each in enumerate(accepted)}
        if len(places) < len(accepted):
            continue  # equal texts cannot be told apart
        for before, after in pairwise(request.texts("user")):
            if before not in places or after not in places:
                continue
            first, second = accepted[places[before]], accepted[places[after]]
            crossed = second.accepted is not None and second.accepted.seq < first.invoked.seq
            found.verify(
                not crossed,
                f"{owner.session}: {second.request_id} stands before {first.request_id}, as it was accepted",
                f"request {request.n} holds them the other way round",
                since=second.accepted,
                at=request.record,
            )


@check(
    "results-match-their-calls",
    "HIS-1 HIS-2",
    "a call's result in a request is the one stored for that call; a real one wins, and a missing one has the fixed text",
    needs=("final",),
)
def results_match_their_calls(e: Evidence, found: Findings) -> None:
    stored: dict[str, list[ItemView]] = {}
    for _, item in e.items:
        if item.call_id is not None and item.kind in RESULTS:
            stored.setdefault(item.call_id, []).append(item)
    real_since: dict[str, Record] = {}
    results = [r for r in e.reached_at("tool.result.stored") if "ok" in detail(r)]
    for request in e.requests:
        for result in results:
            if result.seq < request.record.seq:
                real_since.setdefault(str(detail(result).get("call")), result)
        for message in request.messages:
            call = message.get("tool_call_id")
            if message.get("role") != "tool" or call not in stored or call is None:
                continue
            text = content(message)
            known = [item.text for item in stored[call]]
            if any(item.text == text and not item.placeholder for item in stored[call]):
                real_since.setdefault(call, request.record)
            unlearned = call in real_since and text in e.placeholders
            still_open = call not in real_since and _says_open(text)
            found.verify(
                still_open or (_among(text, known) and not unlearned),
                f"the result of {call} as it is stored, the real one where there is one",
                f"request {request.n} gives it as {text[:60]!r}",
                since=real_since.get(call),
                at=request.record,
            )
    unknown = {effect.call_id for _, effect in e.effects if effect.state in {"outcome_unknown", "abandoned"}}
    texts = {item.text for _, item in e.items if item.placeholder and item.call_id in unknown}
    if texts:
        found.verify(
            len(texts) == 1 and _says_open(next(iter(texts))),
            "one fixed placeholder that says the outcome is unknown",
            f"these are used: {', '.join(repr(text[:60]) for text in sorted(texts))}",
            since=None,
            at=e.final_record,
        )


def _says_open(text: str) -> bool:
    return any(words in text.lower() for words in OPEN_WORDS)


def _among(text: str, known: list[str]) -> bool:
    return any(text == each or (each != "" and each in text) for each in known)


@check(
    "transcript-append-only",
    "HIS-3 REC-11 EFF-13",
    "what is committed to the transcript is never changed, reordered or taken away",
)
def transcript_append_only(e: Evidence, found: Findings) -> None:
    for (since, before), (at, after) in pairwise(e.snapshots):
        for name, session in before.sessions.items():
            later = after.sessions.get(name, SessionView(session=name)).transcript
            for place, item in enumerate(session.transcript):
                now = later[place] if place < len(later) else None
                found.verify(
                    now is not None and _grown(item, now),
                    f"{name}: item {item.item} stays in its place: {item.kind} {item.text[:40]!r}",
                    f"there is {now.kind} {now.text[:40]!r}" if now else "it is gone",
                    since=since,
                    at=at,
                )


def _grown(item: ItemView, now: ItemView) -> bool:
    if item == now:
        return True
    streaming = item.kind == "assistant" and not item.complete and now.kind == "assistant"
    return streaming and item.item == now.item and now.text.startswith(item.text)


@check(
    "history-told-as-stored",
    "HIS-3 HIS-5",
    "what a request tells of earlier replies is what was stored: nothing is left out, reordered or made up",
    needs=("final",),
)
def history_told_as_stored(e: Evidence, found: Findings) -> None:
    for name, session in e.final.sessions.items():
        # A reply without text may be told by some mark of its own; one that is only calls is told without a text.
        items = [i for i in session.transcript if i.kind == "assistant" and (i.text or not i.complete or not i.calls)]
        for request in e.requests:
            owner = e.input_of(request)
            if owner is None or owner.session != name or not items:
                continue
            told = [text for text in request.texts("assistant") if text]
            places = _places(told, [item.text for item in items])
            found.verify(
                places is not None,
                f"{name}: request {request.n} tells the stored replies in their order",
                f"it tells {' | '.join(text[:30] for text in told)!r}",
                since=request.record,
                at=e.final_record,
            )


def _places(told: list[str], stored: list[str]) -> list[int] | None:
    """Where each told text stands in the stored ones, in order, or None. A told text may add a mark to a stored one."""
    found: list[int] = []
    start = 0
    for text in told:
        place = next((i for i in range(start, len(stored)) if stored[i] in text), None)
        if place is None:
            return None
        found.append(place)
        start = place + 1
    return found


@check(
    "partial-told-and-marked",
    "HIS-5 REC-11",
    "an interrupted reply keeps its partial text in later requests, and is marked as interrupted",
    needs=("final",),
)
def partial_told_and_marked(e: Evidence, found: Findings) -> None:
    for name, session in e.final.sessions.items():
        served = [r for r in e.requests if (owner := e.input_of(r)) is not None and owner.session == name]
        cut = [r for r in served if r.billed is not None and not r.complete]
        for item in session.transcript:
            if item.kind != "assistant" or item.complete or not item.text or not cut or served[-1] in cut:
                continue
            source = [r for r in cut if e.reply(r).text.startswith(item.text)]
            if not source or source[-1].record.seq > served[-1].record.seq:
                continue
            found.verify(
                _marked(served[-1], item.text),
                f"{name}: the interrupted reply {item.text[:40]!r} is told with a mark",
                f"request {served[-1].n} tells it without one, or not at all",
                since=source[-1].billed,
                at=served[-1].record,
            )


def _marked(request: Request, text: str) -> bool:
    noted = any(message.get("role") == "system" for message in request.messages[1:])
    return any(
        (told.startswith(text) and (told != text or noted)) or (text in told and not told.startswith(text))
        for told in request.texts("assistant")
    )


@check(
    "same-call-id-twice-is-an-error",
    "HIS-6",
    "the same call id twice in one reply is a clear error: the work says so and neither call runs",
    needs=("final",),
)
def same_call_id_twice_is_an_error(e: Evidence, found: Findings) -> None:
    for request in e.requests:
        owner = e.input_of(request)
        if not request.senseless or owner is None or e.controlled(owner.session):
            continue
        ids = request.answered["call_ids"] if request.answered else []
        work = e.work(owner)
        ran = [effect for _, effect in e.effects if effect.call_id in ids and effect.dispatches]
        said = work is not None and work.state in {"failed", "recovery_failed"} and bool(work.reason_code)
        found.verify(
            said and not ran,
            f"{owner.session}: the work of {owner.request_id} failed with its reason, and none of the calls ran",
            f"it is {work.state if work else 'nowhere'} ({work.reason_code if work else None}); {len(ran)} calls ran",
            since=request.answered,
            at=e.final_record,
        )


@check(
    "repair-runs-nothing",
    "HIS-7 REC-1",
    "the repair of a history gives no permission to run anything: no model call and no new write before the admission",
    depends_on_kill=True,
)
def repair_runs_nothing(e: Evidence, found: Findings) -> None:
    for taken in e.reached_at("recovery.ownership.taken"):
        each = e.input_of_work(taken.get("work"))
        end = _admission(e, taken)
        if each is None or end is None:
            continue
        requests = [r.record for r in e.requests_of(each) if taken.seq < r.record.seq < end]
        received = e.history.of("effect.received")
        known = {r["key"] for r in received if r.seq < taken.seq} | {
            effect.idempotency_key for _, effect in e.effects if effect.dispatches
        }
        fresh = [
            r for r in received if taken.seq < r.seq < end and r["key"] not in known and e.inputs_of_effect(r) == [each]
        ]
        acts = sorted((*requests, *fresh), key=lambda record: record.seq)
        found.verify(
            not acts,
            f"{each.session}: nothing runs for {each.request_id} before its continuation is admitted",
            f"the world received {acts[0].kind} {acts[0]['n']}" if acts else "",
            since=taken,
            at=acts[0] if acts else None,
        )


def _admission(e: Evidence, taken: Record) -> int | None:
    """Where this taking of ownership came to its admission, or its process to its end."""
    who = (taken["role"], taken["life"])
    ends = [
        record.seq
        for record in e.reached_at("recovery.admitted")
        if record.seq > taken.seq and record.get("work") == taken.get("work") and (record["role"], record["life"]) == who
    ]
    return ends[0] if ends else None
