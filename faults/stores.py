"""Owns the folder of a case and what is done to its stores: copying them at a death, inspecting the copy, breaking them.

A case shares nothing with a neighbour: its databases, workspace, logs, socket and clock are in one folder of its own, of
mode 0700, in memory where the system has a file system for that.

A store is copied before anything can heal it, and only the copy is opened. Whoever may still write has to be dead or
frozen (processes.still) while it is copied; then the copy is what a crash at that moment would leave.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of mode 0700 with an unguessable name is made in it)
MEMORY_FREE_BYTES_MIN = 64 * 1024 * 1024
# The longest name under the root, /sock/c, and what mkdtemp adds, must leave a path that a Unix socket can be bound to.
PARENT_BYTES_MAX = 80
LOCK_S_MAX = 5.0

_MAGIC = b"SQLite format 3\x00"
_UNREADABLE = b"This is no database any more. " * 4
_DATABASES = (".db", ".sqlite", ".sqlite3")
_BESIDE = ("-wal", "-shm", "-journal")
_ASIDE = "store.aside"


class StoreError(RuntimeError):
    """A store could not be broken or mended: a fault of the harness or of the plan."""


class CaseFolder:
    """The folder of one case. `store` and `workspace` are the target's; the rest is the harness's."""

    def __init__(self, parent: Path | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="kp-", dir=parent or scratch_root()))
        self.store = self.root / "store"
        self.workspace = self.root / "workspace"
        self.logs = self.root / "logs"
        self.deaths = self.root / "deaths"
        self.sock = self.root / "sock"
        for folder in (self.store, self.workspace, self.logs, self.deaths, self.sock):
            folder.mkdir(mode=0o700)
        self.history = self.root / "history.jsonl"
        self.world = self.root / "world.jsonl"
        self.clock = self.root / "clock"
        self.boot = self.root / "boot"
        self.socket = self.sock / "c"

    def __enter__(self) -> CaseFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def copy_store(self, to: str) -> Path:
        """Copy the stores as they stand to `deaths/<to>`, and give its path. Raises FileExistsError if it is there."""
        target = self.deaths / to
        shutil.copytree(self.store, target, symlinks=True, copy_function=_copy, ignore=_nothing_stored)
        return target

    def remove(self) -> None:
        """Remove the folder and all that is in it. It may be gone already."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.root)


def digest(path: Path) -> str:
    """SHA-256, hexadecimal, over the sorted relative names and bytes of all databases below `path`, with their logs.

    Without the shared-memory index of SQLite (`-shm`), which says who reads and nothing of what is stored, and without
    what else a process leaves beside its databases, such as where it listens.
    """
    total = hashlib.sha256()
    databases = {file for database in _databases(path) for file in _with_beside(database)}
    for file in sorted(databases):
        if not file.name.endswith("-shm"):
            data = file.read_bytes()
            total.update(f"{file.relative_to(path)}\0{len(data)}\0".encode())
            total.update(data)
    return total.hexdigest()


def inspect(copy: Path, request_ids: Iterable[str] = ()) -> dict[str, Any]:
    """What a copied store holds: `files` by name, each {ok, detail, sha256}, and `holds` by request id.

    Each SQLite file is opened read-only with its write-ahead log and asked for its integrity and its foreign keys;
    `detail` says what is wrong. A request id is held if it stands, as a whole word, in any row of any table.
    A file that has the name of a database and cannot be read as one is not ok.
    """
    wanted = tuple(request_ids)
    found: set[str] = set()
    files = {}
    for file in _databases(copy):
        trouble = _look(file, wanted, found)
        files[str(file.relative_to(copy))] = {"ok": trouble is None, "detail": trouble, "sha256": _sha256(file)}
    return {"files": files, "holds": {each: each in found for each in wanted}}


def break_store(folder: Path) -> str:
    """Make every database in `folder` unreadable, also for root: its header is overwritten, and its log is taken away,
    which would heal the header. What was there stands aside, next to the folder. The digest of the broken folder.

    Nobody may have it open. Raises StoreError if there is no database, or if it is broken already.
    """
    aside = folder.with_name(_ASIDE)
    databases = _databases(folder)
    if not databases:
        raise StoreError(f"{folder}: holds no database that could be broken")
    if aside.exists():
        raise StoreError(f"{folder}: is broken already; mend it first")
    for database in databases:
        kept = aside / database.relative_to(folder)
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in _with_beside(database):
            file.rename(kept.with_name(file.name))
        shutil.copyfile(kept, database)
        with database.open("r+b") as header:
            header.write(_UNREADABLE[:100])
    return digest(folder)


def mend_store(folder: Path) -> str:
    """Put back what `break_store` took away, and leave what is there besides. The digest of the mended folder.
    Raises StoreError if it is not broken."""
    aside = folder.with_name(_ASIDE)
    if not aside.exists():
        raise StoreError(f"{folder}: is not broken, so it cannot be mended")
    for database in _databases(aside):
        broken = folder / database.relative_to(aside)
        for file in _with_beside(broken):
            file.unlink()
        for file in _with_beside(database):
            file.rename(broken.with_name(file.name))
    shutil.rmtree(aside)
    return digest(folder)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold the write lock of every database in `folder`, as another program does in a long transaction; how many.
    Whoever writes at that moment is waited for. Raises StoreError if there is none, or one cannot be had in time."""
    databases = _databases(folder)
    if not databases:
        raise StoreError(f"{folder}: holds no database that could be locked")
    with contextlib.ExitStack() as stack:
        for database in databases:
            held = stack.enter_context(
                contextlib.closing(sqlite3.connect(database, timeout=LOCK_S_MAX, isolation_level=None))
            )
            try:
                held.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise StoreError(f"{database}: could not be locked ({error})") from None
        yield len(databases)


def scratch_root() -> Path:
    """Where case folders are made: in memory if that can be written and has room, else where temporary files go."""
    try:
        room = os.statvfs(MEMORY)
        if os.access(MEMORY, os.W_OK | os.X_OK) and room.f_bavail * room.f_frsize >= MEMORY_FREE_BYTES_MIN:
            return MEMORY
    except OSError:
        pass
    usual = Path(tempfile.gettempdir())
    return usual if len(os.fsencode(usual)) <= PARENT_BYTES_MAX else Path("/tmp")  # noqa: S108 (mkdtemp makes it safe)


def _nothing_stored(folder: str, names: list[str]) -> list[str]:
    """Names that hold nothing of the store: sockets and pipes, and SQLite's index in shared memory, which a crash of the
    machine would take away and the next opening makes anew."""
    paths = ((name, Path(folder, name)) for name in names)
    return [name for name, path in paths if name.endswith("-shm") or not (path.is_file() or path.is_dir())]


def _copy(source: str, target: str) -> None:
    """Copy a file as it stands. What an app tells where it listens goes when another one is started, and is no store.
    Raises FileNotFoundError for a database or what belongs to one: a copy without it would show a torn store."""
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:
        if source.endswith(_DATABASES + _BESIDE):
            raise


def _files(folder: Path) -> Iterator[Path]:
    return (Path(where, name) for where, _, names in os.walk(folder) for name in names if Path(where, name).is_file())


def _databases(folder: Path) -> list[Path]:
    return sorted(file for file in _files(folder) if not file.name.endswith(_BESIDE) and _is_database(file))


def _is_database(file: Path) -> bool:
    with file.open("rb") as header:
        if header.read(len(_MAGIC)) == _MAGIC:
            return True
    return file.name.endswith(_DATABASES)


def _with_beside(database: Path) -> list[Path]:
    paths = [database, *(database.with_name(database.name + ending) for ending in _BESIDE)]
    return [path for path in paths if path.exists()]


def _sha256(database: Path) -> str:
    total = hashlib.sha256()
    for file in _with_beside(database):
        if not file.name.endswith("-shm"):
            total.update(file.read_bytes())
    return total.hexdigest()


def _look(file: Path, wanted: tuple[str, ...], found: set[str]) -> str | None:
    """What is wrong with one database, or None; what it holds of `wanted` is added to `found`."""
    if not file.with_name(file.name + "-journal").exists():
        return _read_only(file, wanted, found)
    # A rollback journal has to be played back before anything can be read, which a copy of the copy is for.
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".played-") as scratch:
        for each in _with_beside(file):
            shutil.copyfile(each, Path(scratch, each.name))
        return _open(f"file:{_quoted(Path(scratch, file.name))}?mode=rw", wanted, found)


def _read_only(file: Path, wanted: tuple[str, ...], found: set[str]) -> str | None:
    index = file.with_name(file.name + "-shm")
    had_index = index.exists()
    try:
        return _open(f"file:{_quoted(file)}?mode=ro", wanted, found)
    finally:
        if not had_index:
            index.unlink(missing_ok=True)


def _open(address: str, wanted: tuple[str, ...], found: set[str]) -> str | None:
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            database.text_factory = lambda data: data.decode("utf-8", "replace")
            trouble = [row[0] for row in database.execute("PRAGMA integrity_check") if row[0] != "ok"]
            trouble += [
                f"{table} row {row}: refers to a row of {parent} that is not there"
                for table, row, parent, _ in database.execute("PRAGMA foreign_key_check")
            ]
            if wanted:
                found.update(_held(database, wanted))
            return "; ".join(trouble) or None
    except sqlite3.Error as error:
        return f"cannot be read: {error}"


def _held(database: sqlite3.Connection, wanted: tuple[str, ...]) -> set[str]:
    words = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(wanted, key=len, reverse=True)))})(?![\w-])")
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    held: set[str] = set()
    for table in tables:
        name = table.replace('"', '""')
        for row in database.execute(f'SELECT * FROM "{name}"'):  # noqa: S608 (quoted, and the file is a copy)
            for value in row:
                if isinstance(value, bytes):
                    held.update(words.findall(value.decode("utf-8", "replace")))
                elif isinstance(value, str):
                    held.update(words.findall(value))
    return held


def _quoted(path: Path) -> str:
    return path.as_uri().removeprefix("file://")
