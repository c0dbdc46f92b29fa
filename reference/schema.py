"""Owns the shape of both databases: tables, what must be unique, and the version that this program reads.

Uniqueness is where "once" is kept: an input per client request id, a user's item per input, a result per effect, an
answer per attempt, a decision and a turn per continuation key, a receipt per attempt. A second writer finds the row and
changes nothing.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, Index, Integer, MetaData, PrimaryKeyConstraint, Table, Text
from sqlalchemy import UniqueConstraint as Unique
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from reference.fresh import HEAD

_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
work = MetaData(naming_convention=_NAMES)
usage = MetaData(naming_convention=_NAMES)


def _text(name: str, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def _int(name: str, default: int | None = 0) -> Column[int]:
    return Column(name, Integer, nullable=default is None, server_default=None if default is None else str(default))


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default="0")


def _time(name: str, null: bool = True) -> Column[float]:
    return Column(name, Float, nullable=null)


# Facts about the whole store: how often everyone was asked to exit.
Table("meta", work, _text("name"), _int("value"), PrimaryKeyConstraint("name"))

# One conversation. `items` and `events` are the last numbers given; they only grow.
Table(
    "sessions",
    work,
    _text("session"),
    _text("request_id", null=True),
    _text("workspace"),
    _text("desired_state"),
    _int("control_version"),
    _int("stop_version"),
    _int("inputs"),
    _int("items"),
    _int("events"),
    _int("announced"),
    _time("created_at", null=False),
    PrimaryKeyConstraint("session"),
    Unique("request_id"),
)

# One accepted message of a user.
Table(
    "inputs",
    work,
    _text("input"),
    _text("session"),
    _text("request_id"),
    _text("text"),
    _int("position"),
    _text("work_id"),
    _flag("consumed"),
    _time("accepted_at", null=False),
    PrimaryKeyConstraint("input"),
    Unique("session", "request_id"),
)

# One work with its run intent (INT-1) and its owner. `place` is its order among all works. `owner` is null when it was
# given back; `renewals` grows with every claim and renewal, so that another process can tell a living owner from a clock
# that moved. `admitting` is 1 from the take-over until the continuation is admitted (INT-14). `parked` is 1 while the work
# waits at a point from which its turn simply goes on.
Table(
    "works",
    work,
    _text("work_id"),
    _text("session"),
    _text("input"),
    _text("request_id"),
    _int("place"),
    _text("state"),
    _text("reason_code", null=True),
    _text("reason", null=True),
    _text("desired_state"),
    _int("control_version"),
    _text("permission_scope"),
    _text("host", null=True),
    _text("recovery_policy"),
    _int("progress"),
    _int("generation"),
    _text("owner", null=True),
    _time("lease_until"),
    _int("renewals"),
    _flag("admitting"),
    _flag("parked"),
    _int("tries"),
    _time("next_try_at"),
    PrimaryKeyConstraint("work_id"),
    Unique("input"),
)
Index(None, work.tables["works"].c.session)

# One run of the model and tool loop. `n` orders the turns of a work; `continuation` is the key of the decision that
# admitted it.
Table(
    "turns",
    work,
    _text("turn_id"),
    _text("work_id"),
    _text("session"),
    _int("n"),
    _text("state"),
    _text("predecessor", null=True),
    _text("continuation", null=True),
    PrimaryKeyConstraint("turn_id"),
    Unique("work_id", "n"),
    Unique("predecessor"),
    Unique("continuation"),
)

# One request to the model. `watermark` is the largest output count that its stream has shown.
Table(
    "attempts",
    work,
    _text("attempt"),
    _text("turn_id"),
    _text("work_id"),
    _int("n"),
    _int("generation"),
    _text("state"),
    _int("watermark", default=None),
    PrimaryKeyConstraint("attempt"),
    Unique("turn_id", "n"),
)

# Partial text of an attempt, piece after piece, until its reply is stored or its attempt is closed.
Table("partials", work, _text("attempt"), _int("n"), _text("text"), PrimaryKeyConstraint("attempt", "n"))

# The transcript. Rows are added, never changed. `key` says what the item is of, so that it is added once.
Table(
    "items",
    work,
    _text("session"),
    _int("item"),
    _text("key"),
    _text("kind"),
    _text("turn_id", null=True),
    _text("work_id", null=True),
    _text("request_id", null=True),
    _text("text"),
    Column("complete", Boolean, nullable=False, server_default="1"),
    _text("calls", null=True),
    _text("call_id", null=True),
    _flag("placeholder"),
    PrimaryKeyConstraint("session", "item"),
    Unique("key"),
)

# One tool call's effect (EFF-1 to EFF-7). `harmless`: a trusted read, which locks nothing when its outcome is unknown.
Table(
    "effects",
    work,
    _text("effect"),
    _text("session"),
    _text("work_id"),
    _text("turn_id"),
    _int("item"),
    _text("call_id"),
    _text("tool"),
    _text("arguments"),
    _text("state"),
    _text("implementation", null=True),
    _text("idempotency_key"),
    _text("summary"),
    _text("checks"),
    _flag("harmless"),
    _int("dispatches"),
    _int("generation"),
    _time("dispatched_at"),
    _text("resolution", null=True),
    _text("note", null=True),
    PrimaryKeyConstraint("effect"),
    Unique("session", "item", "call_id"),
)

# Results that came under an old generation: evidence, which the work's present owner turns into a reconciliation.
Table(
    "late_receipts",
    work,
    _text("effect"),
    _int("generation"),
    _text("session"),
    _flag("ok"),
    _text("text"),
    _flag("verified"),
    _flag("taken"),
    PrimaryKeyConstraint("effect", "generation"),
)

# One stored recovery decision (REC-2).
Table(
    "recoveries",
    work,
    _text("key"),
    _text("work_id"),
    _text("way"),
    _int("control_version"),
    _int("generation"),
    _text("predecessor", null=True),
    _text("turn_id", null=True),
    _flag("void"),
    _flag("admitted"),
    _flag("consumed"),
    _flag("restored"),
    PrimaryKeyConstraint("key"),
)
Index(None, work.tables["recoveries"].c.work_id)

# Numbered events, added in the same transaction as the fact they tell of.
Table(
    "events",
    work,
    _text("session"),
    _int("number"),
    _text("type"),
    _text("data"),
    PrimaryKeyConstraint("session", "number"),
)

# What the ledger has still to be told.
Table(
    "outbox",
    work,
    Column("row", Integer, primary_key=True, autoincrement=True),
    _text("work_id"),
    _text("session"),
    _text("attempt"),
    _text("kind"),
    _text("data"),
    sqlite_autoincrement=True,
)

# The ledger: one row for each model request, open until it is known or given up as unknown.
Table(
    "attempts",
    usage,
    _text("attempt"),
    _text("session"),
    _text("work_id"),
    _text("turn_id"),
    _int("generation"),
    _text("state"),
    _int("watermark_tokens", default=None),
    _time("created_at", null=False),
    PrimaryKeyConstraint("attempt"),
)
Index(None, usage.tables["attempts"].c.session)

# What the provider counted, once for each attempt. `late` marks one that came after the owner had changed (USE-6).
Table(
    "receipts",
    usage,
    _text("attempt"),
    _int("input_tokens"),
    _int("cached_tokens"),
    _int("output_tokens"),
    _flag("late"),
    _time("stored_at", null=False),
    PrimaryKeyConstraint("attempt"),
)

# Derived from the two above, and rebuilt from them at any time (USE-5).
Table(
    "totals",
    usage,
    _text("session"),
    _int("input_tokens"),
    _int("cached_tokens"),
    _int("output_tokens"),
    _int("known_attempts"),
    _int("unknown_attempts"),
    PrimaryKeyConstraint("session"),
)

METADATA = {"work": work, "usage": usage}


def creation(name: str) -> tuple[str, ...]:
    """The statements that make a fresh database of this kind, in order, the version's stamp last."""
    dialect = sqlite.dialect()
    made: list[str] = []
    for table in METADATA[name].sorted_tables:
        made.append(str(CreateTable(table).compile(dialect=dialect)))
        made += (
            str(CreateIndex(index).compile(dialect=dialect)) for index in sorted(table.indexes, key=lambda i: str(i.name))
        )
    made.append(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
        " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    made.append(f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD[name]}')")  # noqa: S608 -- a constant
    return tuple(made)
