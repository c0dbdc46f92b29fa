"""Owns a made-up run: cells, histories and cases of any number, without a process, for the tests of the reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from faults.catalogue import POINTS
from reports.assemble import Inputs, assemble
from reports.digest import digest
from reports.files import atomic_write, safe_name
from reports.model import Cell, CheckResult, Kill, Report, Status, Violation, Witness
from reports.writer import prepare, write_cell, write_index

FAULTS = (
    "worker_killed", "app_killed", "both_killed", "worker_restarted", "worker_restarted_no_grace", "app_exit",
    "reply_lost", "client_gone", "killed_again_in_recovery", "owner_frozen_and_overtaken", "downtime_2h", "downtime_30d",
)  # fmt: skip
FAMILIES = ("plain answer", "tool call", "long stream", "two inputs", "pause and stop")
VERSIONS = {"killpoint": "0.1.0", "python": "3.11.7", "sqlite": "3.45.1"}


def point(name: str) -> dict[str, Any]:
    """A declared point as the reports get it."""
    found = next(each for each in POINTS if each.name == name)
    return {"name": found.name, "role": found.role, "moment": found.moment, "sentence": found.sentence}


def declared() -> list[dict[str, Any]]:
    """All declared points."""
    return [point(each.name) for each in POINTS]


def case(cell_id: str, at: str = "tool.effect.done#1", fault: str = "worker_killed") -> dict[str, Any]:
    """A case as data."""
    return {
        "schema": "killpoint.case/1",
        "id": cell_id,
        "target": "reference",
        "scenario": "write once",
        "fault": fault,
        "steps": [
            {"do": "open", "session": "s1"},
            {"do": "send", "session": "s1", "request": "r1", "text": "Book the room.", "insist": True},
            {"do": "settle"},
        ],
        "plan": [{"at": at, "ops": [{"do": "kill", "role": "self"}, {"do": "start", "role": "worker"}, {"do": "settle"}]}],
    }


class History:
    """Records of a made-up case; each `add` moves the clock."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.t_ns = 5_000_000_000

    def add(self, kind: str, after_ms: float = 0.7, **data: Any) -> int:
        """Add one record and give its number."""
        self.t_ns += int(after_ms * 1e6)
        self.records.append({"t_ns": self.t_ns, "kind": kind, "data": data})
        return len(self.records) - 1


def history(at: str = "tool.effect.done", *, twice: bool = False, frozen: bool = False, chunks: int = 4) -> History:
    """One turn with a tool call, a worker killed at a point, and its recovery: about fifty records."""
    h = History()
    h.add("case.opened", id="c", scenario="write once", fault="worker_killed", target="reference")
    h.add("process.started", role="app", life=1, pid=4101, start_time=1, cold=False)
    h.add("process.started", 2, role="worker", life=1, pid=4102, start_time=2, cold=False)
    h.add("client.connected", 9, client="u1", session="s1", after=0)
    h.add("client.invoked", 3, call=1, client="u1", op="send", session="s1", request_id="r1", text="Book the room.")
    h.add("point.reached", point="input.committed", ordinal=1, role="app", life=1, pid=4101, nonce="ab" * 8)
    h.add("client.heard", 1, call=1, outcome="ok", status=202, body={"status": "accepted"})
    h.add("point.reached", 4, point="work.claimed", ordinal=1, role="worker", life=1, pid=4102, nonce="cd" * 8)
    for n in (1, 2):
        h.add("provider.request", 5, n=n, attempt=f"a{n}", headers={"authorization": "Bearer sk-verysecret123"}, body={})
        for i in range(chunks):
            h.add("provider.chunk", 0.4, n=n, i=i, output_tokens=i)
            h.add("client.event", 0.2, client="u1", session="s1", event=i + 5 * n, type="text", data={})
        h.add("provider.billed", n=n, attempt=f"a{n}", input_tokens=21, cached_tokens=0, output_tokens=7, complete=True)
        h.add("provider.answered", n=n, status=200)
        if n == 2:
            break
        h.add("point.reached", point="tool.intent.stored", ordinal=1, role="worker", life=1, pid=4102, nonce="ef" * 8)
        h.add("effect.received", 2, n=1, receiver="plain", tool_key="k", key="k1", arguments={"room": 12})
        h.add("effect.applied", n=1, receiver="plain", key="k1", arguments={"room": 12}, duplicate_of=None)
        h.add("effect.answered", n=1, status=200)
        h.add("point.reached", point=at, ordinal=1, role="worker", life=1, pid=4102, nonce="0123456789abcdef")
        h.add("point.fired", point=at, ordinal=1, nonce="0123456789abcdef", ops=["kill", "start", "settle"])
        if frozen:
            h.add("freeze", 1, role="worker", life=1, pid=4102)
            h.add("process.started", 2, role="worker", life=2, pid=4110, start_time=9, cold=False)
            h.add("clock.moved", 2, by_s=7300.0, offset_s=7300.0, why="plan")
            h.add("thaw", 1800, role="worker", life=1, pid=4102)
            h.add("process.exited", 3, role="worker", life=1, pid=4102, status=0, signal=None, exit_code=0)
        else:
            h.add("kill", 1, role="worker", life=1, pid=4102, signal="SIGKILL", status=9, point=at, ordinal=1,
                  nonce="0123456789abcdef", proved=True, why=None)  # fmt: skip
            h.add("process.exited", 0.5, role="worker", life=1, pid=4102, status=9, signal="SIGKILL", exit_code=None)
            h.add("store.at_death", 0.9, point=at, ordinal=1, files={"work.db": {"ok": True}, "usage.db": {"ok": True}})
            h.add("process.started", 3, role="worker", life=2, pid=4110, start_time=9, cold=False)
        h.add("point.reached", 4, point="recovery.facts.loaded", ordinal=1, role="worker", life=2, pid=4110, nonce="aa" * 8)
        h.add(
            "point.reached", 1, point="recovery.ownership.taken", ordinal=1, role="worker", life=2, pid=4110, nonce="bb" * 8
        )
        if twice:
            h.add("effect.received", 2, n=2, receiver="plain", tool_key="k", key="k2", arguments={"room": 12})
            h.add("effect.applied", n=2, receiver="plain", key="k2", arguments={"room": 12}, duplicate_of=1)
            h.add("effect.answered", n=2, status=200)
        else:
            h.add("effect.queried", 2, n=2, key="k1", found=True)
    h.add("client.invoked", 2, call=2, client="u1", op="send", session="s1", request_id="r2", text="Thanks.")
    h.add("client.heard", 40, call=2, outcome="unknown", status=None, body=None)
    h.add("case.settled", 12, within_s_max=15, settled=True, why=None)
    h.add("snapshot.taken", 2, when="final", sessions={})
    h.add("process.exited", 6, role="worker", life=2, pid=4110, status=0, signal=None, exit_code=0)
    h.add("process.exited", 1, role="app", life=1, pid=4101, status=0, signal=None, exit_code=0)
    h.add("case.closed")
    return h


def violation(seq_expected: int | None = 21, seq_seen: int | None = 33) -> Violation:
    """A write done twice."""
    return Violation(
        check="no_duplicate_write",
        clauses=["EFF-3"],
        promise="No write that may have happened is sent again blindly.",
        expected=Witness(
            says="write 1 was applied before the worker died, so it is reconciled, not sent again", seq=seq_expected
        ),
        seen=Witness(says="write 2 with the same arguments was applied after the restart", seq=seq_seen),
    )


def cell(cell_id: str = "c1", status: Status = "held", **fields: Any) -> Cell:
    """One cell that was reached, killed and judged."""
    at = fields.setdefault("point", "tool.effect.done")
    broken = [violation()] if status == "violated" else []
    defaults: dict[str, Any] = {
        "scenario": "write once",
        "family": "tool call",
        "ordinal": 1 if at else None,
        "fault": "worker_killed",
        "entrance": "http",
        "clauses": ["EFF-1", "EFF-3"],
        "reached": 1,
        "fired": 1,
        "kills": [
            Kill(
                pid=4102,
                role="worker",
                life=1,
                signal="SIGKILL",
                status=9,
                point=at,
                ordinal=1,
                nonce="0123456789abcdef",
                proved=True,
            )
        ]
        if at
        else [],
        "violations": broken,
        "checks": [
            CheckResult(check="no_duplicate_write", clauses=["EFF-3"], status=status, examined=3, violations=broken),
            CheckResult(check="intent_before_call", clauses=["EFF-1"], status="held", examined=2),
            CheckResult(check="late_receipt", clauses=["USE-6"], status="held", examined=0),
        ],
        "points_reached": {at: 1, "work.claimed": 2} if at else {"work.claimed": 1},
        "points_killed": [at] if at else [],
        "seconds": 0.11,
        "phases": {"set up": 0.012, "start": 0.02, "play": 0.03, "recover": 0.035, "judge": 0.008, "write": 0.005},
        "case": f"cases/{safe_name(cell_id)}.json",
        "why": None
        if status == "held"
        else "the write happened twice"
        if status == "violated"
        else "the point was not reached",
    }
    return Cell(id=cell_id, status=status, **{**defaults, **fields})


def cells(number: int, seed: int = 7, bad: float = 0.04) -> list[Cell]:
    """Cells over families, points and faults, most held, with a canary and some disarmed ones."""
    random = Random(seed)
    made = []
    combos = [
        (family, each.name, fault, o)
        for o in (1, 2, 3)
        for each in POINTS
        for f, family in enumerate(FAMILIES)
        for k, fault in enumerate(FAULTS)
        if (f + k + len(each.name) + o) % 4 == 0
    ]
    random.shuffle(combos)
    for family, at, fault, o in sorted(combos[: number - 4], key=lambda c: FAMILIES.index(c[0])):
        roll = random.random()
        status: Status = (
            "violated" if roll < bad else "inconclusive" if roll < bad * 1.4 else "void" if roll < bad * 1.6 else "held"
        )
        made.append(
            cell(
                f"{family}/{at}#{o}/{fault}",
                status,
                scenario=family,
                family=family,
                point=at,
                ordinal=o,
                fault=fault,
                seconds=round(random.uniform(0.06, 0.4), 3),
            )
        )
    made.append(cell("plain answer/none", scenario="plain answer", family="plain answer", point=None, fault="none"))
    made.append(cell("plain answer/disarmed", scenario="plain answer", family="plain answer", disarmed=True))
    made.append(cell("tool call/disarmed", scenario="tool call", disarmed=True))
    made.append(cell("canary/write twice", "violated", family="canary", canary=True))
    return made


def inputs(made: Sequence[Cell], **fields: Any) -> Inputs:
    """What a whole run would say besides its cells."""
    texts = {
        **{clause: f"What {clause} says, in a sentence of an ordinary length." for p in POINTS for clause in p.clauses},
        "GOL-4": "All Todo done leads to `verifying`, not to `achieved`.",
        "CHD-1": "A waiting parent gets back its children's identities.",
    }  # fmt: skip
    defaults: dict[str, Any] = {
        "target": "reference",
        "clause_texts": dict(sorted(texts.items())),
        "claimed": [name for name in texts if name not in ("GOL-4", "CHD-1")],
        "points": declared(),
        "planned": [each.id for each in made],
        "mutants": {"EFF-3": ["unknown_write_sent_again", "key_not_reused"], "EFF-1": ["dispatch_not_recorded"]},
        "finished": True,
        "versions": VERSIONS,
        "command": "killpoint run --out acceptance",
        "started_at": "2026-11-30T18:40:00Z",
        "seconds": sum(each.seconds for each in made) / 2,
        "notes": ["2 processes on 2 cores."],
    }
    return Inputs(**{**defaults, **fields})


def write_run(folder: Path, made: Sequence[Cell], **fields: Any) -> Report:
    """Write a whole run into `folder`, as the harness would, and give its report."""
    prepare(folder)
    done = []
    for each in made:
        played = case(each.id, f"{each.point}#{each.ordinal}" if each.point else "work.claimed#1", each.fault)
        told = history(each.point or "work.claimed", twice=each.status == "violated", frozen="frozen" in each.fault).records
        known = point(each.point) if each.point else None
        stamped = each.model_copy(update={"digest": digest(played, told, {}, VERSIONS)})
        atomic_write(folder / str(each.case), "{}\n")
        done.append(write_cell(folder, stamped, told, played, known, versions=VERSIONS))
    report = assemble(done, inputs(made, **fields))
    write_index(folder, report)
    return report
