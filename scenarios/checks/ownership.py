"""Owns the checks of ownership (OWN): one process acts for a work, a live one keeps it, an old one is refused."""

from __future__ import annotations

from itertools import pairwise

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import CLAIMS, GIVEN_BACK, OWNERS_WRITES, Claim, Evidence, Process, process
from scenarios.history import Record


def _named(claim: Claim) -> str:
    return f"{claim.process[0]} {claim.process[1]}"


@check(
    "one-owner",
    "OWN-1 OWN-3",
    "at any moment at most one owner acts for a work, and each new owner has a higher generation",
)
def one_owner(e: Evidence, found: Findings) -> None:
    for claims in e.claims.values():
        for before, after in pairwise(claims):
            if before.generation is None or after.generation is None:
                continue
            same = before.process == after.process and before.generation == after.generation
            found.verify(
                after.generation > before.generation or same,
                f"{after.work}: a generation above {before.generation}, which {_named(before)} holds",
                f"{_named(after)} took it under generation {after.generation}",
                since=before.record,
                at=after.record,
            )
    for before, after in e.takeovers:
        late = next(e.world_acts_after(before, after.record.seq), None)
        found.verify(
            late is None,
            f"{before.work}: {_named(before)} acts no more once {_named(after)} owns it",
            f"the world received its {late.kind} {late['n']}" if late else "",
            since=after.record,
            at=late,
        )


@check(
    "owner-claims-first",
    "OWN-1 OWN-6",
    "a process acts for a work only after it has itself claimed it: a pid alone makes nobody its owner",
)
def owner_claims_first(e: Evidence, found: Findings) -> None:
    claimed: set[tuple[str, tuple[str, int]]] = set()
    acted: set[tuple[str, tuple[str, int]]] = set()
    for record in e.reached:
        who = (record.get("work") or "", process(record))
        if not who[0]:
            continue
        if record["point"] in CLAIMS:
            claimed.add(who)
        elif record["point"] in OWNERS_WRITES and who not in acted and e.claims:
            acted.add(who)
            found.verify(
                who in claimed,
                f"{who[0]}: {who[1][0]} {who[1][1]} claims it before it acts for it",
                f"it reached {record['point']} without a claim of its own",
                since=e.lives[who[1]].started if who[1] in e.lives else None,
                at=record,
            )


@check(
    "live-owner-kept",
    "OWN-2",
    "a live executor is never replaced: neither a moved clock nor a lost connection proves its death",
)
def live_owner_kept(e: Evidence, found: Findings) -> None:
    for claims in e.claims.values():
        for claim in claims:
            later = [other for other in claims if other.record.seq > claim.record.seq and other.process != claim.process]
            end = later[0].record.seq if later else len(e.history.records)
            life = e.lives.get(claim.process)
            if life is None or not life.alive_at(end) or e.stalled_between(claim.process, claim.record.seq, end):
                continue
            if _gave_back(e, claim, end, _set_out(e, later[0]) if later else end):
                found.saw(_withstood(e, claim, end))
                continue
            found.verify(
                not later,
                f"{claim.work} stays with {_named(claim)}, which lives and was never stalled",
                f"{_named(later[0])} took it" if later else "",
                since=claim.record,
                at=later[0].record if later else None,
            )


def _withstood(e: Evidence, claim: Claim, end: int) -> int:
    """How often something that is no death could have cost this owner its work before it gave it back: a moved clock, a
    client that left, the death of another process."""
    back = next(
        (
            r.seq
            for r in e.reached
            if claim.record.seq < r.seq < end
            and process(r) == claim.process
            and r.get("work") == claim.work
            and r["point"] in GIVEN_BACK
        ),
        claim.record.seq,
    )
    threats = e.history.of("clock.moved", "client.disconnected", "kill")
    return sum(claim.record.seq < threat.seq < back for threat in threats)


def _set_out(e: Evidence, claim: Claim) -> int:
    """Where this claim's process had looked at the work and set out to take it; from there on it may have been taken."""
    facts = [r for r in e.reached_at("recovery.facts.loaded") if r.get("work") == claim.work]
    mine = [r.seq for r in facts if process(r) == claim.process and r.seq < claim.record.seq]
    return mine[-1] if mine else claim.record.seq


def _gave_back(e: Evidence, claim: Claim, end: int, taken: int) -> bool:
    """Whether this owner may have let the work go by itself: at a point that says so, because it took up another work,
    or because an outer fault had made it wait before anybody set out to take it."""
    for record in e.reached:
        if claim.record.seq < record.seq < end and process(record) == claim.process:
            if record.get("work") == claim.work and record["point"] in GIVEN_BACK:
                return True
            if record["point"] in CLAIMS or record["point"].startswith("exit."):
                return True
    each = e.input_of_work(claim.work)
    if each is None or e.controlled(each.session):
        return True
    requests = [r for r in e.requests_of(each) if r.record.seq > claim.record.seq]
    # One that ends without its reply afterwards may do so because the work was taken.
    ends = [r.refused or r.billed for r in requests if r.failed or not r.complete]
    return any(record is not None and record.seq < taken for record in ends)


@check(
    "old-generation-refused",
    "OWN-3",
    "once a work has a new owner, every later write of the old generation is refused",
    depends_on_kill=True,
)
def old_generation_refused(e: Evidence, found: Findings) -> None:
    for before, after in e.takeovers:
        life = e.lives.get(before.process)
        if life is None or not life.alive_at(after.record.seq):
            continue
        if not _came_back(e, before.process, after.record.seq):
            continue  # it never came back, so it had no chance to write
        write = next(e.acts_after(before, after.record.seq), None)
        found.verify(
            write is None,
            f"{before.work}: writes of generation {before.generation} are refused once {_named(after)} owns it",
            f"{_named(before)} stored one and reached {write['point']}" if write else "",
            since=after.record,
            at=write,
        )


def _came_back(e: Evidence, who: Process, seq: int) -> bool:
    """Whether this life did anything, was thawed or was let go after the place `seq`."""
    let_go = [(r.seq, e.by_nonce.get(r["nonce"])) for r in e.history.of("point.released")]
    signs = [r for r in (*e.reached, *e.history.of("thaw")) if r.seq > seq]
    signs += [at for when, at in let_go if at is not None and when > seq]
    return any(process(record) == who for record in signs)


@check(
    "dead-owner-replaced",
    "OWN-3 OWN-6",
    "once an owner is certainly dead, its unfinished work is taken over under a higher generation, and nobody acts before",
    depends_on_kill=True,
    needs=("final",),
)
def dead_owner_replaced(e: Evidence, found: Findings) -> None:
    for work, claims in e.claims.items():
        each = e.input_of_work(work)
        for i, claim in enumerate(claims):
            life = e.lives.get(claim.process)
            following = claims[i + 1 : i + 2]
            died_owning = life is not None and life.death and not _gave_back_before(e, claim, life.death.seq)
            if life is None or life.death is None or not died_owning:
                continue
            if following and following[0].record.seq < life.death.seq:
                continue
            if each is None or e.controlled(each.session) or e.excused(each):
                continue
            if not following and e.last_step_billed(each, life.death.seq):
                continue  # it may have ended the work just before
            found.verify(
                bool(following) and following[0].process != claim.process and _above(following[0], claim),
                f"{work}: a later life takes it from {_named(claim)}, which was killed, under a generation of its own",
                f"{_named(following[0])} took it under {following[0].generation}" if following else "nobody took it over",
                since=life.death,
                at=e.final_record,
            )


def _above(after: Claim, before: Claim) -> bool:
    return after.generation is None or before.generation is None or after.generation > before.generation


def _gave_back_before(e: Evidence, claim: Claim, end: int) -> bool:
    return any(
        claim.record.seq < r.seq < end
        and process(r) == claim.process
        and r.get("work") == claim.work
        and r["point"] in GIVEN_BACK
        for r in e.reached
    )


@check(
    "no-repair-while-unreadable",
    "OWN-4 REC-1",
    "while the store cannot be read nothing in it is repaired: old state is untouched",
)
def no_repair_while_unreadable(e: Evidence, found: Findings) -> None:
    for broken, mended in _unreadable(e):
        digests = [r for r in e.history.of("store.digest") if broken.seq < r.seq < (mended.seq if mended else r.seq + 1)]
        for later in [*digests, *([mended] if mended else [])]:
            found.verify(
                later["sha256"] == broken["sha256"],
                f"the store as it was broken, digest {broken['sha256'][:12]}",
                f"its digest is {later['sha256'][:12]}",
                since=broken,
                at=later,
            )


@check(
    "unreadable-store-refused",
    "EFF-10 OWN-4 REC-1",
    "if recovery state cannot be read, execution is refused: no model call and no effect",
)
def unreadable_store_refused(e: Evidence, found: Findings) -> None:
    for broken, mended in _unreadable(e):
        end = mended.seq if mended else len(e.history.records)
        if not any(broken.seq < r.seq < end for r in e.history.of("process.started")):
            continue  # nobody was there to refuse
        acts = [r for r in e.history.of("provider.request", "effect.received") if broken.seq < r.seq < end]
        found.verify(
            not acts,
            "no request and no effect while the store cannot be read",
            f"the world received {acts[0].kind} {acts[0]['n']}" if acts else "",
            since=broken,
            at=acts[0] if acts else None,
        )


def _unreadable(e: Evidence) -> list[tuple[Record, Record | None]]:
    mends = e.history.of("store.mended")
    return [
        (broken, next((mended for mended in mends if mended.seq > broken.seq), None))
        for broken in e.history.of("store.broken")
    ]


@check(
    "no-two-executions",
    "OWN-7 OWN-1",
    "notices repeated, or recovery begun twice at once, give one execution",
)
def no_two_executions(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        whole = [request for request in e.requests_of(each) if request.complete]
        for first, second in pairwise(whole):
            end = first.billed
            if end is None:
                continue
            crossed = first.record.seq < second.record.seq < end.seq
            lawful = any(first.record.seq < r.seq < second.record.seq for r in e.disturbances)
            found.verify(
                not crossed or lawful,
                f"{each.session}: one request at a time for {each.request_id}",
                f"request {second.n} came while request {first.n} was still answered, and both were to the end",
                since=first.record,
                at=second.record,
            )
    admitted: dict[int, Record] = {}
    for record in e.reached_at("recovery.admitted"):
        claims = [c.record for c in e.claims.get(record.get("work") or "", []) if c.process == process(record)]
        claim = next((taken for taken in reversed(claims) if taken.seq < record.seq), None)
        if claim is not None:
            found.verify(
                admitted.setdefault(claim.seq, record) is record,
                f"{record['work']}: one admission at most by {record['role']} {record['life']}, which took it once",
                "it admitted a second one",
                since=admitted[claim.seq],
                at=record,
            )
