"""The folder: safe names, no half-written file, nothing foreign touched, and a report that outlives a killed run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.assemble import assemble
from reports.diff import load
from reports.files import MARKER, NAME_LENGTH_MAX, REPORT_FILES, atomic_write, prepare, safe_name
from reports.writer import write_cell, write_index
from tests.reports import made_up
from tests.reports.reading import Page

ROOT = Path(__file__).parents[2]
WRITES_BEFORE_KILL = 3
KILLS = 3

# Writes one run over and over, half of it and the whole in turns, and says each time that it has.
ENDLESS = """
import sys
from pathlib import Path
from reports.assemble import assemble
from reports.writer import prepare, write_cell, write_index
from tests.reports import made_up
folder = Path(sys.argv[1])
prepare(folder)
cells = made_up.cells(150)
records, case = made_up.history().records, made_up.case("c")
while True:
    for part in (cells[:70], cells):
        done = [write_cell(folder, cell, records, case) for cell in part[:3]] + part[3:]
        write_index(folder, assemble(done, made_up.inputs(cells, finished=False)))
        print("written", flush=True)
"""


@given(st.text(min_size=1), st.text(min_size=1))
@settings(max_examples=100)
def test_names_are_safe_and_two_ids_never_share_one(one: str, other: str) -> None:
    name = safe_name(one)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert name[0] not in ".-"
    assert len(name) <= NAME_LENGTH_MAX + 11
    assert safe_name(one) == name
    assert (safe_name(other) == name) == (one == other)


@pytest.mark.parametrize(
    "cell_id", ["../../etc/passwd", "a/b", "a\\b", "..", ".", "CON", "a\x00b", "é", "x" * 400, "a b", "-rf"]
)
def test_an_awkward_id_becomes_one_plain_name(cell_id: str) -> None:
    name = safe_name(cell_id)
    assert Path(name).name == name
    assert not name.startswith((".", "-"))


def test_an_id_that_is_a_plain_name_already_stays_as_it_is() -> None:
    assert safe_name("write-once.tool.effect.done-1") == "write-once.tool.effect.done-1"


def test_a_new_and_an_empty_folder_are_prepared(tmp_path: Path) -> None:
    prepare(tmp_path / "a" / "b")
    prepare(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / MARKER).is_file()


def test_a_folder_with_other_things_is_refused_in_one_line_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other things .*thesis\.txt") as caught:
        prepare(tmp_path)
    assert "\n" not in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ValueError, match="cannot be used as a report folder"):
        prepare(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_an_earlier_report_is_cleared_and_what_a_user_put_beside_it_stays(tmp_path: Path) -> None:
    made_up.write_run(tmp_path / "r", made_up.cells(8, bad=0.9))
    kept = [tmp_path / "r" / "notes.txt", tmp_path / "r" / "cells" / "photo.png", tmp_path / "r" / "mine" / "report.json"]
    kept[2].parent.mkdir()
    for path in kept:
        path.write_text("mine")
    (tmp_path / "r" / ".kp-1-1.tmp").write_text("left by a killed run")
    prepare(tmp_path / "r")
    left = {path for path in (tmp_path / "r").rglob("*") if path.is_file()}
    assert left == {*kept, tmp_path / "r" / MARKER}


def test_judging_again_keeps_cases_and_histories(tmp_path: Path) -> None:
    prepare(tmp_path / "r")
    (tmp_path / "r" / "histories" / "a.jsonl").write_text("{}\n")
    prepare(tmp_path / "r", fresh=False)
    assert (tmp_path / "r" / "histories" / "a.jsonl").exists()


def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    prepare(tmp_path / "r")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.html").write_text("mine")
    (tmp_path / "r" / "cells").rmdir()
    (tmp_path / "r" / "cells").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="not a folder of its own"):
        prepare(tmp_path / "r")
    assert (tmp_path / "elsewhere" / "a.html").exists()


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    with pytest.raises(OSError, match="directory"):
        atomic_write(tmp_path / "full", "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["full"]


def test_text_that_utf8_cannot_carry_is_written_all_the_same(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a", "x\ud800y")
    assert (tmp_path / "a").read_bytes() == b"x?y"


def test_a_cell_knows_its_page_and_only_a_failed_one_has_a_repro(tmp_path: Path) -> None:
    prepare(tmp_path)
    held, broken, canary = (
        write_cell(tmp_path, cell, made_up.history().records, made_up.case(cell.id))
        for cell in (made_up.cell("A b"), made_up.cell("b", "violated"), made_up.cell("c", "violated", canary=True))
    )
    assert held.page == f"cells/{safe_name('A b')}.html"
    assert (held.repro, broken.repro, canary.repro) == (None, "repro/b.json", None)
    assert sorted(path.name for path in (tmp_path / "repro").iterdir()) == ["b.json", "b.md"]


def test_a_killed_run_leaves_a_report_that_can_be_read_and_is_incomplete(tmp_path: Path) -> None:
    for round_ in range(KILLS):
        folder = tmp_path / f"r{round_}"
        with subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            for _ in range(WRITES_BEFORE_KILL + round_):
                assert process.stdout.readline() == "written\n"
            process.kill()
            assert process.wait(timeout=30) == -signal.SIGKILL
        report = load(folder)
        assert report.verdict in ("incomplete", "rejected")
        assert not report.finished
        assert any("has not finished" in line for line in report.why)
        assert len(report.cells) in (70, 150)
        ElementTree.parse(folder / "junit.xml")
        for path in (folder / "report.html", *(folder / "cells").glob("*.html")):
            assert path.read_text("utf-8").endswith("</html>\n"), path
            assert not Page.read(path).unbalanced
        prepare(folder)
        assert not list(folder.rglob("*.tmp"))


def test_an_index_is_replaced_as_a_whole(tmp_path: Path) -> None:
    prepare(tmp_path)
    cells = made_up.cells(6)
    write_index(tmp_path, assemble(cells[:2], made_up.inputs(cells, finished=False)))
    index = [name for name in REPORT_FILES if name != "plan.json"]  # that one is of whoever plays the run
    first = {name: (tmp_path / name).stat().st_ino for name in index}
    write_index(tmp_path, assemble(cells, made_up.inputs(cells)))
    assert all((tmp_path / name).stat().st_ino != inode for name, inode in first.items())
    assert json.loads((tmp_path / "report.json").read_text())["finished"] is True
    assert len(json.loads((tmp_path / "report.json").read_text())["cells"]) == 6
