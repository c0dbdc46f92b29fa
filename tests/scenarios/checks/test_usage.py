"""The checks of usage: the ledger agrees with what the provider billed, attempt by attempt; whatever is lost,
doubled, summed, invented or given to another work is caught; what a target cannot tell is not held against it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.case import Reply
from scenarios.checks import usage
from tests.scenarios.checks.builder import Line, Scene, Tape, call, replies, turn
from tests.scenarios.checks.plays import (
    FEW,
    MANY,
    SOME,
    Breach,
    Breaches,
    Pick,
    Witnesses,
    caught,
    everywhere,
    fair,
    held,
    invariant,
    not_examined,
    of_area,
    open_without_its_end,
    plays,
    reached,
    result,
    safe_when_cut,
    undisturbed,
)

CHECKS = of_area(usage)
BREACHES = Breaches()
COUNTS = ("input_tokens", "cached_tokens", "output_tokens")

RETRIED = st.sampled_from(["provider.request.received#1", "reply.received#1", "stream.text.committed#1"]).flatmap(
    lambda address: plays(kills=(address,), words=2, tools=("read",), deaths=1)
)
KNOWN = plays(usage=("last", "every"), tools=("read", "charge"), deaths=1)
EVERY = plays(usage=("every",), tools=("read",), deaths=1, words=3)


@st.composite
def late_receipts(draw: st.DrawFn) -> Tape:
    """Right runs of two or three works, in which some receipts came after their attempt's owner had changed."""
    tape = draw(plays(texts=3, tools=("read",), deaths=2))
    late = draw(st.sets(st.integers(0, 20), min_size=1))
    for line in tape.all("snapshot.taken"):
        rows = [row for view in line["data"]["sessions"].values() for row in view["attempts"]]
        for i, row in enumerate(rows):
            row["late"] = i in late or i == 0
    return tape


GOOD = {
    "usage-equals-billed": plays(),
    "attempt-fixed-before-request": plays(),
    "retry-is-a-new-attempt": RETRIED,
    "streamed-count-is-a-watermark": EVERY,
    "totals-can-be-rebuilt": plays(),
    "late-receipt-attributed": late_receipts(),
}


def test_every_check_of_the_area_has_good_histories_and_breaches() -> None:
    assert {each.name for each in CHECKS} == set(GOOD) == BREACHES.names


@pytest.mark.parametrize("name", GOOD)
@SOME
@given(data=st.data())
def test_a_right_run_holds(name: str, data: st.DataObject) -> None:
    held(data.draw(GOOD[name]), name)


def ledger(t: Tape, **match: Any) -> list[dict[str, Any]]:
    """The rows of the final ledger that look so, to be changed in place."""
    rows = [row for view in t.final["data"]["sessions"].values() for row in view["attempts"]]
    return [row for row in rows if match.items() <= row.items()]


def rebuild(t: Tape) -> None:
    """Derive the totals anew, so that a breach of the ledger is none of its totals."""
    for view in t.final["data"]["sessions"].values():
        known = [row for row in view["attempts"] if row["state"] == "known"]
        view["totals"] = {name: sum(row[name] or 0 for row in known) for name in COUNTS}
        view["totals"] |= {"known_attempts": len(known), "unknown_attempts": len(view["attempts"]) - len(known)}


def billed(t: Tape, row: dict[str, Any]) -> Line:
    return t.get("provider.billed", attempt=row["attempt"])


def bill_of(t: Tape, row: dict[str, Any]) -> dict[str, int]:
    return {name: billed(t, row)["data"][name] for name in COUNTS}


# Every billed token, once ---------------------------------------------------------------------------------------------

MORE = ("totals-can-be-rebuilt", "streamed-count-is-a-watermark", "attempt-fixed-before-request")


@BREACHES.of("usage-equals-billed", KNOWN, *MORE)
def a_count_is_wrong(t: Tape, pick: Pick) -> Witnesses:
    row = pick(ledger(t, state="known"))
    row[pick(COUNTS)] += pick([-1, 1, 1000])
    rebuild(t)
    return billed(t, row), t.final


@BREACHES.of("usage-equals-billed", KNOWN, *MORE)
def input_and_output_are_mixed_up(t: Tape, pick: Pick) -> Witnesses:
    row = pick(ledger(t, state="known"))
    row["input_tokens"], row["output_tokens"] = row["output_tokens"], row["input_tokens"]
    rebuild(t)
    return billed(t, row), t.final


@BREACHES.of("usage-equals-billed", RETRIED, *MORE)
def what_is_unknown_is_stored_as_zero(t: Tape, pick: Pick) -> Witnesses:
    row = pick([row for row in ledger(t, state="unknown") if t.all("provider.billed", attempt=row["attempt"])])
    row.update(state="known", input_tokens=0, cached_tokens=pick([0, None]), output_tokens=0)
    rebuild(t)
    return billed(t, row), t.final


@BREACHES.of("usage-equals-billed", RETRIED, *MORE)
def what_is_unknown_has_an_output(t: Tape, pick: Pick) -> Witnesses:
    row = pick([row for row in ledger(t, state="unknown") if t.all("provider.billed", attempt=row["attempt"])])
    row.update(output_tokens=pick([0, 1]))
    return billed(t, row), t.final


@BREACHES.of("usage-equals-billed", RETRIED, *MORE)
def the_lower_bound_is_above_what_was_billed(t: Tape, pick: Pick) -> Witnesses:
    row = pick([row for row in ledger(t, state="unknown") if t.all("provider.billed", attempt=row["attempt"])])
    row.update(watermark_tokens=billed(t, row)["data"]["output_tokens"] + 1)
    return billed(t, row), t.final


@BREACHES.of("usage-equals-billed", KNOWN, *MORE)
def an_attempt_is_lost(t: Tape, pick: Pick) -> Witnesses:
    row = pick([row for row in ledger(t) if t.all("provider.billed", attempt=row["attempt"])])
    at = billed(t, row)
    view = next(view for view in t.final["data"]["sessions"].values() if row in view["attempts"])
    view["attempts"].remove(row)
    rebuild(t)
    return at, t.final


@BREACHES.of("usage-equals-billed", KNOWN, *MORE)
def an_attempt_is_there_twice(t: Tape, pick: Pick) -> Witnesses:
    row = pick([row for row in ledger(t) if t.all("provider.billed", attempt=row["attempt"])])
    view = pick(list(t.final["data"]["sessions"].values()))
    view["attempts"].append(dict(row))
    return billed(t, row), t.final


@BREACHES.of("usage-equals-billed", KNOWN, *MORE)
def an_attempt_stays_open(t: Tape, pick: Pick) -> Witnesses:
    row = pick([row for row in ledger(t) if t.all("provider.billed", attempt=row["attempt"])])
    row["state"] = "open"
    rebuild(t)
    return billed(t, row), t.final


INVENTED = (
    {"state": "known", "input_tokens": 5, "output_tokens": 5},
    {"state": "known", "input_tokens": 0, "cached_tokens": 0, "output_tokens": 0},
    {"state": "unknown", "watermark_tokens": 3},
    {"state": "unknown", "input_tokens": 7},
    {"state": "open"},
)


def add(t: Tape, view: dict[str, Any], made: dict[str, Any]) -> None:
    """A row of an attempt that was never sent, and the totals derived anew."""
    view["attempts"].append({**dict.fromkeys((*COUNTS, "watermark_tokens")), "attempt": "a_made_up", **made})
    rebuild(t)


@BREACHES.of("usage-equals-billed", KNOWN, *MORE)
def usage_is_invented(t: Tape, pick: Pick) -> Witnesses:
    add(t, pick(list(t.final["data"]["sessions"].values())), pick(INVENTED))
    return None, t.final


@pytest.mark.parametrize("made", INVENTED)
def test_no_row_of_an_attempt_that_was_never_sent_says_more_than_unknown(made: dict[str, Any]) -> None:
    tape = turn()
    add(tape, tape.view(), made)
    caught(tape, "usage-equals-billed", None, tape.final, MORE)


@SOME
@given(plays(), st.booleans())
def test_unknown_is_always_lawful_and_never_an_excuse_for_a_sum(tape: Tape, bound: bool) -> None:
    for row in ledger(tape):
        paid = tape.all("provider.billed", attempt=row["attempt"])
        row.update(state="unknown", input_tokens=None, cached_tokens=None, output_tokens=None)
        row.update(watermark_tokens=paid[0]["data"]["output_tokens"] if bound and paid else None)
    rebuild(tape)
    held(tape, "usage-equals-billed")
    held(tape, "totals-can-be-rebuilt")


@SOME
@given(plays(deaths=0))
def test_each_billed_request_and_each_row_without_one_is_looked_at(tape: Tape) -> None:
    extra = {"attempt": "a_never_sent", "state": "unknown"}
    tape.view()["attempts"].append(extra)
    assert held(tape, "usage-equals-billed").examined == len(tape.all("provider.billed")) + 1


@SOME
@given(KNOWN)
def test_a_target_that_tells_no_cached_tokens_apart_is_held_to_the_others(tape: Tape) -> None:
    for line in tape.all("provider.billed"):
        line["data"]["cached_tokens"] = 4
    for row in ledger(tape):
        row["cached_tokens"] = None
    rebuild(tape)
    for view in tape.final["data"]["sessions"].values():
        view["totals"]["cached_tokens"] = None
    held(tape, "usage-equals-billed")
    held(tape, "totals-can-be-rebuilt")
    ledger(tape, state="known")[0]["input_tokens"] += 1
    assert result(tape, "usage-equals-billed").status == "violated"


@FEW
@given(st.sampled_from(["answered", "refused"]), st.sampled_from(["known", "unknown"]))
def test_a_request_that_the_provider_refused_cost_nothing_and_may_be_known_to(how: str, state: str) -> None:
    tape = turn()
    line = tape.get("provider.request")
    tape.put("provider.request", line, n=900, attempt="a_refused", body=copy.deepcopy(line["data"]["body"]))
    what = {"status": 503} if how == "answered" else {"why": "too many"}
    tape.put(f"provider.{how}", line, n=900, **what)
    zero = 0 if state == "known" else None
    row = {"attempt": "a_refused", "state": state, "input_tokens": zero, "cached_tokens": zero, "output_tokens": zero}
    tape.view()["attempts"].append(row)
    held(tape, "usage-equals-billed")
    row["input_tokens"] = 3
    assert result(tape, "usage-equals-billed").status == "violated"


def without_names(tape: Tape) -> None:
    """The target tells the provider no attempts."""
    for line in tape.lines:
        if line["kind"].startswith("provider.") and "attempt" in line["data"]:
            line["data"]["attempt"] = None


@SOME
@given(plays(deaths=1), st.sampled_from(COUNTS), st.booleans())
def test_a_target_without_attempts_is_held_to_its_sum(tape: Tape, name: str, ledger_of_its_own: bool) -> None:
    without_names(tape)
    views = list(tape.final["data"]["sessions"].values())
    for view in views:
        view["attempts"] = view["attempts"] if ledger_of_its_own else []
        view["totals"] = dict.fromkeys(COUNTS, 0)
    views[0]["totals"] = {each: sum(x["data"][each] for x in tape.all("provider.billed")) for each in COUNTS}
    assert held(tape, "usage-equals-billed").examined == 1
    views[-1]["totals"][name] += 1
    last = tape.get("provider.billed", -1)
    found = result(tape, "usage-equals-billed").violations
    assert [(v.expected.seq, v.seen.seq) for v in found] == [(tape.seq(last), tape.seq(tape.final))]
    views[0]["totals"]["unknown_attempts"] = 1
    not_examined(tape, "usage-equals-billed")


@FEW
@given(plays())
def test_a_target_without_a_ledger_says_nothing_of_usage(tape: Tape) -> None:
    for view in everywhere(tape):
        view.update(attempts=[], totals=None)
    for name in set(GOOD) - {"attempt-fixed-before-request", "retry-is-a-new-attempt"}:
        not_examined(tape, name)


def test_where_nothing_was_billed_a_row_has_nothing_to_say() -> None:
    tape = turn()
    tape.drop(*tape.all("provider.billed"))
    for view in everywhere(tape):
        view["attempts"][0].update(state="unknown", input_tokens=None, cached_tokens=None, output_tokens=None)
    held(tape, "usage-equals-billed")
    caught_row = ledger(tape)[0]
    caught_row.update(state="known", input_tokens=1)
    found = result(tape, "usage-equals-billed").violations
    assert [(v.expected.seq, v.seen.seq) for v in found] == [(None, tape.seq(tape.final))]


# Fixed before the request ---------------------------------------------------------------------------------------------


def stored(t: Tape, line: Line) -> Line:
    """Where the attempt of a request was stored."""
    attempt = line["data"]["attempt"]
    return next(x for x in reached(t, "attempt.stored") if x["data"]["detail"]["attempt"] == attempt)


@BREACHES.of("attempt-fixed-before-request", plays())
def it_is_stored_after_its_request(t: Tape, pick: Pick) -> Witnesses:
    line = pick(t.all("provider.request"))
    return t.move(stored(t, line), line), line


@BREACHES.of("attempt-fixed-before-request", plays())
def it_belongs_to_no_turn(t: Tape, pick: Pick) -> Witnesses:
    line = pick(t.all("provider.request"))
    ledger(t, attempt=line["data"]["attempt"])[0]["turn_id"] = None
    return stored(t, line), line


@BREACHES.of("attempt-fixed-before-request", plays())
def it_belongs_to_another_work_or_none(t: Tape, pick: Pick) -> Witnesses:
    line = pick(t.all("provider.request"))
    ledger(t, attempt=line["data"]["attempt"])[0]["work_id"] = pick([None, "w_other"])
    return stored(t, line), line


@BREACHES.of("attempt-fixed-before-request", plays(), "usage-equals-billed", "totals-can-be-rebuilt")
def it_is_not_in_the_ledger(t: Tape, pick: Pick) -> Witnesses:
    line = pick(t.all("provider.request"))
    for view in t.final["data"]["sessions"].values():
        view["attempts"] = [row for row in view["attempts"] if row["attempt"] != line["data"]["attempt"]]
    rebuild(t)
    return stored(t, line), line


@SOME
@given(plays(deaths=1), st.booleans())
def test_points_that_name_no_attempt_are_counted(tape: Tape, lacking: bool) -> None:
    points = reached(tape, "attempt.stored")
    for point in points:
        point["data"]["detail"] = None
    held(tape, "attempt-fixed-before-request")
    requests = tape.all("provider.request")
    if lacking and len(points) == len(requests):
        tape.drop(points[-1])
        if len(points) > 1:
            found = result(tape, "attempt-fixed-before-request").violations
            assert [v.seen.seq for v in found] == [tape.seq(requests[-1])]


@FEW
@given(plays(), st.booleans())
def test_a_target_without_points_is_judged_by_its_ledger(tape: Tape, wrong: bool) -> None:
    tape.drop(*tape.all("point.reached"))
    held(tape, "attempt-fixed-before-request")
    line = tape.get("provider.request")
    ledger(tape, attempt=line["data"]["attempt"])[0]["turn_id"] = None
    caught(tape, "attempt-fixed-before-request", None, line)


@FEW
@given(plays())
def test_requests_without_an_attempt_are_not_judged_by_it(tape: Tape) -> None:
    without_names(tape)
    not_examined(tape, "attempt-fixed-before-request")
    not_examined(tape, "retry-is-a-new-attempt")
    not_examined(tape, "streamed-count-is-a-watermark")


# A retry counts by itself ---------------------------------------------------------------------------------------------


@BREACHES.of("retry-is-a-new-attempt", RETRIED, *MORE, "usage-equals-billed")
def the_retry_bears_its_first_attempt(t: Tape, pick: Pick) -> Witnesses:
    first, *later = t.all("provider.request")
    again = pick(later)
    again["data"]["attempt"] = first["data"]["attempt"]
    return first, again


@BREACHES.of("retry-is-a-new-attempt", plays(must=("read",), tools=("read",), deaths=0), *MORE, "usage-equals-billed")
def the_next_step_bears_an_attempt_that_was_used(t: Tape, pick: Pick) -> Witnesses:
    first, *later = t.all("provider.request")
    again = pick(later)
    again["data"]["attempt"] = first["data"]["attempt"]
    return first, again


@FEW
@given(plays(must=("read",), deaths=0))
def test_requests_that_are_each_made_once_are_no_retries(tape: Tape) -> None:
    not_examined(tape, "retry-is-a-new-attempt")


@FEW
@given(retries=st.integers(1, 4))
def test_each_retry_is_looked_at(retries: int) -> None:
    scene = Scene(die={f"reply.received#{i + 1}": "worker" for i in range(retries)})
    scene.open()
    scene.send("r0")
    assert held(scene.run().tape(), "retry-is-a-new-attempt").examined == retries


# Counts of a stream ---------------------------------------------------------------------------------------------------

LONG = st.integers(2, 6).map(
    lambda words: turn(Reply(text=" ".join("abcdef"[:words]), usage="every", calls=(call("read", n=1),)), last="end")
)


@BREACHES.of("streamed-count-is-a-watermark", LONG, "usage-equals-billed", "totals-can-be-rebuilt")
def the_counts_of_the_chunks_are_summed(t: Tape, pick: Pick) -> Witnesses:
    row = ledger(t)[0]
    counts = [x["data"]["output_tokens"] for x in t.all("provider.chunk", n=1)]
    row["output_tokens"] = sum(counts)
    rebuild(t)
    return billed(t, row), t.final


@BREACHES.of("streamed-count-is-a-watermark", LONG, "usage-equals-billed")
def the_watermark_is_a_sum(t: Tape, pick: Pick) -> Witnesses:
    row = ledger(t)[0]
    counts = [x["data"]["output_tokens"] for x in t.all("provider.chunk", n=1)]
    row["watermark_tokens"] = sum(counts)
    return billed(t, row), t.final


@BREACHES.of("streamed-count-is-a-watermark", LONG, "usage-equals-billed", "totals-can-be-rebuilt")
def an_unknown_attempt_has_more_than_its_stream_showed(t: Tape, pick: Pick) -> Witnesses:
    row = ledger(t)[0]
    paid = billed(t, row)["data"]["output_tokens"]
    row.update(state="unknown", output_tokens=None, watermark_tokens=paid + pick([1, 10]))
    rebuild(t)
    return billed(t, row), t.final


@SOME
@given(EVERY, st.data())
def test_any_count_that_the_stream_has_shown_is_a_bound(tape: Tape, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from([row for row in ledger(tape) if tape.all("provider.billed", attempt=row["attempt"])]))
    shown = billed(tape, row)["data"]["output_tokens"]
    row.update(state="unknown", output_tokens=None, watermark_tokens=data.draw(st.integers(0, shown)))
    held(tape, "streamed-count-is-a-watermark")


@FEW
@given(st.sampled_from(["last", "none"]))
def test_only_streams_that_repeat_their_counts_are_looked_at(mode: Any) -> None:
    tape = turn(Reply(text="a b c", usage=mode, calls=(call("read", n=1),)))
    ledger(tape)[0]["watermark_tokens"] = 1000
    not_examined(tape, "streamed-count-is-a-watermark")


@FEW
@given(EVERY)
def test_a_ledger_that_says_nothing_of_a_stream_shows_no_watermark(tape: Tape) -> None:
    for row in ledger(tape):
        row.update(state="unknown", input_tokens=None, cached_tokens=None, output_tokens=None, watermark_tokens=None)
    not_examined(tape, "streamed-count-is-a-watermark")


# Totals ---------------------------------------------------------------------------------------------------------------


def totalled(t: Tape) -> list[dict[str, Any]]:
    """The sessions of the final snapshot that have totals of something."""
    return [view for view in t.final["data"]["sessions"].values() if view["attempts"]]


def last_bill(t: Tape, view: dict[str, Any]) -> Line:
    """The last that the provider billed for a session."""
    mine = {row["attempt"] for row in view["attempts"]}
    return [line for line in t.all("provider.billed") if line["data"]["attempt"] in mine][-1]


@BREACHES.of("totals-can-be-rebuilt", plays())
def a_total_is_wrong(t: Tape, pick: Pick) -> Witnesses:
    view = pick(totalled(t))
    view["totals"][pick([*COUNTS, "known_attempts", "unknown_attempts"])] += pick([1, -1])
    return last_bill(t, view), t.final


@BREACHES.of("totals-can-be-rebuilt", plays(must=("read",), usage=("last",), deaths=0))
def one_receipt_is_counted_twice(t: Tape, pick: Pick) -> Witnesses:
    view = pick([view for view in t.final["data"]["sessions"].values() if view["attempts"]])
    twice = pick(view["attempts"])
    for name in COUNTS:
        view["totals"][name] += twice[name]
    view["totals"]["known_attempts"] += 1
    return last_bill(t, view), t.final


@BREACHES.of("totals-can-be-rebuilt", RETRIED)
def what_is_unknown_is_hidden(t: Tape, pick: Pick) -> Witnesses:
    view = pick([view for view in totalled(t) if view["totals"]["unknown_attempts"]])
    view["totals"]["unknown_attempts"] = 0
    return last_bill(t, view), t.final


@BREACHES.of("totals-can-be-rebuilt", plays(usage=("last",), deaths=0), "usage-equals-billed")
def more_than_the_provider_billed(t: Tape, pick: Pick) -> Witnesses:
    row = pick(ledger(t, state="known"))
    row["output_tokens"] += 1
    rebuild(t)
    return last_bill(t, next(view for view in totalled(t) if row in view["attempts"])), t.final


@SOME
@given(plays(deaths=1))
def test_totals_that_rest_on_an_unnamed_ledger_are_only_rebuilt(tape: Tape) -> None:
    held(tape, "totals-can-be-rebuilt")
    examined = result(tape, "totals-can-be-rebuilt").examined
    without_names(tape)
    assert held(tape, "totals-can-be-rebuilt").examined == examined / 2


@SOME
@given(plays(sessions=2, texts=2), st.booleans())
def test_each_session_has_totals_of_its_own(tape: Tape, hidden: bool) -> None:
    if hidden:
        for view in tape.final["data"]["sessions"].values():
            view["totals"] = None
        not_examined(tape, "totals-can-be-rebuilt")
    else:
        assert held(tape, "totals-can-be-rebuilt").examined == 2 * len(totalled(tape))


# A late receipt -------------------------------------------------------------------------------------------------------


@BREACHES.of("late-receipt-attributed", late_receipts(), "attempt-fixed-before-request")
def it_goes_to_another_work_or_none(t: Tape, pick: Pick) -> Witnesses:
    requests = {x["data"]["attempt"]: x for x in t.all("provider.request")}
    row = pick([row for row in ledger(t, late=True) if row["attempt"] in requests])
    row["work_id"] = pick([None, "w_current"])
    return requests[row["attempt"]], t.final


@BREACHES.of("late-receipt-attributed", late_receipts())
def it_goes_to_another_session(t: Tape, pick: Pick) -> Witnesses:
    requests = {x["data"]["attempt"]: x for x in t.all("provider.request")}
    row = pick([row for row in ledger(t, late=True) if row["attempt"] in requests])
    view = next(view for view in t.final["data"]["sessions"].values() if row in view["attempts"])
    view["attempts"].remove(row)
    t.final["data"]["sessions"]["s9"] = {"session": "s9", "attempts": [row]}
    rebuild(t)
    return requests[row["attempt"]], t.final


@FEW
@given(plays())
def test_receipts_in_time_are_not_judged_as_late(tape: Tape) -> None:
    not_examined(tape, "late-receipt-attributed")


@SOME
@given(st.booleans(), st.booleans())
def test_equal_texts_in_two_sessions_leave_open_whose_it_is(named: bool, late: bool) -> None:
    scene = Scene({"hello": replies(last="one")})
    for name in ("s1", "s2"):
        scene.open(name)
        scene.send(f"r_{name}", session=name)
    tape = scene.run().tape()
    row = ledger(tape)[0]
    row.update(late=late, work_id="w_nowhere" if named else None)
    if named or not late:
        not_examined(tape, "late-receipt-attributed")
    else:
        assert result(tape, "late-receipt-attributed").status == "violated", "nobody's it is certainly not"


@SOME
@given(late_receipts())
def test_a_late_receipt_of_a_request_that_the_world_never_saw_is_not_attributed(tape: Tape) -> None:
    tape.drop(*tape.all("provider.request"))
    not_examined(tape, "late-receipt-attributed")
    fair(tape, "retry-is-a-new-attempt")


# All of them ----------------------------------------------------------------------------------------------------------


@BREACHES.each
@FEW
@given(data=st.data())
def test_a_breach_is_caught_by_its_check_and_by_no_other(breach: Breach, data: st.DataObject) -> None:
    breach.is_caught(data)


@MANY
@given(st.sampled_from(BREACHES.rows), st.integers(0, 10**15), st.integers(1, 5), st.data())
def test_a_verdict_does_not_depend_on_names_clocks_neighbours_or_repetition(
    breach: Breach, offset_ns: int, scale: int, data: st.DataObject
) -> None:
    tape, _ = breach.draw(data)
    invariant(tape, CHECKS, offset_ns, scale)
    undisturbed(tape, breach.check)
    open_without_its_end(tape, CHECKS)


@MANY
@given(st.one_of(plays(), RETRIED), st.integers(0, 200))
def test_no_beginning_of_a_right_run_is_violated(tape: Tape, length: int) -> None:
    safe_when_cut(tape, CHECKS, length)
