"""Owns the two databases: opening, making, migrating, and the transactions through which everything is read and written.

SQLite in WAL mode with `synchronous=FULL`, since less than that does not survive a power cut. Every write transaction is
`BEGIN IMMEDIATE`, so that what it has read is still so when it commits. `write()` has committed when its block has ended:
a breakpoint that stands after the block stands after a durable commit, and no breakpoint stands inside a block, so that
a process that is held there holds no lock.

SQLAlchemy owns schema and migration. Statements run on the driver's own connection: at some 150 statements a turn the
difference is a tenth of the whole processor time of a turn, and an engine for each opening cost as much again.

Nothing is opened for writing before it has been looked at: a file that is no database, is damaged or is of a version that
this program does not know gives StateUnavailable and stays as it is, byte for byte (REC-1, OWN-4).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reference import fresh
from reference.bell import Bell
from reference.model import StateUnavailable
from reference.settings import Settings

BUSY_MS_MAX = 10_000
_MAGIC = b"SQLite format 3\x00"

Row = sqlite3.Row


class Tx:
    """One open transaction. Statements are SQL text with `?`; a row is read by column name."""

    __slots__ = ("_driver",)

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    def run(self, sql: str, *values: Any) -> int:
        """Execute one statement; how many rows it changed."""
        return self._driver.execute(sql, values).rowcount

    def one(self, sql: str, *values: Any) -> Row | None:
        """The first row, or None."""
        row: Row | None = self._driver.execute(sql, values).fetchone()
        return row

    def all(self, sql: str, *values: Any) -> list[Row]:
        """Every row."""
        return self._driver.execute(sql, values).fetchall()

    def value(self, sql: str, *values: Any) -> Any:
        """The first column of the first row, or None."""
        row = self._driver.execute(sql, values).fetchone()
        return None if row is None else row[0]


class Database:
    """One of the two databases, with one connection for each thread that uses it. `bell` rings after each commit."""

    def __init__(self, path: Path, bell: Bell | None = None) -> None:
        self.path = path
        self._bell = bell
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self.commits = 0

    @property
    def driver(self) -> sqlite3.Connection:
        """This thread's connection of the driver, opened on first use."""
        try:
            found: sqlite3.Connection = self._local.driver
        except AttributeError:
            found = self._connect()
        return found

    def _connect(self) -> sqlite3.Connection:
        # Closed by whichever thread closes the database, hence no check; until then each is of its own thread alone.
        driver = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        driver.row_factory = Row
        driver.execute(f"PRAGMA busy_timeout={BUSY_MS_MAX}")
        driver.execute("PRAGMA synchronous=FULL")
        self._open.append(driver)
        self._local.driver = driver
        return driver

    @contextmanager
    def write(self, quiet: bool = False) -> Iterator[Tx]:
        """A write transaction: committed and durable when the block ends, undone when it raises. quiet: nobody waits for
        what it writes, so that the bell need not ring."""
        driver = self.driver
        driver.execute("BEGIN IMMEDIATE")
        try:
            yield Tx(driver)
            driver.execute("COMMIT")
        except BaseException:
            if driver.in_transaction:
                driver.execute("ROLLBACK")
            raise
        self.commits += 1
        if self._bell and not quiet:
            self._bell.ring()

    @contextmanager
    def read(self) -> Iterator[Tx]:
        """A read transaction: every statement in it sees the same state."""
        driver = self.driver
        driver.execute("BEGIN")
        try:
            yield Tx(driver)
        finally:
            if driver.in_transaction:
                driver.execute("ROLLBACK")

    def version(self) -> tuple[int, int]:
        """A token that differs when anything was committed since, by this process or another. Costs microseconds."""
        row = self.driver.execute("PRAGMA data_version").fetchone()
        return int(row[0]), self.commits

    def close(self) -> None:
        """Close every connection. The last process to do so folds the write-ahead log into the file."""
        while self._open:
            self._open.pop().close()
        self._local = threading.local()


class Store:
    """Both databases of one data folder."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.bell = Bell(settings.data / "bell")
        self.work = Database(settings.work_db, self.bell)
        self.usage = Database(settings.usage_db)
        self.write, self.read = self.work.write, self.work.read
        self.arriving: list[tuple[str, str, str, int | None]] = []  # intake's: what has come and is not committed yet

    @classmethod
    def open(cls, settings: Settings) -> Store:
        """The store in `settings.data`, made if there is none and migrated if it is older.

        Raises StateUnavailable if it cannot be read, is damaged, or is newer than this program; nothing was written then.
        """
        try:
            prepare(settings)
            return cls(settings)
        except (sqlite3.Error, OSError) as error:
            raise StateUnavailable(
                f"{settings.data}: the store cannot be opened ({error}); mend it and try again"
            ) from error

    def changed(self, last: object = None) -> tuple[int, int]:
        """The present token of the work database; it differs from `last` when something was committed since."""
        return self.work.version()

    def close(self) -> None:
        """Close both databases."""
        self.work.close()
        self.usage.close()
        self.bell.close()


def prepare(settings: Settings) -> None:
    """Look at both files first; then make what is missing and migrate what is older."""
    if _state(settings.work_db, "work") == "current" and _state(settings.usage_db, "usage") == "current":
        return
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (settings.data / "store.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have been here while this one waited, so look again. The ledger is made first: work without
        # its ledger has lost something, a ledger without work has not.
        states = {"usage": _state(settings.usage_db, "usage"), "work": _state(settings.work_db, "work")}
        if states["work"] != "absent" and states["usage"] == "absent":
            raise StateUnavailable(
                f"{settings.usage_db}: the ledger is missing beside {settings.work_db.name}; put it back"
            )
        for name, path in (("usage", settings.usage_db), ("work", settings.work_db)):
            if states[name] == "absent":
                fresh.make(path, name)
            elif states[name] == "older":
                _migrate(path, name)


def _state(path: Path, name: str) -> str:
    """`absent`, `older` or `current`. Raises StateUnavailable for anything else. Writes nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return "absent"
    try:
        head = os.read(fd, len(_MAGIC))
    finally:
        os.close(fd)
    if not head:
        return "absent"
    if head != _MAGIC:
        raise StateUnavailable(f"{path}: is no SQLite database; put the right file back")
    try:
        driver = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)
        try:
            driver.execute(f"PRAGMA busy_timeout={BUSY_MS_MAX}")
            bad = driver.execute("PRAGMA quick_check(1)").fetchone()[0]
            if bad != "ok":
                raise StateUnavailable(f"{path}: is damaged ({bad}); put a whole file back")
            tables = {row[0] for row in driver.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            versions = (
                [row[0] for row in driver.execute("SELECT version_num FROM alembic_version")]
                if "alembic_version" in tables
                else []
            )
        finally:
            driver.close()
    except sqlite3.Error as error:
        raise StateUnavailable(f"{path}: cannot be read ({error}); put a whole file back") from error
    if versions == [fresh.HEAD[name]]:
        return "current"
    if not tables:
        return "absent"
    if "alembic_version" in tables and (not versions or versions[0] in _older(name)):
        return "older"
    raise StateUnavailable(f"{path}: is of version {versions or 'unknown'}, this program reads {fresh.HEAD[name]}")


def _older(name: str) -> set[str]:
    """Versions that Alembic can bring to the newest. Imported here, since a store of today never needs it."""
    from reference.migrations import versions  # noqa: PLC0415

    return versions(name) - {fresh.HEAD[name]}


def _migrate(path: Path, name: str) -> None:
    from reference.migrations import upgrade  # noqa: PLC0415

    upgrade(path, name)
