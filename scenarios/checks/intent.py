"""Owns the checks of run intent and control (INT): what a user said holds, and what nobody said changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import WORLD, Command, Evidence, Hold, Input, Request, detail, process
from scenarios.history import Record
from scenarios.snapshot import WorkView

TWO_HOURS_S = 7200.0
RECOVERY_WINDOW = ("recovery.ownership.taken", "recovery.repair.written", "recovery.decision.stored")


@check(
    "run-intent-complete",
    "INT-1",
    "each accepted work has its whole durable run intent",
    needs=("final",),
)
def run_intent_complete(e: Evidence, found: Findings) -> None:
    for each, accepted in e.accepted:
        if each.work_id is None:
            continue
        work = e.work(each)
        lacking = ["work_id"] if work is None else _lacking(work)
        found.verify(
            not lacking,
            f"{each.session}: the work {each.work_id} of {each.request_id} with its whole run intent",
            f"it lacks {', '.join(lacking)}",
            since=accepted,
            at=e.final_record,
        )


def _lacking(work: WorkView) -> list[str]:
    needed = ["permission_scope", "host", "recovery_policy", "first_input"]
    if any(turn.state == "done" for turn in work.turns):
        needed.append("progress")
    return [name for name in needed if getattr(work, name) is None]


@check(
    "goes-on-by-itself",
    "INT-2",
    "work whose desired state is run goes on after a restart without any user action",
    depends_on_kill=True,
    needs=("final",),
)
def goes_on_by_itself(e: Evidence, found: Findings) -> None:
    for end, each, accepted in _unfinished_at_ends(e):
        later = [request for request in e.requests_of(each) if request.record.seq > end.seq]
        found.verify(
            bool(later),
            f"{each.session}: after the end of {end['role']} {end['life']} the model is asked to go on with "
            f"{each.request_id}",
            "no request for it followed",
            since=accepted,
            at=end,
        )


def _unfinished_at_ends(e: Evidence) -> Iterator[tuple[Record, Input, Record]]:
    """Each end of a worker with each input that was accepted before, not controlled, and certainly not finished. One whose
    turn had begun was accepted, also where the word of that had not reached its client by then."""
    for end in e.ends:
        for each, accepted in e.accepted:
            known = accepted.seq < end.seq or e.turn_begun(each, end.seq)
            if end["role"] == "app" or not known or e.controlled(each.session) or e.excused(each):
                continue
            if not e.last_step_billed(each, end.seq) and not _in_flight(e, each, end):
                yield end, each, accepted


def _in_flight(e: Evidence, each: Input, end: Record) -> bool:
    """Whether another live process may hold the reply that finishes this input, so that no new request has to follow."""
    others = [life for life in e.lives.values() if life.role == end["role"] and process(life.started) != process(end)]
    begun = any(request.record.seq < end.seq for request in e.requests_of(each))
    return begun and any(life.alive_at(end.seq) for life in others)


@check(
    "restart-is-no-pause",
    "INT-2 INT-6",
    "ordinary exit, restart and crash are no Pause: only a user pauses or cancels",
    depends_on_kill=True,
    needs=("final",),
)
def restart_is_no_pause(e: Evidence, found: Findings) -> None:
    if not e.ends:
        return
    for each, accepted in e.accepted:
        work = e.work(each)
        if work is None or e.controlled(each.session):
            continue
        found.verify(
            work.desired_state in {"run", "done"} and work.state not in {"paused", "cancelled"},
            f"{each.session}: the work of {each.request_id} is wanted, since no user paused or stopped it",
            f"its desired state is {work.desired_state}, its state {work.state}",
            since=accepted,
            at=e.final_record,
        )


@check(
    "user-control-obeyed",
    "INT-3 INT-6 INT-12",
    "once a pause, stop or quit is acknowledged, no model request and no effect follows for the work it speaks of",
)
def user_control_obeyed(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        for hold in e.holds(each.session):
            if not _is_held(e, each, hold):
                continue
            late = _late(e, each, hold)
            found.verify(
                late is None,
                f"{each.session}: nothing for {each.request_id} after the acknowledged {hold.command.action}",
                f"the world received {late.kind} {late['n']}" if late else "",
                since=hold.since,
                at=late,
            )


def _is_held(e: Evidence, each: Input, hold: Hold) -> bool:
    return e.known_before(each, hold.command.invoked.seq)


def _late(e: Evidence, each: Input, hold: Hold) -> Record | None:
    """The first request or write for this input while the control holds, that nobody had already sent on its way."""
    requests = [r.record for r in e.requests_of(each) if hold.covers(r.record.seq)]
    late = [r for r in requests if not _on_its_way(e, each, r, hold, "attempt.stored", "attempt")]
    for record in e.history.of("effect.received"):
        mine = hold.covers(record.seq) and e.inputs_of_effect(record) == [each]
        if mine and not _on_its_way(e, each, record, hold, "tool.dispatch.stored", "key"):
            late.append(record)
    return min(late, key=lambda record: record.seq) if late else None


def _on_its_way(e: Evidence, each: Input, record: Record, hold: Hold, stored: str, name: str) -> bool:
    """Whether the live process had stored this very request or dispatch before the control was acknowledged, so that the
    two crossed; the newest such point of its work decides where the detail does not name it."""
    before = [r for r in e.reached_at(stored) if r.get("work") == e.work_id(each) and r.seq < record.seq]
    said = {r.seq: e.key_of(r) if name == "key" else detail(r).get(name) for r in before}
    named = [r for r in before if record.get(name) is not None and said[r.seq] == record.get(name)]
    newest = named or [r for r in before if said[r.seq] is None][-1:]
    if not newest or newest[-1].seq > hold.since.seq:
        return False
    life = e.lives.get(process(newest[-1]))
    earlier = record.kind == "effect.received" and any(
        r.seq < record.seq and r["key"] == record["key"] for r in e.history.of("effect.received")
    )
    return life is not None and life.alive_at(record.seq) and not earlier


@check(
    "control-is-durable",
    "INT-3 INT-6",
    "an acknowledged pause, stop or quit is what the final state says of the work it spoke of",
    needs=("final",),
)
def control_is_durable(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        work = e.work(each)
        for hold in e.holds(each.session):
            if hold.until is not None or not _is_held(e, each, hold) or work is None:
                continue
            wanted = {"cancelled", "done"} if hold.command.action in {"stop", "quit"} else {"paused", "cancelled", "done"}
            found.verify(
                work.desired_state in wanted,
                f"{each.session}: the work of {each.request_id} is {' or '.join(sorted(wanted))} after the acknowledged "
                f"{hold.command.action}",
                f"its desired state is {work.desired_state}",
                since=hold.since,
                at=e.final_record,
            )


@check(
    "newest-control-decides",
    "INT-12",
    "controls carry a version that grows; one that names an older version does nothing",
)
def newest_control_decides(e: Evidence, found: Findings) -> None:
    heard = [command for command in e.commands if command.acknowledged and command.version is not None]
    for i, command in enumerate(heard):
        before = [other for other in heard[:i] if _follows(other, command)]
        newest = max(before, key=lambda other: other.version or 0, default=None)
        if newest is None or command.session is None:
            continue
        named = command.invoked.get("version")
        stale = named is not None and named < (newest.version or 0)
        same = command.action == newest.action and command.version == newest.version  # said twice, stored once
        found.verify(
            ((command.version or 0) > (newest.version or 0) or same) and not stale,
            f"{command.session}: version {newest.version} was acknowledged, so an older one is refused and a new one grows",
            f"{command.action} naming version {named} was accepted as version {command.version}",
            since=newest.acknowledged,
            at=command.acknowledged,
        )
    _stale_refused(e, found, heard)


def _follows(other: Command, command: Command) -> bool:
    ended = other.acknowledged
    return other.session == command.session and ended is not None and ended.seq < command.invoked.seq


def _stale_refused(e: Evidence, found: Findings, heard: list[Command]) -> None:
    for command in e.commands:
        named = command.invoked.get("version")
        if named is None or command.acknowledged or command.heard is None or command.heard["outcome"] != "failed":
            continue
        newer = any(_follows(other, command) and (other.version or 0) > named for other in heard)
        found.saw(int(newer))


@check(
    "terminal-never-changes",
    "INT-4",
    "a work or turn that has ended keeps its end, whatever dies, restarts or looks at it later",
)
def terminal_never_changes(e: Evidence, found: Findings) -> None:
    ended: dict[str, tuple[str, Record]] = {}
    for record, name, state in sorted(_states(e), key=lambda said: said[0].seq):
        if name in ended:
            was, since = ended[name]
            found.verify(state == was, f"{name} stays {was}", f"it is {state}", since=since, at=record)
        elif state in {"done", "cancelled", "interrupted"}:
            ended[name] = (state, record)


def _states(e: Evidence) -> Iterator[tuple[Record, str, str]]:
    """Every state that the target ever showed of a work or turn, with where it did."""
    numbers: dict[tuple[str, str], int] = {}
    for record in e.history.of("client.event"):
        key = (record["client"], record["session"])
        data = record.get("data")
        number = record["event"] or 0  # a target that numbers nothing repeats nothing
        repeated = 0 < number <= numbers.get(key, 0)
        numbers[key] = max(number, numbers.get(key, 0))
        if not repeated and isinstance(data, dict) and data.get("work_id") and record["type"].startswith("work."):
            # An event tells of its own moment and may be delivered late: it is compared with other events only.
            yield record, f"{record['client']}'s view of work {data['work_id']}", str(data.get("state"))
    for record, snapshot in e.snapshots:
        for work in snapshot.works:
            yield record, f"work {work.work_id}", work.state
            for turn in work.turns:
                yield record, f"turn {turn.turn_id}", turn.state


@check(
    "client-gone-work-goes-on",
    "INT-5",
    "closing a window only ends a client's connection: the work goes on",
    needs=("final",),
)
def client_gone_work_goes_on(e: Evidence, found: Findings) -> None:
    for gone in e.of_case("client.disconnected"):
        for each, accepted in e.accepted:
            if each.session != gone["session"] or accepted.seq > gone.seq or e.controlled(each.session):
                continue
            if e.last_step_billed(each, gone.seq) or e.excused(each):
                continue
            found.verify(
                e.last_step_billed(each),
                f"{each.session}: {each.request_id} goes on to its end though {gone['client']} has left",
                "the provider never came to send its last reply",
                since=accepted,
                at=gone,
            )


@check(
    "graceful-exit-order",
    "INT-7",
    "a graceful exit first refuses new work, then stores controls and checkpoints, then ends the process",
)
def graceful_exit_order(e: Evidence, found: Findings) -> None:
    orders = (
        ("exit.admission.closed", "exit.controls.stored", "exit.checkpoint.stored"),
        ("app.exit.closed", "app.exit.stored"),
    )
    for who, life in e.lives.items():
        for order in orders:
            mine = {r["point"]: r for r in e.reached_at(*order) if process(r) == who}
            closed = mine.get(order[0])
            if not mine:
                continue
            places = [mine[name].seq for name in order if name in mine]
            whole = all(name in mine for name in order[: len(mine)]) and places == sorted(places)
            left = life.exited is not None and life.death is None and life.exited.get("exit_code") == 0
            found.verify(
                whole and (not left or len(mine) == len(order)),
                f"{who[0]} {who[1]}: {', then '.join(order)}, then its end",
                f"it reached {', '.join(sorted(mine, key=lambda name: mine[name].seq)) or 'none of them'}",
                since=closed,
                at=life.exited or life.end,
            )
            if closed is not None:
                _nothing_new(e, found, who, closed)
    _ends(e, found)


def _ends(e: Evidence, found: Findings) -> None:
    told = [record for record in e.history.of("terminate") if record["grace"]]
    quits = [r for r in e.reached_at("control.stored") if detail(r).get("action") == "quit"]
    quits += [command.acknowledged for command in e.commands if command.action == "quit" and command.acknowledged]
    found.saw(len(told) + len(quits))
    for stayed in e.history.of("process.stayed"):
        who = process(stayed)
        mine = [record for record in told if process(record) == who]
        before = [record for record in (*quits, *mine) if record.seq < stayed.seq]
        # Who waits for an answer that the harness holds back in the world cannot end either.
        if before and not any(e.stands_still(each, stayed.seq) for each in (who, WORLD)):
            expected = f"{who[0]} {who[1]} was told to go and ends within the bound"
            found.broken(expected, "it was still there", since=before[-1], at=stayed)


def _nothing_new(e: Evidence, found: Findings, who: tuple[str, int], closed: Record) -> None:
    claimed = [r for r in e.reached_at("work.claimed") if process(r) == who and r.seq > closed.seq]
    found.verify(
        not claimed,
        f"{who[0]} {who[1]} admits nothing new after it closed its admission",
        f"it claimed {claimed[0].get('work')}" if claimed else "",
        since=closed,
        at=claimed[0] if claimed else None,
    )
    life = e.lives[who]
    others = [other for other in e.lives.values() if other.role == "app" and other is not life]
    if who[0] != "app" or any(other.alive_at(closed.seq) for other in others):
        return
    end = life.end.seq if life.end else len(e.history.records)
    for each, accepted in e.accepted:
        # One that was under way when the admission closed may be finished; one sent afterwards may not.
        found.verify(
            not (closed.seq < each.invoked.seq and accepted.seq < end),
            "an app that was told to go refuses new work",
            f"it accepted {each.request_id}",
            since=closed,
            at=accepted,
        )


@check(
    "no-hidden-expiry",
    "INT-8",
    "downtime of hours or weeks changes nothing: accepted work goes on and a pause stays",
    needs=("final",),
)
def no_hidden_expiry(e: Evidence, found: Findings) -> None:
    for moved in e.history.of("clock.moved"):
        if moved["by_s"] < TWO_HOURS_S:
            continue
        for each, accepted in e.accepted:
            work = e.work(each)
            if accepted.seq > moved.seq or work is None or e.excused(each) or e.last_step_billed(each, moved.seq):
                continue
            asked = [request for request in e.requests_of(each) if request.record.seq > moved.seq]
            if e.controlled(each.session):
                holds = [h for h in e.holds(each.session) if h.since.seq < moved.seq and h.until is None]
                holds = [h for h in holds if _is_held(e, each, h)]
                if not holds:
                    continue
                stays = not [r for r in asked if not _on_its_way(e, each, r.record, holds[0], "attempt.stored", "attempt")]
                found.verify(
                    stays and work.desired_state in {"paused", "cancelled", "done"},
                    f"{each.session}: {each.request_id} stays as the user left it, {moved['by_s']:g} s later",
                    f"its desired state is {work.desired_state}; {len(asked)} requests followed",
                    since=holds[0].since,
                    at=moved,
                )
            else:
                asked += [r for r in e.requests_of(each) if r.record.seq < moved.seq and _outlasts(e, r, moved)]
                found.verify(
                    work.state == "done" and bool(asked),
                    f"{each.session}: {each.request_id} goes on to its end, {moved['by_s']:g} s later",
                    f"its work is {work.state} ({work.reason_code}); {len(asked)} requests followed",
                    since=accepted,
                    at=moved,
                )


def _outlasts(e: Evidence, request: Request, moved: Record) -> bool:
    """Whether its reply came whole, and only after this: it was under way while the time passed, with nobody dead."""
    if request.billed is None or not request.complete or request.billed.seq < moved.seq:
        return False
    ended = [r.seq for r in e.history.of("process.exited") if r["role"] == "worker"]
    return not any(request.record.seq < seq < request.billed.seq for seq in ended)


@check(
    "user-input-goes-first",
    "INT-13",
    "an input that a user sends while recovery runs goes before the automatic continuation",
    depends_on_kill=True,
)
def user_input_goes_first(e: Evidence, found: Findings) -> None:
    for each, accepted, old in _came_during_recovery(e):
        later = [r for r in e.requests if r.record.seq > accepted.seq and e.input_of(r) in {each, old}]
        if later and e.requests_of(each):
            found.verify(
                e.input_of(later[0]) is each,
                f"{each.session}: {each.request_id} is served before the continuation of {old.request_id}",
                f"request {later[0].n} continues {old.request_id} first",
                since=accepted,
                at=later[0].record,
            )


def _came_during_recovery(e: Evidence) -> Iterator[tuple[Input, Record, Input]]:
    """The inputs that were sent and acknowledged while a recovering process stood still before its admission."""
    for reached, released in _recovery_holds(e):
        old = e.input_of_work(reached.get("work"))
        for each, accepted in e.accepted:
            if old and each.session == old.session and reached.seq < each.invoked.seq and accepted.seq < released.seq:
                yield each, accepted, old


def _recovery_holds(e: Evidence) -> Iterator[tuple[Record, Record]]:
    for reached in e.reached_at(*RECOVERY_WINDOW):
        released = e.held_until(reached)
        life = e.lives.get(process(reached))
        if released is not None and life is not None and life.alive_at(released.seq):
            yield reached, released


@check(
    "control-wins-over-recovery",
    "INT-14",
    "a pause, stop or new input that arrives while recovery runs wins over it: the old version does not go on",
    depends_on_kill=True,
    needs=("final",),
)
def control_wins_over_recovery(e: Evidence, found: Findings) -> None:
    for reached, released in _recovery_holds(e):
        old = e.input_of_work(reached.get("work"))
        if old is None:
            continue
        for hold in e.holds(old.session):
            if not reached.seq < hold.command.invoked.seq < hold.since.seq < released.seq:
                continue
            asked = [r for r in e.requests_of(old) if hold.covers(r.record.seq)]
            found.verify(
                not asked,
                f"{old.session}: recovery of {old.request_id} gives way to the {hold.command.action}",
                f"request {asked[0].n} continues it" if asked else "",
                since=hold.since,
                at=asked[0].record if asked else None,
            )
            if reached["point"] == "recovery.decision.stored":
                _decision_void(e, found, reached, hold, old)
    for each, accepted, old in _came_during_recovery(e):
        first = e.requests_of(each)[:1]
        early = [
            request
            for request in e.requests_of(old)
            if accepted.seq < request.record.seq and first and request.record.seq < first[0].record.seq
        ]
        found.verify(
            not early,
            f"{old.session}: the decision for {old.request_id} is void once {each.request_id} is accepted",
            f"request {early[0].n} follows the old decision" if early else "",
            since=accepted,
            at=early[0].record if early else None,
        )


def _decision_void(e: Evidence, found: Findings, reached: Record, hold: Hold, old: Input) -> None:
    work = e.work(old)
    key, version = detail(reached).get("key"), hold.command.version
    # Where nothing was done since, the next recovery follows the decision of the one before it, which cannot be undone.
    ways = ("recovery.decision.stored", "recovery.admitted")
    earlier = [r for r in e.reached_at(*ways) if r.seq < reached.seq and detail(r).get("key") == key]
    untold = [kill for kill in e.kills_beside_points if earlier and earlier[0].seq < kill.seq < reached.seq]
    if untold or any(r["point"] == "recovery.admitted" for r in earlier):
        return
    for decision in work.recoveries if work else []:
        if decision.key == key and version is not None and decision.control_version < version:
            found.verify(
                decision.void,
                f"{old.session}: the decision under control version {decision.control_version} is void",
                f"it stands, though version {version} was acknowledged before its admission",
                since=hold.since,
                at=e.final_record,
            )
