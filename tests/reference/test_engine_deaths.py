"""Owns the sweep: a worker that dies at every breakpoint it reaches, and again in each step of its recovery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reference import usage
from tests.reference.rig import Fake, Rig, make

RECOVERY = [
    "recovery.facts.loaded",
    "recovery.ownership.taken",
    "recovery.repair.written",
    "recovery.decision.stored",
    "recovery.admitted",
    "recovery.intent.consumed",
    "recovery.interface.restored",
]
SCRIPTS: dict[str, list[str | list[str]]] = {
    "plain": ["one two three four five"],
    "read": [["read"], "it says so and so"],
    "charge": [["charge"], "charged"],
    "publish": [["publish"], "published it"],
    "mail": [["mail"], "mailed it"],
    "plugin": [["note_plugin"], "noted"],
    "several": [["charge", "publish", "read"], ["publish"], "all done now"],
}


def rig_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return make(
        folder,
        monkeypatch,
        SCRIPTS,
        Fake("read", read_only=True, builtin=True),
        Fake("charge", idempotent=True, state_probe=True),
        Fake("publish", state_probe=True),
        Fake("mail"),
        Fake("note_plugin", read_only=False, trusted=False),
    )


def reached(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> list[tuple[str, int]]:
    """Every address that a life without a death reaches."""
    (folder / "calm").mkdir()
    rig = rig_for(folder / "calm", monkeypatch)
    rig.send(rig.open(), name)
    rig.reached.clear()
    assert not rig.life()
    points = list(rig.reached)
    rig.store.close()
    return [(point, points[: i + 1].count(point)) for i, point in enumerate(points)]


def check(rig: Rig, session: str, name: str, deaths: int) -> dict[str, Any]:
    """What must hold however often the worker died."""
    view = rig.view(session)
    (work,) = view["works"]
    assert (work["state"], work["desired_state"], work["owner"]) == ("done", "done", None)
    assert [item["text"] for item in view["transcript"] if item["kind"] == "user"] == [name]
    for tool in rig.tools.values():
        assert tool.read_only or len(tool.applied) == len(set(tool.applied)), f"{tool.name} was applied twice"
    sent = {attempt["attempt"]: attempt for attempt in view["attempts"]}
    assert set(rig.model.billed) <= set(sent)
    for attempt in sent.values():
        billed = rig.model.billed.get(attempt["attempt"])
        if attempt["state"] == "known":
            assert billed is not None
            assert attempt["output_tokens"] == billed.output_tokens
        else:
            assert attempt["state"] == "unknown"
            assert attempt["output_tokens"] is None
    totals = view["totals"]
    usage.rebuild(rig.store)
    assert rig.view(session)["totals"] == totals
    assert totals["known_attempts"] + totals["unknown_attempts"] == len(sent)
    numbers = [row["number"] for row in rig.rows("SELECT number FROM events WHERE session = ? ORDER BY number", session)]
    assert numbers == list(range(1, view["event"] + 1))
    predecessors = [turn["predecessor"] for turn in work["turns"] if turn["predecessor"]]
    assert len(predecessors) == len(set(predecessors))
    assert [turn["state"] for turn in work["turns"]][-1] == "done"
    assert all(turn["state"] in ("done", "interrupted") for turn in work["turns"])
    assert rig.rows("SELECT * FROM outbox") == []
    assert len(rig.model.requests) <= len(SCRIPTS[name]) + deaths
    return view


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_death_at_every_point_of_a_turn_leaves_one_outcome(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for i, address in enumerate(reached(folder, monkeypatch, name)):
        own = folder / str(i)
        own.mkdir()
        rig = rig_for(own, monkeypatch)
        session = rig.open()
        rig.send(session, name)
        rig.reached.clear()
        rig.die_at(address)
        died = rig.until_rest()
        assert died == 1, address
        view = check(rig, session, name, died)
        unsure = {effect["tool"] for effect in view["effects"] if effect["state"] == "outcome_unknown"}
        after_dispatch = address[0] in ("tool.dispatch.stored", "tool.effect.done")
        assert unsure == ({"mail": {"mail"}, "plugin": {"note_plugin"}}.get(name, set()) if after_dispatch else set())
        rig.store.close()


@pytest.mark.parametrize("point", RECOVERY)
@pytest.mark.parametrize(
    "first", ["turn.begun", "attempt.stored", "reply.stored", "tool.dispatch.stored", "tool.effect.done"]
)
@pytest.mark.parametrize("name", ["mail", "several"])
def test_killed_again_and_again_in_recovery_it_comes_out_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, first: str, point: str
) -> None:
    views = []
    for times in (0, 1, 2):
        own = folder / str(times)
        own.mkdir()
        rig = rig_for(own, monkeypatch)
        session = rig.open()
        rig.send(session, name)
        rig.reached.clear()
        rig.die_at((first, 1), *((point, n + 1) for n in range(times)))
        assert rig.until_rest() == times + 1
        view = check(rig, session, name, times + 1)
        (work,) = view["works"]
        ways = [recovery["way"] for recovery in work["recoveries"] if not recovery["void"]]
        assert ways.count("new_turn") == len(work["turns"]) - 1
        views.append(
            (
                [(item["kind"], item["text"], item["complete"], item["placeholder"]) for item in view["transcript"]],
                [(effect["tool"], effect["state"]) for effect in view["effects"]],
                [(turn["state"], len(turn["attempts"])) for turn in work["turns"]],
            )
        )
        rig.store.close()
    assert views[0] == views[1] == views[2]


def test_a_second_repair_changes_no_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "mail")
    repair = "recovery.repair.written"
    rig.die_at(("tool.effect.done", 1), (repair, 1), (repair, 2))
    states = []
    for _ in range(3):
        assert rig.life()
        states.append(
            [
                rig.rows(f"SELECT * FROM {table}")
                for table in ("items", "effects", "attempts", "turns", "partials", "outbox")
            ]
        )
    assert states[0] != states[1]
    assert states[1] == states[2]
    assert rig.until_rest() == 0
    check(rig, session, "mail", 3)


def test_partial_text_is_kept_marked_and_never_joined(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "plain")
    rig.die_at(("stream.text.committed", 2))
    assert rig.until_rest() == 1
    view = check(rig, session, "plain", 1)
    replies = [(item["text"], item["complete"]) for item in view["transcript"] if item["kind"] == "assistant"]
    assert replies == [("onetwothreefour", False), ("one two three four five", True)]
    assert view["totals"]["unknown_attempts"] == 1
    assert rig.model.requests[1][-1]["role"] == "system"
    assert "plain" in rig.model.requests[1][-1]["content"]
    assert rig.rows("SELECT * FROM partials") == []


def test_an_unknown_write_locks_other_writes_until_the_user_decides(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "mail")
    rig.die_at(("tool.dispatch.stored", 1))
    assert rig.until_rest() == 1
    rig.send(session, "charge", "second")
    rig.send(session, "read", "third")
    rig.until_rest()
    assert rig.tools["charge"].applied == []
    view = rig.view(session)
    assert [effect["state"] for effect in view["effects"] if effect["tool"] == "read"] == ["succeeded"]
    (refused,) = [item for item in view["transcript"] if item["text"].startswith("Refused")]
    assert "mail" in refused["text"]
    (unknown,) = [effect for effect in view["effects"] if effect["tool"] == "mail"]
    assert unknown["state"] == "outcome_unknown"
    assert unknown["checks"] == ["user"]
    assert unknown["input_summary"] == "mail {}"
    from reference import control

    control.resolve_effect(rig.store, session, unknown["call_id"], "retry", True)
    rig.send(session, "charge", "fourth")
    rig.until_rest()
    assert len(rig.tools["mail"].applied) == 1
    assert len(rig.tools["charge"].applied) == 1
    last = [item for item in rig.view(session)["transcript"] if item["kind"] == "reconciliation"]
    assert [item["call_id"] for item in last] == [unknown["call_id"]]


def test_what_a_stop_just_before_a_second_sending_finds_stays_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first sending happened, of a charge that recovery sends again and of a mail that a user allows once more: neither
    becomes `not_started`, and what the user allowed stays allowed (EFF-3, EFF-6)."""
    from reference import control

    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    for tool, retried in (("charge", False), ("mail", True)):
        rig.reached.clear()
        rig.send(session, tool, tool)
        rig.die_at(("tool.effect.done", 1))
        assert rig.life() and len(rig.tools[tool].applied) == 1
        if retried:
            rig.hook = lambda point, n: None
            assert not rig.life()
            call = next(each["call_id"] for each in rig.view(session)["effects"] if each["tool"] == tool)
            control.resolve_effect(rig.store, session, call, "retry", True)
            rig.send(session, "plain", "next")
        sent = rig.reached.count("tool.dispatch.stored")
        rig.hook = lambda point, n, sent=sent: (
            rig.control(session, "stop") and None if (point, n) == ("tool.dispatch.stored", sent + 1) else None
        )
        assert not rig.life()
        (effect,) = rig.rows(f"SELECT * FROM effects WHERE tool = '{tool}'")
        assert (effect["state"], effect["resolution"]) == ("outcome_unknown", "retry" if retried else None)
        assert len(rig.tools[tool].applied) == 1, "it was not sent again"


def test_a_changed_implementation_is_not_the_tool_that_ran(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "charge")
    rig.die_at(("tool.effect.done", 1))
    assert rig.life()
    rig.tools["charge"].implementation = "test:2"
    assert rig.until_rest() == 0
    (effect,) = [effect for effect in rig.view(session)["effects"] if effect["dispatches"]]
    assert (effect["state"], effect["note"], effect["dispatches"]) == ("outcome_unknown", "implementation_changed", 1)
