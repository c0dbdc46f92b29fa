"""Owns the checks of accepting work (ADM): what was acknowledged is there, once, in its order, and ends."""

from __future__ import annotations

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import Evidence, Hold, Input, Request, detail, process
from scenarios.history import Record

# The status of an app that is on its way out: the input was not looked at, and may be sent again to its next life.
REFUSED_FOR_NOW = 503


@check(
    "acknowledged-input-not-lost",
    "ADM-1 INT-2",
    "an input that a client heard to be accepted survives every later crash and is worked on",
    needs=("final",),
)
def acknowledged_input_not_lost(e: Evidence, found: Findings) -> None:
    for each, accepted in e.accepted:
        session = e.session(each.session)
        held = session is not None and (
            any(view.request_id == each.request_id for view in session.inputs)
            or any(
                item.kind == "user" and item.text == each.text and item.request_id in {None, each.request_id}
                for item in session.transcript
            )
        )
        found.verify(
            held,
            f"{each.session}: the input {each.request_id} is in the final snapshot, since it was accepted",
            "the final snapshot does not hold it",
            since=accepted,
            at=e.final_record,
        )
        if e.controlled(each.session) or e.excused(each):
            continue
        asked = any(each.text in request.texts("user") and _may_serve(e, request, each.session) for request in e.requests)
        found.verify(
            asked,
            f"{each.session}: the model is asked to serve {each.request_id}",
            "the provider received no request that holds its text",
            since=accepted,
            at=None,
        )


def _may_serve(e: Evidence, request: Request, session: str) -> bool:
    owner = e.input_of(request)
    return owner is None or owner.session == session


@check(
    "no-duplicate-input",
    "ADM-2",
    "an input that is sent again under its request id is there once",
    needs=("final",),
)
def no_duplicate_input(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        session = e.session(each.session)
        if session is None or not session.inputs:
            continue
        views = [view for view in session.inputs if view.request_id == each.request_id]
        found.verify(
            len(views) < 2,
            f"{each.session}: the input {each.request_id} once, though it was sent {len(each.sends)} times",
            f"the final snapshot holds it {len(views)} times",
            since=each.sends[-1],
            at=e.final_record,
        )


@check(
    "resend-hears-the-same",
    "ADM-2",
    "a client that sends an input again hears of the same input and the same work",
)
def resend_hears_the_same(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        for answer in each.answers[1:]:
            first, again = ({k: _of(a, k) for k in ("input", "work_id")} for a in (each.answers[0], answer))
            if not any(first.values()) and not any(again.values()):
                continue  # a target that names neither says nothing that could differ
            found.verify(
                first == again,
                f"{each.session}: {each.request_id} is still {first}",
                f"sent again, it is {again}",
                since=each.answers[0],
                at=answer,
            )


def _of(answer: Record, name: str) -> object:
    body = answer.get("body")
    return body.get(name) if isinstance(body, dict) else None


@check(
    "only-sent-inputs-shown",
    "ADM-2",
    "nothing is shown as submitted that no client has sent",
)
def only_sent_inputs_shown(e: Evidence, found: Findings) -> None:
    for record, snapshot in e.snapshots:
        for name, session in snapshot.sessions.items():
            for view in session.inputs:
                sent = e.by_request_id.get((name, view.request_id))
                found.verify(
                    sent is not None and sent.invoked.seq < record.seq and sent.text == view.text,
                    f"{name}: inputs as clients had sent them",
                    f"{view.request_id} with the text {view.text!r}, which nobody had sent",
                    since=sent.invoked if sent else None,
                    at=record,
                )


@check(
    "input-appended-once",
    "ADM-5",
    "recovery never appends the user's input a second time: a new turn serves the same work",
)
def input_appended_once(e: Evidence, found: Findings) -> None:
    for request in e.requests:
        owner = e.input_of(request)
        texts = request.texts("user")
        inputs = [each for each in e.inputs if each.invoked.seq < request.record.seq]
        for text in dict.fromkeys(texts):
            sent = [each for each in inputs if each.text == text and (not owner or each.session == owner.session)]
            if sent:
                found.verify(
                    texts.count(text) <= len(sent),
                    f"the text {text!r} {len(sent)} times in a request, as often as it was sent",
                    f"request {request.n} holds it {texts.count(text)} times",
                    since=sent[0].invoked,
                    at=request.record,
                )
    for name, session in e.final.sessions.items():
        shown = [item.request_id for item in session.transcript if item.kind == "user" and item.request_id]
        for request_id in dict.fromkeys(shown):
            sent_as = e.by_request_id.get((name, request_id))
            found.verify(
                shown.count(request_id) == 1,
                f"{name}: one item of the transcript for {request_id}",
                f"the transcript holds it {shown.count(request_id)} times",
                since=sent_as.invoked if sent_as else None,
                at=e.final_record,
            )


@check(
    "inputs-in-first-order",
    "ADM-3",
    "accepted requests that no turn has begun are admitted in their first order, each once",
)
def inputs_in_first_order(e: Evidence, found: Findings) -> None:
    for i, (first, accepted) in enumerate(e.accepted):
        for later, _ in e.accepted[i + 1 :]:
            if later.session == first.session and later.invoked.seq > accepted.seq:
                _compare_order(e, found, first, accepted, later)


def _compare_order(e: Evidence, found: Findings, first: Input, accepted: Record, later: Input) -> None:
    begun = e.requests_of(later)
    if not begun or _turn_begun(e, first, begun[0]) or e.excused(first):
        return
    own = e.requests_of(first)
    in_order = bool(own) and own[0].record.seq < begun[0].record.seq
    actions = [c.action for c in e.commands_of(first.session) if c.invoked.seq < begun[0].record.seq]
    stopped = not own and {"stop", "quit"} & set(actions)
    if not in_order and (stopped or actions[-1:] == ["pause"]):
        return  # a user held the first one back
    found.verify(
        in_order,
        f"{first.session}: {first.request_id} is begun first, since it was accepted before {later.request_id} was sent",
        f"request {begun[0].n} serves {later.request_id} first",
        since=accepted,
        at=begun[0].record,
    )


def _turn_begun(e: Evidence, each: Input, before: Request) -> bool:
    """Whether a turn of this input had begun without a request yet: the order of what is interrupted is INT-13's."""
    asked = any(request.record.seq < before.record.seq for request in e.requests_of(each))
    return e.turn_begun(each, before.record.seq) and not asked


@check(
    "late-resend-undoes-no-stop",
    "ADM-4",
    "an input that is sent again after a Stop does not undo that Stop",
)
def late_resend_undoes_no_stop(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        for hold in e.holds(each.session):
            resends = [send for send in each.sends if send.seq > hold.since.seq]
            stop = hold.command.action in {"stop", "quit"}
            if not stop or not resends or not e.known_before(each, hold.command.invoked.seq):
                continue
            stored = {detail(r).get("attempt") for r in e.reached_at("attempt.stored") if r.seq < hold.since.seq}
            crossed = stored - {None}  # on their way already when the Stop was acknowledged
            after = [request for request in e.requests_of(each) if request.record.seq > resends[0].seq]
            asked = [request for request in after if request.attempt not in crossed]
            found.verify(
                not asked,
                f"{each.session}: {each.request_id} stays stopped, though it is sent again",
                f"request {asked[0].n} serves it" if asked else "",
                since=hold.since,
                at=asked[0].record if asked else None,
            )


@check(
    "input-queued-not-refused",
    "ADM-3 INT-12",
    "an input that comes while another is worked on, or while a worker drains or starts, is queued and never refused",
)
def input_queued_not_refused(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        for send in each.sends:
            heard = e.history.heard.get(send["call"])
            if heard is None or heard.get("status") in (None, REFUSED_FOR_NOW) or send["text"] != each.text:
                continue
            found.verify(
                heard["outcome"] == "ok",
                f"{each.session}: the input {each.request_id} is accepted and waits for its turn",
                f"it was refused with status {heard['status']}: {heard.get('body')}",
                since=send,
                at=heard,
            )


@check(
    "resumed-turn-goes-first",
    "ADM-3 OWN-7",
    "an input that comes when an interrupted turn has been resumed waits until that turn has ended",
    depends_on_kill=True,
)
def resumed_turn_goes_first(e: Evidence, found: Findings) -> None:
    for admitted in e.reached_at("recovery.admitted"):
        old = e.input_of_work(admitted.get("work"))
        if old is None or e.controlled(old.session) or e.excused(old) or _recovered_later(e, admitted):
            continue
        rest = [request for request in e.requests_of(old) if request.record.seq > admitted.seq]
        for each, accepted in e.accepted:
            first = e.requests_of(each)[:1]
            if each.session != old.session or each.invoked.seq < admitted.seq or not first or not rest:
                continue
            end = rest[-1].billed or rest[-1].record
            found.verify(
                end.seq < first[0].record.seq,
                f"{each.session}: {each.request_id} waits behind the resumed turn of {old.request_id}",
                f"request {first[0].n} serves it before request {rest[-1].n} of that turn was answered",
                since=accepted,
                at=first[0].record,
            )


def _recovered_later(e: Evidence, admitted: Record) -> bool:
    taken = e.reached_at("recovery.ownership.taken")
    return any(r.seq > admitted.seq and r.get("work") == admitted.get("work") for r in taken)


@check(
    "stop-covers-what-had-come",
    "ADM-4 INT-3",
    "a Stop covers an input that had come and was not committed yet: it is not worked on, also when it is sent again",
)
def stop_covers_what_had_come(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        for hold in e.holds(each.session):
            came = _standing_at_its_arrival(e, each, hold)
            if hold.command.action not in {"stop", "quit"} or came is None:
                continue
            if e.known_before(each, hold.command.invoked.seq):
                continue  # another sending of it was accepted: it is stopped as what runs is, with a request under way
            asked = [request for request in e.requests_of(each) if request.record.seq > hold.since.seq]
            found.verify(
                not asked,
                f"{each.session}: {each.request_id} had come before the {hold.command.action} was heard, so it is stopped",
                f"request {asked[0].n} serves it" if asked else "",
                since=came,
                at=asked[0].record if asked else None,
            )


def _standing_at_its_arrival(e: Evidence, each: Input, hold: Hold) -> Record | None:
    """Where the process that was told to stop had this input in hand the whole time, if it had."""
    for record in e.reached_at("input.received"):
        life = e.lives.get(process(record))
        released = e.held_until(record)
        mine = detail(record).get("request_id") == each.request_id and record.seq < hold.command.invoked.seq
        held = e.was_held(record) and (released is None or released.seq > hold.since.seq)
        if mine and held and life is not None and life.alive_at(hold.since.seq):
            return record
    return None


@check(
    "finished-stays-finished",
    "ADM-6 INT-4",
    "a request goes on until it is finished, and its finished work stays so: no further model call, also after a restart",
)
def finished_stays_finished(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        end = _end_of(e, each)
        if end is None:
            continue
        asked = [request for request in e.requests_of(each) if request.record.seq > end.seq]
        found.verify(
            not asked,
            f"{each.session}: no model call for {each.request_id} after its work had ended",
            f"request {asked[0].n} serves it again" if asked else "",
            since=end,
            at=asked[0].record if asked else None,
        )


def _end_of(e: Evidence, each: Input) -> Record | None:
    """Where the target said that the work of this input is done: in an event, in a snapshot, or at its last point."""
    work = e.work_id(each)
    if work is None:
        return None
    said = [
        record
        for record in e.history.of("client.event")
        if isinstance(record.get("data"), dict)
        and record["data"].get("work_id") == work
        and (record["type"] == "work.done" or record["data"].get("state") == "done")
    ]
    said += [
        record
        for record, snapshot in e.snapshots
        if any(view.work_id == work and view.state == "done" for view in snapshot.works)
    ]
    view = e.work(each)
    if view is not None and view.state == "done":
        said += [record for record in e.reached_at("turn.committed") if record.get("work") == work]
    return min(said, key=lambda record: record.seq) if said else None
