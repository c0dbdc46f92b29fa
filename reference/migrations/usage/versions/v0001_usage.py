"""The first shape of the usage ledger database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001_usage"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""

    op.create_table(
        "attempts",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("work_id", sa.Text(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("watermark_tokens", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("attempt", name=op.f("pk_attempts")),
    )
    op.create_index(op.f("ix_attempts_session"), "attempts", ["session"], unique=False)
    op.create_table(
        "receipts",
        sa.Column("attempt", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cached_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("late", sa.Boolean(), server_default="0", nullable=False),
        sa.Column("stored_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("attempt", name=op.f("pk_receipts")),
    )
    op.create_table(
        "totals",
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("input_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cached_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("known_attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("unknown_attempts", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("session", name=op.f("pk_totals")),
    )
