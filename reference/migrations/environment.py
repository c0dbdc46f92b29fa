"""Owns how Alembic runs a migration here: on the connection and in the transaction that it is given."""

from __future__ import annotations

from alembic import context


def run() -> None:
    """Run the migrations of the database that Alembic's context speaks of."""
    context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
    context.run_migrations()
