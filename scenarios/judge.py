"""Owns the verdict on one played case: from its history, and from nothing else.

A case is judged in this order, and the worst finding wins:

1. Did what was planned happen? An address that nobody reached, an operation of the plan that left nothing in the history
   (`scenarios/vacuity.py`), a process that stayed when it was told to end, or a settle that was never closed, is
   `inconclusive`.
2. Were the deaths ours? A kill without proof, or a process that died by itself, makes the case `void`.
3. Were the promises kept? Each check that the target's claims call for says so from the history.

Judging again later, from the stored history, gives the same verdict: `judge` starts no process and reads no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from faults.catalogue import POINTS, Point, point
from reports.digest import digest
from reports.model import Cell, CheckResult, Evidence, Kill, Status, worst
from scenarios import checks, vacuity
from scenarios.case import Case
from scenarios.contract import in_order
from scenarios.history import History, Record


def judge(
    case: Case,
    history: History,
    claims: Iterable[str],
    versions: Mapping[str, str],
    phases: Mapping[str, float] | None = None,
    seconds: float = 0.0,
) -> Cell:
    """The cell of the report for this case.

    claims: the clauses that the target claims; a check that speaks for none of them is not asked.
    phases, seconds: how long the play took, for the report only.
    """
    claimed = frozenset(claims)
    found = checks.run(checks.Evidence(history, case), checks.for_clauses(claimed))
    results = [_claimed_only(result, claimed) for result in found]
    kills = [_kill(record) for record in history.kills]
    shown = vacuity.evidence(case, history)
    status, why = _status(case, history, kills, results, shown)
    where = _own_point(case)
    reached = Counter(record["point"] for record in history.of("point.reached"))
    return Cell(
        id=case.id,
        scenario=case.scenario,
        family=case.family,
        point=where.name if where else None,
        ordinal=case.plan[-1].at.ordinal if where else None,
        fault=case.fault,
        entrance=case.entrance,
        status=status,
        why=why,
        clauses=in_order({clause for result in results if result.examined for clause in result.clauses}),
        reached=reached[where.name] if where else 0,
        fired=len(history.of("point.fired")),
        kills=kills,
        violations=[violation for result in results for violation in result.violations],
        checks=results,
        points_reached={each.name: reached[each.name] for each in POINTS if reached[each.name]},
        points_killed=sorted({kill.point for kill in kills if kill.point and kill.proved}),
        seconds=round(seconds, 4),
        phases={name: round(value, 4) for name, value in (phases or {}).items()},
        digest=digest(case.data(), history.lines(), _snapshots(history), versions),
        canary=case.canary,
        disarmed=case.disarmed,
        evidence=shown,
        vacuous=shown.missing,
    )


def broken_off(case: Case, why: str, seconds: float = 0.0) -> Cell:
    """The cell of a case that the harness itself could not play: `void`, with the reason."""
    return Cell(
        id=case.id,
        scenario=case.scenario,
        family=case.family,
        point=case.plan[-1].at.point if case.plan else None,
        ordinal=case.plan[-1].at.ordinal if case.plan else None,
        fault=case.fault,
        entrance=case.entrance,
        status="void",
        why=f"fault of the harness: {why}",
        seconds=seconds,
        canary=case.canary,
        disarmed=case.disarmed,
    )


def _own_point(case: Case) -> Point | None:
    """The point that the cell stands for: the first address that its fault added to the scenario's own plan."""
    return point(case.plan[-1].at.point) if case.plan and case.fault != "none" else None


def _claimed_only(result: CheckResult, claimed: frozenset[str]) -> CheckResult:
    if claimed.issuperset(result.clauses):
        return result
    return result.model_copy(update={"clauses": [clause for clause in result.clauses if clause in claimed]})


def _status(
    case: Case, history: History, kills: list[Kill], results: list[CheckResult], shown: Evidence
) -> tuple[Status, str | None]:
    violated = [result for result in results if result.status == "violated"]
    if violated:
        first = violated[0].violations[0]
        return "violated", f"{violated[0].check}: expected {first.expected.says}; seen: {first.seen.says}"
    if foreign := _foreign_death(history, kills):
        return "void", foreign
    if missing := _not_reached(case, history):
        return "inconclusive", f"not reached: {', '.join(missing)}"
    if stayed := history.of("process.stayed"):
        who = f"{stayed[0]['role']}.{stayed[0]['life']}"
        return "inconclusive", f"{who} was told to end and did not, so what its end would have led to did not come"
    if shown.missing:
        return "inconclusive", vacuity.why(shown.missing)
    undecided = [result for result in results if result.status == "inconclusive"]
    if undecided:
        return "inconclusive", f"{undecided[0].check}: {undecided[0].why}"
    if not any(result.examined for result in results):
        return "inconclusive", "no check found anything to examine"
    return worst(result.status for result in results if result.status != "not run"), None


def _not_reached(case: Case, history: History) -> list[str]:
    """The addresses of the plan that nobody came to. With the plan taken out, what would have led there may be missing."""
    if case.disarmed:
        return []
    fired = {f"{record['point']}#{record['ordinal']}" for record in history.of("point.fired")}
    waited = [f"{record['point']}#{record['ordinal']}" for record in history.of("point.awaited") if not record["came"]]
    return [str(fault.at) for fault in case.plan if str(fault.at) not in fired] + waited


def _foreign_death(history: History, kills: list[Kill]) -> str | None:
    """What says that a death was not ours, or None. A process may end by itself with status 0, or be ended by us."""
    for kill in kills:
        if not kill.proved:
            return f"kill of {kill.role}.{kill.life} is not proved: {kill.why}"
    ours = {kill.pid for kill in kills}
    told = {record["pid"] for record in history.of("terminate")}
    settled = history.of("case.settled")
    for record in history.of("process.exited"):
        if settled and record.seq > settled[-1].seq:
            break
        if record["pid"] in told and record["signal"] == "SIGTERM":
            continue  # it was told to end before it could hear that in any other way
        if record["pid"] not in ours and (record["signal"] is not None or record["exit_code"]):
            how = f"signal {record['signal']}" if record["signal"] is not None else f"status {record['exit_code']}"
            said = f": {record['said']}" if record.get("said") else ""
            return f"{record['role']}.{record['life']} died by itself with {how}{said}"
    return None


def _kill(record: Record) -> Kill:
    return Kill.model_validate({name: record[name] for name in Kill.model_fields})


def _snapshots(history: History) -> dict[str, Any]:
    return {record["when"]: record["sessions"] for record in history.of("snapshot.taken")}
