"""Owns the checks of usage (USE): the ledger against the provider's own log, attempt by attempt."""

from __future__ import annotations

from collections import Counter

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import Evidence, Request, detail
from scenarios.history import Record
from scenarios.snapshot import AttemptView, TotalsView

COUNTS = ("input_tokens", "cached_tokens", "output_tokens")


def _ledger(e: Evidence) -> list[tuple[str, AttemptView]]:
    return [(name, each) for name, session in e.final.sessions.items() for each in session.attempts]


def _row(e: Evidence, attempt: str | None) -> AttemptView | None:
    return next((each for _, each in _ledger(e) if each.attempt == attempt), None)


def _counts(view: AttemptView | TotalsView | Record) -> tuple[int, int, int]:
    values = [view.get(name) if isinstance(view, Record) else getattr(view, name) for name in COUNTS]
    return values[0] or 0, values[1] or 0, values[2] or 0


@check(
    "usage-equals-billed",
    "USE-2 USE-4 REC-4",
    "every token that the provider billed is in the ledger once, under its attempt, or the attempt is unknown, never zero",
    needs=("final",),
)
def usage_equals_billed(e: Evidence, found: Findings) -> None:
    if not any(session.attempts or session.totals for session in e.final.sessions.values()):
        return
    billed = [record for record in e.history.of("provider.billed") if record.get("attempt")]
    if not billed and e.history.of("provider.billed"):
        _without_attempts(e, found)
        return
    rows = Counter(each.attempt for _, each in _ledger(e))
    for record in billed:
        attempt, row = record["attempt"], _row(e, record["attempt"])
        right = row is not None and rows[attempt] == 1 and _right(row, record)
        found.verify(
            right,
            f"the attempt {attempt} once, with {_counts(record)} tokens (input, cached, output), or as unknown",
            f"the ledger holds it {rows[attempt]} times, {_said(row)}",
            since=record,
            at=e.final_record,
        )
    known = {record["attempt"] for record in billed}
    refused = {request.attempt for request in e.requests if request.failed}
    for name, row in _ledger(e):
        if row.attempt not in known:
            states = {"unknown", "known"} if row.attempt in refused else {"unknown"}  # what an error cost is known: nothing
            found.verify(
                row.state in states and not any((*_counts(row), row.watermark_tokens)),
                f"{name}: no usage is invented for {row.attempt}, of which the provider billed nothing",
                f"the ledger says {_said(row)}",
                since=None,
                at=e.final_record,
            )


def _right(row: AttemptView, billed: Record) -> bool:
    if row.state == "known":
        return all(getattr(row, name) == (billed.get(name) or 0) for name in COUNTS if _told(row, name))
    watermark = row.watermark_tokens or 0
    return row.state == "unknown" and row.output_tokens is None and watermark <= (billed.get("output_tokens") or 0)


def _told(view: AttemptView | TotalsView, name: str) -> bool:
    """Whether the target tells this count at all: one that does not tell cached tokens apart leaves them out."""
    return name != "cached_tokens" or view.cached_tokens is not None


def _said(row: AttemptView | None) -> str:
    return f"{row.state} with {_counts(row)}, watermark {row.watermark_tokens}" if row else "and nothing of it"


def _without_attempts(e: Evidence, found: Findings) -> None:
    """A target that names no attempts to the provider is held to its sum, unless it says that some of it is unknown."""
    billed = e.history.of("provider.billed")
    totals = [session.totals for session in e.final.sessions.values() if session.totals]
    if not totals or any(total.unknown_attempts for total in totals):
        return
    told = [place for place, name in enumerate(COUNTS) if all(_told(total, name) for total in totals)]
    sums = tuple(sum(_counts(total)[place] for total in totals) for place in told)
    paid = tuple(sum(_counts(record)[place] for record in billed) for place in told)
    kinds = ", ".join(COUNTS[place].removesuffix("_tokens") for place in told)
    found.verify(
        sums == paid,
        f"{paid} tokens ({kinds}), as the provider billed",
        f"the totals are {sums}, with nothing unknown",
        since=billed[-1],
        at=e.final_record,
    )


@check(
    "attempt-fixed-before-request",
    "USE-1",
    "turn, work and attempt are fixed before a request is sent",
    needs=("final",),
)
def attempt_fixed_before_request(e: Evidence, found: Findings) -> None:
    stored = e.reached_at("attempt.stored")
    for count, request in enumerate([r for r in e.requests if r.attempt], start=1):
        row = _row(e, request.attempt)
        named = [r for r in stored if detail(r).get("attempt") == request.attempt]
        unnamed = [r for r in stored if detail(r).get("attempt") is None and r.seq < request.record.seq]
        early = not stored or (named[0].seq < request.record.seq if named else len(unnamed) >= count)
        owner = e.input_of(request)
        work = e.work_id(owner) if owner else None
        mine = row is not None and row.turn_id is not None and (work is None or row.work_id == work)
        found.verify(
            early and mine,
            f"the attempt {request.attempt} stands in the ledger, with turn and work, before its request is sent",
            "it was sent before that"
            if not early
            else f"the ledger gives it work {row.work_id}, turn {row.turn_id}"
            if row
            else "the ledger does not hold it",
            since=named[0] if named else None,
            at=request.record,
        )


@check(
    "retry-is-a-new-attempt",
    "USE-4 REC-11",
    "a request that is made again is a new attempt, and counts by itself",
)
def retry_is_a_new_attempt(e: Evidence, found: Findings) -> None:
    first: dict[str, Request] = {}
    asked: set[tuple[int, int]] = set()
    for request in [r for r in e.requests if r.attempt]:
        owner = e.input_of(request)
        again = owner is not None and (id(owner), request.step) in asked
        asked.add((id(owner), request.step))
        before = first.setdefault(str(request.attempt), request)
        if again or before is not request:
            found.verify(
                before is request,
                f"request {request.n} is an attempt of its own",
                f"it carries the attempt {request.attempt} of request {before.n}",
                since=before.record,
                at=request.record,
            )


@check(
    "streamed-count-is-a-watermark",
    "USE-3",
    "counts that a stream repeats are a watermark for that attempt, not a sum",
    needs=("final",),
)
def streamed_count_is_a_watermark(e: Evidence, found: Findings) -> None:
    for request in e.requests:
        row = _row(e, request.attempt)
        counts = [count for count in (row.output_tokens, row.watermark_tokens) if count is not None] if row else []
        if not counts or request.billed is None or e.reply(request).usage != "every":
            continue
        paid, said = request.billed.get("output_tokens") or 0, max(counts)
        found.verify(
            said <= paid,
            f"at most {paid} output tokens for {request.attempt}, the largest count that its stream has shown",
            f"the ledger says {said}",
            since=request.billed,
            at=e.final_record,
        )


@check(
    "totals-can-be-rebuilt",
    "USE-5",
    "totals are derived from the receipts and can be rebuilt from them at any time",
    needs=("final",),
)
def totals_can_be_rebuilt(e: Evidence, found: Findings) -> None:
    billed = e.history.of("provider.billed")
    named = [record for record in billed if record.get("attempt")]
    for name, session in e.final.sessions.items():
        totals = session.totals
        if totals is None or not session.attempts:
            continue
        known = [each for each in session.attempts if each.state == "known"]
        told = [count for count in COUNTS if _told(totals, count)]
        sums = [sum(getattr(each, count) or 0 for each in known) for count in told]
        rebuilt = sums, len(known), len(session.attempts) - len(known)
        says = [getattr(totals, count) for count in told], totals.known_attempts, totals.unknown_attempts
        mine = {each.attempt for each in session.attempts}
        paid = [record for record in named if record["attempt"] in mine] if named else billed
        found.verify(
            says == rebuilt,
            "{}: {} tokens of {} known attempts, {} unknown".format(name, *rebuilt),
            "the totals say {} of {} known, {} unknown".format(*says),
            since=paid[-1] if paid else None,
            at=e.final_record,
        )
        if named:  # else the provider cannot tell whose tokens it billed
            found.verify(
                _counts(totals)[2] <= sum(_counts(record)[2] for record in paid),
                f"{name}: no more output than the provider billed for these attempts",
                f"the totals say {_counts(totals)[2]} output tokens",
                since=paid[-1] if paid else None,
                at=e.final_record,
            )


@check(
    "late-receipt-attributed",
    "USE-6",
    "a late receipt goes to the work that sent the request, and restarts nothing",
    needs=("final",),
)
def late_receipt_attributed(e: Evidence, found: Findings) -> None:
    by_attempt = {request.attempt: request for request in e.requests if request.attempt}
    for name, row in _ledger(e):
        request = by_attempt.get(row.attempt)
        owner = e.input_of(request) if request else None
        if not row.late or request is None or (owner is None and row.work_id is not None):
            continue
        found.verify(
            owner is not None and owner.session == name and row.work_id == e.work_id(owner),
            f"the late receipt of {row.attempt} under the work that had sent its request",
            f"it stands in {name} under the work {row.work_id}",
            since=request.record,
            at=e.final_record,
        )


@check(
    "count-in-hand-kept",
    "USE-2 USE-5 USE-6",
    "a count that a living process had in hand, or that was stored with its reply, is in the ledger under its attempt",
    needs=("final",),
)
def count_in_hand_kept(e: Evidence, found: Findings) -> None:
    by_attempt = {request.attempt: request for request in e.requests if request.attempt}
    for record in e.reached_at("usage.receipt.received", "reply.stored"):
        request = by_attempt.get(str(detail(record).get("attempt")))
        if request is None or request.billed is None or not request.complete or e.reply(request).usage == "none":
            continue
        if record["point"] == "usage.receipt.received" and not e.outlived(record):
            continue
        row = _row(e, request.attempt)
        found.verify(
            row is not None and row.state == "known" and _counts(row) == _counts(request.billed),
            f"the attempt {request.attempt} as known, with {_counts(request.billed)} tokens (input, cached, output)",
            f"the ledger says {_said(row)}",
            since=record,
            at=e.final_record,
        )
