"""Owns nothing: the door through which Alembic comes in."""

from reference.migrations.environment import run

run()
