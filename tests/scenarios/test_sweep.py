"""A sweep kills until nothing is left to kill, and then once more in the recovery from each death."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

from tests.scenarios.runs import killpoint


def test_every_hit_of_every_point_of_the_naive_script_is_killed_until_none_is_left(tmp_path: Path) -> None:
    ran = killpoint("sweep", "--scenario", "plain", "--target", "naive", "--out", "swept", cwd=tmp_path)
    report = json.loads((tmp_path / "swept" / "report.json").read_bytes())
    assert ran.returncode == 1, ran.stdout + ran.stderr  # it loses what the provider billed
    ids = [cell["id"] for cell in report["cells"]]
    assert "plain/none" in ids and "canary/effect.applied#1/worker-killed" in ids
    hits: dict[str, list[int]] = defaultdict(list)
    for each in ids:
        if match := re.fullmatch(r"plain/([a-z.]+)#(\d+)/worker-killed", each):
            hits[match[1]].append(int(match[2]))
    assert hits["provider.request.received"] == [1]
    assert hits["provider.reply.chunk"] == [1, 2], "one for each piece of the reply"
    pairs = [each for each in ids if "+" in each]
    assert "plain/provider.request.received#1+provider.request.received#2/worker-killed" in pairs
    for cell in report["cells"]:
        deaths = cell["id"].count("#")
        if not cell["disarmed"] and not cell["canary"]:
            assert len(cell["kills"]) == deaths, cell["id"]
    assert any(cell["disarmed"] for cell in report["cells"])
    assert f"{len(hits['provider.reply.chunk']) + 1} deaths, one at a time" in ran.stdout


def test_a_pair_is_a_death_and_a_second_one_in_the_recovery_from_it(tmp_path: Path) -> None:
    ran = killpoint("sweep", "--scenario", "never-resent", "--no-pairs", "--out", "single", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads((tmp_path / "single" / "report.json").read_bytes())
    killed = {name for name, row in report["points"].items() if row["killed"]}
    assert {"input.committed", "turn.begun", "reply.stored", "turn.committed", "work.released"} <= killed
    assert not any("+" in cell["id"] for cell in report["cells"])


def test_a_scenario_that_is_none_is_said_in_one_line(tmp_path: Path) -> None:
    for words, told in (("plane", "nearest: plain"), ("stopped", "can be played on naive")):
        ran = killpoint("sweep", "--scenario", words, "--target", "naive", "--out", "swept", cwd=tmp_path)
        assert ran.returncode == 2 and told in ran.stderr and len(ran.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "swept").exists()
