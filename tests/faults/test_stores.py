"""A case has its own folder; its stores are copied at a death, inspected as a copy, broken and mended."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from faults import stores
from faults.stores import CaseFolder, StoreError, break_store, digest, inspect, locked, mend_store

from .conftest import WAIT_S_MAX, environment

# Writes through the write-ahead log, is never checkpointed, and dies without closing.
WRITER = """
import os, signal, sqlite3, sys
work = sqlite3.connect(sys.argv[1], isolation_level=None)
work.execute("PRAGMA journal_mode=WAL")
work.execute("PRAGMA wal_autocheckpoint=0")
work.execute("CREATE TABLE inputs (id INTEGER PRIMARY KEY, request TEXT, body TEXT, raw BLOB)")
for i in range(200):
    work.execute("INSERT INTO inputs (request, body, raw) VALUES (?, ?, ?)", (f"req-{i}", "x" * 100, b"raw-%d" % i))
work.execute("INSERT INTO inputs (body) VALUES (?)", ('{"request_id": "in-json", "text": "hello"}',))
os.kill(os.getpid(), signal.SIGKILL)
"""


def write_and_die(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITER, path], env=environment(), timeout=WAIT_S_MAX, check=False)
    assert done.returncode == -9
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as store:
        return int(store.execute("SELECT count(*) FROM inputs").fetchone()[0])


def test_a_case_has_a_folder_of_its_own_that_nobody_else_may_read(tmp_path: Path) -> None:
    with CaseFolder() as one, CaseFolder(tmp_path) as other:
        assert one.root != other.root and other.root.parent == tmp_path
        for folder in (one.root, one.store, one.workspace, one.logs, one.deaths, one.sock):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(one.socket))
    assert not one.root.exists() and not other.root.exists()
    one.remove()


def test_a_copy_holds_what_was_committed_and_not_yet_checkpointed(folder: CaseFolder) -> None:
    write_and_die(folder.store / "work.db")
    (folder.store / "token").write_text("secret")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder.store / "s"))
    before = digest(folder.store)
    copy = folder.copy_store("1-worker.1")
    assert copy == folder.deaths / "1-worker.1" and not (copy / "s").exists()

    copied = digest(copy)
    asked = ["req-0", "req-199", "req-1", "in-json", "raw-7", "req", "req-200", "in", "hello"]
    seen = inspect(copy, asked)
    assert list(seen["files"]) == ["work.db"]
    assert seen["files"]["work.db"]["ok"] is True and seen["files"]["work.db"]["detail"] is None
    assert len(seen["files"]["work.db"]["sha256"]) == 64
    assert {each for each, held in seen["holds"].items() if held} == {
        "req-0",
        "req-199",
        "req-1",
        "in-json",
        "raw-7",
        "hello",
    }
    assert inspect(copy, asked) == seen
    assert sorted(file.name for file in copy.iterdir()) == ["token", "work.db", "work.db-wal"]
    assert digest(copy) == copied, "looking at the evidence has changed it"
    assert digest(folder.store) == before, "looking at the copy has changed the store"
    with pytest.raises(FileExistsError):
        folder.copy_store("1-worker.1")


def test_what_is_gone_before_it_is_copied_is_not_in_the_copy(folder: CaseFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another part of the plan starts an app, and what the one before told of where it listens is taken away."""
    write_and_die(folder.store / "work.db")
    (folder.store / "serve.json").write_text("{}")
    copyfile = shutil.copyfile

    def gone(source: str, target: str) -> None:
        (folder.store / "serve.json").unlink(missing_ok=True)
        copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", gone)
    copy = folder.copy_store("1")
    assert "serve.json" not in {file.name for file in copy.iterdir()} and inspect(copy, ["req-0"])["holds"]["req-0"]


@pytest.mark.parametrize("name", ["work.db", "work.db-wal"])
def test_a_database_that_is_gone_before_it_is_copied_makes_no_copy(
    folder: CaseFolder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It would show a torn store that never was."""
    write_and_die(folder.store / "work.db")
    copyfile = shutil.copyfile

    def gone(source: str, target: str) -> None:
        (folder.store / name).unlink(missing_ok=True)
        copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", gone)
    with pytest.raises(OSError, match=name):
        folder.copy_store("1")


def test_without_its_log_the_copy_holds_nothing_of_it(folder: CaseFolder) -> None:
    write_and_die(folder.store / "work.db")
    copy = folder.copy_store("1")
    (copy / "work.db-wal").unlink()
    assert inspect(copy, ["req-0"])["holds"] == {"req-0": False}


def test_a_torn_page_and_a_dangling_reference_are_found(folder: CaseFolder) -> None:
    torn, dangling = folder.store / "torn.db", folder.store / "dangling.db"
    with closing(sqlite3.connect(torn)) as store, store:
        store.execute("CREATE TABLE inputs (request TEXT)")
        store.executemany("INSERT INTO inputs VALUES (?)", [("x" * 500,)] * 100)
    with torn.open("r+b") as pages:
        pages.seek(4096 * 2)
        pages.write(b"\xff" * 4096)
    with closing(sqlite3.connect(dangling)) as store, store:
        store.execute("CREATE TABLE works (id INTEGER PRIMARY KEY)")
        store.execute("CREATE TABLE turns (work INTEGER REFERENCES works (id))")
        store.execute("INSERT INTO turns VALUES (7)")
    files = inspect(folder.copy_store("1"))["files"]
    assert not files["torn.db"]["ok"] and files["torn.db"]["detail"]
    assert files["dangling.db"]["detail"] == "turns row 1: refers to a row of works that is not there"


def test_a_rollback_journal_is_played_back_in_a_copy_of_the_copy(folder: CaseFolder) -> None:
    path = folder.store / "work.db"
    code = (
        "import os, signal, sqlite3, sys\n"
        "store = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "store.execute('PRAGMA cache_size=1')\n"
        "store.execute('CREATE TABLE inputs (request TEXT)')\n"
        "store.executemany('INSERT INTO inputs VALUES (?)', [('kept',)] * 2000)\n"
        "store.execute('BEGIN')\n"
        "store.execute(\"UPDATE inputs SET request = 'undone'\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], timeout=WAIT_S_MAX, check=False)
    assert path.with_name("work.db-journal").stat().st_size > 0
    copy = folder.copy_store("1")
    before = digest(copy)
    seen = inspect(copy, ["kept", "undone"])
    assert seen["files"]["work.db"]["ok"] is True
    assert seen["holds"] == {"kept": True, "undone": False}
    assert digest(copy) == before


def test_a_broken_store_cannot_be_read_by_anyone_and_a_mended_one_is_as_before(folder: CaseFolder) -> None:
    write_and_die(folder.store / "work.db")
    (folder.store / "deep").mkdir()
    write_and_die(folder.store / "deep" / "usage.db")
    (folder.store / "serve.json").write_text("{}")
    before = digest(folder.store)

    broken = break_store(folder.store)
    assert broken == digest(folder.store) != before
    for path in (folder.store / "work.db", folder.store / "deep" / "usage.db"):
        with pytest.raises(sqlite3.DatabaseError, match="not a database"):
            count(path)
    assert digest(folder.store) == broken, "a refused opening must not write"
    seen = inspect(folder.copy_store("broken"), ["req-0"])
    assert not any(file["ok"] for file in seen["files"].values()) and seen["holds"] == {"req-0": False}
    assert sorted(seen["files"]) == ["deep/usage.db", "work.db"]
    with pytest.raises(StoreError, match="broken already"):
        break_store(folder.store)

    (folder.store / "made-meanwhile").write_text("evidence")
    mended = mend_store(folder.store)
    (folder.store / "made-meanwhile").unlink()
    assert digest(folder.store) == before == mended, "what stands beside the databases is no part of them"
    assert count(folder.store / "work.db") == count(folder.store / "deep" / "usage.db") == 201
    with pytest.raises(StoreError, match="not broken"):
        mend_store(folder.store)


def test_a_store_without_databases_cannot_be_broken(folder: CaseFolder) -> None:
    (folder.store / "notes.txt").write_text("no database")
    with pytest.raises(StoreError, match="holds no database"):
        break_store(folder.store)


def test_a_digest_tells_names_bytes_and_borders_apart(tmp_path: Path) -> None:
    def of(name: str, **files: bytes) -> str:
        folder = tmp_path / name
        folder.mkdir()
        for file, data in files.items():
            (folder / f"{file}.db").write_bytes(data)
        return digest(folder)

    digests = [
        of("1", a=b"x", b=b"y"),
        of("2", a=b"xy", b=b""),
        of("3", a=b"y", b=b"x"),
        of("4", ab=b"xy"),
        of("5"),
    ]
    assert len(set(digests)) == 5
    assert of("6", b=b"y", a=b"x") == digests[0]
    (tmp_path / "1" / "work.db-shm").write_bytes(os.urandom(8))
    assert digest(tmp_path / "1") == digests[0]


def test_a_locked_store_can_be_read_and_not_be_written(folder: CaseFolder) -> None:
    for name in ("work.db", "usage.db"):
        write_and_die(folder.store / name)
    with locked(folder.store) as held:
        assert held == 2
        for name in ("work.db", "usage.db"):
            assert count(folder.store / name) == 201
            writer = sqlite3.connect(folder.store / name, timeout=0, isolation_level=None)
            with closing(writer), pytest.raises(sqlite3.OperationalError, match="locked"):
                writer.execute("BEGIN IMMEDIATE")
    with closing(sqlite3.connect(folder.store / "work.db", timeout=0, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("ROLLBACK")
    assert count(folder.store / "work.db") == 201


def test_a_store_that_holds_nothing_or_is_held_by_another_cannot_be_locked(
    folder: CaseFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="holds no database that could be locked"), locked(folder.store):
        pass
    write_and_die(folder.store / "work.db")
    monkeypatch.setattr(stores, "LOCK_S_MAX", 0.05)
    with locked(folder.store), pytest.raises(StoreError, match="could not be locked"), locked(folder.store):
        pass
