"""Owns the clients: users that speak to a target over HTTP with server-sent events, or over standard input and output.

A client logs what it is about to ask and what it then heard. A connection that broke after the request was sent leaves
the outcome *unknown*; one that could not be made at all leaves it *failed*, since the target cannot have seen it.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from faults import jsontext
from scenarios.snapshot import AT_REST
from scenarios.target import Places, Stage

CALL_S_MAX = 10.0
STREAM_S_MAX = 120.0
JOINED_S_MAX = 5.0
MET_S_MAX = 5.0

# A work that waits for something that comes back by itself is not at rest.
PASSING_REASONS = frozenset({"provider_unavailable"})


# The app is on its way out; what was asked was not looked at, and may be asked again of its next life.
REFUSED_FOR_NOW = frozenset({503})


@dataclass(frozen=True, slots=True)
class _Heard:
    """What came of one call: whether it was answered for good, and the body if the answer was yes."""

    answered: bool
    body: dict[str, Any] | None


class HttpClient:
    """A user of the reference's HTTP interface: bearer token, JSON, and one event stream for each watched session."""

    def __init__(self, stage: Stage, name: str = "user") -> None:
        self._stage, self._name = stage, name
        self._calls = itertools.count(1)
        self._lock = threading.RLock()
        self._address: tuple[str, int] | None = None
        self._token = ""
        self._ids: dict[str, str] = {}
        self._streams: dict[str, _EventStream] = {}
        self._ever: list[_EventStream] = []
        self._watched: set[str] = set()
        self._last_event: dict[str, int] = {}
        self._accepted: dict[tuple[str, str], bool] = {}
        self._state: dict[tuple[str, str], str] = {}
        self._work_of: dict[str, tuple[str, str]] = {}

    # The entrance comes and goes ------------------------------------------------------------------------------------

    def up(self, places: Places) -> None:
        served = json.loads((places.store / "serve.json").read_text())
        url = urlsplit(served["url"])
        with self._lock:
            self._token = (places.store / "token").read_text().strip()
            self._address = (url.hostname or "127.0.0.1", url.port or 80)
            watched = list(self._watched)
        for session in watched:
            self._connect(session)

    def down(self) -> None:
        with self._lock:
            self._address = None

    def close(self) -> None:
        with self._lock:
            self._watched.clear()
            self._address = None
            streams = list(self._ever)
        for stream in streams:
            stream.close()

    def join(self) -> None:
        for stream in self._ever:
            stream.join()

    # What a user does -----------------------------------------------------------------------------------------------

    def open(self, session: str) -> bool:
        body = self._call("open", "POST", "/sessions", {"request_id": f"open-{session}"}, session=session).body
        if body is None:
            return False
        with self._lock:
            self._ids[session] = body["session"]
        self.watch(session)
        return True

    def send(self, session: str, request: str, text: str) -> bool:
        if session not in self._ids:
            return True  # it could never be opened, which the history shows; there is nothing to send to
        path = f"/sessions/{self._ids[session]}/inputs"
        with self._lock:
            self._accepted.setdefault((session, request), False)
        said = {"request_id": request, "text": text}
        heard = self._call("send", "POST", path, said, session=session, request_id=request, text=text)
        body = heard.body
        if body is None:
            return heard.answered
        with self._lock:
            self._accepted[session, request] = True
            self._work_of[body["work_id"]] = (session, request)
        self._stage.changed()
        return True

    def control(self, session: str, action: str, version: int | None) -> bool:
        if session not in self._ids:
            return True
        body = {"action": action} | ({} if version is None else {"version": version})
        path = f"/sessions/{self._ids[session]}/control"
        return self._call("control", "POST", path, body, session=session, action=action, version=version).answered

    def quit(self) -> bool:
        return self._call("quit", "POST", "/quit", {}).answered

    def snapshot(self) -> dict[str, Any] | None:
        body = self._call("snapshot", "GET", "/snapshot", None).body
        if body is None:
            return None
        names = {ident: name for name, ident in self._ids.items()}
        return {
            names.get(ident, ident): view | {"session": names.get(ident, ident)} for ident, view in body["sessions"].items()
        }

    # What a user is told --------------------------------------------------------------------------------------------

    def watch(self, session: str) -> None:
        with self._lock:
            self._watched.add(session)
        self._connect(session)

    def unwatch(self, session: str) -> None:
        """Go away. Who leaves has been there: a connection that is still being made is waited for. And who has left is
        gone: what comes next in the case comes after the record of that."""
        with self._lock:
            self._watched.discard(session)
            coming = self._streams.get(session)
        if coming:
            coming.met.wait(MET_S_MAX)
        with self._lock:
            stream = self._streams.pop(session, None)
        if stream:
            stream.close()
            stream.join()

    def forget(self, session: str) -> None:
        with self._lock:
            self._last_event.pop(session, None)

    def at_rest(self) -> bool:
        with self._lock:
            # Of a session that is not watched nobody is told; the snapshot has to say it.
            return all(
                self._state.get(key) in AT_REST
                for key, accepted in self._accepted.items()
                if accepted and key[0] in self._watched
            ) and all(session in self._streams for session in self._watched if session in self._ids)

    def caught_up(self, events: Mapping[str, int]) -> bool:
        with self._lock:
            return all(
                stream.met.is_set() and self._last_event.get(session, 0) >= events.get(session, 0)
                for session, stream in self._streams.items()
            )

    def _connect(self, session: str) -> None:
        with self._lock:
            if self._address is None or session in self._streams or session not in self._ids:
                return
            stream = _EventStream(self, self._address, self._token, session, self._ids[session])
            self._streams[session] = stream
            self._ever.append(stream)
            stream.start(self._last_event.get(session))

    def told(self, stream: _EventStream, event: int | None, kind: str, data: dict[str, Any]) -> None:
        """One event as it came off the wire. What still comes over a connection that was let go is heard by nobody."""
        session = stream.session
        with self._lock:
            if self._streams.get(session) is not stream:
                return
        self._stage.history.write("client.event", client=self._name, session=session, event=event, type=kind, data=data)
        with self._lock:
            if event is not None:
                self._last_event[session] = max(event, self._last_event.get(session, 0))
            if kind.startswith("work.") and "state" in data:
                request = data.get("request_id") or self._work_of.get(data.get("work_id", ""), ("", ""))[1]
                passing = data.get("reason_code") in PASSING_REASONS
                self._state[session, request] = "working" if passing else data["state"]
        self._stage.changed()

    def connected(self, session: str, after: int | None, met: threading.Event) -> None:
        """The event stream of a session is open. It is written down before anybody is told."""
        self._stage.history.write("client.connected", client=self._name, session=session, after=after)
        met.set()
        self._stage.changed()

    def gone(self, stream: _EventStream) -> None:
        """An event stream has ended, by us or by the target. If a newer app is up already, connect to that."""
        with self._lock:
            if self._streams.get(stream.session) is stream:
                del self._streams[stream.session]
            newer = stream.session in self._watched and self._address not in (None, stream.address)
        self._stage.history.write("client.disconnected", client=self._name, session=stream.session)
        if newer:
            self._connect(stream.session)
        self._stage.changed()

    # One call -------------------------------------------------------------------------------------------------------

    def _call(self, op: str, method: str, path: str, body: Any, **about: Any) -> _Heard:
        number = next(self._calls)
        self._stage.history.write("client.invoked", call=number, client=self._name, op=op, body=body, **about)
        outcome, status, heard = self._exchange(method, path, body)
        self._stage.history.write("client.heard", call=number, outcome=outcome, status=status, body=_brief(op, heard))
        answered = status is not None and status not in REFUSED_FOR_NOW
        return _Heard(answered, heard if outcome == "ok" else None)

    def _exchange(self, method: str, path: str, body: Any) -> tuple[str, int | None, Any]:
        with self._lock:
            address, token = self._address, self._token
        if address is None:
            return "failed", None, "the app is down"
        connection = HTTPConnection(*address, timeout=CALL_S_MAX)
        try:
            try:
                connection.connect()
            except OSError as error:
                return "failed", None, f"could not connect: {error}"
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            try:
                connection.request(method, path, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                content = response.read()
            except (OSError, HTTPException) as error:
                return "unknown", None, f"no whole reply: {type(error).__name__}"
            data = jsontext.loads(content) if content else None
            return ("ok" if response.status < 300 else "failed"), response.status, data
        finally:
            connection.close()


def _brief(op: str, heard: Any) -> Any:
    """A snapshot is logged on its own; here only that it came."""
    return "see snapshot.taken" if op == "snapshot" and isinstance(heard, dict) else heard


class _EventStream:
    """One connection to a session's server-sent events, read by a thread of its own until either side ends it.

    met: set once it stands, or has ended without.
    """

    def __init__(self, client: HttpClient, address: tuple[str, int], token: str, session: str, ident: str) -> None:
        self.session, self.address = session, address
        self._client, self._token, self._ident = client, token, ident
        self._closed = False
        self.met = threading.Event()
        self._connection = HTTPConnection(*address, timeout=STREAM_S_MAX)
        self._reader: threading.Thread | None = None

    def start(self, after: int | None) -> None:
        self._reader = threading.Thread(target=self._read, args=(after,), name=f"events-{self.session}", daemon=True)
        self._reader.start()

    def join(self) -> None:
        """Wait until nothing more can be heard of it."""
        if self._reader is not None:
            self._reader.join(JOINED_S_MAX)

    def close(self) -> None:
        """Let go of the connection, also if it is only being made."""
        self._closed = True
        sock = self._connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(2)

    def _read(self, after: int | None) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        try:
            self._connection.request("GET", f"/sessions/{self._ident}/events", headers=headers)
            response = self._connection.getresponse()
            if response.status == 200 and not self._closed:
                self._client.connected(self.session, after, self.met)
                self._events(response)
        except (OSError, HTTPException, ValueError):
            pass
        finally:
            self._connection.close()
            self.met.set()
            self._client.gone(self)

    def _events(self, response: HTTPResponse) -> None:
        event: int | None = None
        kind, data = "message", ""
        for raw in response:
            line = raw.decode().rstrip("\r\n")
            field, _, value = line.partition(": ")
            if not line:
                if data:
                    self._client.told(self, event, kind, jsontext.loads(data.encode()))
                event, kind, data = None, "message", ""
            elif field == "id":
                event = int(value)
            elif field == "event":
                kind = value
            elif field == "data":
                data += value


class StdioClient:
    """A user of a program that reads one JSON object a line and answers with `accepted` and `done` lines.

    show: gives the sessions of a snapshot from what the program's own `--show` prints.
    """

    def __init__(self, stage: Stage, show: Any, name: str = "user") -> None:
        self._stage, self.show, self._name = stage, show, name
        self._calls = itertools.count(1)
        self._condition = threading.Condition()
        self._places: Places | None = None
        self._pipes: tuple[int, int] | None = None
        self._readers: list[threading.Thread] = []
        self._accepted: set[str] = set()
        self._done: set[str] = set()

    def up(self, places: Places) -> None:
        to_child = os.open(places.fifo("in"), os.O_RDWR | os.O_CLOEXEC)
        from_child = os.open(places.fifo("out"), os.O_RDWR | os.O_CLOEXEC)
        with self._condition:
            self._places, self._pipes = places, (to_child, from_child)
        reader = threading.Thread(target=self._read, args=(from_child,), name="stdio", daemon=True)
        self._readers.append(reader)
        reader.start()

    def down(self) -> None:
        with self._condition:
            pipes, self._pipes = self._pipes, None
            self._condition.notify_all()
        if pipes:
            # The reader holds the pipe open for writing too; this line is how it learns that nothing more will come.
            os.write(pipes[1], b"\n\n")
            os.close(pipes[0])
        self._stage.changed()

    def close(self) -> None:
        self.down()

    def join(self) -> None:
        for reader in self._readers:
            reader.join(JOINED_S_MAX)

    def open(self, session: str) -> bool:
        return bool(session)

    def send(self, session: str, request: str, text: str) -> bool:
        number = next(self._calls)
        self._stage.history.write(
            "client.invoked", call=number, client=self._name, op="send", session=session, request_id=request, text=text
        )
        outcome = self._send(session, request, text)
        self._stage.history.write("client.heard", call=number, outcome=outcome, status=None, body=None)
        return outcome == "ok"

    def _send(self, session: str, request: str, text: str) -> str:
        with self._condition:
            pipes = self._pipes
            if pipes is None:
                return "failed"
            line = json.dumps({"session": session, "request_id": request, "text": text}) + "\n"
            os.write(pipes[0], line.encode())
            self._condition.wait_for(lambda: request in self._accepted or self._pipes is not pipes, CALL_S_MAX)
            return "ok" if request in self._accepted else "unknown"

    def _read(self, pipe: int) -> None:
        blank = False
        with os.fdopen(pipe, "rb") as lines:
            for line in lines:
                if line == b"\n":
                    if blank:
                        return
                    blank = True
                    continue
                blank = False
                with suppress(ValueError):
                    self._told(json.loads(line))

    def _told(self, said: dict[str, Any]) -> None:
        kind = next((key for key in ("accepted", "done", "failed") if key in said), "other")
        self._stage.history.write("client.event", client=self._name, session="", event=None, type=kind, data=said)
        with self._condition:
            if kind == "accepted":
                self._accepted.add(said["accepted"])
            elif kind in ("done", "failed"):
                self._done.add(said[kind])
            self._condition.notify_all()
        self._stage.changed()

    def control(self, session: str, action: str, version: int | None) -> bool:
        raise NotImplementedError(f"a program on standard input takes no {action}")

    def quit(self) -> bool:
        raise NotImplementedError("a program on standard input takes no quit")

    def watch(self, session: str) -> None:
        """Its output is always read."""

    def unwatch(self, session: str) -> None:
        """Its output is always read."""

    def forget(self, session: str) -> None:
        """Its lines bear no numbers, and none of them can be had again."""

    def snapshot(self) -> dict[str, Any] | None:
        places = self._places
        return None if places is None else self.show(self._stage, places)

    def at_rest(self) -> bool:
        with self._condition:
            return self._accepted <= self._done

    def caught_up(self, events: Mapping[str, int]) -> bool:
        return True  # its lines bear no numbers


def make_fifos(places: Places) -> tuple[Path, Path]:
    """Make the two named pipes of one life, and give their paths."""
    pair = places.fifo("in"), places.fifo("out")
    for pipe in pair:
        os.mkfifo(pipe, 0o600)
    return pair
