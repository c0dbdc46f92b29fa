"""Owns who may act for a work: claims, leases, generations, the fence, and giving back.

A claim is one conditional UPDATE that names the generation and owner it has read; whoever changes no row does nothing
(C28). Every later write for the work passes the fence inside its own transaction, so an old generation stores nothing
(OWN-3).

An owner loses a work in two ways only. Its process is certainly dead (OWN-2, OWN-6, C29). Or its lease has run out by the
clock *and* its renewal counter then stood still for `watch_s` of monotonic time, as the taker itself saw: one that jumps
ahead leaves an owner that lives the time to renew, and one that goes back takes nothing at all (C35).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from faults.probe import reach
from reference import clock, identity, projection
from reference.identity import Identity
from reference.model import Fenced
from reference.settings import RENEWALS_PER_LEASE, Settings
from reference.store import Row, Store, Tx

# What may need an owner, oldest first over all sessions, so that none starves (REC-7).
_OPEN = """
SELECT work_id, session, input, request_id, state, desired_state, host, generation, owner, lease_until, renewals, parked,
       next_try_at, EXISTS (SELECT 1 FROM turns t WHERE t.work_id = works.work_id) AS begun
FROM works WHERE owner IS NOT NULL OR state IN ('queued', 'waiting') ORDER BY place
"""
# Works of one session run one after another: none is taken while another is owned, or while an older one is unfinished.
_TAKE = """
UPDATE works SET owner = ?, host = ?, generation = generation + 1, lease_until = ?, renewals = renewals + 1, state = ?,
       admitting = ?, reason_code = NULL, reason = NULL, parked = 0, next_try_at = NULL
WHERE work_id = ? AND generation = ? AND owner IS ? AND state NOT IN ('done', 'cancelled') AND (owner IS NOT NULL OR (
      desired_state = 'run' AND state IN ('queued', 'waiting') AND NOT EXISTS (
      SELECT 1 FROM works o WHERE o.session = works.session AND o.work_id <> works.work_id
      AND (o.owner IS NOT NULL OR (o.place < works.place AND o.state IN ('queued', 'waiting'))))))
"""
_FENCE = "SELECT desired_state, control_version, tries FROM works WHERE work_id = ? AND generation = ? AND owner = ?"


@dataclass(frozen=True, slots=True)
class Held:
    """A work under the generation by which this process owns it."""

    work_id: str
    session: str
    input: str
    request_id: str
    generation: int
    owner: str


@dataclass(slots=True)
class Lookout:
    """What one process has seen of owners whose lease has run out, to tell a standing one from a living one."""

    me: str
    settings: Settings
    _seen: dict[str, tuple[int, int, float]] = field(default_factory=dict)

    def next(self, store: Store) -> tuple[Row | None, bool]:
        """The next work that this process may take, and whether anything is open that time alone can free."""
        with store.read() as tx:
            rows = tx.all(_OPEN)
        owned = {row["session"] for row in rows if row["owner"] is not None}
        passed: set[str] = set()
        for row in rows:
            if row["owner"] is not None:
                if self._lost(row):
                    return row, True
            elif row["session"] not in owned and row["session"] not in passed and self._due(row):
                return row, True
            passed.add(row["session"])
        return None, bool(rows)

    def _due(self, row: Row) -> bool:
        if row["desired_state"] != "run" or row["host"] not in (None, identity.host()):
            return False
        at = row["next_try_at"]
        # A try that lies further ahead than any backoff was set by a clock that has gone back since.
        return at is None or not 0 < at - clock.now() <= self.settings.backoff_s_max

    def _lost(self, row: Row) -> bool:
        if row["owner"] == self.me:
            return True  # this process let go of it, and asks only when it runs nothing
        owner = Identity.parse(row["owner"])
        if owner.certainly_dead():
            return True
        if clock.now() < row["lease_until"]:
            self._seen.pop(row["work_id"], None)
            return False
        # How long it had stood still before it ran out says nothing: until then there was no need to renew it.
        mark = (row["generation"], row["renewals"])
        seen = self._seen.get(row["work_id"])
        if seen is None or seen[:2] != mark:
            self._seen[row["work_id"]] = (*mark, clock.monotonic())
            return False
        stood_s = clock.monotonic() - seen[2]
        # Another host's work is never taken in silence (OWN-5).
        return stood_s >= self.settings.watch_s and owner.host == identity.host()


def take(store: Store, row: Row, me: str, settings: Settings, recovering: bool = False) -> Held | None:
    """Take the work as it was seen in `row`, under the next generation. None if somebody was faster."""
    with store.write() as tx:
        changed = tx.run(
            _TAKE,
            me,
            identity.host(),
            clock.now() + settings.lease_s,
            "recovering" if recovering else "working",
            recovering,
            row["work_id"],
            row["generation"],
            row["owner"],
        )
        if not changed:
            return None
        projection.work_event(tx, row["work_id"])
    return Held(row["work_id"], row["session"], row["input"], row["request_id"], row["generation"] + 1, me)


def claim(store: Store, row: Row, me: str, settings: Settings) -> Held | None:
    """Take a work that has not begun, or that waits at a point from which its turn simply goes on."""
    held = take(store, row, me, settings)
    if held:
        reach("work.claimed", held.work_id, {"generation": held.generation})
    return held


def fence(tx: Tx, held: Held) -> Row:
    """The work's intent, read in the caller's transaction. Raises Fenced if another generation owns the work."""
    row = tx.one(_FENCE, held.work_id, held.generation, held.owner)
    if row is None:
        raise Fenced(f"{held.work_id}: generation {held.generation} no longer owns it; drop it")
    return row


def renew(store: Store, held: Held, settings: Settings) -> None:
    """Renew the lease. Raises Fenced if the work has another owner."""
    reach("lease.renewing", held.work_id, {"generation": held.generation})
    with store.write() as tx:
        fence(tx, held)
        tx.run(
            "UPDATE works SET lease_until = ?, renewals = renewals + 1 WHERE work_id = ?",
            clock.now() + settings.lease_s,
            held.work_id,
        )


@dataclass(slots=True)
class Lease:
    """When a held work has to be renewed, by monotonic time and by a clock that may have moved."""

    settings: Settings
    _at: float = field(default_factory=clock.monotonic)
    _wall: float = field(default_factory=clock.now)

    def due(self) -> bool:
        """Whether a third of the lease has passed by either clock, or wall time has gone back."""
        part_s = self.settings.lease_s / RENEWALS_PER_LEASE
        return clock.monotonic() - self._at >= part_s or not -part_s < clock.now() - self._wall < part_s

    def renewed(self) -> None:
        """Count from now."""
        self._at, self._wall = clock.monotonic(), clock.now()


def release(
    tx: Tx,
    held: Held,
    state: str,
    reason_code: str | None = None,
    reason: str | None = None,
    next_try_at: float | None = None,
    parked: bool = False,
) -> None:
    """Give the work back in this state. Raises Fenced if another generation owns it."""
    fence(tx, held)
    tx.run(
        "UPDATE works SET owner = NULL, admitting = 0, state = ?, reason_code = ?, reason = ?, next_try_at = ?, parked = ?"
        " WHERE work_id = ?",
        state,
        reason_code,
        reason,
        next_try_at,
        parked,
        held.work_id,
    )
    projection.work_event(tx, held.work_id)


def give_back_ended(store: Store, work_id: str, generation: int, owner: str) -> bool:
    """Take the owner off a work that has ended; nothing else of it changes (INT-4, C30)."""
    with store.write() as tx:
        return bool(
            tx.run(
                "UPDATE works SET owner = NULL WHERE work_id = ? AND generation = ? AND owner = ?"
                " AND state IN ('done', 'cancelled')",
                work_id,
                generation,
                owner,
            )
        )
