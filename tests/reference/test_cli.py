"""The command line, by its processes: what a person types, what they get, and how a mistake is answered."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from reference.__main__ import main
from tests.reference.processes import END_S_MAX, ROOT, Served, run, served

KEY = "sk-secret-provider-key"


class Model(BaseHTTPRequestHandler):
    """Answers every request with the same words, or a status."""

    status: ClassVar[int] = 200
    seen: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        chunks = [
            {"choices": [{"delta": {"content": "hello "}}]},
            {"choices": [{"delta": {"content": "you"}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        ]
        body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
        if self.status != 200:
            body = json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[dict[str, str]]:
    """A provider, as the environment that leads to it."""
    Model.status, Model.seen = 200, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        yield {"REFERENCE_PROVIDER_URL": url, "REFERENCE_PROVIDER_KEY": KEY}
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An app without workers."""
    with served(tmp_path_factory.mktemp("cli") / "data") as running:
        yield running


def ok(app: Served, *arguments: str, text: str | None = None) -> str:
    done = run(*arguments, "--data", str(app.data), text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refused(app: Served, *arguments: str) -> str:
    done = run(*arguments, "--data", str(app.data))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("reference: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_send_and_wait_with_workers_under_the_apps_care(tmp_path: Path, provider: dict[str, str]) -> None:
    """What a newcomer does: serve, then send. The answer comes, and no process is left after the app has gone."""
    data = tmp_path / "data"
    with served(data, "--workers", "2", env=provider) as app:
        done = run("send", "say hello", "--data", str(data))
        assert (done.returncode, done.stdout.strip()) == (0, "hello you"), done.stderr
        session = done.stderr.split()[-1]
        shown = ok(app, "show", session)
        assert "done" in shown
        assert "user: say hello" in shown
        assert [message["content"] for message in Model.seen[0]["messages"]] == ["say hello"]
        workers = psutil.Process(app.process.pid).children(recursive=True)
        assert len(workers) == 2
        everything = ok(app, "show", session, "--json") + ok(app, "sessions", "--json")
        assert KEY not in everything
        assert app.end() == 0
        assert not [each for each in workers if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        assert KEY not in app.log.read_text()


def test_a_refusal_of_the_provider_is_shown_without_the_key(tmp_path: Path, provider: dict[str, str]) -> None:
    Model.status = 401
    data = tmp_path / "data"
    with served(data, "--workers", "1", env=provider) as app:
        done = run("send", "say hello", "--data", str(data))
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].endswith("is failed (provider_refused)")
        everything = ok(app, "sessions", "--json") + app.log.read_text() + done.stderr
        assert KEY not in everything
        assert "bad key [key]" in everything


def test_a_worker_that_dies_is_started_again_and_none_stays_behind_a_killed_app(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--workers", "1") as app:
        parent = psutil.Process(app.process.pid)
        first = _one_child(parent)
        first.kill()
        first.wait(END_S_MAX)
        second = _one_child(parent)
        assert second.pid != first.pid
        _wait_for_thread(second)
        app.end(signal.SIGKILL)
        psutil.wait_procs([second], timeout=END_S_MAX)
        assert not second.is_running()


def _one_child(parent: psutil.Process) -> psutil.Process:
    """The only child that lives, within a bound."""
    for _ in range(6000):
        alive = [each for each in parent.children() if each.status() != psutil.STATUS_ZOMBIE]
        if len(alive) == 1:
            return alive[0]
        threading.Event().wait(0.01)
    raise AssertionError("the app has no worker")


def _wait_for_thread(worker: psutil.Process) -> None:
    """Until the worker watches its parent, which it does on a thread of its own."""
    for _ in range(6000):
        if worker.num_threads() > 1:
            return
        threading.Event().wait(0.01)
    raise AssertionError("the worker does not watch its parent")


def test_controls_and_views(app: Served) -> None:
    session = run("send", "-", "--no-wait", "--data", str(app.data), text="from standard input").stderr.split()[-1]
    assert ok(app, "pause", session) == f"{session}: paused, control version 1"
    assert ok(app, "resume", session, "--version", "1") == f"{session}: run, control version 2"
    assert "stale" in refused(app, "stop", session, "--version", "1")
    assert ok(app, "stop", session) == f"{session}: cancelled, control version 3"
    assert ok(app, "retry", session).startswith(f"{session}: ")
    assert session in ok(app, "sessions")
    assert json.loads(ok(app, "show", session, "--json"))["inputs"][0]["text"] == "from standard input"


def test_sent_again_under_the_same_id_it_is_the_same_work(app: Served) -> None:
    session = run("send", "x", "--no-wait", "--data", str(app.data)).stderr.split()[-1]
    sent = [ok(app, "send", "hi", "--no-wait", "--session", session, "--request-id", "r1") for _ in range(2)]
    assert sent[0] == sent[1]
    assert sent[0].startswith("w_")
    assert "another text" in refused(app, "send", "ho", "--no-wait", "--session", session, "--request-id", "r1")


def test_watch_prints_events_until_it_is_interrupted(app: Served) -> None:
    session = run("send", "x", "--no-wait", "--data", str(app.data)).stderr.split()[-1]
    command = [sys.executable, "-m", "reference", "watch", session, "--data", str(app.data), "--after", "1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert watching.stdout.readline().startswith("2 work.queued {")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(END_S_MAX) == 130
        assert watching.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "Missing command"),
        (["explode"], "explode"),
        (["show"], "session"),
        (["show", "s_none"], "s_none"),
        (["show", "../../health"], "no such path"),
        (["pause", "s_none"], "s_none"),
        (["send", "  ", "--session", "s_none"], "text"),
        (["send", "x", "--session", "s_none"], "s_none"),
        (["send", "x", "--workspace", "/does/not/exist"], "/does/not/exist"),
        (["resolve", "s_none", "c", "explode"], "explode"),
        (["resolve", "s_none", "c", "retry"], "risk"),
        (["watch", "s_none"], "s_none"),
        (["watch", "s_none", "--after", "-1"], "--after"),
        (["serve", "--port", "x"], "--port"),
    ],
)
def test_a_mistake_is_answered_in_one_line(app: Served, arguments: list[str], word: str) -> None:
    assert word in (refused(app, *arguments) if arguments else _bare())


def _bare() -> str:
    done = run()
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    return done.stderr


def test_a_folder_that_nobody_serves_says_how_to_serve_it(tmp_path: Path) -> None:
    done = run("sessions", "--data", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "python -m reference serve" in done.stderr


def test_an_app_that_is_gone_is_no_mistake_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "serve.json").write_text('{"url": "http://127.0.0.1:9", "pid": 1}')
    (tmp_path / "token").write_text("x" * 40)
    done = run("sessions", "--data", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "x" * 40 not in done.stderr


def test_a_setting_that_is_none_is_named(tmp_path: Path) -> None:
    for command in ("serve", "worker"):
        done = run(command, "--data", str(tmp_path / "data"), env={"REFERENCE_LEASE_S": "soon"})
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "REFERENCE_LEASE_S" in done.stderr


def test_quit_ends_the_app(tmp_path: Path) -> None:
    with served(tmp_path / "data") as app:
        run("send", "x", "--no-wait", "--data", str(app.data))
        assert ok(app, "quit") == "stopped 1 works"
        assert app.process.wait(END_S_MAX) == 0


def test_main_is_the_entrance_for_a_process_that_has_it_imported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 2
    assert "session" in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "resolve" in capsys.readouterr().out
    assert os.getpid() == psutil.Process().pid


def test_after_a_quit_no_worker_is_started_again(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--workers", "1") as app:
        _wait_for_thread(_one_child(psutil.Process(app.process.pid)))
        assert ok(app, "quit") == "stopped 0 works"
        assert app.process.wait(END_S_MAX) == 0
        assert app.log.read_text() == ""
