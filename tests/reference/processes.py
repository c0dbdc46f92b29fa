"""Owns what the tests of the app need: a real process over a real socket, ended by its id, within bounds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from reference.outbound import trusting_nobody

START_S_MAX = 60.0
END_S_MAX = 60.0
ROOT = Path(__file__).parents[2]


class Served:
    """One life of an app."""

    def __init__(self, data: Path, *options: str, env: dict[str, str] | None = None) -> None:
        self.data = data
        described = data / "serve.json"
        described.unlink(missing_ok=True)
        command = [sys.executable, "-W", "error", "-m", "reference", "serve", "--data", str(data), *options]
        self.log = data.parent / f"{data.name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log, env=os.environ | (env or {}))
        deadline = time.monotonic() + START_S_MAX
        while not described.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, "the app did not begin to serve"
            time.sleep(0.005)
        self.described: dict[str, Any] = json.loads(described.read_text())
        self.url: str = self.described["url"]
        self.token = (data / "token").read_text()

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def client(self, **headers: str) -> httpx.Client:
        given = {"Authorization": f"Bearer {self.token}"} | headers
        return httpx.Client(base_url=self.url, headers=given, trust_env=False, timeout=30, verify=trusting_nobody())

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and give the wait status as Popen does."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(END_S_MAX)


@contextmanager
def served(data: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[Served]:
    """An app that serves `data` without workers, unless `options` say otherwise, killed afterwards if it still lives."""
    app = Served(data, *(options or ("--workers", "0")), env=env)
    try:
        yield app
    finally:
        if app.process.poll() is None:
            app.process.kill()
        app.process.wait(END_S_MAX)


def run(*arguments: str, text: str | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """One command of the command line, to its end."""
    command = [sys.executable, "-W", "error", "-m", "reference", *arguments]
    return subprocess.run(
        command, cwd=ROOT, text=True, input=text, capture_output=True, timeout=60, check=False, env=os.environ | (env or {})
    )
