"""Owns the users' side of the engine: inputs once, controls over everything, a newer input before a continuation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reference import control, intake
from reference.model import ProviderFault, Refused
from tests.reference.rig import Fake, Rig, make
from tests.reference.test_engine_deaths import RECOVERY, reached, rig_for


def test_an_input_is_there_once_whoever_sends_it_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open("the-session")
    assert rig.open("the-session") == session
    first, made = intake.accept(rig.store, session, "r1", "plain")
    again, made_again = intake.accept(rig.store, session, "r1", "plain")
    assert (made, made_again, again) == (True, False, first)
    with pytest.raises(Refused, match="another text") as refused:
        intake.accept(rig.store, session, "r1", "other")
    assert (refused.value.status, refused.value.field) == (409, "request_id")
    with pytest.raises(Refused) as refused:
        intake.accept(rig.store, "s_none", "r1", "other")
    assert (refused.value.status, refused.value.field) == (404, "session")
    assert len(rig.view(session)["inputs"]) == 1


def test_a_stop_holds_against_a_late_resend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "plain", "r1")
    answer = rig.control(session, "stop")
    assert answer == {"desired_state": "cancelled", "control_version": 1}
    rig.send(session, "plain", "r1")
    intake.accept(rig.store, session, "r2", "plain", version=0)  # first sent before the Stop, its row made after it
    assert not rig.life()
    assert rig.model.requests == []
    assert [work["state"] for work in rig.view(session)["works"]] == ["cancelled", "cancelled"]
    rig.send(session, "plain", "r3")
    assert not rig.life()
    assert [work["state"] for work in rig.view(session)["works"]] == ["cancelled", "cancelled", "done"]


def test_a_stale_control_does_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "plain")
    control.apply(rig.store, session, "pause", 0)
    with pytest.raises(Refused) as refused:
        control.apply(rig.store, session, "resume", 0)
    assert (refused.value.status, refused.value.field) == (409, "version")
    rig.send(session, "plain", "later")
    assert not rig.life()
    assert rig.model.requests == []
    assert [work["state"] for work in rig.view(session)["works"]] == ["paused", "paused"]
    control.apply(rig.store, session, "resume", 1)
    assert not rig.life()
    assert [work["state"] for work in rig.view(session)["works"]] == ["done", "done"]


@pytest.mark.parametrize("action", ["pause", "stop"])
@pytest.mark.parametrize("name", ["plain", "several"])
def test_a_control_at_every_point_is_obeyed_from_there_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, action: str
) -> None:
    for i, address in enumerate(reached(folder, monkeypatch, name)):
        if address[0] in ("turn.committed", "work.released"):
            continue  # the work has ended there
        own = folder / str(i)
        own.mkdir()
        rig = rig_for(own, monkeypatch)
        session = rig.open()
        rig.send(session, name)
        rig.reached.clear()
        seen: list[tuple[int, int]] = []

        def hook(
            point: str,
            n: int,
            at: tuple[str, int] = address,
            rig: Rig = rig,
            session: str = session,
            seen: list[tuple[int, int]] = seen,
        ) -> None:
            if (point, n) == at and not seen:
                seen.append((0, 0))
                rig.control(session, action)
                seen[0] = _acts(rig)

        rig.hook = hook
        assert not rig.life()
        assert _acts(rig) == seen[0], address
        (work,) = rig.view(session)["works"]
        assert work["state"] == {"pause": "paused", "stop": "cancelled"}[action], address
        rig.hook = None
        assert not rig.life()
        assert _acts(rig) == seen[0]
        if action == "pause":
            rig.control(session, "resume")
            assert not rig.life()
            (work,) = rig.view(session)["works"]
            assert work["state"] == "done"
            for tool in rig.tools.values():
                assert len(tool.applied) == len(set(tool.applied))
        rig.store.close()


def _acts(rig: Rig) -> tuple[int, int]:
    return len(rig.model.requests), sum(len(tool.applied) for tool in rig.tools.values())


@pytest.mark.parametrize("point", RECOVERY)
@pytest.mark.parametrize("action", ["pause", "stop"])
def test_a_control_during_recovery_wins(folder: Path, monkeypatch: pytest.MonkeyPatch, action: str, point: str) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "charge")
    rig.die_at(("reply.stored", 1))
    assert rig.life()
    rig.reached.clear()

    def hook(reached_point: str, n: int) -> None:
        if (reached_point, n) == (point, 1):
            rig.control(session, action)

    rig.hook = hook
    assert not rig.life()
    assert _acts(rig) == (1, 0)
    (work,) = rig.view(session)["works"]
    assert work["state"] == {"pause": "paused", "stop": "cancelled"}[action]
    rig.hook = None
    rig.control(session, "resume")
    assert not rig.life()
    (work,) = rig.view(session)["works"]
    assert work["state"] == {"pause": "done", "stop": "cancelled"}[action]
    assert len(rig.tools["charge"].applied) == (1 if action == "pause" else 0)


@pytest.mark.parametrize("point", RECOVERY)
def test_a_newer_input_goes_first_until_the_continuation_is_admitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "charge")
    rig.send(session, "read", "waiting")
    rig.die_at(("turn.begun", 1))
    assert rig.life()
    rig.reached.clear()

    def hook(reached_point: str, n: int) -> None:
        if (reached_point, n) == (point, 1):
            rig.send(session, "plain", "newer")

    rig.hook = hook
    assert not rig.life()
    view = rig.view(session)
    assert {work["state"] for work in view["works"]} == {"done"}
    ended = [
        row["work_id"]
        for row in rig.rows(
            "SELECT json_extract(data, '$.work_id') AS work_id FROM events WHERE type = 'work.done' ORDER BY number"
        )
    ]
    first, waiting, newer = (work["work_id"] for work in view["works"])
    overtakes = point in RECOVERY[1:4]
    assert ended == ([waiting, newer, first] if overtakes else [first, waiting, newer])
    users = [item["text"] for item in view["transcript"] if item["kind"] == "user"]
    assert sorted(users) == ["charge", "plain", "read"]
    assert len(rig.tools["charge"].applied) == 1
    if overtakes:
        assert [turn["state"] for turn in view["works"][0]["turns"]] == ["interrupted", "done"]
        assert notes(rig.model.requests[0], "continued later") == [1], "right behind its input, before the newer one"
        assert "continue it" in rig.model.requests[-1][-1]["content"] and "charge" in rig.model.requests[-1][-1]["content"]


def notes(request: list[dict[str, Any]], holding: str) -> list[int]:
    """The places of the notes in a request that hold this text."""
    return [at for at, each in enumerate(request) if each["role"] == "system" and holding in each["content"]]


def test_a_stop_of_what_was_set_aside_quotes_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another request stands between by then, which the stop is not about."""
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "charge", "first")
    rig.die_at(("turn.begun", 1))
    assert rig.life()
    acts = {
        ("recovery.ownership.taken", 1): lambda: rig.send(session, "plain", "newer"),
        ("recovery.ownership.taken", 2): lambda: rig.control(session, "stop"),
    }
    rig.hook = lambda point, n: acts.pop((point, n), lambda: None)()
    assert not rig.life()
    assert [work["state"] for work in rig.view(session)["works"]] == ["cancelled", "done"] and not acts
    rig.send(session, "read", "last")
    assert not rig.life()
    last = rig.model.requests[-1]
    (place,) = notes(last, "The user stopped the request quoted here")
    assert last[place]["content"].endswith("\nRequest: charge]")
    assert notes(last, "request above was interrupted") == [1]


def test_a_request_that_was_paused_behind_a_newer_one_is_told_when_that_one_begins(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody set it aside for the newer one: the pause had done so before."""
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "charge", "first")
    rig.die_at(("turn.begun", 1))
    assert rig.life()

    def newer_and_paused(point: str, n: int) -> None:
        if (point, n) == ("recovery.ownership.taken", 1):
            rig.send(session, "plain", "newer")
            rig.control(session, "pause")

    rig.hook = newer_and_paused
    assert not rig.life()
    rig.control(session, "resume")
    assert not rig.life()
    assert [message["content"] for message in rig.model.requests[0] if message["role"] == "user"] == ["charge", "plain"]
    assert notes(rig.model.requests[0], "continued later") == [1]


def test_a_request_that_was_told_off_is_taken_up_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note about its failure stands last, and says nothing of its being tried again."""
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "plain", "first")
    rig.model.faults = [ProviderFault("status", "400", False)]
    assert not rig.life()
    rig.control(session, "retry")
    assert not rig.life()
    last = rig.model.requests[-1]
    assert notes(last, "request above was not finished") == [len(last) - 2]
    assert notes(last, "continue it") == [len(last) - 1]


def test_a_stop_while_the_model_speaks_cuts_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "plain")
    rig.model.during = lambda: rig.control(session, "stop") and None
    assert not rig.life()
    (work,) = rig.view(session)["works"]
    assert (work["state"], work["turns"][0]["state"]) == ("cancelled", "cancelled")
    assert "control.applied" in rig.reached
    assert "lease.renewing" not in rig.reached, "the Stop came before anybody watched, and was seen at the next commit only"
    assert rig.view(session)["totals"]["unknown_attempts"] == 1


def test_quit_stops_everything_and_says_so_to_workers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    sessions = [rig.open(), rig.open()]
    works = [rig.send(session, "plain") for session in sessions]
    before = control.exits(rig.store)
    assert control.quit(rig.store) == {"status": "stopped", "works": works}
    assert control.exits(rig.store) == before + 1
    assert not rig.life()
    assert rig.model.requests == []


def test_a_passing_fault_waits_and_a_lasting_one_keeps_its_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "plain")
    rig.model.faults = [ProviderFault("cut", "the stream was cut", True)]
    assert not rig.life()
    (work,) = rig.view(session)["works"]
    assert (work["state"], work["reason_code"], work["next_try_at"] > time.time() - 1) == (
        "waiting",
        "provider_unavailable",
        True,
    )
    while time.time() < work["next_try_at"]:
        time.sleep(0.001)
    assert not rig.life()
    (work,) = rig.view(session)["works"]
    assert work["state"] == "done"
    assert len(work["turns"]) == 1
    assert [item["complete"] for item in rig.view(session)["transcript"] if item["kind"] == "assistant"] == [False, True]
    rig.send(session, "plain", "second")
    rig.model.faults = [ProviderFault("status", "400", False)]
    assert not rig.life()
    work = rig.view(session)["works"][1]
    assert (work["state"], work["reason_code"], work["can_retry"]) == ("failed", "provider_refused", True)
    rig.control(session, "retry")
    assert not rig.life()
    assert rig.view(session)["works"][1]["state"] == "done"


def test_the_same_call_id_twice_is_an_error_and_no_guess(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reference.model import Counts, Reply, ToolCall

    rig = make(folder, monkeypatch, {"a": ["fine"]}, Fake("pay"))
    session = rig.open()
    rig.send(session, "a")
    good = rig.model.stream

    async def twice(*_: object) -> Reply:
        return Reply("", (ToolCall("x", "pay", "{}"), ToolCall("x", "pay", "{}")), Counts(3, 0, 2))

    monkeypatch.setattr(rig.model, "stream", twice)
    assert not rig.life()
    view = rig.view(session)
    assert (view["works"][0]["state"], view["works"][0]["reason_code"]) == ("failed", "duplicate_call_id")
    assert rig.tools["pay"].applied == []
    assert view["totals"]["output_tokens"] == 2
    monkeypatch.setattr(rig.model, "stream", good)
    rig.send(session, "a", "again")
    assert not rig.life()
    assert rig.view(session)["works"][1]["state"] == "done"


@pytest.mark.parametrize("all_of_them", [False, True], ids=["stop", "quit"])
def test_a_stop_holds_for_what_has_come_and_is_not_committed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, all_of_them: bool
) -> None:
    rig = rig_for(folder, monkeypatch)
    session, other = rig.open(), rig.open("other")

    def stop(point: str, *_: object) -> None:
        if point == "input.received" and not rig.view(session)["inputs"]:
            control.quit(rig.store) if all_of_them else rig.control(session, "stop")

    monkeypatch.setattr(intake, "reach", stop)
    heard, made = intake.accept(rig.store, session, "r1", "plain")
    assert not made, "the Stop has committed it"
    assert rig.store.arriving == []
    again, _ = intake.accept(rig.store, session, "r1", "plain")
    assert again == heard
    assert not rig.life()
    assert rig.model.requests == []
    assert [work["state"] for work in rig.view(session)["works"]] == ["cancelled"]
    assert rig.view(other)["inputs"] == []
    intake.accept(rig.store, session, "r2", "plain")
    assert [work["state"] for work in rig.view(session)["works"]] == ["cancelled", "queued"]


def test_a_pause_and_a_stop_of_another_session_leave_alone_what_arrives(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_for(folder, monkeypatch)
    session, other = rig.open(), rig.open("other")

    def decide(point: str, *_: object) -> None:
        if point == "input.received":
            rig.control(other, "stop")
            rig.control(session, "pause")
            assert rig.view(session)["inputs"] == []

    monkeypatch.setattr(intake, "reach", decide)
    _, made = intake.accept(rig.store, session, "r1", "plain")
    assert made
    assert [work["state"] for work in rig.view(session)["works"]] == ["paused"]


def test_an_input_that_is_refused_on_its_way_is_in_nobodys_hands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()

    def fails(*_: object) -> None:
        raise OSError("the disk")

    monkeypatch.setattr(intake, "reach", fails)
    with pytest.raises(OSError, match="the disk"):
        intake.accept(rig.store, session, "r1", "plain")
    assert rig.store.arriving == []
    rig.control(session, "stop")
    assert rig.view(session)["inputs"] == []


def test_a_stop_after_a_pause_is_told_to_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "plain", "r1")
    rig.model.during = lambda: control.apply(rig.store, session, "pause") and None
    assert not rig.life()
    rig.control(session, "stop")
    rig.control(session, "stop")
    rig.send(session, "read", "r2")
    assert not rig.life()
    last = rig.model.requests[-1]
    told = [(message["role"], message["content"]) for message in last]
    assert told[0] == ("user", "plain")
    notes = [place for place, (role, text) in enumerate(told) if role == "system" and "stopped" in text]
    assert notes and notes[0] < [role for role, _ in told].index("user", 1)
    assert len(notes) == 1
