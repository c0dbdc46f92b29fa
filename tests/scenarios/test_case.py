"""A case file is data: it survives storing, and a broken or hostile one is refused in one line before anything starts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scenarios import library, matrix
from scenarios.case import CASE_BYTES_MAX, SCHEMA, Case, CaseError, load, parse
from scenarios.cli import main
from scenarios.matrix import Wanted
from scenarios.targets import TARGETS

REFERENCE = TARGETS["reference"]
CELL = "mail/tool.effect.done#1/worker-killed"


def stored(folder: Path, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    """A case file with one thing changed."""
    data = json.loads(matrix.single(REFERENCE, CELL).to_json())
    change(data)
    path = folder / "case.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("scenario", library.SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_every_case_is_the_same_after_it_was_stored(tmp_path: Path, scenario: library.Scenario) -> None:
    case = matrix.bare(REFERENCE, scenario, Wanted())
    path = tmp_path / "case.json"
    path.write_text(case.to_json())
    assert load(path) == case
    assert load(path).digest == case.digest
    assert parse(json.loads(case.to_json()), "memory").to_json() == case.to_json()


def _op(op: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    return lambda data: data["plan"][0]["ops"].insert(0, op)


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no schema": (lambda d: d.pop("schema"), "has no `schema`"),
    "of another version": (lambda d: d.update(schema="killpoint.case/9"), f"this harness reads '{SCHEMA}'"),
    "a point that is none": (
        lambda d: d["plan"][0].update(at="tool.effect.don#1"),
        "unknown breakpoint 'tool.effect.don'; nearest: tool.effect.done",
    ),
    "an ordinal of zero": (lambda d: d["plan"][0].update(at="tool.effect.done#0"), "write it as point#ordinal"),
    "a fault that is none": (
        lambda d: d.update(fault="worker-kiled"),
        "unknown fault 'worker-kiled'; nearest: worker-killed",
    ),
    "a target that is none": (lambda d: d.update(target="referense"), "unknown target 'referense'; nearest: reference"),
    "a target that is a module": (lambda d: d.update(target="os:system"), "unknown target 'os:system'"),
    "an unknown key": (lambda d: d.update(run="rm"), "run: Extra inputs are not permitted"),
    "an unknown step": (lambda d: d["steps"].append({"do": "exec", "argv": ["true"]}), "steps."),
    "an unknown operation": (_op({"do": "exec"}), "plan.0.ops.0"),
    "a hidden step of a user": (_op({"do": "user", "step": {"do": "exec"}}), "plan.0.ops.0.step"),
    "an error that is none": (_op({"do": "raise", "errno": "EVIL"}), "'EVIL' is no errno name"),
    "an address twice": (lambda d: d["plan"].append(d["plan"][0]), "tool.effect.done#1 stands there twice"),
    "a file outside": (
        lambda d: d["steps"].insert(0, {"do": "file", "path": "../../out", "text": "x"}),
        "'../../out' is no path inside the workspace",
    ),
    "an absolute file": (
        lambda d: d["steps"].insert(0, {"do": "file", "path": "/etc/passwd", "text": "x"}),
        "is no path inside the workspace",
    ),
    "a wait without end": (lambda d: d.update(settle_s_max=1e9), "settle_s_max"),
    "a clock that is no number": (lambda d: d["steps"].append({"do": "clock", "by_s": float("nan")}), "is not JSON"),
    "a list": (lambda d: d.update(schema=None), "is of version None"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_case_is_refused_in_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    change, says = BROKEN[name]
    path = stored(tmp_path, change)
    monkeypatch.chdir(tmp_path)
    assert main(["replay", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"killpoint: {path}: ") and captured.err.count("\n") == 1
    assert says in captured.err
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"),
        (b"\x00\xff\xfe", "is not JSON"),
        (b"import os; os.system('true')", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "has no `schema`"),
        (b'{"schema": "killpoint.repro/1"}', "case: is not as killpoint run wrote it"),
        (b'{"schema": "killpoint.repro/1", "case": {}, "expected_violations": []}', "has no `schema`"),
        (b'{"schema": "killpoint.repro/1", "case": {}, "expected_violations": [{}]}', "expected_violations.0.check"),
        (b" " * (CASE_BYTES_MAX + 1), "larger than"),
    ],
    ids=["empty", "bytes", "code", "deep", "list", "bare repro", "empty repro", "odd repro", "large"],
)
def test_a_file_that_is_no_case_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, says: str
) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(content)
    assert main(["replay", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and says in said


def test_a_path_that_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(CaseError, match="is no file; give the path of a case file"):
            load(path)
    with pytest.raises(CaseError, match="No such file or directory"):
        load(tmp_path / "nowhere.json")


def test_a_case_that_was_altered_has_another_digest(tmp_path: Path) -> None:
    case = load(stored(tmp_path))
    assert isinstance(case, Case)
    assert load(stored(tmp_path, lambda data: data.update(seed=1))).digest != case.digest
