"""Owns who may act: claims by two real processes at once, leases and clocks, the fence, what an old generation leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from reference import clock, identity, ownership
from reference.identity import Identity
from reference.model import Fenced
from reference.ownership import Lookout
from reference.running import Process
from reference.store import Store
from tests.reference.rig import Rig, make
from tests.reference.test_engine_deaths import check, rig_for

CLAIMER = """
import json, sys
from pathlib import Path
from reference.ownership import claim
from reference.identity import Identity
from reference.settings import Settings
from reference.store import Store
data = Path(sys.argv[1])
settings = Settings(data=data, workspace=data)
store = Store.open(settings)
with store.read() as tx:
    rows = tx.all("SELECT * FROM works ORDER BY place")
print("ready", flush=True)
sys.stdin.readline()
me = str(Identity.mine())
print(json.dumps([row["work_id"] for row in rows if claim(store, row, me, settings)]), flush=True)
store.close()
"""


def test_two_processes_that_read_the_same_rows_claim_each_work_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    works = [rig.send(rig.open(), "plain") for _ in range(40)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    claimers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(2)
    ]
    try:
        for each in claimers:
            assert each.stdout
            assert each.stdout.readline() == "ready\n"
        for each in claimers:
            assert each.stdin
            each.stdin.write("go\n")
            each.stdin.flush()
        claimed = [json.loads(each.communicate(timeout=30)[0]) for each in claimers]
    finally:
        for each in claimers:
            each.kill()
            each.wait()
    assert sorted(claimed[0] + claimed[1]) == sorted(works)
    assert {row["generation"] for row in rig.rows("SELECT generation FROM works")} == {1}
    assert all(row["owner"] for row in rig.rows("SELECT owner FROM works"))


def test_the_works_of_one_session_are_never_owned_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    first, second = rig.send(session, "plain", "1"), rig.send(session, "plain", "2")
    rows = {row["work_id"]: row for row in rig.rows("SELECT * FROM works")}
    assert ownership.claim(rig.store, rows[second], "me", rig.settings) is None  # type: ignore[arg-type]
    assert ownership.claim(rig.store, rows[first], "me", rig.settings)  # type: ignore[arg-type]
    assert ownership.claim(rig.store, rows[second], "other", rig.settings) is None  # type: ignore[arg-type]


def test_a_process_is_known_by_boot_pid_and_start_time(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    me = Identity.mine()
    assert Identity.parse(str(me)) == me
    assert not me.certainly_dead()
    assert replace(me, start=me.start + 1).certainly_dead()
    assert not replace(me, host="elsewhere", start=1).certainly_dead()
    (folder / "boot").write_text("another-boot")
    monkeypatch.setenv("KILLPOINT_BOOT", str(folder / "boot"))
    assert me.certainly_dead()
    assert Identity.mine().boot == "another-boot"


def test_a_zombie_is_dead_and_a_stopped_process_is_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.readline()"], stdin=subprocess.PIPE)
    found = identity._stat(child.pid)
    assert found
    owner = replace(Identity.mine(), pid=child.pid, start=found[1])
    child.send_signal(signal.SIGSTOP)
    assert not owner.certainly_dead()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner.certainly_dead()
    assert child.stdin
    child.stdin.close()
    child.wait()


@pytest.fixture
def held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Rig, ownership.Held, list[float], Path]:
    """A work held by a living process, with both clocks in the test's hand."""
    rig = rig_for(folder, monkeypatch)
    rig.send(rig.open(), "plain")
    time_s = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: time_s[0])
    offset = folder / "clock"
    offset.write_text("0")
    monkeypatch.setenv("KILLPOINT_CLOCK", str(offset))
    (row,) = rig.rows("SELECT * FROM works")
    alive = str(replace(Identity.mine(), pid=os.getppid(), start=(identity._stat(os.getppid()) or ("", 0))[1]))
    claimed = ownership.claim(rig.store, row, alive, rig.settings)  # type: ignore[arg-type]
    assert claimed
    return rig, claimed, time_s, offset


def test_a_moved_clock_takes_nothing_from_an_owner_that_renews(
    held: tuple[Rig, ownership.Held, list[float], Path],
) -> None:
    rig, mine, time_s, offset = held
    taker = Lookout("me", rig.settings)
    for moved in ("10800", "-10800", "2592000"):
        offset.write_text(moved)
        for _ in range(4):
            assert taker.next(rig.store)[0] is None
            time_s[0] += rig.settings.lease_s / 3
            ownership.renew(rig.store, mine, rig.settings)
    offset.write_text("-10800")
    time_s[0] += 1000
    assert taker.next(rig.store)[0] is None  # the lease has not run out by the clock


def test_an_owner_has_its_time_to_renew_from_when_its_lease_is_seen_to_have_run_out(
    held: tuple[Rig, ownership.Held, list[float], Path],
) -> None:
    rig, mine, time_s, offset = held
    taker = Lookout("me", rig.settings)
    assert taker.next(rig.store)[0] is None
    time_s[0] += 10 * rig.settings.watch_s  # it holds its lease, and had no reason to renew it
    offset.write_text("60")
    assert taker.next(rig.store)[0] is None
    time_s[0] += rig.settings.watch_s / 2
    ownership.renew(rig.store, mine, rig.settings)
    assert taker.next(rig.store)[0] is None
    offset.write_text("120")
    time_s[0] += rig.settings.watch_s / 2
    assert taker.next(rig.store)[0] is None
    time_s[0] += rig.settings.watch_s
    assert taker.next(rig.store)[0] is not None


def test_an_owner_that_stands_beyond_its_lease_is_replaced_and_then_fenced(
    held: tuple[Rig, ownership.Held, list[float], Path],
) -> None:
    rig, mine, time_s, offset = held
    taker = Lookout("me", rig.settings)
    offset.write_text("16")
    assert taker.next(rig.store)[0] is None  # expired, but not yet seen to stand
    time_s[0] += 2 * rig.settings.lease_s / 3
    row, _ = taker.next(rig.store)
    assert row is not None
    assert ownership.take(rig.store, row, "me", rig.settings)
    assert ownership.take(rig.store, row, "late", rig.settings) is None
    with pytest.raises(Fenced):
        ownership.renew(rig.store, mine, rig.settings)
    (work,) = rig.rows("SELECT generation, owner FROM works")
    assert (work["generation"], work["owner"]) == (2, "me")


def test_the_lease_is_renewed_when_the_clock_of_the_case_moves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "charge")
    offset = folder / "clock"
    offset.write_text("0")
    monkeypatch.setenv("KILLPOINT_CLOCK", str(offset))

    def hook(point: str, n: int) -> None:
        if point == "turn.begun":
            offset.write_text("10800")

    rig.hook = hook
    assert not rig.life()
    assert rig.reached.count("lease.renewing") == 1
    after = rig.reached.index("lease.renewing")
    assert rig.reached[after - 1] == "turn.begun"
    assert rig.view(session)["works"][0]["state"] == "done"


OVERTAKEN_AT = [
    "work.claimed",
    "turn.begun",
    "attempt.stored",
    "stream.text.committed",
    "reply.received",
    "usage.receipt.received",
    "reply.stored",
    "tool.intent.stored",
    "tool.dispatch.stored",
    "tool.effect.done",
    "tool.result.stored",
    "turn.committed",
]


@pytest.mark.parametrize("name", ["several", "mail", "plain"])
@pytest.mark.parametrize("point", OVERTAKEN_AT)
def test_an_owner_replaced_while_it_stood_still_writes_nothing_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, point: str
) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, name)
    rig.reached.clear()
    overtaken: list[int] = []

    def hook(reached: str, n: int) -> None:
        if (reached, n) == (point, 1):
            rig.hook = None
            overtaker = threading.Thread(target=lambda: overtaken.append(int(rig.life())))
            overtaker.start()
            overtaker.join(30)
            overtaken.append(len(rig.model.requests))
            overtaken.append(sum(len(tool.applied) for tool in rig.tools.values()))

    rig.hook = hook
    assert not rig.life()
    if not overtaken:
        assert (name, point) in {(n, p) for n in ("mail", "several") for p in OVERTAKEN_AT} | {
            ("plain", p) for p in OVERTAKEN_AT if p.startswith("tool.")
        }
        return
    died, requests, applied = overtaken
    assert died == 0
    assert len(rig.model.requests) == requests, "the old owner asked the model after it was replaced"
    assert sum(len(tool.applied) for tool in rig.tools.values()) == applied, "the old owner caused an effect"
    view = check(rig, session, name, 1)
    (work,) = view["works"]
    assert work["generation"] == (2 if point != "turn.committed" else 1)
    if point in ("reply.received", "usage.receipt.received"):
        late = [attempt for attempt in view["attempts"] if attempt["late"]]
        assert [(attempt["state"], attempt["output_tokens"]) for attempt in late] == [("known", 5)]
    if (name, point) == ("mail", "tool.effect.done"):
        assert not rig.life()
        view = rig.view(session)
        assert [item["text"] for item in view["transcript"] if item["kind"] == "reconciliation"] == ["mail done"]
        assert [effect["state"] for effect in view["effects"]] == ["succeeded"]
        assert [item["placeholder"] for item in view["transcript"] if item["kind"] == "tool_result"] == [True]


def test_a_graceful_exit_gives_the_work_back_and_the_next_owner_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i, point in enumerate(["work.claimed", "turn.begun", "attempt.stored", "reply.stored", "tool.dispatch.stored"]):
        own = folder / str(i)
        own.mkdir()
        rig = rig_for(own, monkeypatch)
        session = rig.open()
        rig.send(session, "several")
        rig.reached.clear()
        processes = []
        fresh = rig.process

        def process(me: str | None = None, fresh=fresh, processes=processes):  # type: ignore[no-untyped-def]
            processes.append(fresh(me))
            return processes[-1]

        monkeypatch.setattr(rig, "process", process)

        def hook(reached: str, n: int, point: str = point, processes=processes) -> None:  # type: ignore[no-untyped-def]
            if reached == point and len(processes) == 1:
                processes[0].exiting = True

        rig.hook = hook
        assert not rig.life()
        exits = [reached for reached in rig.reached if reached.startswith("exit.")]
        assert exits == ["exit.admission.closed", "exit.controls.stored", "exit.checkpoint.stored"]
        assert rig.reached[-1] == "exit.checkpoint.stored"
        (work,) = rig.view(session)["works"]
        assert (work["state"], work["owner"], work["desired_state"], work["reason_code"]) == (
            "queued",
            None,
            "run",
            "worker_exit",
        )
        assert not rig.life()
        view = check(rig, session, "several", 1)
        assert len(view["works"][0]["turns"]) == 1
        assert {recovery["way"] for recovery in view["works"][0]["recoveries"]} == {"checkpoint"}
        rig.store.close()


@pytest.mark.parametrize(("action", "state"), [("stop", "cancelled"), ("pause", "paused")])
@pytest.mark.parametrize("point", ["exit.admission.closed", "exit.controls.stored"])
def test_what_a_user_decides_while_a_stream_is_let_go_for_an_exit_holds(
    folder: Path, monkeypatch: pytest.MonkeyPatch, point: str, action: str, state: str
) -> None:
    rig = rig_for(folder, monkeypatch)
    session = rig.open()
    rig.send(session, "plain")
    processes: list[Process] = []
    fresh = rig.process

    def process(me: str | None = None) -> Process:
        processes.append(fresh(me))
        return processes[-1]

    def told_to_go() -> None:
        processes[0].exiting = True

    def hook(reached: str, n: int) -> None:
        if reached == point:
            rig.control(session, action)

    monkeypatch.setattr(rig, "process", process)
    rig.model.during, rig.hook = told_to_go, hook
    assert not rig.life()
    (work,) = rig.view(session)["works"]
    assert (work["state"], work["owner"], work["desired_state"]) == (state, None, state)
    assert rig.reached[-1] == "exit.checkpoint.stored" and "control.applied" in rig.reached
    rig.hook = None
    rig.send(session, "read")
    assert not rig.life()
    works = [work["state"] for work in rig.view(session)["works"]]
    assert works == (["cancelled", "done"] if action == "stop" else ["paused", "paused"])


def test_a_store_of_another_process_is_seen_to_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make(folder, monkeypatch, {"a": ["b"]})
    other = Store.open(rig.settings)
    token = rig.store.changed()
    assert rig.store.changed(token) == token
    from reference import intake

    intake.create_session(other)
    assert rig.store.changed(token) != token
    other.close()
