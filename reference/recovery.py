"""Owns recovery: the one entry by which a work that was begun and is not running goes on, in six steps (REC-1).

    load facts, confirm ownership, repair context, decide, admit (and consume the intent), restore the interface

Each step is one commit that changes nothing when it is made again, so being killed between any two of them, any number of
times, has the outcome of one crash (REC-9). Exactly one way is taken (REC-2):

    associate   the owner lives: nothing is written, since nothing changes
    checkpoint  every dispatched call of the open turn has its result, or may be made again: the same turn goes on
    new_turn    an effect stays unknown, or no turn is open: the old turn ends `interrupted`, a new one serves the same work

The key of a decision is made from the work, its control version and its last commit. A control or a new input that comes
before the admission makes the decision void (INT-14).
"""

from __future__ import annotations

from faults.probe import reach
from reference import control, effects, ids, outbox, ownership, projection, transcript, turns
from reference.ownership import Held
from reference.running import LetGo, Process, Run
from reference.store import Row, Tx

_OVERTAKEN = """
SELECT 1 FROM works me JOIN works o ON o.session = me.session AND o.place < me.place
WHERE me.work_id = ? AND o.owner IS NULL AND o.state = 'queued' AND o.desired_state = 'run'
"""


async def recover(process: Process, row: Row, holding: list[Run]) -> Run | None:
    """Bring the work seen in `row` to where its turn may go on; None if there is nothing to go on with.

    holding: gets the run as soon as this process owns the work, so that a caller can give it back.
    Raises LetGo when the user or the process says so, and Fenced when another generation owns the work.
    """
    reach("recovery.facts.loaded", row["work_id"], {"generation": row["generation"], "state": row["state"]})
    if row["state"] in ("done", "cancelled"):
        ownership.give_back_ended(process.store, row["work_id"], row["generation"], row["owner"])
        return None
    held = ownership.take(process.store, row, process.me, process.settings, recovering=True)
    if held is None:
        return None
    reach("recovery.ownership.taken", held.work_id, {"generation": held.generation})
    run = turns.take_up(process, held)
    holding.append(run)
    outbox.deliver(process.store, held.work_id, held)
    if not run.wanted():
        raise LetGo("control")
    if not await _repair(run):
        return None
    reach("recovery.repair.written", held.work_id)
    return run if _resume(run) else None


async def _repair(run: Run) -> bool:
    """Repair the context: late and queried results first, then what is partial, open or unknown. False if that showed the
    work to be finished.

    Every item has a key and every attempt closes once, so a second repair finds nothing to do (REC-4).
    """
    with run.store.read() as tx:
        last = transcript.last_turn(tx, run.held.work_id)
    if last is None:
        turns.begin(run)  # a Resume came between the look at the work and its taking
        return True
    await effects.reconcile(run, last)
    if last["state"] == "done":
        turns.finish(run, None)
        return False
    with run.store.write() as tx:
        ownership.fence(tx, run.held)
        transcript.close_attempts(tx, last)
        effects.hold_unknown(tx, run, last)
    outbox.deliver(run.store, run.held.work_id, run.held)
    return True


def _resume(run: Run) -> bool:
    """Decide, admit, consume and restore. False if a user's newer input goes first."""
    held = run.held
    while True:
        decision = _decide(run)
        if decision is None:
            return False
        reach("recovery.decision.stored", held.work_id, {"key": decision["key"], "way": decision["way"]})
        admitted = _admit(run, decision["key"])
        if admitted is None:
            return False
        if admitted:
            break
    reach("recovery.admitted", held.work_id, {"key": decision["key"], "way": decision["way"]})
    with run.store.write() as tx:
        ownership.fence(tx, held)
        tx.run("UPDATE recoveries SET consumed = 1 WHERE key = ?", decision["key"])
    reach("recovery.intent.consumed", held.work_id, {"key": decision["key"]})
    with run.store.write() as tx:
        ownership.fence(tx, held)
        _restore(tx, held, decision)
    reach("recovery.interface.restored", held.work_id, {"key": decision["key"]})
    return True


def _decide(run: Run) -> Row | None:
    """The one stored decision for the work as it stands; None if a newer input goes first."""
    held = run.held
    with run.store.write() as tx:
        version = _intent(tx, held)
        if _overtaken(tx, held):
            return None
        tx.run(
            "UPDATE recoveries SET void = 1 WHERE work_id = ? AND NOT consumed AND NOT admitted AND control_version <> ?",
            held.work_id,
            version,
        )
        stored = tx.one("SELECT * FROM recoveries WHERE work_id = ? AND NOT consumed AND NOT void", held.work_id)
        if stored is not None:
            return stored
        progress = tx.value("SELECT progress FROM works WHERE work_id = ?", held.work_id)
        key = ids.derived("k", held.work_id, version, progress)
        turn, last = transcript.open_turn(tx, held.work_id), transcript.last_turn(tx, held.work_id)
        safe = turn is not None and not _stays_unknown(tx, turn)
        tx.run(
            "INSERT OR IGNORE INTO recoveries (key, work_id, way, control_version, generation, predecessor, turn_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            key,
            held.work_id,
            "checkpoint" if safe else "new_turn",
            version,
            held.generation,
            None if safe or last is None else last["turn_id"],
            turn["turn_id"] if safe and turn is not None else None,
        )
        return tx.one("SELECT * FROM recoveries WHERE key = ?", key)


def _admit(run: Run, key: str) -> bool | None:
    """Admit the continuation under its key, once. False if the decision is void now; None if a newer input goes first."""
    held = run.held
    with run.store.write() as tx:
        version = _intent(tx, held)
        decision = tx.one("SELECT * FROM recoveries WHERE key = ?", key)
        assert decision is not None
        if not decision["admitted"]:
            if _overtaken(tx, held):
                return None
            if decision["control_version"] != version:
                tx.run("UPDATE recoveries SET void = 1 WHERE key = ?", key)
                return False
            _continue(tx, held, decision)
        tx.run("UPDATE works SET admitting = 0 WHERE work_id = ?", held.work_id)
    return True


def _continue(tx: Tx, held: Held, decision: Row) -> None:
    turn_id = decision["turn_id"]
    if decision["way"] == "new_turn":
        old = transcript.open_turn(tx, held.work_id)
        if old is not None:
            transcript.break_off(tx, old, "interrupted")
        turn_id = transcript.begin_turn(tx, held.session, held.work_id, decision["predecessor"], decision["key"])
    control.tell_who_waits(tx, held.session, held.work_id)
    tx.run("UPDATE recoveries SET admitted = 1, turn_id = ? WHERE key = ?", turn_id, decision["key"])


def _restore(tx: Tx, held: Held, decision: Row) -> None:
    """Tell clients, once for each decision, that the work goes on."""
    tx.run("UPDATE works SET state = 'working' WHERE work_id = ? AND state = 'recovering'", held.work_id)
    if tx.run("UPDATE recoveries SET restored = 1 WHERE key = ? AND NOT restored", decision["key"]):
        projection.add(tx, held.session, "recovered", work_id=held.work_id, way=decision["way"], key=decision["key"])
    projection.work_event(tx, held.work_id)


def _intent(tx: Tx, held: Held) -> int:
    """The control version under which the work is still to run. Raises LetGo if it is not."""
    row = ownership.fence(tx, held)
    if row["desired_state"] != "run":
        raise LetGo("control")
    return int(row["control_version"])


def _overtaken(tx: Tx, held: Held) -> bool:
    """Whether a newer input goes first (INT-13); if so the old turn is closed and the work queued behind it."""
    if not tx.value(_OVERTAKEN, held.work_id):
        return False
    turn = transcript.open_turn(tx, held.work_id)
    if turn is not None:
        transcript.set_aside(tx, turn)
    tx.run("UPDATE recoveries SET void = 1 WHERE work_id = ? AND NOT consumed", held.work_id)
    ownership.release(tx, held, "queued", "new_input_first")
    return True


def _stays_unknown(tx: Tx, turn: Row) -> bool:
    """Whether a call of the turn's newest reply has a placeholder for its result."""
    reply = transcript.newest_reply(tx, turn["turn_id"])  # none yet, if the turn makes the calls of the one it continues
    return bool(
        tx.value(
            "SELECT 1 FROM items WHERE session = ? AND item > ? AND turn_id = ? AND placeholder",
            turn["session"],
            0 if reply is None else reply["item"],
            turn["turn_id"],
        )
    )
