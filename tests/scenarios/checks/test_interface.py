"""The checks of what a user sees, on generated histories: events only grow, there is one view, and looking is silent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenarios.checks.builder import Line, Scene, Tape, replies, turn
from tests.scenarios.checks.examples import Witnesses, change
from tests.scenarios.checks.generated_a import (
    ANYWHERE,
    FEW,
    QUICK,
    SURE,
    Broken,
    Draw,
    answers,
    ask,
    breaks,
    broken_of,
    caught,
    good,
    held,
    names_of,
    not_examined,
    number,
    one_of,
    send_all,
    taken_out,
    try_broken,
    try_good,
    verdict,
    views,
)

NAMES = names_of("interface")


@st.composite
def followed(draw: st.DrawFn, sessions: int = 2, leaves: bool = True) -> Tape:
    """Clients follow a run: one leaves and comes back, the app is killed or not, and another looks from outside."""
    script = {text: answers(draw, text, SURE, (0, 1)) for text in ("alpha", "beta")[: number(draw, 1, 2)]}
    die = {f"{one_of(draw, ANYWHERE[:6])}#1": one_of(draw, ["worker", "both"])} if draw(st.booleans()) else {}

    def away(scene: Scene) -> None:
        scene.mark("client.disconnected", client="c1", session="s1")
        scene.watching.discard("s1")

    held_at = {"reply.received#1": away, "reply.stored#1": lambda scene: scene.connect("s1")}
    scene = Scene(script, die=die, held=held_at if leaves and draw(st.booleans()) and not die else {})
    send_all(draw, scene, number(draw, 1, sessions))
    scene.run()
    if draw(st.booleans()):
        scene.look("between")
    return scene.tape()


def heard_by(t: Tape, draw: Draw, more: int = 0) -> list[Line]:
    """The events that one connection of the second client brought, in order, of a session with more than `more`."""
    sessions = sorted(t.final["data"]["sessions"])
    told = [t.all("client.event", client="c2", session=session) for session in sessions]
    return one_of(draw, [events for events in told if len(events) > more])


def connects(t: Tape, place: Line, client: str, session: str, knows: int | None) -> Line:
    """A client opens a connection right after a line, and says what it knows already."""
    return change(t.put("client.connected", place, client=client, session=session), after=knows)


def busy(t: Tape, draw: Draw) -> str:
    """A session in which something happened."""
    return one_of(draw, [name for name, view in t.final["data"]["sessions"].items() if view["event"]])


def newest(t: Tape, session: str) -> int:
    event = t.view(session)["event"]
    assert isinstance(event, int)
    return event


# Numbers that only grow ------------------------------------------------------------------------------------------------

good("events-only-grow", followed())


@breaks("events-only-grow", "events-equal-snapshot")
def an_event_is_told_twice_or_too_late(t: Tape, draw: Draw) -> Witnesses:
    events = heard_by(t, draw, more=1)
    i = number(draw, 0, len(events) - 2)
    j = number(draw, i + 1, len(events) - 1)
    return events[j], t.again(events[i], events[j])


@breaks("events-only-grow", "events-equal-snapshot")
def a_number_tells_of_something_else(t: Tape, draw: Draw) -> Witnesses:
    event = one_of(draw, heard_by(t, draw))
    same = t.all("client.event", session=event["data"]["session"], event=event["data"]["event"])
    first = min(same, key=t.seq)
    if draw(st.booleans()):
        change(event, type="text")
    else:
        change(event, data={**event["data"]["data"], "text": "another"})
    return first, event


@breaks("events-only-grow", "events-equal-snapshot")
def an_event_is_left_out(t: Tape, draw: Draw) -> Witnesses:
    events = heard_by(t, draw, more=2)
    i = number(draw, 0, len(events) - 2)
    t.drop(events[i])
    before = events[i - 1] if i else t.get("client.connected", client="c2", session=events[i]["data"]["session"])
    return before, events[i + 1]


@breaks("events-only-grow")
def a_reconnection_starts_over(t: Tape, draw: Draw) -> Witnesses:
    events = heard_by(t, draw, more=1)
    last = events[-1]
    again = connects(t, last, "c2", last["data"]["session"], last["data"]["event"])
    return again, t.again(one_of(draw, events), again)


@pytest.mark.parametrize("why", ["resumed", "two clients", "two sessions", "a gap that nobody heard", "no connection"])
@FEW
@given(t=followed())
def test_how_events_may_come(t: Tape, why: str) -> None:
    """Again from an older number that the client named, twice to two clients, with numbers that are no one's."""
    last = t.all("client.event", client="c2")[-1]
    session, number_of = last["data"]["session"], last["data"]["event"]
    if why == "resumed":
        t.again(last, connects(t, last, "c2", session, number_of - 1))
    elif why == "two clients":
        t.again(last, connects(t, last, "c3", session, number_of - 1), client="c3")
    elif why == "two sessions":
        t.again(last, connects(t, last, "c2", "s9", None), session="s9", type="text", event=1)
    elif why == "a gap that nobody heard":
        t.again(last, last, event=number_of + 7)
    else:
        t.again(last, last, client="c9", event=1, type=first_of(t, session)["data"]["type"], **told(first_of(t, session)))
    held(t, "events-only-grow")


def first_of(t: Tape, session: str) -> Line:
    return t.get("client.event", session=session, event=1)


def told(event: Line) -> dict[str, object]:
    return {"data": event["data"]["data"]}


# One view --------------------------------------------------------------------------------------------------------------

good("events-equal-snapshot", followed())


@breaks("events-equal-snapshot", of=followed(leaves=False))
def the_last_event_never_comes(t: Tape, draw: Draw) -> Witnesses:
    session = busy(t, draw)
    t.drop(*t.all("client.event", session=session, event=newest(t, session)))
    return t.get("client.connected", client="c2", session=session), t.final


@breaks("events-equal-snapshot", of=followed(leaves=False))
def a_client_that_stays_hears_nothing_at_all(t: Tape, draw: Draw) -> Witnesses:
    session = busy(t, draw)
    t.drop(*t.all("client.event", client="c2", session=session))
    return t.get("client.connected", client="c2", session=session), t.final


@breaks("events-equal-snapshot", "snapshot-never-goes-back", of=followed(leaves=False))
def the_snapshot_lies_behind_what_was_told(t: Tape, draw: Draw) -> Witnesses:
    session = busy(t, draw)
    behind = number(draw, 1, newest(t, session) - 1)
    t.view(session)["event"] = behind
    connected = t.get("client.connected", -1, client="c1", session=session)
    early = [x for x in t.all("client.event", client="c1", session=session) if t.seq(connected) < t.seq(x) < t.seq(t.final)]
    return next(x for x in early if x["data"]["event"] > behind), t.final


@breaks("events-equal-snapshot", of=followed(leaves=False))
def the_snapshot_tells_of_another_state(t: Tape, draw: Draw) -> Witnesses:
    done = one_of(draw, t.all("client.event", client="c1", type="work.done"))
    work_id, session = done["data"]["data"]["work_id"], done["data"]["session"]
    for view in views(t, session):
        next(w for w in view["works"] if w["work_id"] == work_id)["state"] = one_of(draw, ["working", "failed", "paused"])
    same = t.all("client.event", session=session, event=done["data"]["event"])
    return min(same, key=t.seq), t.final


@pytest.mark.parametrize("why", ["gone", "came again", "numbers nothing", "knew it all", "told later"])
@FEW
@given(t=followed(leaves=False))
def test_what_a_client_need_not_have_heard(t: Tape, why: str) -> None:
    """It had left; it had opened another connection; the target numbers nothing; it had heard all before it came."""
    session = sorted(t.final["data"]["sessions"])[0]
    connected = t.get("client.connected", client="c2", session=session)
    t.drop(*t.all("client.event", client="c2", session=session))
    if why == "gone":
        t.put("client.disconnected", connected, client="c2", session=session)
    elif why == "came again":
        again = connects(t, connected, "c2", session, None)
        for event in reversed(t.all("client.event", client="c1", session=session)):
            t.again(event, again, client="c2")
    elif why == "numbers nothing":
        for view in views(t, session):
            view["event"] = None
    elif why == "knew it all":
        change(connected, after=newest(t, session))
    else:
        for view in views(t, session):  # the events told after the snapshot are not part of it
            view["event"] -= 1
        last = t.get("client.event", -1, client="c1", session=session)
        t.move(last, t.final)
        change(connected, after=newest(t, session))
    assert [v for v in verdict(t, "events-equal-snapshot").violations if v.expected.seq == t.seq(connected)] == []


@QUICK
@given(followed(sessions=1))
def test_a_state_is_compared_only_where_its_newest_event_was_heard(t: Tape) -> None:
    """A client that has left before the last event cannot know the state that the snapshot shows."""
    t.drop(*t.all("client.connected", client="c2"), *t.all("client.event", client="c2"))
    last = newest(t, "s1")
    t.put("client.disconnected", t.get("client.event", -1, client="c1"), client="c1", session="s1")
    t.drop(*t.all("client.event", client="c1", event=last))
    t.view()["works"][-1]["state"] = "failed"
    assert [v for v in verdict(t, "events-equal-snapshot").violations if "last event" in v.expected.says] == []


# No view goes back -----------------------------------------------------------------------------------------------------

good("snapshot-never-goes-back", followed())


@breaks("snapshot-never-goes-back", "events-equal-snapshot")
def a_number_of_the_view_goes_back(t: Tape, draw: Draw) -> Witnesses:
    taken = t.all("snapshot.taken")
    i = number(draw, 1, len(taken) - 1)
    before, after = taken[i - 1], taken[i]
    session = one_of(draw, sorted(after["data"]["sessions"]))
    field = one_of(draw, ["event", "announced", "control_version"])
    if field == "control_version":
        for line in taken[:i]:
            line["data"]["sessions"][session][field] = 3
    after["data"]["sessions"][session][field] = one_of(draw, [None, 0]) if field != "control_version" else 2
    return before, after


@breaks("snapshot-never-goes-back", "events-equal-snapshot")
def a_session_is_gone_from_the_view(t: Tape, draw: Draw) -> Witnesses:
    taken = t.all("snapshot.taken")
    i = number(draw, 1, len(taken) - 1)
    for line in taken[i:]:
        line["data"]["sessions"].pop("s1")
    return taken[i - 1], taken[i]


@QUICK
@given(followed())
def test_a_view_may_stand_still_grow_or_number_nothing(t: Tape) -> None:
    examined = held(t, "snapshot-never-goes-back")
    for view in t.get("snapshot.taken", when="again")["data"]["sessions"].values():
        view["event"] += 5
    assert held(t, "snapshot-never-goes-back") == examined
    t.get("snapshot.taken", when="again")["data"]["sessions"]["s77"] = {"session": "s77"}
    assert held(t, "snapshot-never-goes-back") == examined
    for line in t.all("snapshot.taken"):
        for view in line["data"]["sessions"].values():
            view.update(event=None, announced=None)
    assert 0 < held(t, "snapshot-never-goes-back") < examined


# Looking is silent -----------------------------------------------------------------------------------------------------

good("reconnect-is-silent", followed())


@breaks("reconnect-is-silent")
def a_look_sets_something_going(t: Tape, draw: Draw) -> Witnesses:
    looks = [x for x in (*t.all("client.connected", client="c2"), *t.all("snapshot.taken")) if t.seq(x) >= t.seq(t.final)]
    look = one_of(draw, looks)
    if draw(st.booleans()):
        return look, ask(t, look, "alpha")
    effect = {"n": 700, "receiver": "plain", "key": "k", "arguments": {"x": 1}}
    return look, t.put("effect.received", look, **effect)


@pytest.mark.parametrize("why", ["asked", "clock", "before", "waits", "looked"])
@FEW
@given(t=followed())
def test_what_a_look_has_not_set_going(t: Tape, why: str) -> None:
    """What a user asked for, what a moved clock made due, what came before any look, and a work's own next try."""
    again = t.get("snapshot.taken", when="again")
    asked = {"call": 990, "client": "c1", "session": "s1", "text": "new", "request_id": "r99"}
    if why == "asked":
        ask(t, t.put("client.invoked", again, op="send", **asked), "alpha")
    elif why == "clock":
        ask(t, t.put("clock.moved", again, by_s=3600.0, offset_s=3600.0, why="downtime"), "alpha")
    elif why == "before":
        ask(t, t.lines[t.lines.index(t.final) - 1], "alpha")
    elif why == "waits":
        for view in views(t, "s1"):
            view["works"][0].update(state="waiting", reason_code="provider_unavailable")
        ask(t, again, "alpha")
    else:
        late = ask(t, t.put("client.invoked", again, op="snapshot", **asked), "alpha")
        caught(t, "reconnect-is-silent", (again, late))
        return
    held(t, "reconnect-is-silent")


@pytest.mark.parametrize("lacking", ["final", "rest"])
def test_without_a_rest_to_disturb_nothing_is_said_of_looking(lacking: str) -> None:
    t = turn(last="one")
    ask(t, t.final, "hello")
    if lacking == "final":
        t.drop(t.final)
    else:
        change(t.get("case.settled"), settled=False)
    not_examined(t, "reconnect-is-silent")


# All of them -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(data=st.data())
def test_the_check_examines_right_histories_and_holds(name: str, data: st.DataObject) -> None:
    try_good(name, data.draw)


@pytest.mark.parametrize("broken", broken_of("interface"), ids=str)
@QUICK
@given(data=st.data())
def test_a_broken_promise_is_caught(broken: Broken, data: st.DataObject) -> None:
    try_broken(broken, data.draw)


@pytest.mark.parametrize("name", NAMES)
def test_without_events_and_views_nothing_is_examined(name: str) -> None:
    t = turn(last="one")
    final = t.final
    taken_out(t, "client.event", "client.connected", "snapshot.taken")
    if name == "events-equal-snapshot":
        t.lines.insert(-1, {**final, "data": {"when": "final", "sessions": {}}})
    not_examined(t, name)


def test_two_clients_of_one_name_in_two_sessions_are_told_apart() -> None:
    scene = Scene({"one": replies(last="a b c"), "two": replies(last="d e f")})
    for session, text in (("s1", "one"), ("s2", "two")):
        scene.open(session)
        scene.send(f"r_{text}", text, session)
    t = scene.run().tape()
    for name in NAMES:
        held(t, name)
    gone = t.get("client.event", 1, client="c2", session="s2")
    after = t.get("client.event", 2, client="c2", session="s2")
    t.drop(gone)
    caught(t, "events-only-grow", (t.get("client.event", client="c2", session="s2"), after))
