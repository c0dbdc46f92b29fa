"""Owns what a run concluded: statuses and how they merge, violations, cells, clauses, points, the report as data.

This is the schema of `report.json`. Everything else in this room turns it into pages and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

SCHEMA = "killpoint.report/1"

Status = Literal["held", "violated", "inconclusive", "void", "not claimed", "not run"]
Verdict = Literal["accepted", "rejected", "incomplete"]
ClauseStatus = Literal["held", "violated", "inconclusive", "void", "not shown", "not claimed", "not run"]

# Worst first: a promise seen broken outweighs a death that was not ours, which outweighs what could not be decided.
WORST_FIRST: tuple[Status, ...] = ("violated", "void", "inconclusive", "not run", "held", "not claimed")


def worst(statuses: Iterable[Status]) -> Status:
    """The worst of these statuses; `not run` if there are none, since nothing judged is never a pass."""
    found = set(statuses)
    return next((status for status in WORST_FIRST if status in found), "not run")


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Witness(_Data):
    """One side of a violation: what it says, and the `seq` of the record in the history that shows it (None where the
    witness is that nothing was there)."""

    says: str
    seq: int | None = None


class Violation(_Data):
    """A broken promise: the check that found it, its clauses, the promise in words, and the two witnesses.

    kind: `violation`; `disagreement` (the runtime says done and the world disagrees, or the other way round); or
        `repeated` (work repeated beyond the bound of the point).
    """

    check: str
    clauses: list[str]
    promise: str
    expected: Witness
    seen: Witness
    kind: Literal["violation", "disagreement", "repeated"] = "violation"


class CheckResult(_Data):
    """What one check said of one cell. `examined` counts the facts it looked at: at zero it has shown nothing, and its
    clauses get no support from this cell. `why` says what was missing or how the check itself failed."""

    check: str
    clauses: list[str]
    status: Status
    examined: int = 0
    why: str | None = None
    violations: list[Violation] = []


class Kill(_Data):
    """One death that the harness caused, with its proof: the wait status that the kernel gave and the nonce that the
    process had acknowledged at the point."""

    pid: int
    role: str
    life: int
    signal: str
    status: int | None
    point: str | None
    ordinal: int | None
    nonce: str | None
    proved: bool
    why: str | None = None


class Evidence(_Data):
    """What a history shows of the things that a fault does. A place is what is counted, such as `kill worker`.

    seen: how much of each place the history shows. planned: how much of each the plan must have added to it, as far as its
    addresses were reached; nothing where the plan was disarmed. missing: what of that is not there, in words.
    """

    seen: dict[str, int | float] = {}
    planned: dict[str, int | float] = {}
    missing: list[str] = []


class Cell(_Data):
    """One case of the matrix and its verdict. `case` is the path, inside the report's folder, of the file to replay;
    `page` of its page; `digest` covers case, history, snapshots and versions.

    mutant: the seeded defect that it was played with. evidence: what its history shows of its fault; None if it could not
    be played. compared: the ids of the fault-free and the disarmed cell that it was compared with; not_compared: which of
    the two this run does not have. vacuous: where its evidence does not differ although its plan says so.
    """

    id: str
    scenario: str
    family: str
    point: str | None
    ordinal: int | None
    fault: str
    entrance: str
    status: Status
    why: str | None = None
    clauses: list[str] = []
    reached: int = 0
    fired: int = 0
    kills: list[Kill] = []
    violations: list[Violation] = []
    checks: list[CheckResult] = []
    points_reached: dict[str, int] = {}
    points_killed: list[str] = []
    seconds: float = 0.0
    phases: dict[str, float] = {}
    case: str | None = None
    page: str | None = None
    repro: str | None = None
    digest: str | None = None
    canary: bool = False
    disarmed: bool = False
    mutant: str | None = None
    evidence: Evidence | None = None
    compared: list[str] = []
    not_compared: list[str] = []
    vacuous: list[str] = []


class Script(_Data):
    """The file that plays a failed case by itself: its text, or why there is none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str | None = None
    why_not: str | None = None


NO_SCRIPT = Script()


class ClauseRow(_Data):
    """One clause of the contract: its state over all cells, how many cells speak for it, which mutants show that a check
    of it can fail."""

    status: ClauseStatus
    cells: int = 0
    mutants: list[str] = []
    text: str = ""
    checks: list[str] = []


class PointRow(_Data):
    """One breakpoint: declared in the catalogue (and by the target), times reached, killed and recovered from."""

    declared: bool
    reached: int = 0
    killed: int = 0
    recovered: int = 0
    role: str = ""
    moment: str = ""
    sentence: str = ""
    excused: str | None = None


class Totals(_Data):
    """Sums over the run. `seconds` is wall-clock time of the matrix; `by_status` counts cells."""

    cells: int = 0
    kills: int = 0
    seconds: float = 0.0
    cases_per_hour: float = 0.0
    by_status: dict[str, int] = {}


class Comparisons(_Data):
    """How many cells were held against their plan (`planned`: those whose plan leaves something behind), how many of them
    also against the fault-free play of their scenario and the disarmed one of their fault, as far as there was one
    (`compared`), how many lacked one of the two (`lacking`), and how many turned out vacuous."""

    planned: int = 0
    compared: int = 0
    lacking: int = 0
    vacuous: int = 0


class Report(_Data):
    """A whole run as data: what `report.json` holds. `level` is the level of its evidence (ENV-3)."""

    schema_: str = SCHEMA
    verdict: Verdict = "incomplete"
    why: list[str] = []
    finished: bool = False
    target: str
    policy: str = "continue"
    level: str = ""
    versions: dict[str, str] = {}
    started_at: str = ""
    command: str = ""
    entrances: list[str] = []
    cells: list[Cell] = []
    clauses: dict[str, ClauseRow] = {}
    points: dict[str, PointRow] = {}
    totals: Totals = Totals()
    comparisons: Comparisons = Comparisons()
    not_judged: list[str] = []
    notes: list[str] = []
    baseline: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The report with its key named `schema`, as others read it."""
        data = self.model_dump(mode="json")
        return {"schema": data.pop("schema_"), **data}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        """The report that `to_json` gave. Raises ValueError (pydantic) if it is not one."""
        return cls.model_validate({**{k: v for k, v in data.items() if k != "schema"}, "schema_": data["schema"]})
