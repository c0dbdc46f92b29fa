"""Owns the store: made fast and whole, migrated to the same shape, left alone where it cannot be read."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reference import context, intake, migrations, usage, worker
from reference.fresh import HEAD
from reference.model import Counts, StateUnavailable
from reference.running import Kit
from reference.settings import Settings
from reference.store import Store
from tests.reference.rig import NO_CLIENT, Fake, Tools, make


def settings_in(folder: Path) -> Settings:
    (folder / "workspace").mkdir(exist_ok=True)
    return Settings(data=folder, workspace=folder / "workspace")


def shape(path: Path) -> dict[str, object]:
    """Tables, columns and indexes of a database, without the wording of their statements."""
    driver = sqlite3.connect(path)
    found: dict[str, object] = {}
    for (table,) in driver.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall():
        indexes = driver.execute(f"PRAGMA index_list({table})").fetchall()
        found[table] = (
            driver.execute(f"PRAGMA table_info({table})").fetchall(),
            sorted((row[2], row[3], tuple(driver.execute(f"PRAGMA index_info({row[1]})").fetchall())) for row in indexes),
        )
    found["version"] = driver.execute("SELECT version_num FROM alembic_version").fetchall()
    driver.close()
    return found


@pytest.mark.parametrize("name", ["work", "usage"])
def test_migrations_give_what_a_fresh_store_has(folder: Path, name: str) -> None:
    fresh = folder / "fresh"
    fresh.mkdir()
    Store.open(settings_in(fresh)).close()
    migrated = folder / "migrated.db"
    sqlite3.connect(migrated).close()
    migrations.upgrade(migrated, name)
    assert shape(migrated) == shape(fresh / f"{name}.db")
    assert HEAD[name] in migrations.versions(name)


def test_an_older_store_is_migrated_when_it_is_opened(folder: Path) -> None:
    settings = settings_in(folder)
    for path in (settings.work_db, settings.usage_db):
        driver = sqlite3.connect(path)
        driver.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        driver.commit()
        driver.close()
    store = Store.open(settings)
    assert intake.create_session(store)["session"]
    store.close()


def test_a_fresh_store_costs_a_few_milliseconds(folder: Path) -> None:
    best_ms = 1e9
    for i in range(5):
        own = folder / str(i)
        own.mkdir()
        settings = settings_in(own)
        begun = time.process_time()
        store = Store.open(settings)
        best_ms = min(best_ms, (time.process_time() - begun) * 1e3)
        with store.read() as tx:
            assert tx.value("PRAGMA journal_mode") == "wal"
            assert tx.value("PRAGMA synchronous") == 2
        store.close()
    assert best_ms < 25, f"{best_ms:.1f} ms"  # 5 ms on a quiet machine; this bound only finds a mistake of kind


def test_a_log_that_an_earlier_try_left_does_not_get_into_a_fresh_store(folder: Path) -> None:
    settings = settings_in(folder)
    driver = sqlite3.connect(settings.work_db)
    driver.executescript("PRAGMA journal_mode=WAL; CREATE TABLE stray (x); DROP TABLE stray;")
    left = {path: path.read_bytes() for path in folder.glob("work.db*")}
    driver.close()
    for path, data in left.items():
        path.write_bytes(data)
    assert len((folder / "work.db-wal").read_bytes()) > 0
    store = Store.open(settings)
    with store.read() as tx:
        assert tx.value("PRAGMA integrity_check") == "ok"
        assert tx.value("SELECT count(*) FROM sqlite_schema WHERE name = 'stray'") == 0
    assert intake.create_session(store)["session"]
    store.close()


def test_four_processes_may_open_a_fresh_store_at_once(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from reference.settings import Settings; from reference.store import Store;"
        "d = Path(sys.argv[1]); s = Store.open(Settings(data=d, workspace=d)); print(s.work.version()[0] >= 0); s.close()"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    openers = [
        subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(4)
    ]
    assert [each.communicate(timeout=60)[0] for each in openers] == ["True\n"] * 4


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.db"))}


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 400)


def _torn(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(8192))


def _newer(path: Path) -> None:
    driver = sqlite3.connect(path)
    driver.execute("UPDATE alembic_version SET version_num = '9999_future'")
    driver.commit()
    driver.close()


@pytest.mark.parametrize("how", [_garbage, _torn, _newer])
@pytest.mark.parametrize("name", ["work.db", "usage.db"])
def test_a_store_that_cannot_be_read_is_left_byte_for_byte(folder: Path, how, name: str) -> None:  # type: ignore[no-untyped-def]
    settings = settings_in(folder)
    store = Store.open(settings)
    intake.accept(store, intake.create_session(store)["session"], "r", "text")
    store.close()
    how(folder / name)
    before = digest(folder)
    with pytest.raises(StateUnavailable, match=name.replace(".", r"\.")):
        Store.open(settings)
    assert digest(folder) == before


def test_work_without_its_ledger_is_refused(folder: Path) -> None:
    settings = settings_in(folder)
    Store.open(settings).close()
    settings.usage_db.unlink()
    with pytest.raises(StateUnavailable, match="ledger is missing"):
        Store.open(settings)
    assert not settings.usage_db.exists()


WORKER = """
import sys
from pathlib import Path
from reference import context, worker
from reference.running import Kit
from reference.settings import Settings
from tests.reference.rig import NO_CLIENT, Model, Tools
data = Path(sys.argv[1])
model = Model({"text": ["an answer"]})
kit = Kit(model.stream, Tools(), context.messages, NO_CLIENT)
status = worker.main(Settings(data=data, workspace=data / "workspace"), kit)
print(len(model.requests), flush=True)
sys.exit(status)
"""


def test_a_worker_waits_for_its_store_to_be_mended_and_goes_when_told(folder: Path) -> None:
    settings = settings_in(folder)
    store = Store.open(settings)
    session = intake.create_session(store)["session"]
    intake.accept(store, session, "r", "text")
    store.close()
    whole = settings.work_db.read_bytes()
    _garbage(settings.work_db)
    broken = digest(folder)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stderr
        said = process.stderr.readline()
        assert said.startswith("worker: recovery_failed: ")
        assert "is no SQLite database" in said
        assert digest(folder) == broken
        (folder / "whole").write_bytes(whole)
        (folder / "whole").replace(settings.work_db)
        from reference import snapshot

        until = time.monotonic() + 30
        state = ""
        while state != "done" and time.monotonic() < until:
            store = Store.open(settings)
            state = snapshot.session(store, session)["works"][0]["state"]
            store.close()
            time.sleep(0.01)
        assert state == "done"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "1\n")
    finally:
        process.kill()
        process.wait()


def test_a_database_that_fails_in_a_turn_is_let_go_and_taken_up_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make(folder, monkeypatch, {"text": ["an answer"]})
    session = rig.open()
    rig.send(session, "text")

    def hook(point: str, n: int) -> None:
        if (point, n) == ("reply.received", 1):
            raise OSError(28, "No space left on device")
        if point == "work.released":
            os.kill(os.getpid(), signal.SIGTERM)

    rig.hook = hook
    kit = Kit(rig.model.stream, Tools(), context.messages, NO_CLIENT)
    assert worker.main(rig.settings, kit) == 0
    view = rig.view(session)
    assert view["works"][0]["state"] == "done"
    assert view["works"][0]["generation"] == 2
    assert [attempt["state"] for attempt in view["attempts"]] == ["unknown", "known"]


def test_a_result_in_hand_outlasts_a_fault_of_the_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make(folder, monkeypatch, {"text": [["mail"], "an answer"]}, Fake("mail"))
    session = rig.open()
    rig.send(session, "text")

    def hook(point: str, n: int) -> None:
        if (point, n) == ("tool.effect.done", 1):
            raise OSError(28, "No space left on device")
        if point == "work.released":
            os.kill(os.getpid(), signal.SIGTERM)

    rig.hook = hook
    assert worker.main(rig.settings, Kit(rig.model.stream, rig.tools, context.messages, NO_CLIENT)) == 0
    view = rig.view(session)
    assert view["works"][0]["state"] == "done"
    assert [effect["state"] for effect in view["effects"]] == ["succeeded"]
    assert [item["text"] for item in view["transcript"]] == ["text", "", "mail done", "an answer"]
    assert len(rig.tools["mail"].applied) == 1
    assert len(rig.model.requests) == 2


def test_a_watermark_is_the_largest_count_and_a_receipt_counts_once(folder: Path) -> None:
    store = Store.open(settings_in(folder))
    with store.usage.write() as ledger:
        for attempt in ("a", "b"):
            usage.open_attempt(ledger, attempt, "s", "w", "t", 1)
            usage.open_attempt(ledger, attempt, "s", "w", "t", 2)
        usage.close_attempt(ledger, "a", 7)
        usage.close_attempt(ledger, "a", 3)
        usage.take_receipt(ledger, "b", Counts(20, 5, 8))
        usage.take_receipt(ledger, "b", Counts(99, 9, 9))
        usage.close_attempt(ledger, "b", None)
    usage.rebuild(store)
    with store.usage.read() as ledger:
        attempts, totals = usage.view(ledger, "s")
    assert [(row["state"], row["output_tokens"], row["watermark_tokens"]) for row in attempts] == [
        ("unknown", None, 7),
        ("known", 8, None),
    ]
    assert totals == {
        "input_tokens": 20,
        "cached_tokens": 5,
        "output_tokens": 8,
        "known_attempts": 1,
        "unknown_attempts": 1,
    }
    usage.take_late(store, "s", "a", Counts(1, 0, 1))
    with store.usage.read() as ledger:
        attempts, totals = usage.view(ledger, "s")
    assert (attempts[0]["state"], attempts[0]["late"], totals["output_tokens"]) == ("known", True, 9)
    store.close()


def test_a_snapshot_fits_the_shape_that_is_judged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scenarios.snapshot import SessionView

    rig = make(folder, monkeypatch, {"text": ["an answer"]})
    session = rig.open()
    rig.send(session, "text")
    assert not rig.life()
    view = SessionView.model_validate(json.loads(json.dumps(rig.view(session))))
    assert view.works[0].turns[0].attempts == [view.attempts[0].attempt]
    assert view.event == len(rig.rows("SELECT * FROM events"))
    assert [item.kind for item in view.transcript] == ["user", "assistant"]
