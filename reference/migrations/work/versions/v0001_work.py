"""The first shape of the work database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001_work"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""

    op.create_table(
        "attempts",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), server_default="0", nullable=False),
        sa.Column("generation", sa.Integer(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("watermark", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("attempt", name=op.f("pk_attempts")),
        sa.UniqueConstraint("turn_id", "n", name=op.f("uq_attempts_turn_id")),
    )
    op.create_table(
        "effects",
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("item", sa.Integer(), server_default="0", nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("implementation", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("checks", sa.Text(), nullable=False),
        sa.Column("harmless", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("dispatches", sa.Integer(), server_default="0", nullable=False),
        sa.Column("generation", sa.Integer(), server_default="0", nullable=False),
        sa.Column("dispatched_at", sa.Float(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("effect", name=op.f("pk_effects")),
        sa.UniqueConstraint("session", "item", "call_id", name=op.f("uq_effects_session")),
    )
    op.create_table(
        "events",
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), server_default="0", nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("session", "number", name=op.f("pk_events")),
    )
    op.create_table(
        "inputs",
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), server_default="0", nullable=False),
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("consumed", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("accepted_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("input", name=op.f("pk_inputs")),
        sa.UniqueConstraint("session", "request_id", name=op.f("uq_inputs_session")),
    )
    op.create_table(
        "items",
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("item", sa.Integer(), server_default="0", nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=True),
        sa.Column("work_id", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("complete", sa.Boolean(), server_default="1", nullable=False),
        sa.Column("calls", sa.Text(), nullable=True),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("placeholder", sa.Boolean(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("session", "item", name=op.f("pk_items")),
        sa.UniqueConstraint("key", name=op.f("uq_items_key")),
    )
    op.create_table(
        "late_receipts",
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), server_default="0", nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("ok", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("verified", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("taken", sa.Boolean(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("effect", "generation", name=op.f("pk_late_receipts")),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
    )
    op.create_table(
        "outbox",
        sa.Column("row", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("row", name=op.f("pk_outbox")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "partials",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), server_default="0", nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("attempt", "n", name=op.f("pk_partials")),
    )
    op.create_table(
        "recoveries",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("way", sa.Text(), nullable=False),
        sa.Column("control_version", sa.Integer(), server_default="0", nullable=False),
        sa.Column("generation", sa.Integer(), server_default="0", nullable=False),
        sa.Column("predecessor", sa.Text(), nullable=True),
        sa.Column("turn_id", sa.Text(), nullable=True),
        sa.Column("void", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("admitted", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("consumed", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("restored", sa.Boolean(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_recoveries")),
    )
    op.create_index(op.f("ix_recoveries_work_id"), "recoveries", ["work_id"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("desired_state", sa.Text(), nullable=False),
        sa.Column("control_version", sa.Integer(), server_default="0", nullable=False),
        sa.Column("stop_version", sa.Integer(), server_default="0", nullable=False),
        sa.Column("inputs", sa.Integer(), server_default="0", nullable=False),
        sa.Column("items", sa.Integer(), server_default="0", nullable=False),
        sa.Column("events", sa.Integer(), server_default="0", nullable=False),
        sa.Column("announced", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("session", name=op.f("pk_sessions")),
        sa.UniqueConstraint("request_id", name=op.f("uq_sessions_request_id")),
    )
    op.create_table(
        "turns",
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("predecessor", sa.Text(), nullable=True),
        sa.Column("continuation", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_turns")),
        sa.UniqueConstraint("continuation", name=op.f("uq_turns_continuation")),
        sa.UniqueConstraint("predecessor", name=op.f("uq_turns_predecessor")),
        sa.UniqueConstraint("work_id", "n", name=op.f("uq_turns_work_id")),
    )
    op.create_table(
        "works",
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason_code", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("desired_state", sa.Text(), nullable=False),
        sa.Column("control_version", sa.Integer(), server_default="0", nullable=False),
        sa.Column("permission_scope", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("recovery_policy", sa.Text(), nullable=False),
        sa.Column("progress", sa.Integer(), server_default="0", nullable=False),
        sa.Column("generation", sa.Integer(), server_default="0", nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("renewals", sa.Integer(), server_default="0", nullable=False),
        sa.Column("admitting", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("parked", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_try_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("work_id", name=op.f("pk_works")),
        sa.UniqueConstraint("input", name=op.f("uq_works_input")),
    )
    op.create_index(op.f("ix_works_session"), "works", ["session"], unique=False)
