"""Owns the checks that the harness makes at its own seams: the store at the moment of death, and that everything ends."""

from __future__ import annotations

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import Evidence
from scenarios.history import Record
from scenarios.snapshot import AT_REST, TERMINAL


@check(
    "store-whole-at-death",
    "ADM-1 REC-6",
    "the store is whole at the moment of death, before anything could heal it",
    depends_on_kill=True,
)
def store_whole_at_death(e: Evidence, found: Findings) -> None:
    for record in e.history.of("store.at_death"):
        for name, file in record["files"].items():
            found.verify(
                bool(file.get("ok")),
                f"{name} is whole at the death at {record.get('point') or 'no point'}",
                f"it is not: {file.get('detail')}",
                since=_death(e, record),
                at=record,
            )


def _death(e: Evidence, copied: Record) -> Record | None:
    before = [kill for kill in e.history.kills if kill.seq < copied.seq]
    return before[-1] if before else None


@check(
    "committed-before-accepted",
    "ADM-1",
    "an input is committed before its client hears `accepted`: the store of every later death holds it",
    depends_on_kill=True,
)
def committed_before_accepted(e: Evidence, found: Findings) -> None:
    for record in e.history.of("store.at_death"):
        holds = record.get("holds") or {}
        death = _death(e, record) or record
        for each, accepted in e.accepted:
            if accepted.seq < death.seq and each.request_id in holds:
                found.verify(
                    bool(holds[each.request_id]),
                    f"{each.session}: the store holds {each.request_id}, which was accepted before the death",
                    "it does not",
                    since=accepted,
                    at=record,
                )


@check(
    "everything-ends",
    "INT-2 ADM-1 REC-5",
    "once the fault is over everything that was accepted comes to rest, within the bound",
)
def everything_ends(e: Evidence, found: Findings) -> None:
    settled = e.settled_record
    if settled is None:
        found.cannot_tell("the case never came to the place where it waits for rest")
        return
    if not e.settled and (open_ := _fault_goes_on(e)) is not None:
        found.cannot_tell(f"the fault was not over: {open_}")
        return
    found.verify(
        e.settled,
        f"everything at rest within {settled.get('within_s_max')} s",
        f"it was not: {settled.get('why')}",
        since=e.accepted[-1][1] if e.accepted else None,
        at=settled,
    )
    if e.settled:
        _at_rest(e, found, settled)


def _fault_goes_on(e: Evidence) -> str | None:
    """What part of the plan still stands in the target's way at the end, or None."""
    released = {record["nonce"] for record in e.history.of("point.released")}
    killed = {kill.get("nonce") for kill in e.history.kills}
    for record in e.history.of("point.fired"):
        at = e.by_nonce.get(record["nonce"])
        life = e.lives.get((at["role"], at["life"])) if at else None
        gone = life is not None and life.end is not None
        if record["nonce"] not in released | killed and not gone:
            return f"a process was still held at {record['point']}#{record['ordinal']}"
    frozen = {(r["role"], r["life"]): r for r in e.history.of("freeze", "thaw")}
    for who, record in frozen.items():
        if record.kind == "freeze" and who in e.lives and e.lives[who].end is None:
            return f"{who[0]} {who[1]} was still frozen"
    if len(e.history.of("store.broken")) > len(e.history.of("store.mended")):
        return "the store was still broken"
    alive = {life.role for life in e.lives.values() if life.end is None}
    dead = next((life.role for life in e.lives.values() if life.role not in alive), None)
    quitting = any(command.action == "quit" for command in e.commands)
    return f"no {dead} was running" if dead and not quitting else None


def _at_rest(e: Evidence, found: Findings, settled: Record) -> None:
    for work_id, (name, work) in e.works.items():
        open_turns = [turn.turn_id for turn in work.turns if turn.state == "running"]
        found.verify(
            work.state in AT_REST and not (work.state in TERMINAL and open_turns),
            f"{name}: the work {work_id} rests, and every turn of an ended work has its end",
            f"it is {work.state}, with {len(open_turns)} running turns",
            since=settled,
            at=e.final_record,
        )
