"""Owns the way to a running app for programs on the same machine: where it is, its token, and one call each.

Errors are one line each. `ClientError.mistake` says whose fault it is: the caller's, or the app's.
"""

from __future__ import annotations

import json
import secrets
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import httpx

from reference.model import Event

CALL_S_MAX = 30.0
SILENCE_S_MAX = 60.0  # more than the heartbeat of an event stream
RECONNECTS_MAX = 20
RECONNECT_S = 0.2


class ClientError(Exception):
    """What went wrong, in one line. `mistake`: the caller has to change something; else the app failed."""

    def __init__(self, message: str, mistake: bool = True) -> None:
        super().__init__(message)
        self.mistake = mistake


class Client:
    """A client of the app that serves the folder `data`. A context manager."""

    def __init__(self, data: Path) -> None:
        self._data = data
        url, token = _where(data)
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=CALL_S_MAX,
            trust_env=False,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # plain sockets of this machine: no certificate is loaded
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def create_session(self, workspace: str | None = None) -> str:
        """The id of a new session."""
        body = {"request_id": _new_id()} | ({"workspace": workspace} if workspace is not None else {})
        return str(self._call("POST", "/sessions", body)["session"])

    def send(self, session: str, text: str, request_id: str | None = None) -> dict[str, Any]:
        """Send an input. Safe to repeat under the same `request_id`."""
        return self._call(
            "POST", f"/sessions/{quote(session, safe='')}/inputs", {"request_id": request_id or _new_id(), "text": text}
        )

    def control(
        self, session: str, action: Literal["pause", "resume", "stop", "retry"], version: int | None
    ) -> dict[str, Any]:
        """Pause, resume or stop a session, or retry what failed in it."""
        return self._call("POST", f"/sessions/{quote(session, safe='')}/control", {"action": action, "version": version})

    def resolve(self, session: str, call_id: str, action: str, risk_acknowledged: bool) -> dict[str, Any]:
        """Decide about an effect whose outcome is unknown."""
        body = {"action": action, "risk_acknowledged": risk_acknowledged}
        return self._call("POST", f"/sessions/{quote(session, safe='')}/effects/{quote(call_id, safe='')}", body)

    def quit(self) -> dict[str, Any]:
        """Stop everything for good and end app and workers."""
        return self._call("POST", "/quit")

    def sessions(self) -> dict[str, Any]:
        """Every session's snapshot by its id."""
        found: dict[str, Any] = self._call("GET", "/sessions")["sessions"]
        return found

    def session(self, session: str) -> dict[str, Any]:
        """One session's snapshot."""
        return self._call("GET", f"/sessions/{quote(session, safe='')}")

    def events(self, session: str, after: int = 0) -> Iterator[Event]:
        """The session's events after that number, for ever; a lost connection is made again where it was lost. Ends
        when the app is gone for good."""
        failures = 0
        while failures <= RECONNECTS_MAX:
            try:
                for event in self._stream(session, after):
                    failures, after = 0, event.number
                    yield event
            except httpx.TransportError:
                pass
            failures += 1
            time.sleep(RECONNECT_S)
            with suppress(ClientError):
                self._http.base_url = httpx.URL(_where(self._data)[0])  # a new life of the app has another port

    def _stream(self, session: str, after: int) -> Iterator[Event]:
        timeout = httpx.Timeout(CALL_S_MAX, read=SILENCE_S_MAX)
        headers = {"Last-Event-ID": str(after)}
        with self._http.stream(
            "GET", f"/sessions/{quote(session, safe='')}/events", headers=headers, timeout=timeout
        ) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
                raise _error(response)
            yield from parse(response.iter_bytes())

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            why = " ".join(str(error).split())
            raise ClientError(f"{self._http.base_url}: no answer ({why}); is the app running?", mistake=False) from None
        if not response.is_success:
            raise _error(response)
        data: dict[str, Any] = response.json()
        return data


def parse(chunks: Iterator[bytes]) -> Iterator[Event]:
    """The events in a stream of server-sent events, each as soon as it is whole."""
    rest, fields = b"", dict[bytes, bytes]()
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                name, _, value = line.partition(b":")
                fields[name] = value.removeprefix(b" ")
                continue
            if b"id" in fields:
                yield Event(int(fields[b"id"]), fields[b"event"].decode(), json.loads(fields[b"data"]))
            fields = {}


def _where(data: Path) -> tuple[str, str]:
    """URL and token of the app that serves `data`."""
    try:
        url = json.loads((data / "serve.json").read_text())["url"]
        token = (data / "token").read_text("ascii").strip()
    except FileNotFoundError:
        raise ClientError(
            f"{data}: nothing serves this folder; start it: python -m reference serve --data {data}"
        ) from None
    except OSError as error:
        raise ClientError(f"{data}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise ClientError(f"{data}/serve.json: does not say where the app is; start the app again") from None
    return str(url), token


def _error(response: httpx.Response) -> ClientError:
    mistake = 400 <= response.status_code < 500
    try:
        return ClientError(str(response.json()["error"]["message"]), mistake)
    except (ValueError, KeyError, TypeError):
        return ClientError(f"{response.url}: answered {response.status_code}", mistake)


def _new_id() -> str:
    return f"cli-{secrets.token_hex(8)}"
