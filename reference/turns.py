"""Owns the turn: its beginning, the loop of model and tools, and its end. Recovery enters the same loop (`go_on`).

The loop keeps nothing in memory that it needs: each round reads what is stored and does the next thing. So a turn that was
broken off anywhere goes on by entering the loop again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from faults.probe import reach
from reference import clock, control, effects, ids, outbox, ownership, projection, transcript, usage
from reference.model import Counts, Fenced, HistoryFault, Item, ProviderFault, Reply
from reference.running import LetGo, Process, Run
from reference.store import Row, Tx

GO_ON = "The request quoted here was interrupted before it was finished; continue it. Do not repeat what is done."

_INTENT = "SELECT i.text, s.workspace FROM inputs i JOIN sessions s ON s.session = i.session WHERE i.input = ?"


def take_up(process: Process, held: ownership.Held) -> Run:
    """The run of a work that this process has just taken."""
    with process.store.read() as tx:
        row = tx.one(_INTENT, held.input)
    assert row is not None
    return Run(process, held, Path(row["workspace"]))


def begin(run: Run) -> None:
    """Begin the work's first turn: the turn, the user's item and the consumed input in one commit (ADM-5)."""
    held = run.held
    with run.store.write() as tx:
        if ownership.fence(tx, held)["desired_state"] != "run":
            raise LetGo("control")
        text = tx.value("SELECT text FROM inputs WHERE input = ?", held.input)
        control.tell_who_waits(tx, held.session, held.work_id)
        turn_id = transcript.begin_turn(tx, held.session, held.work_id)
        transcript.add(
            tx,
            held.session,
            f"user:{held.input}",
            "user",
            text,
            turn_id=turn_id,
            work_id=held.work_id,
            request_id=held.request_id,
        )
        tx.run("UPDATE inputs SET consumed = 1 WHERE input = ?", held.input)
    reach("turn.begun", held.work_id, {"turn": turn_id})


async def go_on(run: Run) -> None:
    """Run the open turn to its end. Raises LetGo or Fenced when the work is not this process's to run any more."""
    if not run.workspace.is_dir():
        _wait(run, "workspace_missing", f"{run.workspace} is gone; put it back")
        return
    run.look()
    turn = _open(run)
    await effects.reconcile(run, turn)
    while True:
        with run.store.read() as tx:
            item, missing = transcript.open_calls(tx, turn)
            answered = transcript.answered(tx, turn["turn_id"])
        if answered:
            finish(run, turn)
            return
        for call in missing:
            await effects.perform(run, turn, item, call)
        if not await _ask(run, turn):
            return


def finish(run: Run, turn: Row | None) -> None:
    """End the work: its turn, its state and the events in one commit, then give it back. A control decides before that."""
    held = run.held
    with run.store.write() as tx:
        if ownership.fence(tx, held)["desired_state"] != "run":
            raise LetGo("control")
        if turn is not None:
            transcript.end_turn(tx, turn, "done")
        tx.run("UPDATE works SET state = 'done', desired_state = 'done', admitting = 0 WHERE work_id = ?", held.work_id)
        projection.work_event(tx, held.work_id)
    reach("turn.committed", held.work_id, {"turn": turn["turn_id"] if turn else None})
    ownership.give_back_ended(run.store, held.work_id, held.generation, held.owner)
    reach("work.released", held.work_id)


def obey(run: Run) -> None:
    """Let go of what runs because the user wants the work paused or cancelled, then give it back so (INT-3)."""
    held = run.held
    with run.store.write() as tx:
        desired = ownership.fence(tx, held)["desired_state"]
        control.close_for(tx, held.work_id, desired)
        tx.run("UPDATE recoveries SET void = 1 WHERE work_id = ? AND NOT consumed", held.work_id)
    outbox.deliver(run.store, held.work_id, held)
    reach("control.applied", held.work_id)
    with run.store.write() as tx:
        # The user may have decided anew since; the work is given back as it is wanted now, and told so (C04).
        desired = ownership.fence(tx, held)["desired_state"]
        control.close_for(tx, held.work_id, desired)
        reason = {"paused": "user_paused", "cancelled": "user_stopped"}.get(desired)
        ownership.release(tx, held, "queued" if desired == "run" else desired, reason)
    reach("work.released", held.work_id)


def checkpoint(run: Run) -> None:
    """Give the work back between two steps, to be gone on with by the next owner (INT-6, REC-3); as its user wants it, if
    a control came before (INT-7): one that is queued and not to run would be nobody's."""
    with run.store.write() as tx:
        wanted = ownership.fence(tx, run.held)["desired_state"] == "run"
        if wanted:
            ownership.release(tx, run.held, "queued", "worker_exit")
    if not wanted:
        obey(run)


def _open(run: Run) -> Row:
    with run.store.read() as tx:
        ownership.fence(tx, run.held)
        turn = transcript.open_turn(tx, run.held.work_id)
    assert turn is not None, f"{run.held.work_id} has no open turn to go on with"
    return turn


# One request to the model --------------------------------------------------------------------------------------------


async def _ask(run: Run, turn: Row) -> bool:
    """Make one attempt. False if the work was given back, to wait or as failed."""
    run.look()
    with run.store.read() as tx:
        items = transcript.items(tx, run.held.session)
        text = tx.value("SELECT text FROM inputs WHERE input = ?", run.held.input)
    try:
        messages = run.process.kit.messages(items, _note(items, run.held.work_id, text))
    except HistoryFault as fault:
        _fail(run, turn, fault.code, fault.message)
        return False
    attempt = _Attempt(run, turn, _store_attempt(run, turn))
    kit = run.process.kit
    try:
        # A Stop or a take-over may have come while the attempt was stored; nothing has been sent yet.
        run.look()
        reply = await run.watched(
            lambda: kit.stream(
                kit.client, run.process.settings, attempt.name, messages, kit.registry.offered(), attempt.on_piece
            ),
            cut=True,
        )
    except ProviderFault as fault:
        attempt.close()
        return _after_fault(run, turn, fault)
    except LetGo:
        attempt.close()
        raise
    return attempt.keep(reply)


def _note(items: Sequence[Item], work_id: str, text: str) -> str | None:
    """What the request ends with when the model could not tell otherwise which request it is to go on with."""
    users = [item for item in items if item.kind == "user"]
    spoken = [item for item in items if item.kind in ("user", "assistant", "tool_result")]
    follows_another = not users or users[-1].work_id != work_id
    cut_off = bool(spoken) and spoken[-1].kind == "assistant"
    told_off = any(item.kind == "note" and item.work_id == work_id for item in items)
    return f"{GO_ON}\nRequest: {text}" if follows_another or cut_off or told_off else None


def _store_attempt(run: Run, turn: Row) -> str:
    """Fix the attempt in both databases before anything is sent (USE-1)."""
    held, name = run.held, ids.new("a")
    with run.store.write() as tx:
        if ownership.fence(tx, held)["desired_state"] != "run":
            raise LetGo("control")
        n = int(tx.value("SELECT COALESCE(MAX(n), 0) + 1 FROM attempts WHERE turn_id = ?", turn["turn_id"]))
        tx.run(
            "INSERT INTO attempts (attempt, turn_id, work_id, n, generation, state) VALUES (?, ?, ?, ?, ?, 'open')",
            name,
            turn["turn_id"],
            held.work_id,
            n,
            held.generation,
        )
        outbox.add(tx, held.work_id, held.session, name, "attempt", turn_id=turn["turn_id"], generation=held.generation)
        transcript.progressed(tx, held.work_id)
    reach("outbox.row.stored", held.work_id, {"attempt": name, "kind": "attempt"})
    outbox.deliver(run.store, held.work_id, held)
    reach("attempt.stored", held.work_id, {"attempt": name})
    return name


class _Attempt:
    """One attempt while its reply comes in. Its pieces are its own: nothing of it can be joined to another (C03)."""

    def __init__(self, run: Run, turn: Row, name: str) -> None:
        self.name = name
        self._run, self._turn = run, turn
        self._unsaved: list[str] = []
        self._watermark: int | None = None
        self._saved = 0

    def on_piece(self, text: str, counts: Counts | None) -> None:
        """Take a piece of the stream; store what has gathered every so many pieces. Raises Fenced."""
        if counts is not None:
            self._watermark = max(self._watermark or 0, counts.output_tokens)
        if text:
            self._unsaved.append(text)
        if len(self._unsaved) >= self._run.process.settings.pieces_per_commit:
            self._save()

    def _save(self) -> None:
        held, text = self._run.held, "".join(self._unsaved)
        with self._run.store.write() as tx:
            ownership.fence(tx, held)
            tx.run("INSERT INTO partials (attempt, n, text) VALUES (?, ?, ?)", self.name, self._saved, text)
            tx.run("UPDATE attempts SET watermark = ? WHERE attempt = ?", self._watermark, self.name)
            projection.add(
                tx,
                held.session,
                "text",
                work_id=held.work_id,
                turn_id=self._turn["turn_id"],
                attempt=self.name,
                text=text,
            )
        self._saved += 1
        self._unsaved.clear()
        reach("stream.text.committed", held.work_id, {"attempt": self.name})

    def close(self) -> None:
        """The reply did not come whole: keep its text, marked, and the attempt as unknown (REC-11, USE-2)."""
        held = self._run.held
        with self._run.store.write() as tx:
            ownership.fence(tx, held)
            transcript.close_attempts(tx, self._turn, "".join(self._unsaved), self._watermark)
        outbox.deliver(self._run.store, held.work_id, held)

    def keep(self, reply: Reply) -> bool:
        """Store the whole reply with its receipt in one commit, then tell the ledger. False if the work has failed by it.

        Where another generation owns the work, the reply is dropped and its receipt kept (C31). A reply that makes no sense
        fails the work in the commit that stores it, so that nobody asks for another after a death (HIS-6, REC-13).
        """
        held = self._run.held
        detail = {"attempt": self.name}
        reach("reply.received", held.work_id, detail)
        if reply.counts is not None:
            reach("usage.receipt.received", held.work_id, detail)
        twice = _twice(reply)
        try:
            with self._run.store.write() as tx:
                wanted = ownership.fence(tx, held)["desired_state"] == "run"
                self._store(tx, reply, keep=twice is None)
                if twice is not None and wanted:
                    message = f"the model used the call id {twice!r} twice in one reply, so no result could be told apart"
                    _failed(tx, self._run, self._turn, "duplicate_call_id", message)
        except Fenced:
            if reply.counts is not None:
                usage.take_late(self._run.store, held.session, self.name, reply.counts)
            raise
        reach("reply.stored", held.work_id, detail)
        reach("outbox.row.stored", held.work_id, {**detail, "kind": "receipt" if reply.counts else "close"})
        if twice is None:
            outbox.deliver(self._run.store, held.work_id, held)
            return True
        if not wanted:
            raise LetGo("control")
        _deliver_ended(self._run)
        return False

    def _store(self, tx: Tx, reply: Reply, keep: bool) -> None:
        held, turn_id = self._run.held, self._turn["turn_id"]
        if keep:
            transcript.add(
                tx,
                held.session,
                f"reply:{self.name}",
                "assistant",
                reply.text,
                turn_id=turn_id,
                work_id=held.work_id,
                calls=reply.calls,
            )
        tx.run("DELETE FROM partials WHERE attempt = ?", self.name)
        tx.run("UPDATE attempts SET state = 'replied', watermark = ? WHERE attempt = ?", self._watermark, self.name)
        if reply.counts is not None:
            counts = {name: getattr(reply.counts, name) for name in ("input_tokens", "cached_tokens", "output_tokens")}
            outbox.add(tx, held.work_id, held.session, self.name, "receipt", **counts)
        else:
            outbox.add(tx, held.work_id, held.session, self.name, "close", watermark=self._watermark)
        tx.run("UPDATE works SET progress = progress + 1, tries = 0 WHERE work_id = ?", held.work_id)
        projection.add(tx, held.session, "reply", work_id=held.work_id, turn_id=turn_id, attempt=self.name, text=reply.text)


def _twice(reply: Reply) -> str | None:
    """A call id that stands twice in one reply, or None (HIS-6)."""
    seen: set[str] = set()
    for call in reply.calls:
        if call.id in seen:
            return call.id
        seen.add(call.id)
    return None


# When the provider fails ---------------------------------------------------------------------------------------------


def _after_fault(run: Run, turn: Row, fault: ProviderFault) -> bool:
    """Wait with a bounded backoff after a passing fault, fail after a lasting one (REC-8). Always False: given back."""
    settings, held = run.process.settings, run.held
    with run.store.read() as tx:
        tries = int(ownership.fence(tx, held)["tries"]) + 1
    if not fault.passing:
        _fail(run, turn, "provider_refused", fault.message)
    elif tries >= settings.tries_max:
        _fail(run, turn, "provider_unavailable", f"{fault.message}; tried {tries} times")
    else:
        _wait(
            run, "provider_unavailable", fault.message, min(settings.backoff_s * 2 ** (tries - 1), settings.backoff_s_max)
        )
    return False


def _wait(run: Run, reason_code: str, reason: str, wait_s: float | None = None) -> None:
    """Give the work back with a stored time of next try; nothing is asked of anybody before it."""
    at = clock.now() + (run.process.settings.backoff_s if wait_s is None else wait_s)
    with run.store.write() as tx:
        if ownership.fence(tx, run.held)["desired_state"] != "run":
            raise LetGo("control")
        tx.run("UPDATE works SET tries = tries + 1 WHERE work_id = ?", run.held.work_id)
        ownership.release(tx, run.held, "waiting", reason_code, reason, at, parked=True)
    reach("work.released", run.held.work_id)


def _fail(run: Run, turn: Row, reason_code: str, reason: str) -> None:
    """Give the work back as failed: its record stays, and a user may retry, pause or stop it."""
    with run.store.write() as tx:
        if ownership.fence(tx, run.held)["desired_state"] != "run":
            raise LetGo("control")
        _failed(tx, run, turn, reason_code, reason)
    _deliver_ended(run)


def _failed(tx: Tx, run: Run, turn: Row, reason_code: str, reason: str) -> None:
    transcript.break_off(tx, turn, "interrupted")
    control.tell(tx, turn, "failed", f"The request {{where}} was not finished: {reason_code}.")
    ownership.release(tx, run.held, "failed", reason_code, reason)


def _deliver_ended(run: Run) -> None:
    """What is left to do for a work that has been given back with its last commit."""
    outbox.deliver(run.store, run.held.work_id)
    reach("work.released", run.held.work_id)
