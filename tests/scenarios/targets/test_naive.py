"""The naive agent works when nothing breaks, and the world shows what it does when something does."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.case import Call, Reply, Script
from scenarios.world.handle import World
from tests.scenarios.world.conftest import WAIT_S_MAX, Opened, client, open_case, world

__all__ = ["client", "open_case", "world"]  # fixtures

TARGETS = Path(__file__).parents[3] / "scenarios" / "targets"
Open = Callable[..., Opened]


@pytest.fixture
def served(world: World) -> World:
    """The world that cases are opened in."""
    return world


SCRIPT = Script(
    replies={
        "pay": (Reply(text="I pay.", calls=(Call(tool="charge", arguments={"amount": 5}),)), Reply(text="It is paid.")),
        "mail": (Reply(calls=(Call(tool="mail", arguments={"to": "x"}),)), Reply(text="Sent.", pieces=3)),
        "order": (Reply(calls=(Call(tool="order", arguments={"item": 1}),)), Reply(text="Ordered?")),
        "note": (
            Reply(calls=(Call(tool="write", arguments={"path": "a.txt", "text": "hello"}),)),
            Reply(calls=(Call(tool="read", arguments={"path": "a.txt"}), Call(tool="read", arguments={"path": "../b"}))),
            Reply(text="Noted."),
        ),
        "hello": (Reply(text="Hello to you.", pieces=4),),
    }
)


class Target:
    """One target program that runs, and its lines."""

    def __init__(self, program: str, folder: Path, case: Opened) -> None:
        self.arguments = [sys.executable, str(TARGETS / program), "--db", str(folder / "agent.db")]
        self.env = {
            "PATH": os.environ["PATH"],
            "PROVIDER_URL": case.addresses.provider_url,
            "PROVIDER_KEY": "key",
            "MODEL": "m",
            "EFFECTS_URL": case.addresses.effects_url,
            "WORKSPACE": str(folder),
        }
        self.lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.env, cwd="/"
        )
        self.reader = threading.Thread(target=self._read, args=(self.process,))
        self.reader.start()

    def send(self, request_id: str, text: str, session: str = "s1") -> None:
        assert self.process and self.process.stdin
        self.process.stdin.write(json.dumps({"session": session, "request_id": request_id, "text": text}) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        return self.lines.get(timeout=WAIT_S_MAX)

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            assert self.process.wait(WAIT_S_MAX) == -signal.SIGKILL
            self._close()

    def end(self) -> None:
        """End its input, as a user who is done does."""
        assert self.process and self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(WAIT_S_MAX) == 0
        self._close()

    def show(self, session: str = "s1") -> dict[str, Any]:
        run = subprocess.run([*self.arguments, "--show"], capture_output=True, text=True, env=self.env, check=True)
        sessions: dict[str, Any] = json.loads(run.stdout)["sessions"]
        return sessions[session]

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        for line in process.stdout:
            self.lines.put(json.loads(line))

    def _close(self) -> None:
        assert self.process and self.process.stdin and self.process.stdout
        self.reader.join(WAIT_S_MAX)
        self.process.stdin.close()
        self.process.stdout.close()
        self.process = None


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Target]]:
    started: list[Target] = []

    def start_one(program: str, case: Opened) -> Target:
        started.append(Target(program, tmp_path, case))
        started[-1].start()
        return started[-1]

    yield start_one
    for each in started:
        each.kill()


def test_a_request_is_accepted_worked_on_and_done(open_case: Open, start: Callable[..., Target]) -> None:
    case = open_case(SCRIPT)
    naive = start("naive.py", case)
    naive.send("r1", "pay")
    assert [naive.hear(), naive.hear()] == [{"accepted": "r1"}, {"done": "r1", "text": "It is paid."}]
    naive.end()
    [applied] = case.records("effect.applied")
    assert (applied["receiver"], applied["key"]) == ("keyed", "call_1_0")
    assert case.records("provider.refused") == []
    shown = naive.show()
    assert [request["answer"] for request in shown["requests"]] == ["It is paid."]
    assert [call["id"] for call in shown["calls"]] == ["call_1_0"]
    assert "rcpt_1" in shown["calls"][0]["result"]
    billed = case.records("provider.billed")
    assert shown["usage"] == {key: sum(each[key] for each in billed) for key in ("input_tokens", "output_tokens")}


def test_files_are_written_and_read_inside_the_workspace_only(
    open_case: Open, start: Callable[..., Target], tmp_path: Path
) -> None:
    naive = start("naive.py", open_case(SCRIPT))
    naive.send("r1", "note")
    assert [naive.hear(), naive.hear()][1] == {"done": "r1", "text": "Noted."}
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert [call["result"] for call in naive.show()["calls"]] == ["written", "hello", "error: outside the workspace"]


def test_a_lost_answer_of_the_ambiguous_receiver_reaches_the_model_as_an_error(
    open_case: Open, start: Callable[..., Target]
) -> None:
    case = open_case(SCRIPT)
    naive = start("naive.py", case)
    naive.send("r1", "order")
    assert [naive.hear(), naive.hear()][1]["done"] == "r1"
    assert naive.show()["calls"][0]["result"].startswith("error:")
    assert len(case.records("effect.applied")) == 1


def test_sessions_and_requests_are_kept_apart_and_a_resent_request_is_done_once(
    open_case: Open, start: Callable[..., Target]
) -> None:
    case = open_case(SCRIPT)
    naive = start("naive.py", case)
    for session in ("s1", "s2"):
        naive.send(f"{session}-r1", "hello", session)
        assert [naive.hear(), naive.hear()][1]["text"] == "Hello to you."
    naive.send("s1-r1", "hello")
    assert [naive.hear(), naive.hear()][1] == {"done": "s1-r1", "text": "Hello to you."}
    assert len(case.records("provider.request")) == 2


def test_killed_between_effect_and_checkpoint_it_writes_twice(open_case: Open, start: Callable[..., Target]) -> None:
    """Its classic fault: a call without a stored result is run again, though the world has seen it (EFF-3)."""
    case = open_case(SCRIPT, controlled=True, sites=["effect.applied"])
    assert case.controller
    naive = start("naive.py", case)
    naive.send("r1", "mail")
    assert naive.hear() == {"accepted": "r1"}
    held = case.controller.next("effect.applied")
    naive.kill()
    held.answer()
    naive.start()
    case.controller.next("effect.applied").answer()
    assert naive.hear() == {"done": "r1", "text": "Sent."}
    assert [record["duplicate_of"] for record in case.records("effect.applied")] == [None, 1]
    assert len(naive.show()["calls"]) == 1  # and its own records show one


def test_killed_in_the_stream_it_forgets_what_it_was_billed(open_case: Open, start: Callable[..., Target]) -> None:
    """It asks anew and gets its answer, and the first request is missing from its usage (USE-2)."""
    case = open_case(SCRIPT, controlled=True, sites=["provider.reply.chunk"])
    assert case.controller
    naive = start("naive.py", case)
    naive.send("r1", "hello")
    case.controller.next("provider.reply.chunk")
    naive.kill()
    naive.start()
    for _ in range(4):
        case.controller.next("provider.reply.chunk").answer()
    assert [naive.hear(), naive.hear()][1] == {"done": "r1", "text": "Hello to you."}
    first, second = case.records("provider.billed")
    assert (first["complete"], second["complete"]) == (False, True)
    assert naive.show()["usage"]["input_tokens"] == second["input_tokens"] < first["input_tokens"] + second["input_tokens"]


def test_a_stream_that_is_cut_is_asked_for_anew(open_case: Open, start: Callable[..., Target]) -> None:
    case = open_case(SCRIPT, controlled=True, sites=["provider.reply.chunk"])
    assert case.controller
    naive = start("naive.py", case)
    naive.send("r1", "hello")
    case.controller.next("provider.reply.chunk").answer("answer", how="cut")
    for _ in range(4):
        case.controller.next("provider.reply.chunk").answer()
    assert [naive.hear(), naive.hear()][1] == {"done": "r1", "text": "Hello to you."}


def test_a_provider_that_keeps_failing_ends_the_request_with_an_error(
    open_case: Open, start: Callable[..., Target]
) -> None:
    case = open_case(SCRIPT, controlled=True, sites=["provider.request.received"])
    assert case.controller
    naive = start("naive.py", case)
    naive.send("r1", "hello")
    for _ in range(3):
        case.controller.next("provider.request.received").answer("answer", how="error", status=503)
    assert [naive.hear(), naive.hear()][1]["failed"] == "r1"
    assert "503" in naive.show()["requests"][0]["error"]


def test_idle_says_done_and_the_world_has_seen_nothing(open_case: Open, start: Callable[..., Target]) -> None:
    case = open_case(SCRIPT)
    idle = start("idle.py", case)
    idle.send("r1", "pay")
    assert [idle.hear(), idle.hear()] == [{"accepted": "r1"}, {"done": "r1", "text": "done"}]
    idle.end()
    assert [request["answer"] for request in idle.show()["requests"]] == ["done"]
    case.close()
    assert case.log_path.read_text() == ""


@pytest.mark.parametrize(("text", "receiver"), [("pay", "keyed"), ("mail", "plain"), ("order", "ambiguous")])
def test_twice_shows_one_write_and_the_world_has_seen_two(
    open_case: Open, start: Callable[..., Target], text: str, receiver: str
) -> None:
    case = open_case(SCRIPT)
    twice = start("twice.py", case)
    twice.send("r1", text)
    assert [twice.hear(), twice.hear()][1]["done"] == "r1"
    twice.end()
    assert len(twice.show()["calls"]) == 1
    applied = case.records("effect.applied")
    assert [(record["receiver"], record["duplicate_of"]) for record in applied] == [(receiver, None), (receiver, 1)]


def test_the_targets_know_nothing_of_the_harness() -> None:
    for program in ("naive.py", "idle.py", "twice.py"):
        source = (TARGETS / program).read_text()
        assert not any(
            f"{word} {room}" in source for word in ("import", "from") for room in ("scenarios", "faults", "reports")
        )
