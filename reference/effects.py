"""Owns tool calls and their effects: intent stored, dispatch stored, call made, result stored (EFF-1), and what may be
done about a call whose outcome is not known.

    not_started      the intent is there, no dispatch: may be called under today's rules (EFF-2)
    outcome_unknown  dispatched, no result: a trusted read runs again, a deduplicating service gets the same key again,
                     any other write is asked for first; what cannot be asked stays so (EFF-3, EFF-6)
    succeeded, failed   the stored result is used (EFF-4)
    abandoned        a user, told of the risk, wants no more of it

What may be relied on comes from the trusted registry and the implementation that was stored when the call ran, not from a
name or a tool's own word (EFF-7, EFF-14). While an effect of the conversation is unknown, only the built-in readers run
(EFF-8).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from faults.probe import reach
from reference import clock, ids, ownership, projection, transcript
from reference.context import NO_RESULT
from reference.model import Fenced, Outcome, OutcomeUnknown, Tool, ToolCall, ToolContext
from reference.running import Late, LetGo, Run
from reference.store import Row, Store, Tx
from reference.tools import parse

SENDINGS_MAX = 3
SUMMARY_CHARS_MAX = 200
DID_NOT_HAPPEN = "[This call certainly did not take effect.]"

_OF_CALL = "SELECT * FROM effects WHERE session = ? AND item = ? AND call_id = ?"
_UNKNOWN = "SELECT * FROM effects WHERE session = ? AND state = 'outcome_unknown' ORDER BY item, rowid"
_IN_SCOPE = (
    "SELECT call_id, tool FROM effects WHERE session = ? AND effect <> ? AND state = 'outcome_unknown' AND NOT harmless"
    " ORDER BY item, rowid"
)


async def perform(run: Run, turn: Row, item: int, call: ToolCall) -> None:
    """Bring one call of a reply to its result, from wherever an earlier life left it.

    Raises LetGo or Fenced when the work is not this process's to run any more; nothing is sent then.
    """
    tool, arguments = run.process.kit.registry.get(call.name), parse(call.arguments)
    if tool is None:
        _answer(run, turn, item, call, Outcome(False, f"There is no tool {call.name!r}; nothing was done."))
        return
    if isinstance(arguments, Outcome):
        _answer(run, turn, item, call, arguments)
        return
    effect = _intend(run, turn, item, call, tool)
    try:
        outcome = await _send(run, effect, tool, arguments)
    except _Refusal as refusal:
        _answer(run, turn, item, call, Outcome(False, str(refusal)))
        return
    if outcome is not None:
        _store_result(run, effect, outcome)
        return
    with run.store.write() as tx:
        ownership.fence(tx, run.held)
        _place_holder(tx, run, effect)
    reach("tool.result.stored", run.held.work_id, {"call": call.id, "state": "outcome_unknown"})


def _intend(run: Run, turn: Row, item: int, call: ToolCall, tool: Tool) -> Row:
    """The effect of this call, its intent stored now if it was not before. One that an earlier turn had only intended is
    this turn's from now on: recovery asks the turn that made a call what may have happened (EFF-3)."""
    with run.store.read() as tx:
        known = tx.one(_OF_CALL, turn["session"], item, call.id)
    if known is not None and (known["state"] != "not_started" or known["turn_id"] == turn["turn_id"]):
        return known
    if known is not None:
        with run.store.write() as tx:
            ownership.fence(tx, run.held)
            tx.run("UPDATE effects SET turn_id = ? WHERE effect = ?", turn["turn_id"], known["effect"])
            row = tx.one(_OF_CALL, turn["session"], item, call.id)
        assert row is not None
        return row
    name = ids.derived("e", turn["session"], item, call.id)
    with run.store.write() as tx:
        ownership.fence(tx, run.held)
        tx.run(
            "INSERT INTO effects (effect, session, work_id, turn_id, item, call_id, tool, arguments, state, implementation,"
            " idempotency_key, summary, checks, harmless) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'not_started', ?, ?, ?, ?, ?)",
            name,
            turn["session"],
            run.held.work_id,
            turn["turn_id"],
            item,
            call.id,
            call.name,
            call.arguments,
            tool.implementation,
            f"key_{name}",
            _summary(call),
            json.dumps(_checks(tool)),
            tool.trusted and tool.read_only,
        )
        row = tx.one(_OF_CALL, turn["session"], item, call.id)
    assert row is not None
    reach("tool.intent.stored", run.held.work_id, {"call": call.id, "tool": call.name})
    return row


class _Refusal(Exception):
    """The call may not be made now; the text is its result."""


async def _send(run: Run, effect: Row, tool: Tool, arguments: dict[str, Any], risk: bool = False) -> Outcome | None:
    """Dispatch and call until the outcome is known; None if it stays unknown. Nothing is sent twice blindly.

    risk: a user has allowed one more sending, told of the risk (EFF-6).
    """
    ctx = _context(run, effect)
    for _ in range(SENDINGS_MAX):
        _dispatch(run, effect, tool, risk)
        try:
            outcome = await _call(run, lambda: tool.run(ctx, arguments))
        except OutcomeUnknown:
            if tool.trusted and (tool.read_only or tool.idempotent):
                continue
            try:
                found = await _ask(run, effect, tool, arguments)
            except OutcomeUnknown:
                return None
            if found is not None:
                return found
            _undo_dispatch(run, effect)
            continue
        with _keeping(run, effect, outcome):
            reach("tool.effect.done", run.held.work_id, {"call": effect["call_id"], "tool": effect["tool"]})
        return outcome
    return None


@contextmanager
def _keeping(run: Run, effect: Row, outcome: Outcome) -> Iterator[None]:
    """Keep a result in hand when it cannot be stored now: the call is not made again for it (C08)."""
    try:
        yield
    except (OSError, sqlite3.Error):
        run.process.kept.append(_late(run, effect, outcome))
        raise


async def _call(run: Run, act: Callable[[], Awaitable[Outcome]]) -> Outcome:
    """Let the tool act. A tool that fails in an unforeseen way may have acted before it failed."""
    try:
        return await run.watched(act, cut=False)
    except (LetGo, Fenced, OutcomeUnknown):
        raise
    except Exception as error:
        raise OutcomeUnknown(f"the tool failed ({error!r})") from error


def _dispatch(run: Run, effect: Row, tool: Tool, risk: bool) -> None:
    """Store the dispatch, unless the user, another owner or an unknown effect says otherwise.

    The intent is looked at in the same transaction, so a Stop that was acknowledged before always wins, and once more
    after it: a Stop or a take-over that came while this process stood still stops the call, which then has certainly not
    been made by this dispatch. What an earlier one may have done stays unknown (EFF-3).
    """
    run.look()
    with run.store.write() as tx:
        if ownership.fence(tx, run.held)["desired_state"] != "run":
            raise LetGo("control")
        if not tool.builtin and not risk:
            _refuse_in_scope(tx, effect)
        before = tx.one("SELECT state, resolution FROM effects WHERE effect = ?", effect["effect"])
        tx.run(
            "UPDATE effects SET state = 'outcome_unknown', dispatches = dispatches + 1, dispatched_at = ?, generation = ?,"
            " implementation = ?, resolution = NULL WHERE effect = ?",
            clock.now(),
            run.held.generation,
            tool.implementation,
            effect["effect"],
        )
        # Progress, so that a recovery decides anew: what an earlier one decided knew nothing of this call (REC-3).
        transcript.progressed(tx, run.held.work_id)
        projection.add(
            tx,
            effect["session"],
            "tool.dispatched",
            work_id=run.held.work_id,
            turn_id=effect["turn_id"],
            call_id=effect["call_id"],
            tool=effect["tool"],
        )
    reach("tool.dispatch.stored", run.held.work_id, {"call": effect["call_id"], "tool": effect["tool"]})
    if not run.wanted():
        assert before is not None
        _undo_dispatch(run, effect, before["state"], before["resolution"])
        raise LetGo("control")


def _refuse_in_scope(tx: Tx, effect: Row) -> None:
    unknown = tx.all(_IN_SCOPE, effect["session"], effect["effect"])
    if unknown:
        names = ", ".join(f"{row['tool']} ({row['call_id']})" for row in unknown)
        raise _Refusal(
            f"Refused, nothing was done: the outcome of {names} is unknown. Until a user resolves it, only read, grep, glob"
            " and list may run."
        )


def _undo_dispatch(run: Run, effect: Row, state: str = "not_started", resolution: str | None = None) -> None:
    """The call was certainly not made, or certainly had no effect: it is what it was before, or not started."""
    with run.store.write() as tx:
        ownership.fence(tx, run.held)
        tx.run(
            "UPDATE effects SET state = ?, resolution = ? WHERE effect = ? AND state = 'outcome_unknown'",
            state,
            resolution,
            effect["effect"],
        )


def _store_result(run: Run, effect: Row, outcome: Outcome) -> None:
    """Store a result. If another generation owns the work, leave it as evidence for that owner (EFF-13), and let go."""
    with _keeping(run, effect, outcome):
        try:
            with run.store.write() as tx:
                ownership.fence(tx, run.held)
                _settle(tx, effect, outcome)
        except Fenced:
            leave_late(run.store, _late(run, effect, outcome))
            raise
    reach("tool.result.stored", run.held.work_id, {"call": effect["call_id"], "ok": outcome.ok})


def _settle(tx: Tx, effect: Row, outcome: Outcome) -> None:
    """Store an outcome in the caller's transaction: as the call's result, or as a reconciliation of one."""
    tx.run(
        "UPDATE effects SET state = ?, resolution = NULL WHERE effect = ? AND state IN ('not_started', 'outcome_unknown')",
        "succeeded" if outcome.ok else "failed",
        effect["effect"],
    )
    _add_result(tx, effect, outcome.text)
    transcript.progressed(tx, effect["work_id"])
    projection.add(
        tx,
        effect["session"],
        "tool.result",
        work_id=effect["work_id"],
        turn_id=effect["turn_id"],
        call_id=effect["call_id"],
        ok=outcome.ok,
    )


def _add_result(tx: Tx, effect: Row, text: str) -> None:
    late = _has_placeholder(tx, effect)
    transcript.add(
        tx,
        effect["session"],
        f"{'reconciled' if late else 'result'}:{effect['effect']}",
        "reconciliation" if late else "tool_result",
        text,
        turn_id=effect["turn_id"],
        work_id=effect["work_id"],
        call_id=effect["call_id"],
    )


def _answer(run: Run, turn: Row, item: int, call: ToolCall, outcome: Outcome) -> None:
    """Give a call that is not made its result."""
    with run.store.write() as tx:
        ownership.fence(tx, run.held)
        effect = tx.one(_OF_CALL, turn["session"], item, call.id)
        if effect is not None:
            _settle(tx, effect, outcome)
        else:
            transcript.add(
                tx,
                turn["session"],
                f"answer:{turn['turn_id']}:{item}:{call.id}",
                "tool_result",
                outcome.text,
                turn_id=turn["turn_id"],
                work_id=run.held.work_id,
                call_id=call.id,
            )
            transcript.progressed(tx, run.held.work_id)
    reach("tool.result.stored", run.held.work_id, {"call": call.id, "ok": outcome.ok})


# What is unknown -----------------------------------------------------------------------------------------------------


async def reconcile(run: Run, turn: Row | None) -> None:
    """Find out what can be found out about the conversation's unknown effects, before anything else is called.

    Late receipts first, then what a user has allowed, then state queries. Real results go before made ones (REC-4).
    Effects of `turn`, the work's newest, that may simply be sent again are left to its continuation.
    """
    with run.store.write() as tx:
        ownership.fence(tx, run.held)
        _take_late(tx, run.held.session)
        unknown = tx.all(_UNKNOWN, run.held.session)
    for effect in unknown:
        tool = _same(run, effect)
        if effect["resolution"] == "retry":
            await _retry(run, effect)
        elif tool is not None and not _left_to(turn, effect, tool):
            await _find_out(run, effect, tool)


async def _retry(run: Run, effect: Row) -> None:
    tool, arguments = run.process.kit.registry.get(effect["tool"]), parse(effect["arguments"])
    if tool is None or isinstance(arguments, Outcome):
        return
    outcome = await _send(run, effect, tool, arguments, risk=True)
    if outcome is not None:
        _store_result(run, effect, outcome)


async def _find_out(run: Run, effect: Row, tool: Tool) -> None:
    arguments = parse(effect["arguments"])
    if isinstance(arguments, Outcome):
        return
    try:
        found = await _ask(run, effect, tool, arguments)
    except OutcomeUnknown:
        return
    with run.store.write() as tx:
        ownership.fence(tx, run.held)
        if found is not None:
            _settle(tx, effect, found)
            return
        tx.run("UPDATE effects SET state = 'not_started' WHERE effect = ?", effect["effect"])
        if _has_placeholder(tx, effect):
            _add_result(tx, effect, DID_NOT_HAPPEN)


async def _ask(run: Run, effect: Row, tool: Tool, arguments: dict[str, Any]) -> Outcome | None:
    """Query whether the effect happened; None if it certainly did not. Raises OutcomeUnknown if that cannot be told."""
    if not (tool.trusted and tool.state_probe):
        raise OutcomeUnknown(f"{tool.name}: cannot be asked")
    ctx = _context(run, effect)
    try:
        return await tool.probe(ctx, ctx.key, arguments)
    except OutcomeUnknown:
        raise
    except Exception as error:
        raise OutcomeUnknown(f"{tool.name}: the query failed ({error!r})") from error


def hold_unknown(tx: Tx, run: Run, turn: Row) -> None:
    """Give each unknown effect of the work's newest turn that may not be sent again its placeholder."""
    for effect in tx.all(_UNKNOWN, turn["session"]):
        tool = _same(run, effect)
        if effect["turn_id"] == turn["turn_id"] and (tool is None or not _left_to(turn, effect, tool)):
            _place_holder(tx, run, effect)


def _place_holder(tx: Tx, run: Run, effect: Row) -> None:
    if _has_result(tx, effect):
        return
    transcript.add(
        tx,
        effect["session"],
        transcript.placeholder_key(effect["session"], effect["item"], effect["call_id"]),
        "tool_result",
        NO_RESULT,
        turn_id=effect["turn_id"],
        work_id=effect["work_id"],
        call_id=effect["call_id"],
        placeholder=True,
    )
    tool = run.process.kit.registry.get(effect["tool"])
    if tool is None or tool.implementation != effect["implementation"]:
        tx.run("UPDATE effects SET note = 'implementation_changed' WHERE effect = ?", effect["effect"])


def _same(run: Run, effect: Row) -> Tool | None:
    """The trusted tool that ran this call, if it is still that very implementation."""
    tool = run.process.kit.registry.get(effect["tool"])
    same = tool is not None and tool.trusted and tool.implementation == effect["implementation"]
    return tool if same else None


def _left_to(turn: Row | None, effect: Row, tool: Tool) -> bool:
    """Whether the turn, or the one that continues it, may simply make this call again."""
    return turn is not None and effect["turn_id"] == turn["turn_id"] and (tool.read_only or tool.idempotent)


def _has_placeholder(tx: Tx, effect: Row) -> bool:
    key = transcript.placeholder_key(effect["session"], effect["item"], effect["call_id"])
    return bool(tx.value("SELECT 1 FROM items WHERE key = ?", key))


def _has_result(tx: Tx, effect: Row) -> bool:
    return bool(tx.value("SELECT 1 FROM items WHERE key = ?", f"result:{effect['effect']}"))


# Late receipts -------------------------------------------------------------------------------------------------------


def _late(run: Run, effect: Row, outcome: Outcome) -> Late:
    tool = run.process.kit.registry.get(effect["tool"])
    verified = tool is not None and tool.trusted
    return Late(effect["effect"], effect["session"], run.held.generation, outcome, verified)


def leave_late(store: Store, late: Late) -> None:
    """Leave a result that came under an old generation, as evidence and nothing else."""
    with store.write() as tx:
        tx.run(
            "INSERT OR IGNORE INTO late_receipts (effect, generation, session, ok, text, verified)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            late.effect,
            late.generation,
            late.session,
            late.outcome.ok,
            late.outcome.text,
            late.verified,
        )


def _take_late(tx: Tx, session: str) -> None:
    """Turn verified late receipts into results or reconciliations. What is known already stays as it is."""
    for late in tx.all("SELECT * FROM late_receipts WHERE session = ? AND verified AND NOT taken ORDER BY rowid", session):
        effect = tx.one("SELECT * FROM effects WHERE effect = ?", late["effect"])
        if effect is not None and effect["state"] in ("outcome_unknown", "abandoned"):
            _settle(tx, effect, Outcome(bool(late["ok"]), late["text"], late=True))
        tx.run("UPDATE late_receipts SET taken = 1 WHERE effect = ? AND generation = ?", late["effect"], late["generation"])


def take_late_at_rest(store: Store) -> None:
    """Take in late receipts of conversations in which nothing runs."""
    at_rest = (
        "SELECT DISTINCT session FROM late_receipts l WHERE verified AND NOT taken AND NOT EXISTS"
        " (SELECT 1 FROM works w WHERE w.session = l.session AND w.owner IS NOT NULL)"
    )
    with store.read() as tx:
        if not tx.all(at_rest):
            return
    with store.write() as tx:
        for row in tx.all(at_rest):
            _take_late(tx, row["session"])


# For people ----------------------------------------------------------------------------------------------------------


def _context(run: Run, effect: Row) -> ToolContext:
    return ToolContext(
        workspace=run.workspace,
        effects_url=run.process.settings.effects_url,
        client=run.process.kit.client,
        key=effect["idempotency_key"],
        call_id=effect["call_id"],
    )


def _summary(call: ToolCall) -> str:
    text = " ".join(f"{call.name} {call.arguments}".split())
    return text if len(text) <= SUMMARY_CHARS_MAX else text[: SUMMARY_CHARS_MAX - 1] + "…"


def _checks(tool: Tool) -> list[str]:
    """What can still be checked about a call whose outcome is unknown."""
    named = (("read_again", tool.read_only), ("same_key", tool.idempotent), ("state_query", tool.state_probe))
    return [name for name, known in named if known and tool.trusted] or ["user"]
