"""Owns the history: the one ordered log of a case, from which everything is judged.

A history joins three records that are kept apart while the case runs: what each client asked and heard, what the world
saw, and what the harness did to the processes. Every line carries `t_ns`, the machine's monotonic clock, which all
processes of one machine share; the joined order is that clock. It is written line by line as it happens (JSON lines),
so that it can be read after the harness itself was killed, and a half-written last line is dropped when it is read.

The kinds of record, and the fields of `data` each carries:

case       opened {id, scenario, fault, target, policy, disarmed}; settled {within_s_max, settled, why}; closed {}
rest       missed {by, within_s_max}: somebody waited until all is at rest, and the bound passed
process    started {role, life, pid, start_time, cold}; exited {role, life, pid, status, signal, exit_code, said, cpu_ms};
           stayed {role, life, pid}: it was told to end, and the bound passed; refused {role, life, said, exited}
point      reached {point, ordinal, role, life, pid, nonce, local, work, detail};
           fired {point, ordinal, nonce, ops}; released {point, ordinal, nonce, answer}; awaited {point, ordinal, came}
terminate  {role, life, pid, grace}: told to end, as in ordinary use; grace: whether it is given the time to
kill       {role, life, pid, signal, status, point, ordinal, nonce, proved, why}
freeze, thaw  {role, life, pid, stopped}: `stopped` is the kernel's word, afterwards
client     invoked {call, client, op, session, request_id, text, ...};
           heard {call, outcome: ok|failed|unknown, status, body}; gave_up {op, why};
           event {client, session, event, type, data}; connected {client, session, after}; disconnected {client, session}
provider   request {n, attempt, headers, body}; chunk {n, i, output_tokens}; repeated {n, i}; billed {n, attempt,
           input_tokens, cached_tokens, output_tokens, complete}; answered {n, status}; refused {n, why}
effect     received {n, receiver, tool_key, key, arguments}; applied {n, receiver, key, arguments, duplicate_of};
           answered {n, status}; queried {n, key, found}
clock      moved {by_s, offset_s, why}: `offset_s` is what the target's clock says afterwards
host       rebooted {before, boot}: the boot identities that the target reads before and afterwards
store      at_death {point, ordinal, role, files: {name: {ok, detail, sha256}}, holds: {request_id: bool}}, the point of the
           kill, if it had one; digest {when, sha256}; broken {how, sha256}; mended {sha256}; locked {databases, for_s};
           unlocked {}
snapshot   taken {when, sessions}

`kind` is the pair joined by a dot, such as `client.heard` and `provider.billed`; `terminate`, `kill`, `freeze` and `thaw`
stand alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from faults import jsontext
from scenarios.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a history. `seq` is its place in the joined order, from 0, and how a violation points at it."""

    seq: int
    t_ns: int
    kind: str
    data: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The field `name`, or `default`."""
        return self.data.get(name, default)


def as_line(record: dict[str, Any]) -> bytes:
    """A record as it is stored: one line of JSON."""
    return jsontext.dumps(record) + b"\n"


class HistoryWriter:
    """Appends records to a file, one line each, flushed to the kernel before it returns. Safe for many threads.

    A line survives the death of the harness; it does not claim to survive a power cut.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, kind: str, **data: Any) -> None:
        """Append one record, stamped with the machine's monotonic clock."""
        with self._lock:
            os.write(self._fd, as_line({"t_ns": time.monotonic_ns(), "kind": kind, "data": data}))

    def close(self) -> None:
        """Close the file. Writing after that is an error."""
        os.close(self._fd)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of one log file as stored, without a torn last line."""
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return
            yield jsontext.loads(line)


@dataclass(frozen=True)
class History:
    """All records of one case in one order, with the views that checks share."""

    records: tuple[Record, ...] = field(default_factory=tuple)

    @classmethod
    def join(cls, *logs: Iterable[dict[str, Any]]) -> History:
        """One history from several logs, ordered by the machine's monotonic clock; a tie keeps the order given."""
        lines = sorted((line for log in logs for line in log), key=lambda line: line["t_ns"])
        return cls(tuple(Record(i, line["t_ns"], line["kind"], line["data"]) for i, line in enumerate(lines)))

    @classmethod
    def read(cls, *paths: Path) -> History:
        """The history stored in these files; a file that is not there adds nothing."""
        return cls.join(*(read_lines(path) for path in paths if path.exists()))

    def lines(self) -> list[dict[str, Any]]:
        """The records as they are stored: without `seq`, which is their place."""
        return [{"t_ns": record.t_ns, "kind": record.kind, "data": record.data} for record in self.records]

    def of(self, *kinds: str) -> list[Record]:
        """The records of these kinds, in order."""
        return (
            [record for kind in kinds for record in self._by_kind.get(kind, ())]
            if len(kinds) == 1
            else [record for record in self.records if record.kind in kinds]
        )

    @cached_property
    def _by_kind(self) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {}
        for record in self.records:
            found.setdefault(record.kind, []).append(record)
        return found

    @cached_property
    def heard(self) -> dict[int, Record]:
        """What a client heard, by the number of its call; a call without an entry never got a reply."""
        return {record["call"]: record for record in self.of("client.heard")}

    @cached_property
    def final(self) -> Snapshot | None:
        """The snapshot taken when the case had settled, or None."""
        return self.snapshot("final")

    @cached_property
    def final_record(self) -> Record | None:
        """Where the final snapshot stands."""
        found = [record for record in self.of("snapshot.taken") if record["when"] == "final"]
        return found[-1] if found else None

    def snapshot(self, when: str) -> Snapshot | None:
        """The last snapshot taken under that name, or None."""
        found = [record for record in self.of("snapshot.taken") if record["when"] == when]
        return Snapshot.model_validate({"sessions": found[-1]["sessions"]}) if found else None

    def addresses(self, after: Collection[str] = ()) -> dict[str, tuple[int, ...]]:
        """The ordinals at which each point was reached, by name. With `after`, only those reached when the last of these
        addresses had fired; none, if one of them never did."""
        last = -1
        if after:
            fired = {f"{r['point']}#{r['ordinal']}": r.seq for r in self.of("point.fired")}
            if not fired.keys() >= set(after):
                return {}
            last = max(fired[address] for address in after)
        found: dict[str, tuple[int, ...]] = {}
        for record in self.of("point.reached"):
            if record.seq > last:
                found[record["point"]] = (*found.get(record["point"], ()), record["ordinal"])
        return found

    @cached_property
    def kills(self) -> list[Record]:
        """Every kill, proved or not, in order."""
        return self.of("kill")
