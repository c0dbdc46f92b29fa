"""Owns bringing an older store to the newest version, by Alembic, each database in one transaction.

A change of the schema is one file under `<database>/versions/`, and its name in `fresh.HEAD`. A test holds that every
migration together gives exactly what a fresh store has.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Connection
from sqlalchemy.pool import NullPool

_HERE = Path(__file__).parent


def versions(name: str) -> set[str]:
    """Every version of this database that is known here."""
    return {script.revision for script in ScriptDirectory.from_config(_config(name)).walk_revisions()}


def upgrade(path: Path, name: str) -> None:
    """Bring the database at `path` to the newest version, wholly or not at all."""
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    event.listen(engine, "connect", _by_hand)
    event.listen(engine, "begin", _immediate)
    config = _config(name)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    engine.dispose()


def _config(name: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_HERE / name).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _by_hand(driver: object, _: object) -> None:
    # The driver would commit before each change of the schema, and half a migration would stay.
    driver.isolation_level = None  # type: ignore[attr-defined]


def _immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
