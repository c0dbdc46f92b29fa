"""Owns the checks of tool calls and their effects (EFF): what the world was made to do, against what was stored."""

from __future__ import annotations

import json
from typing import Any

from scenarios.case import Call
from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import (
    LOCAL_TOOLS,
    RECEIVERS,
    Evidence,
    Input,
    asks_for,
    calls_of,
    canonical,
    content,
    detail,
    may_write,
)
from scenarios.history import Record
from scenarios.snapshot import EffectView, ItemView

# Tools that say of themselves what the trusted registry does not.
LIARS = frozenset({"note_plugin"})

# A result that tells the model so claims nothing, though it stands where a real one would.
NOT_MADE_WORDS = ("not started", "not made", "not run")


@check(
    "no-duplicate-write",
    "EFF-3 REC-3 HIS-7",
    "no write is applied in the world more often than it was asked for",
)
def no_duplicate_write(e: Evidence, found: Findings) -> None:
    for (receiver, arguments), writes in e.applied.items():
        allowed = e.writes_allowed(receiver, arguments)
        over = writes[allowed:]
        found.verify(
            not over,
            f"the write {arguments} at {receiver} {allowed} times, as often as the script asks for it",
            f"it was applied {len(writes)} times",
            since=writes[0],
            at=over[0] if over else None,
        )


@check(
    "unknown-never-resent",
    "EFF-3 EFF-6",
    "a write that may have happened is never sent again blindly: same key, or reconciled first",
)
def unknown_never_resent(e: Evidence, found: Findings) -> None:
    for (receiver, arguments), asked in e.received.items():
        calls = max(e.writes_allowed(receiver, arguments), 1)
        last: dict[str | None, Record] = {}
        for place, record in enumerate(asked):
            key = record["key"]
            known = key is not None and key in last
            if not known and calls:
                calls -= 1  # one of the calls that the script makes, sent for the first time
                found.saw()
            else:
                before = last[key] if known else asked[place - 1]
                of_call = {key} if known else set(last)
                found.verify(
                    known if receiver == "keyed" else _reconciled(e, of_call, before, record),
                    f"the write {arguments} is sent to {receiver} again only "
                    + ("under its first key" if receiver == "keyed" else "after a query has said that it did not happen"),
                    f"it was received again under the key {key!r}",
                    since=before,
                    at=record,
                )
            last[key] = record


def _reconciled(e: Evidence, keys: set[str | None], before: Record, again: Record) -> bool:
    queries = [q for q in e.history.of("effect.queried") if before.seq < q.seq < again.seq and q["key"] in keys]
    return bool(queries) and not queries[-1]["found"]


@check(
    "effect-in-order",
    "EFF-1",
    "a call's intent is stored, then its dispatch, then it is made, then its result is stored",
)
def effect_in_order(e: Evidence, found: Findings) -> None:
    intents, dispatches = e.reached_at("tool.intent.stored"), e.reached_at("tool.dispatch.stored")
    if not intents and not dispatches:
        return
    intended, dispatched = _Stored(e, intents), _Stored(e, dispatches)
    first: dict[str, Record] = {}
    for record in e.history.of("effect.received"):
        first.setdefault(str(record["key"]), record)
    for record in first.values():
        intent, dispatch = intended.before(record), dispatched.before(record)
        found.verify(
            intent is not None and dispatch is not None,
            f"intent and dispatch of the write {canonical(record['arguments'])} are stored before it is made",
            f"the world received it before its {'dispatch' if intent else 'intent'} was stored",
            since=intent,
            at=record,
        )
    for result in e.reached_at("tool.result.stored"):
        call = detail(result).get("call")
        if call is not None:
            mine = [r for r in dispatches if detail(r).get("call") == call and r.seq < result.seq]
            known = any(detail(r).get("call") == call for r in dispatches)
            found.verify(
                bool(mine) or not known,
                f"the dispatch of {call} is stored before its result",
                "its result was stored first",
                since=None,
                at=result,
            )


class _Stored:
    """The records which say that something of a call was stored. Where they name no call each stands for one write; so
    does the kill of a worker that stood at no point, since it may have died just between a commit and its point."""

    def __init__(self, e: Evidence, points: list[Record]) -> None:
        self._named = [(e.key_of(r), r) for r in points]
        self._unnamed = [*(r for key, r in self._named if key is None), *e.kills_beside_points]

    def before(self, write: Record) -> Record | None:
        """The record that speaks of this write and stands before it, or None."""
        for key, record in self._named:
            if key is not None and key == write["key"] and record.seq < write.seq:
                return record
        spare = next((record for record in self._unnamed if record.seq < write.seq), None)
        self._unnamed = [record for record in self._unnamed if record is not spare]
        return spare


@check(
    "not-started-is-called-once",
    "EFF-2",
    "a call whose intent is stored without a dispatch has not started, and is called once",
    depends_on_kill=True,
    needs=("final",),
)
def not_started_is_called_once(e: Evidence, found: Findings) -> None:
    if e.doubled:
        return  # the arguments of a call may be what is garbled by it, and that call is never made
    for kill in e.history.kills:
        at = e.by_nonce.get(kill.get("nonce") or "")
        each = e.input_of_work(at.get("work")) if at and kill.get("point") == "tool.intent.stored" else None
        if at is None or each is None or e.controlled(each.session) or at["pid"] != kill["pid"] or e.excused(each):
            continue
        if any(name == each.session and effect.state == "outcome_unknown" for name, effect in e.effects):
            continue  # another unknown effect of the session may bar it
        for call in e.writes(each.text):
            arguments = canonical(call.arguments)
            receiver = RECEIVERS[call.tool]
            times = len(e.applied.get((receiver, arguments), []))
            found.verify(
                1 <= times <= e.writes_allowed(receiver, arguments),
                f"{each.session}: {call.tool} {arguments} is called once after the kill at its intent",
                f"it was applied {times} times",
                since=kill,
                at=e.final_record,
            )


@check(
    "stored-result-reused",
    "EFF-4 REC-13",
    "a tool's stored result, good or bad, is used, and nothing is called again for it",
)
def stored_result_reused(e: Evidence, found: Findings) -> None:
    received = e.history.of("effect.received")
    for stored in e.reached_at("tool.result.stored"):
        key = e.key_of(stored)
        if detail(stored).get("state") == "outcome_unknown":
            continue  # what is stored here is the placeholder
        if key is None or not any(record["key"] == key for record in received):
            continue
        again = [record for record in received if record["key"] == key and record.seq > stored.seq]
        found.verify(
            not again,
            f"the stored result of the call under the key {key!r} is used",
            "the world received the call again",
            since=stored,
            at=again[0] if again else None,
        )
    for (receiver, arguments), asked in e.received.items():
        told = _told(e, receiver, arguments)
        if told is None:
            continue
        after = [record for record in asked if record.seq > told.seq]
        found.verify(
            not after,
            f"every result of {arguments} at {receiver} was known, since the model had been told it",
            "the world received the call again",
            since=told,
            at=after[0] if after else None,
        )


def _told(e: Evidence, receiver: str, arguments: str) -> Record | None:
    """The first request that tells the model a real result for as many calls of this write as there may be."""
    allowed = e.writes_allowed(receiver, arguments)
    owners = {each.session for each in e.inputs if any(asks_for(c, receiver, arguments) for c in e.calls(each.text))}
    if len(owners) != 1:
        return None
    real = {(i.call_id, i.text) for _, i in e.items if i.kind in {"tool_result", "reconciliation"} and not i.placeholder}
    for request in e.requests:
        calls = {
            call.get("id")
            for message in request.messages
            for call in calls_of(message)
            if _is_for(call, receiver, arguments)
        }
        results = {
            message.get("tool_call_id")
            for message in request.messages
            if message.get("role") == "tool" and (message.get("tool_call_id"), content(message)) in real
        }
        if 0 < allowed <= len(calls & results):
            return request.record
    return None


def _is_for(call: dict[str, Any], receiver: str, arguments: str) -> bool:
    """Whether this call, as a request tells it, is one that makes this write."""
    try:
        function = call["function"]
        return may_write(function["name"], receiver) and canonical(json.loads(function["arguments"])) == arguments
    except (KeyError, TypeError, ValueError):
        return False


@check(
    "unknown-operation-shown",
    "UIX-5 EFF-6",
    "an operation whose outcome is unknown shows its call, input summary, time and the checks that exist",
    needs=("final",),
)
def unknown_operation_shown(e: Evidence, found: Findings) -> None:
    for name, effect in e.effects:
        if effect.state == "outcome_unknown":
            lacking = [
                field for field in ("call_id", "tool", "input_summary", "dispatched_at") if not getattr(effect, field)
            ]
            found.verify(
                not lacking,
                f"{name}: the unknown call {effect.call_id} with all that a user needs to decide",
                f"it lacks {', '.join(lacking)}",
                since=_received_for(e, effect),
                at=e.final_record,
            )
    shown = {effect.idempotency_key for _, effect in e.effects}
    tells = e.effects or e.reached_at("tool.dispatch.stored")  # a target that stores dispatches has effects to show
    for record in e.history.of("effect.applied") if tells else []:
        if record["key"] is None:
            continue  # the target gave the world no key by which its write could be found
        found.verify(
            record["key"] in shown,
            f"the write {canonical(record['arguments'])}, which happened, is one of the effects that are shown",
            "no effect of the final snapshot has its key",
            since=record,
            at=e.final_record,
        )


def _received_for(e: Evidence, effect: EffectView) -> Record | None:
    key = effect.idempotency_key
    return next((r for r in e.history.of("effect.received") if key is not None and r["key"] == key), None)


@check(
    "unknown-outlives-its-turn",
    "EFF-12 EFF-6",
    "an effect may stay unknown while its turn ends: the turn is closed, the effect is not made up",
    needs=("final",),
)
def unknown_outlives_its_turn(e: Evidence, found: Findings) -> None:
    for name, session in e.final.sessions.items():
        turns = {turn.turn_id: turn for work in session.works for turn in work.turns}
        for effect in session.effects:
            turn = turns.get(effect.turn_id or "")
            if effect.state != "outcome_unknown" or turn is None:
                continue
            real = [i for i in session.transcript if i.kind == "tool_result" and i.call_id == effect.call_id]
            found.verify(
                turn.state != "running" and all(item.placeholder for item in real),
                f"{name}: the turn of the unknown call {effect.call_id} has ended, and its result stays a placeholder",
                f"the turn is {turn.state}; {sum(not item.placeholder for item in real)} made results stand",
                since=_received_for(e, effect),
                at=e.final_record,
            )


@check(
    "tools-own-word-counts-nothing",
    "EFF-7",
    "a tool that says of itself that it is harmless is treated as unknown, and the implementation that ran is stored",
    needs=("final",),
)
def tools_own_word_counts_nothing(e: Evidence, found: Findings) -> None:
    calls = [call for each in e.inputs for call in e.calls(each.text) if call.tool in LIARS]
    for receiver, arguments in dict.fromkeys((RECEIVERS[call.tool], canonical(call.arguments)) for call in calls):
        asked, allowed = e.received.get((receiver, arguments), []), e.writes_allowed(receiver, arguments)
        if asked:
            found.verify(
                len(asked) <= allowed,
                f"{arguments} is sent {allowed} times, whatever the tool says of itself",
                f"it was sent {len(asked)} times",
                since=asked[0],
                at=asked[allowed] if len(asked) > allowed else None,
            )
    for name, effect in e.effects:
        record = _received_for(e, effect)
        if record is not None:
            found.verify(
                bool(effect.implementation),
                f"{name}: the implementation that ran the call {effect.call_id}",
                "none is stored",
                since=record,
                at=e.final_record,
            )


@check(
    "late-receipt-added",
    "EFF-13 HIS-2",
    "a late receipt is added as a reconciliation: nothing is overwritten, and later requests carry it",
)
def late_receipt_added(e: Evidence, found: Findings) -> None:
    placed: dict[tuple[str, int], tuple[Record, ItemView]] = {}
    for record, snapshot in e.snapshots:
        for name, session in snapshot.sessions.items():
            now = {item.item: item for item in session.transcript}
            for (owner, number), (since, old) in placed.items():
                if owner == name:
                    found.verify(
                        now.get(number) == old,
                        f"{name}: the placeholder in item {number} stays as it was stored",
                        f"it reads {now[number].text[:60]!r}" if number in now else "it is gone",
                        since=since,
                        at=record,
                    )
            placed.update({(name, i.item): (record, i) for i in session.transcript if i.placeholder})
            _stands_on_placeholder(found, name, session.transcript, record)
    _never_unlearned(e, found)


def _stands_on_placeholder(found: Findings, name: str, items: list[ItemView], record: Record) -> None:
    placeholders = {item.call_id for item in items if item.placeholder}
    for item in items:
        if item.kind == "reconciliation":
            found.verify(
                item.call_id in placeholders,
                f"{name}: the placeholder that the reconciliation of {item.call_id} speaks of is still there",
                "it was overwritten or never stored",
                since=None,
                at=record,
            )


def _never_unlearned(e: Evidence, found: Findings) -> None:
    known: dict[str, Record] = {}
    late = _texts_after_receipts(e)
    for request in e.requests:
        texts = set(request.texts("user"))
        for message in request.messages:
            call = message.get("tool_call_id")
            if message.get("role") != "tool" or call not in late or call is None:
                continue
            told = content(message) not in e.placeholders
            if told:
                known.setdefault(call, request.record)
            found.verify(
                told or not (call in known or texts & late[call]),
                f"the reconciled result of {call} is told from then on",
                f"request {request.n} tells the placeholder again",
                since=known.get(call),
                at=request.record,
            )


def _texts_after_receipts(e: Evidence) -> dict[str, set[str]]:
    """For each reconciled call, the users' texts that its session stored only after the receipt: a request that holds one
    of them was made when the receipt was known."""
    found: dict[str, set[str]] = {}
    for session in e.final.sessions.values():
        for receipt in (item for item in session.transcript if item.kind == "reconciliation" and item.call_id):
            users = [item for item in session.transcript if item.kind == "user"]
            before = {item.text for item in users if item.item < receipt.item}
            found[str(receipt.call_id)] = {item.text for item in users if item.item > receipt.item} - before
    return found


@check(
    "done-means-done",
    "ADM-1 EFF-3 REC-13",
    "what the runtime calls done the world has seen, and the other way round",
    needs=("final",),
    kind="disagreement",
)
def done_means_done(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        work = e.work(each)
        if work is None or work.state != "done":
            continue
        found.verify(
            e.last_step_billed(each),
            f"{each.session}: the provider has sent the last reply for {each.request_id}, since its work is done",
            "it never sent that reply to its end",
            since=each.accepted or each.invoked,
            at=e.final_record,
        )
        for call in e.writes(each.text):
            arguments = canonical(call.arguments)
            happened = e.applied.get((RECEIVERS[call.tool], arguments))
            found.verify(
                bool(happened) or _said_otherwise(e, each, call),
                f"{each.session}: {call.tool} {arguments} has happened, since the work is done and says nothing else",
                "the world never applied it",
                since=each.accepted or each.invoked,
                at=e.final_record,
            )
    by_key = {record["key"]: record for record in e.history.of("effect.applied") if record["key"]}
    for name, effect in e.effects:
        _agrees(e, found, name, effect, by_key.get(effect.idempotency_key))


def _said_otherwise(e: Evidence, each: Input, call: Call) -> bool:
    """Whether the target itself says that this call did not succeed; then it claims nothing that is missing.

    It claims a success by a succeeded effect or, where it shows no effect, by a real result in the transcript.
    """
    session = e.session(each.session)
    if session is None:
        return False
    if any(effect.state == "outcome_unknown" for effect in session.effects):
        return True  # what comes after it in this session may have been refused
    of_tool = [c for item in session.transcript for c in item.calls if c.tool == call.tool]
    meant = [c for c in of_tool if canonical(c.arguments) == canonical(call.arguments)]
    if not meant:
        # It came garbled, or a garbled call cost the script its place; nobody says that this write has happened.
        return bool(of_tool) or e.doubled
    made = [c.call_id for c in meant]
    states = {effect.call_id: effect.state for effect in session.effects}
    results = [item for item in session.transcript if item.kind == "tool_result" and not item.placeholder]
    real = {item.call_id for item in results if not any(words in item.text.lower() for words in NOT_MADE_WORDS)}
    claimed = [call_id for call_id in made if states.get(call_id, "succeeded" if call_id in real else "") == "succeeded"]
    return not claimed


def _agrees(e: Evidence, found: Findings, name: str, effect: EffectView, happened: Record | None) -> None:
    if effect.tool in LOCAL_TOOLS or effect.idempotency_key is None:
        return
    if effect.state == "succeeded":
        found.verify(
            happened is not None,
            f"{name}: the world has applied {effect.call_id} of {effect.tool}, which is called succeeded",
            "no write under its key was ever applied",
            since=_received_for(e, effect),
            at=e.final_record,
        )
    elif happened is not None and effect.state in {"failed", "not_started"}:
        answers = [r for r in e.history.of("effect.answered") if r["n"] == happened["n"]]
        told = any((answer.get("status") or 200) >= 400 for answer in answers)
        found.verify(
            told and effect.state == "failed",
            f"{name}: {effect.call_id} of {effect.tool} is called succeeded or unknown, since it happened",
            f"it is called {effect.state}",
            since=happened,
            at=e.final_record,
        )


@check(
    "result-in-hand-kept",
    "EFF-4 EFF-13",
    "a result that a living process had in hand is used, though storing it failed once or another owner came meanwhile",
    needs=("final",),
)
def result_in_hand_kept(e: Evidence, found: Findings) -> None:
    states = {effect.call_id: effect for _, effect in e.effects if effect.tool not in LIARS}
    for done in e.reached_at("tool.effect.done"):
        effect = states.get(str(detail(done).get("call")))
        if effect is None or not e.outlived(done):
            continue
        found.verify(
            effect.state in {"succeeded", "failed"},
            f"the result of {effect.call_id} of {effect.tool}, which had come back to a process that lives on",
            f"the call is {effect.state}",
            since=done,
            at=e.final_record,
        )
