"""Owns the schedules that nobody wrote down: inputs, controls, deaths and exits in any order, against a small model of what
was promised."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.reference.rig import Rig
from tests.reference.test_engine_deaths import RECOVERY, rig_for

POINTS = [
    "work.claimed",
    "turn.begun",
    "outbox.row.stored",
    "outbox.delivered",
    "attempt.stored",
    "stream.text.committed",
    "reply.received",
    "usage.receipt.received",
    "reply.stored",
    "usage.receipt.stored",
    "tool.intent.stored",
    "tool.dispatch.stored",
    "tool.effect.done",
    "tool.result.stored",
    "control.applied",
    "turn.committed",
    "work.released",
    *RECOVERY,
]
NAMES = ["plain", "read", "charge", "publish", "several"]


class Conversations(RuleBasedStateMachine):
    """Two conversations, one worker at a time that dies, leaves or comes to rest, and users who change their minds."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.rig: Rig = rig_for(Path(self._folder.name), self._patch)
        self.sessions = [self.rig.open(), self.rig.open()]
        self.sent: dict[str, tuple[str, str]] = {}  # work: session, text
        self.wanted: dict[str, str] = {}
        self.paused = [False, False]
        self.kept: dict[str, list[dict[str, object]]] = {session: [] for session in self.sessions}
        self.ended: dict[str, str] = {}

    def teardown(self) -> None:
        try:
            self.rig.hook = None
            for i, paused in enumerate(self.paused):
                if paused:
                    self._control(i, "resume")
            self.rig.until_rest()
            self._all_came_to_their_end()
        finally:
            self.rig.store.close()
            self._patch.undo()
            self._folder.cleanup()

    @rule(which=st.integers(0, 1), name=st.sampled_from(NAMES), again=st.booleans())
    def send(self, which: int, name: str, again: bool) -> None:
        work = self.rig.send(self.sessions[which], name, f"r{len(self.sent)}")
        if again:
            assert self.rig.send(self.sessions[which], name, f"r{len(self.sent)}") == work
        self.sent[work] = (self.sessions[which], name)
        self.wanted[work] = "paused" if self.paused[which] else "run"

    @rule(which=st.integers(0, 1), action=st.sampled_from(["pause", "resume", "stop"]))
    def decide(self, which: int, action: str) -> None:
        self._control(which, action)

    def _control(self, which: int, action: str) -> None:
        session = self.sessions[which]
        self.rig.control(session, action)
        done = {work["work_id"] for work in self.rig.view(session)["works"] if work["desired_state"] == "done"}
        for work, (owner, _) in self.sent.items():
            if owner == session and work not in done:
                now = self.wanted[work]
                self.wanted[work] = {
                    "pause": "paused" if now == "run" else now,
                    "resume": "run" if now == "paused" else now,
                    "stop": "cancelled",
                }[action]
        self.paused[which] = action == "pause"

    @rule(point=st.sampled_from(POINTS), ordinal=st.integers(1, 3))
    def live_and_die(self, point: str, ordinal: int) -> None:
        self.rig.reached.clear()
        self.rig.die_at((point, ordinal))
        self.rig.life()
        self.rig.hook = None

    @rule(
        point=st.sampled_from(POINTS),
        which=st.integers(0, 1),
        action=st.sampled_from(["pause", "resume", "stop", "send"]),
    )
    def live_and_act(self, point: str, which: int, action: str) -> None:
        self.rig.reached.clear()

        def hook(reached: str, n: int) -> None:
            if (reached, n) == (point, 1):
                if action == "send":
                    self.send(which, "plain", False)
                else:
                    self._control(which, action)

        self.rig.hook = hook
        self.rig.life()
        self.rig.hook = None

    @precondition(lambda self: self.sent)
    @rule()
    def leave_gracefully(self) -> None:
        assert not self.rig.life(exiting=True)

    @invariant()
    def nothing_committed_changes(self) -> None:
        for session in self.sessions:
            rows = self.rig.rows("SELECT * FROM items WHERE session = ? ORDER BY item", session)
            assert rows[: len(self.kept[session])] == self.kept[session]
            self.kept[session] = rows
            assert [row["item"] for row in rows] == list(range(1, len(rows) + 1))
            events = self.rig.rows("SELECT number FROM events WHERE session = ? ORDER BY number", session)
            assert [row["number"] for row in events] == list(range(1, len(events) + 1))

    @invariant()
    def what_has_ended_stays_so(self) -> None:
        now = {row["work_id"]: row["state"] for row in self.rig.rows("SELECT work_id, state FROM works")}
        for work, state in self.ended.items():
            assert now[work] == state
        self.ended = {work: state for work, state in now.items() if state in ("done", "cancelled")}

    @invariant()
    def every_input_is_there_once_and_no_write_twice(self) -> None:
        texts = self.rig.rows("SELECT work_id, COUNT(*) AS n FROM items WHERE kind = 'user' GROUP BY work_id")
        assert all(row["n"] == 1 for row in texts)
        assert {row["work_id"] for row in self.rig.rows("SELECT work_id FROM works")} == set(self.sent)
        for tool in self.rig.tools.values():
            assert tool.read_only or len(tool.applied) == len(set(tool.applied))

    @invariant()
    def intent_is_what_users_said(self) -> None:
        for row in self.rig.rows("SELECT work_id, desired_state FROM works"):
            assert row["desired_state"] in (self.wanted[row["work_id"]], "done")
            assert row["desired_state"] != "done" or self.wanted[row["work_id"]] == "run"

    def _all_came_to_their_end(self) -> None:
        for session in self.sessions:
            view = self.rig.view(session)
            for work in view["works"]:
                expected = "cancelled" if self.wanted[work["work_id"]] == "cancelled" else "done"
                assert work["state"] == expected, work
                assert work["owner"] is None
                assert all(turn["state"] != "running" for turn in work["turns"])
            for attempt in view["attempts"]:
                assert attempt["state"] in ("known", "unknown")
                if attempt["state"] == "known":
                    assert self.rig.model.billed[attempt["attempt"]].output_tokens == attempt["output_tokens"]
        assert self.rig.rows("SELECT * FROM outbox") == []
        assert set(self.rig.model.billed) <= {
            attempt["attempt"] for session in self.sessions for attempt in self.rig.view(session)["attempts"]
        }


TestConversations = Conversations.TestCase
TestConversations.settings = settings(
    max_examples=40, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
