"""Owns the harness's hold on a world process: start it, open and close cases in it, stop it.

Several harness processes may use one world: one starts it, the others `attach` with its URL and token. A handle may be
used from several threads, and after a fork.
"""

from __future__ import annotations

import http.client
import json
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from faults import jsontext
from scenarios.case import Script

# Where `scenarios` is found, for a process that starts elsewhere.
_ROOT = Path(__file__).resolve().parents[2]


class WorldError(Exception):
    """A fault of the harness's own world, in one line. What a case shows after it says nothing about its target."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a target finds the world of its case."""

    provider_url: str
    effects_url: str


class World:
    """A world process, started by this handle or by another one."""

    def __init__(
        self, url: str, token: str, process: subprocess.Popen[str] | None = None, *, answer_s_max: float = 20.0
    ) -> None:
        self.url, self.token = url, token
        self._process = process
        self._answer_s_max = answer_s_max
        self._lock = threading.Lock()
        self._connection: tuple[int, http.client.HTTPConnection] | None = None

    @classmethod
    def start(cls, *, ready_s_max: float = 30.0) -> World:
        """A fresh world process. It ends when this process does. Raises WorldError if it is not ready in time."""
        process = subprocess.Popen(
            [sys.executable, "-m", "scenarios.world"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))},
            start_new_session=True,  # Ctrl-C is for the harness, which then closes its cases in order
        )
        world = cls("", "", process)
        try:
            address = json.loads(_first_line(process, ready_s_max))
            world.url, world.token = address["url"], address["token"]
        except (ValueError, KeyError):
            world.stop()
            raise WorldError(f"the world was not ready within {ready_s_max:g} s (exit status {process.poll()})") from None
        return world

    @classmethod
    def attach(cls, url: str, token: str) -> World:
        """A handle on a world that another process started; `stop` then leaves that world alone."""
        return cls(url, token)

    @property
    def pid(self) -> int | None:
        """The pid of the world process, if this handle started it."""
        return self._process.pid if self._process else None

    def open(
        self,
        case_id: str,
        script: Script,
        log_path: Path,
        controller_socket: Path | None = None,
        sites: Iterable[str] | None = None,
    ) -> Addresses:
        """Open a case: who may be asked what, where its log goes, and which controller hears of its points.

        sites: the points that are reported, each at the cost of a round trip; all of the world's points by default.
            Without a `controller_socket` nothing is reported.
        Raises WorldError if the world does not take the case.
        """
        body: dict[str, Any] = {
            "case": case_id,
            "script": script.model_dump(mode="json"),
            "log": str(log_path.absolute()),
            "controller": str(controller_socket.absolute()) if controller_socket else None,
        }
        if sites is not None:
            body["sites"] = list(sites)
        self._ask("POST", "/admin/cases", body)
        base = f"{self.url}/c/{quote(case_id, safe='')}"
        return Addresses(f"{base}/v1", f"{base}/effects")

    def hear(self, case_id: str) -> None:
        """Wait until all that a target had sent to this case is in its log, also what it did not wait to be answered.
        Raises WorldError if the case is not open, or if the world does not answer.

        It is asked over a connection of its own: one that is made later is accepted and read later."""
        fresh = self._fresh()
        try:
            fresh.request("GET", f"/c/{quote(case_id, safe='')}/heard")
            status = fresh.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            raise WorldError(f"the world at {self.url} does not answer ({type(error).__name__}: {error})") from error
        finally:
            fresh.close()
        if status != HTTPStatus.OK:
            raise WorldError(f"no case {case_id!r} is open in the world at {self.url}")

    def close(self, case_id: str) -> None:
        """Close a case: what is held or streaming ends, and the log is complete when this returns, with one
        `provider.billed` for each accepted request. Raises WorldError if the case is not open, or if the world did not
        keep its own promises in it."""
        faults = self._ask("DELETE", f"/admin/cases/{quote(case_id, safe='')}")["faults"]
        if faults:
            raise WorldError(f"case {case_id}: {'; '.join(faults)}")

    def stop(self, *, end_s_max: float = 10.0) -> None:
        """Close the connection, and end the world process if this handle started it."""
        with self._lock:
            self._disconnect()
        process = self._process
        if process is None:
            return
        assert process.stdin and process.stdout
        process.stdin.close()
        try:
            process.wait(end_s_max)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else jsontext.dumps(body)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        with self._lock:
            connection = self._connected()
            try:
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                answer = jsontext.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._disconnect()
                raise WorldError(f"the world at {self.url} does not answer ({type(error).__name__}: {error})") from error
        if response.status >= 400:
            raise WorldError(f"{method} {path}: {answer['error']['message']}")
        assert isinstance(answer, dict)
        return answer

    def _connected(self) -> http.client.HTTPConnection:
        # A connection is of one process: two that share it after a fork would read each other's answers.
        if self._connection is None or self._connection[0] != os.getpid():
            self._disconnect()
            self._connection = (os.getpid(), self._fresh())
        return self._connection[1]

    def _fresh(self) -> http.client.HTTPConnection:
        address = urlsplit(self.url)
        assert address.hostname
        return http.client.HTTPConnection(address.hostname, address.port, timeout=self._answer_s_max)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None


def _first_line(process: subprocess.Popen[str], s_max: float) -> str:
    assert process.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if selector.select(s_max) else ""
