"""The views of the evidence, each against a plain derivation of its own: what clients asked and heard, what holds when,
whom a request serves, which writes were asked for, who lived and owned what, and what a torn history still tells."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from faults.catalogue import POINTS
from scenarios.case import Call, Case, Reply, Script
from scenarios.checks.evidence import (
    CLAIMS,
    LOCAL_TOOLS,
    OWNERS_WRITES,
    RECEIVERS,
    Evidence,
    asks_for,
    canonical,
    content,
    detail,
    may_write,
    process,
)
from scenarios.history import History, Record, as_line
from tests.scenarios.checks.builder import Scene, Tape, call, replies
from tests.scenarios.checks.plays import FEW, MANY, MINE, SOME, plays, queued, results

Event = tuple[str, dict[str, Any]]
PLAIN = {"hello": replies(last="good day")}


def case(script: dict[str, tuple[Reply, ...]] | None = None, plan: tuple[str, ...] = ()) -> Case:
    return Case.model_validate(
        {"schema": "killpoint.case/1", "id": "c", "target": "made", "scenario": "made", "steps": [],
         "script": Script(replies=script or PLAIN), "plan": [{"at": at, "ops": [{"do": "kill"}]} for at in plan]}
    )  # fmt: skip


def evidence(events: list[Event], script: dict[str, tuple[Reply, ...]] | None = None) -> Evidence:
    """The evidence of these events, in their order."""
    return Evidence(
        History.join([{"t_ns": i, "kind": kind, "data": data} for i, (kind, data) in enumerate(events)]), case(script)
    )


def seqs(records: Any) -> list[int]:
    return [record.seq for record in records]


# What clients did -----------------------------------------------------------------------------------------------------

OPS = ("send", "send", "pause", "resume", "stop", "quit")
OUTCOMES = ("ok", "ok", "failed", "unknown", None)


@st.composite
def talks(draw: st.DrawFn) -> list[Event]:
    """What clients ask for and hear: answers come late, in any order, or never."""
    placed: list[tuple[int, Event]] = []
    for number in range(draw(st.integers(1, 8))):
        op, session = draw(st.sampled_from(OPS)), draw(st.sampled_from(["s1", "s2"]))
        asked: dict[str, Any] = {"call": number, "client": "c1", "op": op}
        if op == "send":
            asked |= {"session": session, "request_id": draw(st.sampled_from(["r1", "r2"])), "text": f"text of {session}"}
        elif op != "quit":
            asked |= {"op": "control", "session": session, "action": op}
        placed.append((number * 10, ("client.invoked", asked)))
        outcome = draw(st.sampled_from(OUTCOMES))
        if outcome:
            body = draw(st.sampled_from([None, {}, {"work_id": f"w{number}"}, {"control_version": number}]))
            heard = {"call": number, "outcome": outcome, "status": 200, "body": body}
            placed.append((number * 10 + draw(st.integers(1, 35)), ("client.heard", heard)))
    return [event for _, event in sorted(placed, key=lambda pair: pair[0])]


def answer(events: list[Event], number: int) -> tuple[int, dict[str, Any]] | None:
    """Where a call's answer stands and what it says, by reading on."""
    for place, (kind, data) in enumerate(events):
        if kind == "client.heard" and data["call"] == number:
            return place, data
    return None


@MANY
@given(talks())
def test_an_input_is_all_its_sendings_and_is_accepted_where_a_client_first_heard_so(events: list[Event]) -> None:
    e = evidence(events)
    sendings: dict[tuple[str, str], list[int]] = {}
    for place, (kind, data) in enumerate(events):
        if kind == "client.invoked" and data["op"] == "send":
            sendings.setdefault((data["session"], data["request_id"]), []).append(place)
    assert [(each.session, each.request_id) for each in e.inputs] == list(sendings)
    told = []
    for each in e.inputs:
        mine = sendings[each.session, each.request_id]
        assert seqs(each.sends) == mine and each.invoked.seq == mine[0]
        heard = [answer(events, events[place][1]["call"]) for place in mine]
        ok = sorted((found for found in heard if found and found[1]["outcome"] == "ok"), key=lambda found: found[0])
        assert (each.accepted.seq if each.accepted else None) == (ok[0][0] if ok else None)
        works = [found[1]["body"]["work_id"] for found in ok if found[1]["body"] and "work_id" in found[1]["body"]]
        assert each.work_id == (works[0] if works else None)
        told += [(ok[0][0], each)] if ok else []
        assert e.by_request_id[each.session, each.request_id] is each
    assert [each for each, _ in e.accepted] == [each for _, each in sorted(told, key=lambda pair: pair[0])]


@MANY
@given(talks())
def test_a_control_speaks_of_its_session_and_a_quit_of_all(events: list[Event]) -> None:
    e = evidence(events)
    asked = [data for kind, data in events if kind == "client.invoked" and data["op"] != "send"]
    assert [c.action for c in e.commands] == [data.get("action", "quit") for data in asked]
    for command, data in zip(e.commands, asked, strict=True):
        found = answer(events, data["call"])
        assert (command.heard.seq if command.heard else None) == (found[0] if found else None)
        assert bool(command.acknowledged) == bool(found and found[1]["outcome"] == "ok")
        assert command.version == ((found[1]["body"] or {}).get("control_version") if found else None)
    for session in ("s1", "s2", "s3"):
        mine = [data["op"] == "quit" or data["session"] == session for data in asked]
        assert [c.concerns(session) for c in e.commands] == mine
        assert len(e.commands_of(session)) == sum(mine)
        assert e.controlled(session) == any(mine)


@MANY
@given(talks())
def test_a_pause_holds_until_a_resume_is_asked_for_and_a_stop_for_ever(events: list[Event]) -> None:
    e = evidence(events)
    for session in ("s1", "s2"):
        holds = e.holds(session)
        lasting = [c for c in e.commands if c.concerns(session) and c.acknowledged and c.action != "resume"]
        assert [hold.command for hold in holds] == lasting
        for hold in holds:
            resumes = [c for c in e.commands_of(session) if c.action == "resume" and c.may_follow(hold.command)]
            ends = [c.invoked.seq for c in resumes[:1]] if hold.command.action == "pause" else []
            until = min([*ends, len(events)])
            assert [hold.covers(place) for place in range(len(events))] == [
                hold.since.seq < place < until for place in range(len(events))
            ]


@MANY
@given(st.integers(0, 3), st.integers(0, 3), st.permutations(["ask pause", "ask resume", "hear pause", "hear resume"]))
def test_of_two_controls_under_way_at_once_the_higher_version_is_the_later(
    pause: int, resume: int, order: list[str]
) -> None:
    assume(order.index("ask pause") < order.index("hear pause") and order.index("ask resume") < order.index("hear resume"))
    versions = {"pause": pause, "resume": resume}
    events: list[Event] = []
    for step in order:
        what, action = step.split()
        call = {"pause": 1, "resume": 2}[action]
        if what == "ask":
            events.append(("client.invoked", {"call": call, "op": "control", "session": "s1", "action": action}))
        else:
            body = {"control_version": versions[action]}
            events.append(("client.heard", {"call": call, "outcome": "ok", "status": 200, "body": body}))
    commands = {command.action: command for command in evidence(events).commands}
    assert commands["resume"].may_follow(commands["pause"]) == (resume > pause)
    events = [(kind, data | {"body": {}}) for kind, data in events]
    commands = {command.action: command for command in evidence(events).commands}
    over = order.index("hear resume") < order.index("ask pause")
    assert commands["resume"].may_follow(commands["pause"]) == (not over)


@SOME
@given(talks(), st.data())
def test_the_target_knows_an_input_once_somebody_has_seen_that_it_does(events: list[Event], data: st.DataObject) -> None:
    sends = [d for kind, d in events if kind == "client.invoked" and d["op"] == "send"]
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(events)))
        text = data.draw(st.sampled_from([d["text"] for d in sends] or ["nothing"]))
        holds = data.draw(st.dictionaries(st.sampled_from(["r1", "r2"]), st.booleans()))
        body = {"messages": [{"role": "user", "content": text}]}
        request = ("provider.request", {"n": len(events), "attempt": None, "body": body})
        events.insert(place, data.draw(st.sampled_from([request, ("store.at_death", {"files": {}, "holds": holds})])))
    e = evidence(events)
    for each in e.inputs:
        known = False
        for place in range(len(events) + 1):
            assert e.known_before(each, place) == known
            if place == len(events):
                break
            kind, seen = events[place]
            known |= kind == "store.at_death" and bool(seen["holds"].get(each.request_id))
            known |= kind == "provider.request" and e.input_of(next(r for r in e.requests if r.record.seq == place)) is each
            known |= each.accepted is not None and each.accepted.seq == place


# Whom a request serves ------------------------------------------------------------------------------------------------


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Evidence, list[tuple[str, str]]]:
    """Requests of several sessions whose inputs may have equal texts, and for each the input that it was really for."""
    texts = st.sampled_from(["alpha", "beta", "gamma"])
    sent = {session: draw(st.lists(texts, min_size=1, max_size=3)) for session in ("s1", "s2")[: draw(st.integers(1, 2))]}
    script = {text: replies(call("read", n=1), call("read", n=2), last=f"on {text}") for text in ("alpha", "beta", "gamma")}
    events: list[Event] = []
    for session, mine in sent.items():
        for i, text in enumerate(mine):
            data = {"call": len(events), "op": "send", "session": session, "request_id": f"{session}r{i}", "text": text}
            events.append(("client.invoked", data))
    truth, attempts = [], []
    for n in range(draw(st.integers(1, 5))):
        session = draw(st.sampled_from(sorted(sent)))
        place = draw(st.integers(0, len(sent[session]) - 1))
        told = [{"role": "user", "content": text} for text in sent[session][: place + 1]]
        for i in range(draw(st.integers(0, 2))):
            function = {"name": "read", "arguments": "{}"}
            told.append({"role": "assistant", "content": "", "tool_calls": [{"id": f"c{i}", "function": function}]})
            told.append({"role": "tool", "tool_call_id": f"c{i}", "content": "x"})
        events.append(("provider.request", {"n": n, "attempt": f"a{n}", "body": {"messages": told}}))
        truth.append((session, f"{session}r{place}"))
        attempts.append({"attempt": f"a{n}", "work_id": f"w_{session}r{place}"})
    views = {
        session: {
            "session": session,
            "inputs": [
                {"request_id": f"{session}r{i}", "text": t, "work_id": f"w_{session}r{i}"} for i, t in enumerate(mine)
            ],
        }
        for session, mine in sent.items()
    }
    if draw(st.booleans()):
        views["s1"]["attempts"] = attempts
    events.append(("snapshot.taken", {"when": "final", "sessions": views}))
    return evidence(events, script), truth


@MANY
@given(conversations())
def test_a_request_is_never_given_to_a_wrong_input(made: tuple[Evidence, list[tuple[str, str]]]) -> None:
    e, truth = made
    sessions_of = {text: {each.session for each in e.inputs if each.text == text} for text in ("alpha", "beta", "gamma")}
    for request, (session, request_id) in zip(e.requests, truth, strict=True):
        owner = e.input_of(request)
        if owner is not None:
            assert (owner.session, owner.request_id) == (session, request_id)
            assert request in e.requests_of(owner)
        else:
            assert len(sessions_of[request.active]) == 2, "only equal texts of two sessions leave it open"
            assert not e.final.sessions["s1"].attempts, "and only as long as the target names no attempts"
    given_away = [request.n for each in e.inputs for request in e.requests_of(each)]
    assert len(given_away) == len(set(given_away))


@MANY
@given(conversations())
def test_the_step_is_the_number_of_replies_with_calls_since_the_input(made: tuple[Evidence, list[tuple[str, str]]]) -> None:
    e, _ = made
    for request in e.requests:
        step = 0
        for message in request.messages:
            step = 0 if message["role"] == "user" else step + ("tool_calls" in message)
        assert request.step == step
        assert e.reply(request) == e.script(request.active)[min(step, 2)]
        assert request.texts("user") == [m["content"] for m in request.messages if m["role"] == "user"]


@SOME
@given(st.sampled_from(["hello", "hell", "hello hello"]), st.booleans())
def test_a_note_at_the_end_says_what_is_served(text: str, quoted: bool) -> None:
    script = {"hello": replies(last="a"), "hell": replies(last="b"), "hello hello": replies(last="c")}
    told = [
        {"role": "user", "content": "hello"},
        {"role": "system", "content": f"Go on with: {text}" if quoted else "Go on."},
    ]
    e = evidence([("provider.request", {"n": 1, "body": {"messages": told}})], script)
    longest = max((each for each in script if each in str(told[1]["content"])), key=len, default="hello")
    assert e.requests[0].active == (longest if quoted else "hello")


@SOME
@given(st.sampled_from(["", "{", "[]", '"text"', '{"messages": 3}', "null", 7, None, {"messages": ["a", 1]}]))
def test_a_body_that_is_none_has_no_messages(body: Any) -> None:
    request = evidence([("provider.request", {"n": 1, "body": body})]).requests[0]
    assert (request.messages, request.active, request.step) == ((), "", 0)


@SOME
@given(st.lists(st.sampled_from(["billed", "half", "answered", "failed", "refused", "twice"]), unique=True))
def test_a_request_is_joined_with_what_the_provider_says_of_it(said: list[str]) -> None:
    records = {
        "billed": ("provider.billed", {"n": 5, "complete": True, "output_tokens": 1}),
        "half": ("provider.billed", {"n": 5, "complete": False, "output_tokens": 1}),
        "answered": ("provider.answered", {"n": 5, "status": 200, "call_ids": ["a", "b"]}),
        "failed": ("provider.answered", {"n": 5, "status": 500}),
        "refused": ("provider.refused", {"n": 5, "why": "too long"}),
        "twice": ("provider.answered", {"n": 5, "status": 200, "call_ids": ["a", "a"]}),
    }
    others = [(kind, {**data, "n": 6}) for kind, data in records.values()]
    events = [("provider.request", {"n": 5, "attempt": "a5", "body": {}}), *others, *(records[name] for name in said)]
    request = evidence(events).requests[0]
    bills, answers = ([n for n in said if n in names] for names in (("billed", "half"), ("answered", "failed", "twice")))
    assert request.complete == (bills[-1:] == ["billed"])
    assert request.failed == ("refused" in said or answers[-1:] == ["failed"])
    assert request.senseless == (answers[-1:] == ["twice"])


@SOME
@given(plays(deaths=1))
def test_the_last_reply_counts_once_it_was_sent_to_its_end(tape: Tape) -> None:
    e = tape.evidence()
    for each in e.inputs:
        last = [r for r in e.requests_of(each) if r.step == len(e.script(each.text)) - 1 and r.complete]
        ends = [r.billed.seq for r in last if r.billed]
        assert e.last_step_billed(each) == bool(ends)
        for place in (0, min(ends), min(ends) + 1, 10**6):
            assert e.last_step_billed(each, place) == (min(ends) < place)


# Writes ---------------------------------------------------------------------------------------------------------------

TOOLS = ("charge", "mail", "publish", "order", "note_plugin", "read", "write", "shell")
ARGUMENTS = ({}, {"n": 1}, {"n": 2}, {"a": 1, "b": 2}, {"b": 2, "a": 1})


@st.composite
def written(draw: st.DrawFn) -> tuple[Evidence, list[tuple[str, str, Any]], list[Event]]:
    """Inputs whose scripts make calls of equal and other arguments, and writes that the world saw."""
    calls = st.lists(st.tuples(st.sampled_from(TOOLS), st.sampled_from(ARGUMENTS)), max_size=3)
    script = {
        text: (Reply(calls=tuple(Call(tool=tool, arguments=given) for tool, given in draw(calls))), Reply(text="done"))
        for text in ("alpha", "beta")
    }
    events: list[Event] = []
    asked = []
    for i, text in enumerate(draw(st.lists(st.sampled_from(["alpha", "beta", "unscripted"]), max_size=3))):
        events.append(("client.invoked", {"call": i, "op": "send", "session": "s1", "request_id": f"r{i}", "text": text}))
        asked += [(f"r{i}", c.tool, c.arguments) for reply in script.get(text, ()) for c in reply.calls]
    for n in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["effect.received", "effect.applied"]))
        receiver, arguments = draw(st.sampled_from(["keyed", "plain", "ambiguous"])), draw(st.sampled_from(ARGUMENTS))
        events.append((kind, {"n": n, "receiver": receiver, "key": f"k{n}", "arguments": arguments}))
    return evidence(events, script), asked, events


@MANY
@given(written())
def test_a_write_is_told_apart_by_its_receiver_and_arguments_whatever_their_order(
    made: tuple[Evidence, list[tuple[str, str, Any]], list[Event]],
) -> None:
    e, _, events = made
    for kind, view in (("effect.received", e.received), ("effect.applied", e.applied)):
        mine = [(place, data) for place, (name, data) in enumerate(events) if name == kind]
        for place, data in mine:
            same = [p for p, d in mine if d["receiver"] == data["receiver"] and d["arguments"] == data["arguments"]]
            assert seqs(view[data["receiver"], canonical(data["arguments"])]) == same and place in same
        assert sum(map(len, view.values())) == len(mine)


@MANY
@given(written(), st.sampled_from(["keyed", "plain", "ambiguous"]), st.sampled_from(ARGUMENTS))
def test_as_many_writes_are_allowed_as_calls_that_may_make_them(
    made: tuple[Evidence, list[tuple[str, str, Any]], list[Event]], receiver: str, arguments: dict[str, Any]
) -> None:
    e, asked, _ = made
    anywhere = {"shell"}
    to = {"keyed": {"charge"}, "plain": {"mail", "publish", "note_plugin"}, "ambiguous": {"order"}}[receiver] | anywhere
    mine = [request for request, tool, given in asked if tool in to and given == arguments]
    assert e.writes_allowed(receiver, canonical(arguments)) == len(mine)
    record = Record(0, 0, "effect.received", {"receiver": receiver, "arguments": arguments})
    assert [each.request_id for each in e.inputs_of_effect(record)] == list(dict.fromkeys(mine))
    for each in e.inputs:
        shown = [c.tool for c in e.writes(each.text)]
        assert shown == [tool for request, tool, _ in asked if request == each.request_id and tool in RECEIVERS]


@SOME
@given(st.sampled_from(TOOLS), st.sampled_from(["keyed", "plain", "ambiguous"]), st.sampled_from(ARGUMENTS))
def test_a_tool_writes_to_its_receiver_and_an_unlisted_one_to_any(
    tool: str, receiver: str, arguments: dict[str, Any]
) -> None:
    may = tool == "shell" or RECEIVERS.get(tool) == receiver
    assert may_write(tool, receiver) == may
    made = Call(tool=tool, arguments=arguments)
    assert asks_for(made, receiver, canonical(dict(reversed(arguments.items())))) == may
    assert not asks_for(made, receiver, canonical({**arguments, "more": 1}))
    assert not LOCAL_TOOLS & set(RECEIVERS)


# Processes ------------------------------------------------------------------------------------------------------------

WHO = st.tuples(st.sampled_from(["app", "worker"]), st.integers(1, 2))
DEEDS = ("process.started", "process.exited", "kill", "freeze", "thaw")


@st.composite
def fates(draw: st.DrawFn) -> list[Event]:
    """Processes that start, freeze, thaw, are killed and exit, in an order that a harness could see; then it clears up."""
    events: list[Event] = []
    running: set[tuple[str, int]] = set()
    begun: set[tuple[str, int]] = set()
    for _ in range(draw(st.integers(1, 10))):
        who, deed = draw(WHO), draw(st.sampled_from(DEEDS))
        data = {"role": who[0], "life": who[1], "pid": who[1]}
        if deed == "process.started" and who not in begun:
            begun.add(who)
            running.add(who)
            events.append((deed, data))
        elif deed == "kill" and who in running:
            running.discard(who)
            events += [("kill", {**data, "point": None, "nonce": None}), ("process.exited", data)]
        elif deed == "process.exited" and who in running:
            running.discard(who)
            events.append((deed, data))
        elif who in running and deed in {"freeze", "thaw"}:
            events.append((deed, data))
    events.append(("case.closed", {}))
    return events + [("process.exited", {"role": who[0], "life": who[1], "pid": who[1]}) for who in sorted(running)]


@MANY
@given(fates())
def test_a_life_lasts_from_its_start_to_its_kill_or_exit_within_the_case(events: list[Event]) -> None:
    e = evidence(events)
    alive: dict[tuple[str, int], bool] = {}
    closed = next(place for place, (kind, _) in enumerate(events) if kind == "case.closed")
    ends = []
    for place, (kind, data) in enumerate(events):
        who = (data.get("role"), data.get("life"))
        for life in e.lives.values():
            if life.started.seq != place and (life.end is None or life.end.seq != place):
                assert life.alive_at(place) == alive.get((life.role, life.life), False)
        if kind == "process.started":
            alive[who] = True
        elif kind in {"kill", "process.exited"} and alive.get(who) and place < closed:
            alive[who] = False
            ends.append(place)
    assert set(e.lives) == set(alive)
    assert seqs(e.ends) == ends
    deaths = [place for place, (kind, _) in enumerate(events) if kind == "kill"]
    assert sorted(life.death.seq for life in e.lives.values() if life.death) == deaths


@MANY
@given(fates())
def test_what_the_harness_clears_up_is_no_part_of_the_case(events: list[Event]) -> None:
    e = evidence(events)
    closed = next(place for place, (kind, _) in enumerate(events) if kind == "case.closed")
    wanted = [place for place, (kind, _) in enumerate(events) if kind in {"process.exited", "kill"} and place < closed]
    assert seqs(e.of_case("process.exited", "kill")) == wanted
    loud = ("process.exited", "kill", "freeze", "thaw")
    assert seqs(e.disturbances) == [place for place, (kind, _) in enumerate(events) if kind in loud and place < closed]
    open_ended = evidence([event for event in events if event[0] != "case.closed"])
    assert len(open_ended.of_case("process.exited")) == sum(kind == "process.exited" for kind, _ in events)


@st.composite
def owned(draw: st.DrawFn) -> list[Event]:
    """Points that two lives of a worker reach for two works, some of them held and let go."""
    points = ("work.claimed", "recovery.ownership.taken", "attempt.stored", "tool.dispatch.stored", "reply.received")
    events: list[Event] = [
        ("process.started", {"role": "worker", "life": life, "pid": 200 + life}) for life in (1, 2)
    ]  # fmt: skip
    for i in range(draw(st.integers(1, 10))):
        life, point = draw(st.integers(1, 2)), draw(st.sampled_from(points))
        told = {"generation": i} if point in CLAIMS and draw(st.booleans()) else {"attempt": f"a{i}"}
        data = {"point": point, "ordinal": i, "role": "worker", "life": life, "pid": 200 + life, "nonce": f"n{i}",
                "work": draw(st.sampled_from(["w1", "w2", None])),
                "detail": draw(st.sampled_from([told, None]))}  # fmt: skip
        events.append(("point.reached", data))
        held = {"point": point, "ordinal": i, "nonce": f"n{i}"}
        if draw(st.booleans()):
            events.append(("point.fired", {**held, "ops": []}))
        if draw(st.integers(0, 3)):
            events.append(("point.released", {**held, "answer": "go"}))
        if not draw(st.integers(0, 4)):
            events.append(("freeze", {"role": "worker", "life": life, "pid": 200 + life}))
    return events


@MANY
@given(owned())
def test_who_took_a_work_and_from_whom(events: list[Event]) -> None:
    e = evidence(events)
    taken: dict[str, list[tuple[int, int]]] = {}
    overs = []
    for place, (kind, data) in enumerate(events):
        if kind == "point.reached" and data["point"] in CLAIMS and data["work"]:
            mine = taken.setdefault(data["work"], [])
            if mine and mine[-1][1] != data["life"]:
                overs.append((mine[-1][0], place))
            mine.append((place, data["life"]))
    assert {work: [(c.record.seq, c.process[1]) for c in claims] for work, claims in e.claims.items()} == taken
    assert sorted((before.record.seq, after.record.seq) for before, after in e.takeovers) == sorted(overs)
    for claims in e.claims.values():
        for claim in claims:
            assert claim.generation == detail(claim.record).get("generation")


@MANY
@given(owned())
def test_an_owner_acts_until_it_claims_the_work_anew(events: list[Event]) -> None:
    e = evidence(events)
    for claim in [claim for claims in e.claims.values() for claim in claims]:
        who = (claim.process[1], claim.work)
        mine = [(p, data["point"]) for p, (_, data) in enumerate(events) if (data.get("life"), data.get("work")) == who]
        for since in range(len(events)):
            acts = []
            for place, point in [(place, point) for place, point in mine if place > since]:
                if point in CLAIMS:
                    break
                acts += [place] if point in OWNERS_WRITES else []
            assert seqs(e.acts_after(claim, since)) == acts


@MANY
@given(owned(), st.integers(0, 30), st.integers(0, 30))
def test_a_process_was_stalled_while_it_was_frozen_or_held(events: list[Event], one: int, other: int) -> None:
    e, first, last = evidence(events), min(one, other), max(one, other)
    for life in (1, 2):
        stalled = any(
            kind == "freeze" and data["life"] == life and first < place < last for place, (kind, data) in enumerate(events)
        )
        for place, (kind, data) in enumerate(events):
            if kind == "point.reached" and data["life"] == life:
                told = {k: p for p, (k, d) in enumerate(events) if p > place and d.get("nonce") == data["nonce"]}
                until = told.get("point.released", len(events) + 100)
                stalled |= "point.fired" in told and told["point.fired"] < last and until > first
                let_go = e.held_until(e.history.records[place])
                wanted = told.get("point.released") if "point.fired" in told else None
                assert (let_go.seq if let_go else None) == wanted
        assert e.stalled_between(("worker", life), first, last) == stalled


@MANY
@given(owned(), st.integers(0, 30), st.integers(1, 2), st.booleans())
def test_a_process_stands_still_while_it_is_frozen_or_held(events: list[Event], seq: int, life: int, thawed: bool) -> None:
    if thawed:
        events.insert(min(seq, len(events)), ("thaw", {"role": "worker", "life": life, "pid": 200 + life}))
        seq += 1
    still, holds = False, set[str]()
    for kind, data in events[:seq]:
        if kind in ("freeze", "thaw") and data["life"] == life:
            still = kind == "freeze"
        elif kind == "point.fired" and f"worker.{life}" == _of(events, data["nonce"]):
            holds.add(data["nonce"])
        elif kind == "point.released":
            holds.discard(data["nonce"])
    assert evidence(events).stands_still(("worker", life), seq) == (still or bool(holds))


def _of(events: list[Event], nonce: str) -> str:
    return next(f"worker.{data['life']}" for kind, data in events if kind == "point.reached" and data["nonce"] == nonce)


@MANY
@given(owned(), st.lists(st.sampled_from(["work.claimed", "attempt.stored", "reply.received", "never"]), unique=True))
def test_points_are_found_by_name_and_by_nonce(events: list[Event], names: list[str]) -> None:
    e = evidence(events)
    wanted = [place for place, (kind, data) in enumerate(events) if kind == "point.reached" and data["point"] in names]
    assert seqs(e.reached_at(*names)) == wanted
    for record in e.reached:
        assert e.by_nonce[record["nonce"]] is record
        assert process(record) == ("worker", record["life"])
        assert detail(record) == (record["detail"] or {})


@SOME
@given(st.sampled_from(["request", "write"]), st.booleans(), st.booleans())
def test_the_world_sees_an_old_owner_act_while_it_lives(what: str, dead: bool, held: bool) -> None:
    worker = {"role": "worker", "life": 1, "pid": 201, "work": "w1"}
    events: list[Event] = [
        ("process.started", {"role": "worker", "life": 1, "pid": 201}),
        ("point.reached", {**worker, "point": "work.claimed", "nonce": "n0", "detail": {"generation": 1}}),
        ("point.reached", {**worker, "point": "attempt.stored", "nonce": "n1", "detail": {"attempt": "a1"}}),
        ("point.reached", {**worker, "point": "tool.dispatch.stored", "nonce": "n2", "detail": {"key": "k1"}}),
    ]
    over = len(events) - 1
    events += [("point.fired", {"point": "tool.dispatch.stored", "nonce": "n2", "ops": []})] if held else []
    events += [("kill", {**worker, "point": None, "nonce": None})] if dead else []
    events += [("point.released", {"point": "tool.dispatch.stored", "nonce": "n2", "answer": "go"})]
    events.append(("provider.request", {"n": 1, "attempt": "a1", "body": {}}))
    events.append(("effect.received", {"n": 1, "receiver": "keyed", "key": "k1", "arguments": {}}))
    events.append(("point.reached", {**worker, "point": "tool.effect.done", "nonce": "n3", "detail": {"key": "k1"}}))
    e = evidence(events)
    kinds = [record.kind for record in e.world_acts_after(e.claims["w1"][0], over)]
    assert kinds == ([] if dead else ["provider.request"]) + (["effect.received"] if held else [])
    assert [r.kind for r in e.world_acts_after(e.claims["w1"][0], len(events))] == []


@SOME
@given(st.sampled_from(["key", "call", "both", "neither"]), st.booleans())
def test_the_key_of_a_point_is_what_it_says_or_what_the_snapshot_says_of_its_call(named: str, shown: bool) -> None:
    told = {"key": {"key": "k1"}, "call": {"call": "c1"}, "both": {"key": "k1", "call": "c1"}, "neither": {}}[named]
    point = {
        "point": "tool.dispatch.stored",
        "role": "worker",
        "life": 1,
        "pid": 1,
        "nonce": "n",
        "work": None,
        "detail": told,
    }
    effect = {"call_id": "c1", "tool": "mail", "state": "succeeded", "idempotency_key": "k_shown"}
    views = {"s1": {"session": "s1", "effects": [effect] if shown else []}}
    e = evidence([("point.reached", point), ("snapshot.taken", {"when": "final", "sessions": views})])
    wanted = "k1" if "key" in told else "k_shown" if "call" in told and shown else None
    assert e.key_of(e.reached[0]) == wanted


# How much may be paid again -------------------------------------------------------------------------------------------

COSTS = {point.name: point.repeats_max for point in POINTS if point.role == "worker"}


@st.composite
def losses(draw: st.DrawFn) -> tuple[list[Event], int]:
    """Things that may cost a model call again, and how many of them the parts allow in sum."""
    events: list[Event] = [("process.started", {"role": "worker", "life": 1, "pid": 201})]
    sum_of = 0
    for i in range(draw(st.integers(0, 6))):
        name, pid = draw(st.sampled_from(sorted(COSTS))), draw(st.sampled_from([201, 777]))
        reached = {"point": name, "ordinal": i, "role": "worker", "life": 1, "pid": 201, "nonce": f"n{i}", "work": None}
        kill = {"role": "worker", "life": 1, "pid": pid, "point": name, "ordinal": i, "nonce": f"n{i}"}
        fired = {"point": name, "ordinal": i, "nonce": f"n{i}"}
        kind = draw(
            st.sampled_from(["standing", "beside", "unknown point", "app", "cut", "raise", "user", "failed", "frozen"])
        )
        if kind == "standing":
            events += [("point.reached", {**reached, "pid": pid}), ("kill", kill)]
            sum_of += COSTS[name]
        elif kind == "beside":
            events += [("point.reached", {**reached, "pid": 1}), ("kill", kill)]
            sum_of += 1
        elif kind == "unknown point":
            events.append(("kill", {**kill, "point": draw(st.sampled_from([None, "no.such.point"]))}))
            sum_of += 1
        elif kind == "app":
            events.append(("kill", {**kill, "role": "app"}))
        elif kind in {"cut", "raise"}:
            op = {"do": "raise", "errno": "EIO"} if kind == "raise" else {"do": "answer", "how": "cut"}
            events.append(("point.fired", {**fired, "ops": [op, {"do": "kill"}]}))
            sum_of += 1
        elif kind == "user":
            events.append(("client.invoked", {"call": i, "op": "control", "session": "s1", "action": "pause"}))
            sum_of += 1
        elif kind == "failed":
            events += [("provider.request", {"n": i, "body": {}}), ("provider.answered", {"n": i, "status": 500})]
            sum_of += 1
        else:
            events.append(("freeze", {"role": "worker", "life": 1, "pid": 201}))
            sum_of += 1
    return events, sum_of


@MANY
@given(losses())
def test_what_may_be_paid_again_is_the_sum_over_all_that_happened(made: tuple[list[Event], int]) -> None:
    events, sum_of = made
    assert evidence(events).repeats_allowed == sum_of


def test_a_worker_that_left_by_itself_or_was_overtaken_may_cost_one_call() -> None:
    first = {"role": "worker", "life": 1, "pid": 201}
    started: list[Event] = [("process.started", first), ("process.started", {**first, "life": 2, "pid": 202})]
    claim = {"point": "work.claimed", "work": "w1", "detail": {}, "ordinal": 1}
    taken = [("point.reached", {**claim, "role": "worker", "life": n, "pid": 200 + n, "nonce": f"n{n}"}) for n in (1, 2)]
    assert evidence([*started, ("process.exited", first)]).repeats_allowed == 1
    assert evidence([*started, *taken]).repeats_allowed == 1
    assert evidence([*started, *taken, ("freeze", first)]).repeats_allowed == 1, "it was overtaken because it was frozen"
    assert evidence([*started, ("kill", {**first, "point": None, "nonce": None}), *taken]).repeats_allowed == 1


@SOME
@given(st.lists(st.tuples(st.sampled_from(["app", "worker"]), st.booleans()), max_size=5))
def test_a_kill_beside_a_point_is_one_of_a_worker_that_stood_at_none(kills: list[tuple[str, bool]]) -> None:
    events: list[Event] = []
    for i, (role, standing) in enumerate(kills):
        at = {"point": "reply.received", "role": role, "life": 1, "pid": i if standing else 999, "nonce": f"n{i}"}
        events += [("point.reached", at), ("kill", {"role": role, "life": 1, "pid": i, "point": None, "nonce": f"n{i}"})]
    wanted = [i for i, (role, standing) in enumerate(kills) if role == "worker" and not standing]
    assert [kill["pid"] for kill in evidence(events).kills_beside_points] == wanted


# The surroundings, and the target's own word ----------------------------------------------------------------------------


@SOME
@given(
    st.sampled_from(["none", "error", "senseless", "store", "raised"]),
    st.sampled_from(["failed", "working", "waiting"]),
    st.sampled_from(["code", None]),
)
def test_an_input_is_excused_only_if_something_outside_gave_it_its_reason(
    what: str, state: str, reason: str | None
) -> None:
    work = {"work_id": "w1", "state": state, "reason_code": reason}
    events: list[Event] = [
        ("client.invoked", {"call": 1, "op": "send", "session": "s1", "request_id": "r1", "text": "hello"}),
        ("client.heard", {"call": 1, "outcome": "ok", "body": {"work_id": "w1"}}),
        ("provider.request", {"n": 1, "body": {}}),
    ]
    events += {
        "none": [("point.released", {"nonce": "n", "answer": "go"})],
        "error": [("provider.answered", {"n": 1, "status": 503})],
        "senseless": [("provider.answered", {"n": 1, "status": 200, "call_ids": ["a", "a"]})],
        "store": [("store.broken", {"how": "torn"})],
        "raised": [("point.released", {"nonce": "n", "answer": {"do": "raise", "errno": "ENOSPC"}})],
    }[what]
    events.append(("snapshot.taken", {"when": "final", "sessions": {"s1": {"session": "s1", "works": [work]}}}))
    e = evidence(events)
    assert e.trouble == (what != "none")
    assert e.excused(e.inputs[0]) == (what != "none" and state != "working" and reason is not None)
    assert not evidence(events[:-1]).excused(e.inputs[0]), "without a work there is no reason"


@FEW
@given(st.sampled_from(["repeat", "cut", "drop", None]))
def test_pieces_were_sent_twice_only_if_the_plan_said_so(how: str | None) -> None:
    ops = [{"do": "answer", "how": how}, "not an operation"]
    assert evidence([("point.fired", {"nonce": "n", "ops": ops})]).doubled == (how == "repeat")
    assert not evidence([("point.fired", {"nonce": "n", "ops": None})]).doubled


@SOME
@given(plays(texts=3))
def test_works_inputs_and_attempts_lead_to_each_other(tape: Tape) -> None:
    e = tape.evidence()
    for each in e.inputs:
        work = e.work(each)
        assert work is not None and e.input_of_work(work.work_id) is each
        assert e.works[work.work_id] == (each.session, work)
        view = e.session(each.session)
        assert view is not None
        for row in view.attempts:
            assert e.work_of_attempt[row.attempt] == row.work_id
    assert e.input_of_work(None) is None and e.input_of_work("w_nowhere") is None
    assert len(e.effects) == sum(len(view.effects) for view in e.final.sessions.values())
    assert len(e.items) == sum(len(view.transcript) for view in e.final.sessions.values())
    assert e.placeholders == {item.text for _, item in e.items if item.placeholder}


@SOME
@given(plays(), st.booleans())
def test_the_work_of_an_input_is_what_the_client_heard_before_what_the_snapshot_says(tape: Tape, heard: bool) -> None:
    for line in tape.all("client.heard"):
        line["data"]["body"] = line["data"]["body"] if heard else {}
    for line in tape.all("snapshot.taken"):
        for view in line["data"]["sessions"].values():
            for each in view["inputs"]:
                each["work_id"] = "w_other" if heard else each["work_id"]
    e = tape.evidence()
    assert {e.work_id(each) for each in e.inputs} == {f"w_{each.session}_{each.request_id}" for each in e.inputs}


@FEW
@given(st.lists(st.sampled_from([True, False]), max_size=3))
def test_a_case_has_settled_if_its_last_word_says_so(said: list[bool]) -> None:
    e = evidence([("case.settled", {"settled": each}) for each in said])
    assert e.settled == (said[-1:] == [True])
    assert (e.settled_record.seq if e.settled_record else None) == (len(said) - 1 if said else None)


def test_without_a_final_snapshot_there_is_an_empty_one_and_no_record_of_it() -> None:
    e = evidence([("snapshot.taken", {"when": "before", "sessions": {"s1": {"session": "s1"}}})])
    assert (e.final.sessions, e.final_record, e.works, e.effects, e.session("s1")) == ({}, None, {}, [], None)
    assert [record.seq for record, _ in e.snapshots] == [0]


def test_the_points_of_the_plan_are_known_by_name() -> None:
    plan = ("tool.effect.done#1", "reply.stored#2")
    assert [point.name for point in Evidence(History(), case(plan=plan)).points] == ["tool.effect.done", "reply.stored"]


@SOME
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=2), each, max_size=3),
    )
)
def test_a_value_has_one_text(value: Any) -> None:
    assert json.loads(canonical(value)) == value
    shuffled = dict(reversed(value.items())) if isinstance(value, dict) else value
    assert canonical(shuffled) == canonical(value)


@pytest.mark.parametrize(
    ("given_content", "text"),
    [("a", "a"), (None, ""), (7, ""), ([], ""), ([{"type": "text", "text": "a"}, {"text": "b"}, "c", {}], "ab")],
)
def test_the_text_of_a_message_is_a_string_or_its_parts(given_content: Any, text: str) -> None:
    assert content({"role": "user", "content": given_content}) == text


# Torn and scattered histories -------------------------------------------------------------------------------------------


@SOME
@given(plays(sessions=1, texts=1), st.data())
def test_a_log_torn_at_any_byte_is_read_up_to_its_last_whole_record(tape: Tape, data: st.DataObject) -> None:
    whole = b"".join(as_line(line) for line in tape.lines)
    torn = whole[: data.draw(st.integers(0, len(whole)))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        path.write_bytes(torn)
        history = History.read(path, Path(folder) / "never-written.jsonl")
    assert len(history.records) == torn.count(b"\n")
    found = results_of(Evidence(history, tape.case))
    assert "violated" not in found
    if history.final_record is None:
        assert found["inconclusive"] == sum("final" in each.needs for each in MINE)


def results_of(e: Evidence) -> Counter[str]:
    lines = e.history.lines()
    return Counter(found.status for found in results(Tape(e.case, lines)).values())


@SOME
@given(st.one_of(plays(), queued()), st.integers(1, 4), st.randoms(use_true_random=False))
def test_logs_that_were_kept_apart_join_to_the_same_history(tape: Tape, parts: int, random: Any) -> None:
    logs: list[list[Any]] = [[] for _ in range(parts)]
    for line in tape.lines:
        random.choice(logs).append(line)
    joined = Evidence(History.join(*logs), tape.case)
    assert [record.t_ns for record in joined.history.records] == sorted(line["t_ns"] for line in tape.lines)
    assert results(Tape(tape.case, joined.history.lines())) == results(tape)


def test_nothing_at_all_is_never_held() -> None:
    found = results_of(Evidence(History(), case()))
    assert set(found) <= {"inconclusive", "not run"} and sum(found.values()) == len(MINE)


@FEW
@given(st.integers(1, 3))
def test_a_run_that_only_opened_its_sessions_shows_nothing(sessions: int) -> None:
    scene = Scene()
    for i in range(sessions):
        scene.open(f"s{i}")
    assert set(results_of(scene.tape().evidence())) == {"not run"}


@pytest.mark.parametrize("sessions", [("s1",), ("s1", "s2")])
def test_a_store_that_holds_an_id_tells_nothing_where_two_sessions_have_used_it(sessions: tuple[str, ...]) -> None:
    events: list[Event] = [
        (
            "client.invoked",
            {"call": n, "client": "user", "op": "send", "session": each, "request_id": "r1", "text": f"text of {each}"},
        )
        for n, each in enumerate(sessions)
    ]
    e = evidence([*events, ("store.at_death", {"files": {}, "holds": {"r1": True}})])
    assert [e.known_before(each, len(events) + 1) for each in e.inputs] == [len(sessions) == 1] * len(sessions)
