"""Owns the fault plan: which breakpoint, at which ordinal, meets which operations, as plain data.

A plan is read from files that strangers send, so it holds names and numbers only; loading one runs nothing.

An address is a point and an ordinal, `tool.effect.done#3`: the third time in this case that any process reaches that
point. When it is reached the process stands still and the operations are carried out in order. A process that is still
alive and held when they end is let go.
"""

from __future__ import annotations

import errno
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from faults.catalogue import UnknownPoint, point

_ADDRESS = re.compile(r"(?P<point>[a-z0-9_.:@-]+)#(?P<ordinal>[1-9][0-9]{0,6})", re.IGNORECASE)


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Address(_Data):
    """A point and the how-manieth time it is reached in the case, counted over all processes, from 1."""

    point: str
    ordinal: int = 1

    def __str__(self) -> str:
        return f"{self.point}#{self.ordinal}"

    @classmethod
    def parse(cls, text: object) -> Address:
        """The address written `point#ordinal`. Raises ValueError naming what is wrong with it."""
        if isinstance(text, Address):
            return text
        if isinstance(text, dict):
            return cls.model_validate(text)
        match = _ADDRESS.fullmatch(str(text))
        if not match:
            raise ValueError(f"{text!r} is no address: write it as point#ordinal, such as tool.effect.done#1")
        try:
            point(match["point"])
        except UnknownPoint as error:
            raise ValueError(str(error)) from None
        return cls(point=match["point"], ordinal=int(match["ordinal"]))


AddressField = Annotated[Address, BeforeValidator(Address.parse), PlainSerializer(str, return_type=str)]

Target = Literal["self", "app", "worker"]


class Kill(_Data):
    """SIGKILL one process. `self` is the one that stands at the point; at a point of the world, the worker.

    reaped: whether its parent takes note of its death. Otherwise it stays a zombie, with its pid and start time, until
    the case ends.
    """

    do: Literal["kill"] = "kill"
    role: Target = "self"
    reaped: bool = True


class Terminate(_Data):
    """SIGTERM one process. With `grace`, the point is released and the process has the bound to end by itself; without,
    it stays held until the grace period has passed and is then killed."""

    do: Literal["terminate"] = "terminate"
    role: Target = "self"
    grace: bool = True


class Start(_Data):
    """Start a fresh life of a role that is not running. `extra` starts one beside the running one (an overtaker)."""

    do: Literal["start"] = "start"
    role: Literal["app", "worker"]
    extra: bool = False


class Freeze(_Data):
    """SIGSTOP one process, or SIGCONT it again with `thaw`."""

    do: Literal["freeze", "thaw"]
    role: Target = "self"


class Release(_Data):
    """Let the process at the point go on now, before the remaining operations."""

    do: Literal["release"] = "release"


def _errno(name: str) -> str:
    if name not in errno.errorcode.values():
        raise ValueError(f"{name!r} is no errno name; use one such as EIO or ENOSPC")
    return name


class Raise(_Data):
    """Let the process go on with an error instead: an OSError with this errno name, such as ENOSPC or EIO."""

    do: Literal["raise"] = "raise"
    errno: Annotated[str, AfterValidator(_errno)] = "EIO"


class Answer(_Data):
    """Tell the world, at one of its own points, what to do with the request it holds.

    cut: close the connection now. drop: carry it out and never answer (the connection is closed). error: answer with
    HTTP status `status`. repeat: send the piece twice.
    """

    do: Literal["answer"] = "answer"
    how: Literal["cut", "drop", "error", "repeat"]
    status: int = Field(default=500, ge=400, le=599)


class MoveClock(_Data):
    """Move the case's clock by so many seconds, forward or back."""

    do: Literal["clock"] = "clock"
    by_s: float = Field(allow_inf_nan=False)


class Reboot(_Data):
    """Give the host of this case a new boot identity, as a restart of the machine would."""

    do: Literal["reboot"] = "reboot"


class User(_Data):
    """A user acts: one step as it stands in a workload."""

    do: Literal["user"] = "user"
    step: dict[str, Any]


class BreakStore(_Data):
    """Make the stored databases unreadable (`how`), or put back what was there (`mend`). All processes must be down."""

    do: Literal["break_store", "mend_store"]


class Settle(_Data):
    """Wait, within the case's bound, until everything the target accepted is at rest."""

    do: Literal["settle"] = "settle"


class Await(_Data):
    """Wait, within half of the case's bound, until some process has reached this address."""

    do: Literal["await"] = "await"
    at: AddressField


class LockStore(_Data):
    """Let the process go on, and hold the write locks of its databases for so many seconds, as another program would that
    has a long transaction open."""

    do: Literal["lock_store"] = "lock_store"
    for_s: float = Field(gt=0, le=60)


class AwaitRefusal(_Data):
    """Wait, within the case's bound, until the newest life of the role has ended or says that it cannot go on."""

    do: Literal["await_refusal"] = "await_refusal"
    role: Literal["app", "worker"] = "worker"


Op = Annotated[
    Kill
    | Terminate
    | Start
    | Freeze
    | Release
    | Raise
    | Answer
    | MoveClock
    | Reboot
    | User
    | BreakStore
    | Settle
    | Await
    | LockStore
    | AwaitRefusal,
    Field(discriminator="do"),
]


class Fault(_Data):
    """One line of a plan: at this address, these operations."""

    at: AddressField
    ops: tuple[Op, ...] = ()
