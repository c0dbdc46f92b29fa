"""Owns the checks of what a user sees (UIX): events that only grow, one view, and looking that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import Evidence, Input, canonical
from scenarios.history import Record


def _connections(e: Evidence) -> Iterator[tuple[Record, list[Record]]]:
    """Each connection of a client with the events that came over it, in the order of hearing."""
    opened: dict[tuple[str, str], tuple[Record, list[Record]]] = {}
    for record in e.history.of("client.connected", "client.event", "client.disconnected"):
        key = (record["client"], record["session"])
        if record.kind == "client.event":
            if key in opened:
                opened[key][1].append(record)
            continue
        if key in opened:
            yield opened.pop(key)
        if record.kind == "client.connected":
            opened[key] = (record, [])
    yield from opened.values()


@check(
    "events-only-grow",
    "UIX-1",
    "numbered events only grow: each is told under one number, in order, and none is left out",
)
def events_only_grow(e: Evidence, found: Findings) -> None:
    told: dict[tuple[str, int], Record] = {}
    for record in e.history.of("client.event"):
        first = told.setdefault((record["session"], record["event"]), record)
        found.verify(
            _said(first) == _said(record),
            f"{record['session']}: event {record['event']} is {first['type']}, as it was told before",
            f"it is {record['type']} with other data" if _said(first) != _said(record) else "",
            since=first,
            at=record,
        )
    for connected, events in _connections(e):
        session = connected["session"]
        last, before = connected.get("after") or 0, connected
        for event in events:
            missed = [n for (name, n) in told if name == session and last < n < event["event"]]
            found.verify(
                event["event"] > last and not missed,
                f"{session}: after event {last} the next one follows",
                f"event {event['event']} came" + (f", and {min(missed)} was left out" if missed else ""),
                since=before,
                at=event,
            )
            last, before = max(last, event["event"]), event


def _said(event: Record) -> str:
    return canonical([event["type"], event.get("data")])


@check(
    "events-equal-snapshot",
    "UIX-1",
    "a client that follows the events ends with the view that the snapshot gives",
    needs=("final",),
)
def events_equal_snapshot(e: Evidence, found: Findings) -> None:
    end = e.final_record
    if end is None:
        return
    for connected, events in _connections(e):
        view = e.session(connected["session"])
        gone = any(
            r.seq > connected.seq and (r["client"], r["session"]) == (connected["client"], connected["session"])
            for r in e.of_case("client.disconnected", "client.connected")
        )
        if view is None or view.event is None:
            continue
        last = max((connected.get("after") or 0, *(event["event"] for event in events)))
        if not gone and e.history.of("case.closed"):  # only then had what was on its way the time to come
            found.verify(
                last >= view.event,
                f"{connected['session']}: a client that stays connected hears every event up to {view.event}",
                f"the last one that {connected['client']} knows is {last}",
                since=connected,
                at=end,
            )
        early = [event for event in events if event.seq < end.seq and event["event"] > view.event]
        found.verify(
            not early,
            f"{connected['session']}: the snapshot is at event {view.event} at least as far as what was told before it",
            f"event {early[0]['event']} had been told" if early else "",
            since=early[0] if early else connected,
            at=end,
        )
    _states_agree(e, found, end)


def _states_agree(e: Evidence, found: Findings, end: Record) -> None:
    newest: dict[str, Record] = {}
    for record in e.history.of("client.event"):
        data = record.get("data")
        view = e.session(record["session"])
        if not isinstance(data, dict) or not record["type"].startswith("work.") or not data.get("work_id"):
            continue
        if view is None or view.event is None or record["event"] > view.event:
            continue
        known = newest.get(data["work_id"])
        if known is None or record["event"] > known["event"]:
            newest[data["work_id"]] = record
    for work_id, record in newest.items():
        if work_id not in e.works or not _heard_all(e, record["session"]):
            continue
        state = e.works[work_id][1].state
        found.verify(
            record["data"].get("state") == state,
            f"{record['session']}: the snapshot shows {work_id} as its last event does, {record['data'].get('state')}",
            f"it is {state}",
            since=record,
            at=end,
        )


def _heard_all(e: Evidence, session: str) -> bool:
    view = e.session(session)
    heard = {record["event"] for record in e.history.of("client.event") if record["session"] == session}
    return view is not None and view.event in heard


@check(
    "reply-told-once",
    "REC-13 UIX-1",
    "the reply that ends a work is told to a client that is there, under one number, whoever died before or after",
    needs=("final",),
)
def reply_told_once(e: Evidence, found: Findings) -> None:
    told = [r for r in e.history.of("client.event") if r["type"] == "reply" and isinstance(r.get("data"), dict)]
    for each in e.inputs:
        work, text = e.work(each), e.script(each.text)[-1].text
        if work is None or work.state != "done" or e.doubled or not _stays(e, each.session):
            continue
        mine = [r for r in told if r["data"].get("work_id") == work.work_id and r["data"].get("text") == text]
        numbers = sorted({record["event"] for record in mine})
        found.verify(
            len(numbers) == 1,
            f"{each.session}: the reply to {each.request_id} is told under one number",
            f"it is told under {len(numbers)} of them: {numbers}",
            since=each.accepted or each.invoked,
            at=mine[-1] if len(numbers) > 1 else None,
        )


def _stays(e: Evidence, session: str) -> bool:
    """Whether a client is still connected to this session when the case is closed."""
    ends = [r for r in e.of_case("client.connected", "client.disconnected") if r["session"] == session]
    return bool(ends) and ends[-1].kind == "client.connected"


@check(
    "snapshot-never-goes-back",
    "UIX-1",
    "no view goes back: the number of a snapshot's newest event and what was announced only grow",
)
def snapshot_never_goes_back(e: Evidence, found: Findings) -> None:
    for (since, before), (at, after) in pairwise(e.snapshots):
        for name, session in before.sessions.items():
            later = after.sessions.get(name)
            for field in ("event", "announced", "control_version"):
                old, new = getattr(session, field), getattr(later, field) if later else None
                if old is not None:
                    found.verify(
                        new is not None and new >= old,
                        f"{name}: {field} {old} or more, since it was {old}",
                        f"it is {new}",
                        since=since,
                        at=at,
                    )


@check(
    "reconnect-is-silent",
    "UIX-6",
    "opening, reloading or reconnecting reads: it calls no model and dispatches nothing",
)
def reconnect_is_silent(e: Evidence, found: Findings) -> None:
    if e.final_record is None or not e.settled:
        return
    start = e.final_record.seq
    asked = (r.seq for r in e.history.of("client.invoked", "clock.moved") if r.seq > start and _acts(r))
    end = next(asked, len(e.history.records))
    waiting = {id(r.record) for each in e.inputs if _waits(e, each) for r in e.requests_of(each)}
    world = [r for r in e.history.of("provider.request", "effect.received") if id(r) not in waiting and r.seq < end]
    for look in (r for r in e.history.of("client.connected", "snapshot.taken") if r.seq >= start):
        acts = [r for r in world if r.seq > look.seq]
        found.verify(
            not acts,
            "silence: everything is at rest and somebody only looks",
            f"the world received {acts[0].kind} {acts[0]['n']}" if acts else "",
            since=look,
            at=acts[0] if acts else None,
        )


def _waits(e: Evidence, each: Input) -> bool:
    """Whether this input's work rests until a next try of its own, which no look brings on."""
    work = e.work(each)
    return work is not None and work.state == "waiting"


def _acts(record: Record) -> bool:
    return record.kind != "client.invoked" or record["op"] in {"send", "control", "quit", "effect"}
