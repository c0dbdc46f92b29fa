"""Owns what a check is: its name, clauses and promise, how it is registered, what it may say, and how it is judged.

A check is a pure function over `Evidence`. It reports two things to `Findings`: each fact that it examined, and each
fact that breaks its promise, with both witnesses. A check that examined nothing has shown nothing, one that crashed has
shown nothing either, and neither is ever a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from reports.model import CheckResult, Status, Violation, Witness
from scenarios.checks.evidence import Evidence
from scenarios.history import Record

Kind = Literal["violation", "disagreement", "repeated"]
Need = Literal["final"]


class UnknownCheck(ValueError):
    """A name that is no check. The message gives the nearest names."""


class Findings:
    """What one check has found so far. `examined` counts the facts it looked at."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self.examined = 0
        self.violations: list[Violation] = []
        self.unclear: str | None = None

    def saw(self, facts: int = 1) -> None:
        """Count facts that the check has looked at and could have found broken."""
        self.examined += facts

    def cannot_tell(self, why: str) -> None:
        """Say that what was there does not decide it; the first reason is kept."""
        self.unclear = self.unclear or why

    def broken(self, expected: str, seen: str, *, since: Record | None = None, at: Record | None = None) -> None:
        """Report one broken promise. `since` is the record from which the promise held, `at` the one that breaks it;
        None where the witness is that no such record exists."""
        self.violations.append(
            Violation(
                check=self._check.name,
                clauses=list(self._check.clauses),
                promise=self._check.promise,
                expected=Witness(says=expected, seq=since.seq if since else None),
                seen=Witness(says=seen, seq=at.seq if at else None),
                kind=self._check.kind,
            )
        )

    def verify(self, holds: bool, expected: str, seen: str, *, since: Record | None, at: Record | None) -> None:
        """Count one fact, and report it if it does not hold."""
        self.saw()
        if not holds:
            self.broken(expected, seen, since=since, at=at)


Judge = Callable[[Evidence, Findings], None]


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    clauses: the contract clauses it speaks for. promise: what must hold, in words for the person whose runtime broke it.
    depends_on_kill: it examines something only if a process died or froze, so a disarmed run must make a difference.
    needs: `final` is the final snapshot of a case that came to rest; without it the check decides nothing.
    """

    name: str
    clauses: tuple[str, ...]
    promise: str
    judge: Judge
    depends_on_kill: bool = False
    needs: tuple[Need, ...] = ()
    kind: Kind = "violation"


CHECKS: dict[str, Check] = {}


def check(
    name: str,
    clauses: str,
    promise: str,
    *,
    depends_on_kill: bool = False,
    needs: tuple[Need, ...] = (),
    kind: Kind = "violation",
) -> Callable[[Judge], Check]:
    """Register the decorated function as a check; `clauses` are ids parted by spaces.

    Raises ValueError if the name is taken or no clause is given: each is a fault of the one who writes the check.
    """

    def register(judge: Judge) -> Check:
        if name in CHECKS:
            raise ValueError(f"check {name!r} is registered twice; give the second one a name of its own")
        if not clauses.split():
            raise ValueError(f"check {name!r} names no clause; name at least one of the recovery contract")
        CHECKS[name] = Check(name, tuple(clauses.split()), promise, judge, depends_on_kill, needs, kind)
        return CHECKS[name]

    return register


def find(name: str) -> Check:
    """The check called `name`. Raises UnknownCheck with the nearest names."""
    try:
        return CHECKS[name]
    except KeyError:
        near = get_close_matches(name, CHECKS, n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise UnknownCheck(f"unknown check {name!r}{hint}; `killpoint show checks` lists them all") from None


def judge(evidence: Evidence, check: Check) -> CheckResult:
    """What `check` says of this evidence. Never raises: a crash of the check is `inconclusive`."""
    missing = _missing(evidence, check)
    if missing:
        return _result(check, "inconclusive", why=missing)
    found = Findings(check)
    try:
        check.judge(evidence, found)
    except Exception as error:  # a check that fails says nothing, whatever it had found before
        crash = f"the check itself failed: {type(error).__name__}: {error}"
        return _result(check, "inconclusive", why=crash, examined=found.examined)
    if found.violations:
        return _result(check, "violated", examined=max(found.examined, 1), violations=found.violations)
    if found.unclear:
        return _result(check, "inconclusive", why=found.unclear, examined=found.examined)
    if not found.examined:
        return _result(check, "not run", why="nothing to examine")
    return _result(check, "held", examined=found.examined)


def _missing(evidence: Evidence, check: Check) -> str | None:
    if "final" in check.needs:
        if evidence.history.final_record is None:
            return "no final snapshot was taken"
        if not evidence.settled:
            return "the case did not come to rest, so its final snapshot is not final"
    return None


def _result(
    check: Check,
    status: Status,
    *,
    why: str | None = None,
    examined: int = 0,
    violations: list[Violation] | None = None,
) -> CheckResult:
    return CheckResult(
        check=check.name,
        clauses=list(check.clauses),
        status=status,
        examined=examined,
        why=why,
        violations=violations or [],
    )


def run(evidence: Evidence, checks: Iterable[Check]) -> list[CheckResult]:
    """What each of these checks says, in their order."""
    return [judge(evidence, each) for each in checks]
