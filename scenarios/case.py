"""Owns the case: one workload, one fault plan, one seed, as plain data that can be stored, shrunk, sent and replayed.

A case file is JSON. It names its target; it never carries code, paths or addresses, and loading one runs nothing.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from faults.plan import Fault, User

SCHEMA = "killpoint.case/1"
CASE_BYTES_MAX = 4 * 1024 * 1024


PLANNED = "planned"
"""What stands for the name of a fault where a plan does what no line of the table of faults does."""


class CaseError(ValueError):
    """A file that is no case, or one of another version. One line, for a user."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# What the scripted model answers -------------------------------------------------------------------------------------


class Call(_Data):
    """One tool call that the scripted model makes."""

    tool: str
    arguments: dict[str, Any] = {}


class Reply(_Data):
    """One reply of the scripted model: text, calls, or both, sent in `pieces` chunks of text.

    usage: `last` sends the counts in the last chunk, `every` repeats growing counts in every chunk (USE-3), `none`
    sends none at all. same_ids: every call bears the id of the first, as a faulty provider might send them (HIS-6).
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    pieces: int = Field(default=2, ge=1, le=512)
    usage: Literal["last", "every", "none"] = "last"
    same_ids: bool = False


class Script(_Data):
    """What the scripted model answers, by the text of the user's input: one reply after another until the last, which
    has no calls. The place in the list is read from the conversation that is sent, never from a count of requests, so
    that a request asked anew gets the same reply under new call ids."""

    replies: dict[str, tuple[Reply, ...]]


# What a user does ----------------------------------------------------------------------------------------------------


class Open(_Data):
    """Create a session, known in the case by `session`, and watch its events."""

    do: Literal["open"] = "open"
    session: str = "s1"


class Send(_Data):
    """Send an input under a client request id. A reply that never came leaves it *unknown*: with `insist`, the client
    sends it again, under the same id, once the app can be reached."""

    do: Literal["send"] = "send"
    session: str = "s1"
    request: str
    text: str
    insist: bool = True


class Control(_Data):
    """Pause, resume or stop a session, as a user would; asked again when no reply came. `version` is the control version
    that the user has seen (None: whatever is current)."""

    do: Literal["control"] = "control"
    session: str = "s1"
    action: Literal["pause", "resume", "stop"]
    version: int | None = None


class Quit(_Data):
    """Quit and stop everything."""

    do: Literal["quit"] = "quit"


class Watch(_Data):
    """Connect a client to the session's events, after the last number it has seen, or take it away.

    anew: connect as a page that is opened for the first time and has seen nothing.
    """

    do: Literal["watch", "unwatch"]
    session: str = "s1"
    anew: bool = False


class Look(_Data):
    """Take a snapshot and keep it in the history under `name`."""

    do: Literal["look"] = "look"
    name: str


class SettleStep(_Data):
    """Wait until everything accepted so far is at rest, within the case's bound."""

    do: Literal["settle"] = "settle"


class MoveClockStep(_Data):
    """Move the case's clock."""

    do: Literal["clock"] = "clock"
    by_s: float = Field(allow_inf_nan=False)


class Bounce(_Data):
    """Restart a role between two steps: gracefully, or by a kill that is part of the workload and not of the plan."""

    do: Literal["bounce"] = "bounce"
    role: Literal["app", "worker"]


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
        raise ValueError(f"{path!r} is no path inside the workspace; give a relative one without `..`")
    return path


class File(_Data):
    """Put a text file into the workspace before anything starts. `path` is relative to it and stays inside."""

    do: Literal["file"] = "file"
    path: Annotated[str, AfterValidator(_inside)]
    text: str


Step = Annotated[
    Open | Send | Control | Quit | Watch | Look | SettleStep | MoveClockStep | Bounce | File,
    Field(discriminator="do"),
]


class Case(_Data):
    """One case.

    scenario, family: the workload's name, and the row family it stands in. fault: the name of the fault in the table,
    `none`, or PLANNED.
    steps: what users do, in order. plan: what breaks, where. settle_s_max: the bound on every wait for rest, seconds.
    disarmed: play the plan with every operation left out, to see whether the checks notice.
    canary: a case that must fail, or the run is red.
    """

    schema_: str = Field(default=SCHEMA, alias="schema")
    id: str
    target: str
    policy: Literal["continue", "settle"] = "continue"
    scenario: str
    family: str = "chat"
    fault: str = "none"
    entrance: str = "http"
    seed: int = 0
    script: Script
    steps: tuple[Step, ...]
    plan: tuple[Fault, ...] = ()
    settle_s_max: float = Field(default=15.0, gt=0, le=600)
    disarmed: bool = False
    canary: bool = False
    cold: bool = False

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def data(self) -> dict[str, Any]:
        """The case as JSON data."""
        return self.model_dump(mode="json", by_alias=True)

    def to_json(self) -> str:
        """The case as the text of a case file, the same each time."""
        return json.dumps(self.data(), indent=1, sort_keys=True) + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 over the case's text, hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def load(path: Path) -> Case:
    """The case stored at `path`. Raises CaseError, in one line, if it is none or of another version."""
    return parse(read(path), str(path))


def read(path: Path) -> object:
    """The JSON data in the file at `path`, of at most CASE_BYTES_MAX bytes. Raises CaseError, in one line."""
    try:
        if path.exists() and not path.is_file():
            raise CaseError(f"{path}: is no file; give the path of a case file")
        with path.open("rb") as file:
            text = file.read(CASE_BYTES_MAX + 1)
        if len(text) > CASE_BYTES_MAX:
            raise CaseError(f"{path}: larger than {CASE_BYTES_MAX} bytes, so no case file")
        return json.loads(text, parse_constant=_refuse_constant)
    except OSError as error:
        raise CaseError(f"{path}: cannot be read ({error.strerror}); give the path of a case file") from None
    except CaseError:
        raise
    except (ValueError, RecursionError):
        raise CaseError(f"{path}: is not JSON, so no case file; cases are written to DIR/cases/ by killpoint run") from None


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def parse(data: object, origin: str) -> Case:
    """The case in `data`, as it came out of JSON. `origin` names where from, for the message of a CaseError."""
    if not isinstance(data, dict) or "schema" not in data:
        raise CaseError(f'{origin}: has no `schema`, so it is no case file; one begins with {{"schema": "{SCHEMA}"}}')
    if data["schema"] != SCHEMA:
        raise CaseError(f"{origin}: is of version {data['schema']!r}, this harness reads {SCHEMA!r}")
    try:
        case = Case.model_validate(data)
        for place, fault in enumerate(case.plan):
            for number, op in enumerate(fault.ops):
                if isinstance(op, User):
                    _check_step(op, f"{origin}: plan.{place}.ops.{number}.step")
    except ValidationError as error:
        raise CaseError(f"{origin}: {_first(error)}") from None
    addresses = [str(fault.at) for fault in case.plan]
    for each in addresses:
        if addresses.count(each) > 1:
            raise CaseError(f"{origin}: plan: {each} stands there twice; put all operations of one address into one entry")
    return case


def _check_step(op: User, where: str) -> None:
    """A plan holds the steps of its users as plain data; they are looked at here, before anything is started."""
    try:
        _STEP.validate_python(op.step)
    except ValidationError as error:
        raise CaseError(f"{where}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ")
    return " ".join((f"{where}: {said}" if where else said).split())


_STEP: TypeAdapter[Step] = TypeAdapter(Step)
