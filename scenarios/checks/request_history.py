"""Owns the checks of the history that is sent to a model (HIS): bodies as a strict provider takes them, true to what is
stored, and a stored history that only grows."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import CLAIMS, RECEIVERS, Evidence, Input, Request, canonical, content, detail, process
from scenarios.history import Record
from scenarios.snapshot import ItemView, SessionView
from scenarios.world.model import words
from scenarios.world.strict import problems

# One of these a placeholder has to say, so that a model does not take silence for failure.
OPEN_WORDS = ("unknown", "not known", "no result is known", "may or may not")
RESULTS = frozenset({"tool_result", "reconciliation"})

# Where a repair is over: the work is admitted, given back, held by a user, or taken once more, by whomever.
REPAIR_ENDS = (*CLAIMS, "recovery.admitted", "work.released", "control.applied")


@check(
    "request-acceptable",
    "HIS-1 HIS-3 HIS-4",
    "every request is one that a strict provider accepts: call and result next to each other, none without the other",
)
def request_acceptable(e: Evidence, found: Findings) -> None:
    for request in e.requests:
        faults = problems({"model": "any", "messages": list(request.messages)})
        refused = request.refused
        found.verify(
            not faults and refused is None,
            "a request that a strict provider accepts",
            f"request {request.n}: {faults[0] if faults else refused and refused.get('why')}",
            since=None,
            at=refused or request.record,
        )


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
        told = [text for text in request.texts("user") if text in places]
        for before, after in combinations(told, 2):
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
            missing = _says_unknown(text) and call not in real_since and _is_open(e, call, request)
            found.verify(
                (_among(text, known) or missing) and not unlearned,
                f"the result of {call} as it is stored, the real one where there is one",
                f"request {request.n} gives it as {text[:60]!r}",
                since=real_since.get(call),
                at=request.record,
            )
    unknown = {effect.call_id for _, effect in e.effects if effect.state in {"outcome_unknown", "abandoned"}}
    texts = {item.text for _, item in e.items if item.placeholder and item.call_id in unknown}
    if texts:
        found.verify(
            len(texts) == 1 and _says_unknown(next(iter(texts))),
            "one fixed placeholder that says the outcome is unknown",
            f"these are used: {', '.join(repr(text[:60]) for text in sorted(texts))}",
            since=None,
            at=e.final_record,
        )


def _among(text: str, known: list[str]) -> bool:
    """Whether `text` is one of the known ones, or one of them with a remark before or behind it."""
    return any(text == each or (each and re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text)) for each in known)


def _says_unknown(text: str) -> bool:
    return any(words in text.lower() for words in OPEN_WORDS)


def _is_open(e: Evidence, call: str, request: Request) -> bool:
    """Whether no result of this call had been stored when the request was made, by a target that tells of its calls. It may
    not even have been begun then: it is left to a turn that comes after a newer input's, or is never made."""
    told = e.reached_at("reply.stored", "tool.intent.stored", "tool.dispatch.stored")
    results = [r for r in e.reached_at("tool.result.stored") if detail(r).get("call") == call]
    return bool(told) and not any(r.seq < request.record.seq for r in results)


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
            found.verify(
                _tells(told, [item.text for item in items]),
                f"{name}: request {request.n} tells the stored replies in their order",
                f"it tells {' | '.join(text[:30] for text in told)!r}",
                since=request.record,
                at=e.final_record,
            )


def _tells(told: list[str], stored: list[str]) -> bool:
    """Whether the told texts are the first of the stored ones, in order, each perhaps with a mark. A stored reply without
    text may be told by its mark alone, or not at all."""
    ways = {0}  # how many of the told texts may have been met so far
    for text in stored:
        met = {n + 1 for n in ways if n < len(told) and text in told[n]}
        ways = met | ({n for n in ways if not text or n == len(told)})
    return len(told) in ways


@check(
    "partial-told-and-marked",
    "HIS-5 REC-11",
    "an interrupted reply keeps its partial text in later requests, and is marked as interrupted",
    needs=("final",),
)
def partial_told_and_marked(e: Evidence, found: Findings) -> None:
    for name, session in e.final.sessions.items():
        served = [r for r in e.requests if (owner := e.input_of(r)) is not None and owner.session == name]
        whole = {item.text for item in session.transcript if item.kind == "assistant" and item.complete}
        cut = [r for r in served if r.billed is not None and not r.complete]
        if not cut and served and e.reply(served[-1]).text in whole:
            # The stream had been sent to its end before the worker that read it died.
            cut = [r for r in served[:-1] if r.billed is not None]
        for item in session.transcript:
            if item.kind != "assistant" or item.complete or not item.text or not cut or served[-1] in cut:
                continue
            source = [r for r in cut if _may_have_sent(e, session, r, item)]
            # The last request may itself have been let go of before its reply was read to the end: no later one tells it.
            of_the_last = e.reply(served[-1]).text not in whole and _may_have_sent(e, session, served[-1], item)
            if not source or (of_the_last and not _stored_before(e, source, served[-1])):
                continue
            found.verify(
                _marked(served[-1], item.text, whole),
                f"{name}: the interrupted reply {item.text[:40]!r} is told with a mark",
                f"request {served[-1].n} tells it without one, or not at all",
                since=source[-1].billed,
                at=served[-1].record,
            )


def _may_have_sent(e: Evidence, session: SessionView, request: Request, item: ItemView) -> bool:
    """Whether this interrupted text can have come with this request: of the same turn, if that is told, and no more of it
    than was sent."""
    turn = next((each.turn_id for each in session.attempts if each.attempt == request.attempt), None)
    sent = (request.billed.get("output_tokens") or 0) if request.billed else 0
    own = turn == item.turn_id or None in (turn, item.turn_id)
    return own and 0 < words(item.text) <= sent and e.reply(request).text.startswith(item.text)


def _stored_before(e: Evidence, source: list[Request], last: Request) -> bool:
    """Whether text of one of these requests was stored before the last one was made."""
    stored = {detail(r).get("attempt") for r in e.reached_at("stream.text.committed") if r.seq < last.record.seq}
    return any(request.attempt in stored for request in source)


def _marked(request: Request, text: str, whole: set[str]) -> bool:
    """Whether the request tells this text with a mark of its own, or by itself with a note somewhere behind it. A whole
    reply that begins with the same words is none of it."""
    noted = any(message.get("role") == "system" for message in request.messages[1:])
    return any(noted if told == text else text in told and told not in whole for told in request.texts("assistant"))


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
        work = e.work(owner)
        ran = [effect for _, effect in e.effects if effect.call_id in request.call_ids and effect.dispatches]
        said = work is not None and work.state in {"failed", "recovery_failed"} and bool(work.reason_code)
        written = _written_after(e, request, owner)
        found.verify(
            said and not ran and not written,
            f"{owner.session}: the work of {owner.request_id} failed with its reason, and none of the calls ran",
            f"it is {work.state if work else 'nowhere'} ({work.reason_code if work else None}); "
            f"{max(len(ran), len(written))} calls ran",
            since=request.answered,
            at=written[0] if written else e.final_record,
        )


def _written_after(e: Evidence, request: Request, owner: Input) -> list[Record]:
    """The writes of this reply's calls that the world received after the reply."""
    asked = {(RECEIVERS[c.tool], canonical(c.arguments)) for c in e.reply(request).calls if c.tool in RECEIVERS}
    received = [record for write in asked for record in e.received.get(write, ()) if record.seq > request.record.seq]
    mine = [record for record in received if e.inputs_of_effect(record) == [owner]]
    return sorted(mine, key=lambda record: record.seq)


@check(
    "repair-runs-nothing",
    "HIS-7 REC-1",
    "the repair of a history gives no permission to run anything: no model call and no new write before the admission",
    depends_on_kill=True,
)
def repair_runs_nothing(e: Evidence, found: Findings) -> None:
    for taken in e.reached_at("recovery.ownership.taken"):
        each = e.input_of_work(taken.get("work"))
        if each is None:
            continue
        end = _end_of_repair(e, taken)
        requests = [r.record for r in e.requests_of(each) if taken.seq < r.record.seq < end]
        received = e.history.of("effect.received")
        known = {r["key"] for r in received if r.seq < taken.seq} | _dispatched(e, taken)
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


def _dispatched(e: Evidence, taken: Record) -> set[str | None]:
    """The keys of calls whose dispatch an earlier owner had stored, so that they may have happened and may be asked for
    again. Who was killed between two points may have stored one without a word: then each one counts that is shown."""
    if any(kill.seq < taken.seq for kill in e.kills_beside_points):
        return {effect.idempotency_key for _, effect in e.effects if effect.dispatches}
    return {e.key_of(r) for r in e.reached_at("tool.dispatch.stored") if r.seq < taken.seq}


def _end_of_repair(e: Evidence, taken: Record) -> int:
    """Where this repair came to its end: its admission, another decision or owner, or the end of its process or of all."""
    who, life = process(taken), e.lives.get(process(taken))
    ends = [
        record.seq
        for record in e.reached_at(*REPAIR_ENDS)
        if record.seq > taken.seq
        and record.get("work") == taken.get("work")
        and (process(record) == who or record["point"] in CLAIMS)
    ]
    return min([*ends, life.end.seq if life and life.end else len(e.history.records)])


@check(
    "told-results-are-stored",
    "HIS-2 REC-4",
    "a result that a request tells of a call is stored, also a made one: it is the same at every later restore",
    needs=("final",),
)
def told_results_are_stored(e: Evidence, found: Findings) -> None:
    made = {call.call_id: name for name, item in e.items for call in item.calls}
    stored = {item.call_id for _, item in e.items if item.kind in RESULTS}
    to_come = _calls_to_come(e)
    for request in e.requests:
        for message in request.messages:
            call = message.get("tool_call_id")
            if message.get("role") != "tool" or call not in made:
                continue
            if not (call in to_come and _says_unknown(content(message))):
                found.verify(
                    call in stored,
                    f"{made[call]}: the result of {call} stands in the transcript, since request {request.n} tells it",
                    "the transcript holds none",
                    since=request.record,
                    at=e.final_record,
                )


def _calls_to_come(e: Evidence) -> set[str]:
    """Calls that nobody has made yet because a user has paused their work: what is told of one meanwhile is no result."""
    begun = {effect.call_id for _, effect in e.effects if effect.state != "not_started"}
    paused = {work_id for work_id, (_, work) in e.works.items() if work.state == "paused"}
    owned = [(request, e.input_of(request)) for request in e.requests]
    left = {call for request, owner in owned if owner and e.work_id(owner) in paused for call in request.call_ids}
    return left - begun


@check(
    "outcome-told-with-its-input",
    "HIS-3 REC-8",
    "an input that failed, was stopped or waits behind another is told to that one's model once, with what became of it",
)
def outcome_told_with_its_input(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        same = sum(other.session == each.session and other.text == each.text for other in e.inputs)
        for request in e.requests:
            owner = e.input_of(request)
            places = _places_of(request, each.text)
            if owner is None or owner.session != each.session or owner.text == each.text or not places:
                continue
            if not _was_begun(e, each, request):
                continue
            followed = sum(_something_follows(request, place) for place in places)
            found.verify(
                followed == len(places) <= same,
                f"{each.session}: request {request.n} tells {each.request_id} once, and behind it what became of it",
                f"it tells it {len(places)} times, and something of its outcome {followed} times",
                since=each.accepted or each.invoked,
                at=request.record,
            )


def _was_begun(e: Evidence, each: Input, before: Request) -> bool:
    """Whether this input has had a turn of its own: one that is taken into another's turn has no outcome apart from it."""
    return e.turn_begun(each, before.record.seq) or any(own.n < before.n for own in e.requests_of(each))


def _places_of(request: Request, text: str) -> list[int]:
    return [i for i, m in enumerate(request.messages) if m.get("role") == "user" and content(m) == text]


def _something_follows(request: Request, place: int) -> bool:
    after = request.messages[place + 1 : place + 2]
    return bool(after) and after[0].get("role") != "user"
