"""The measurement measures: a tiny run of it gives numbers that can be."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from scenarios import bench, bench_explorer


def test_a_tiny_run_gives_sane_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--cases", "3", "--cold", "1", "--replays", "2", "--processes", "1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["warm"]["statuses"] == {"held": 3}
    assert said["cold"]["statuses"] == {"held": 1}
    assert said["equal"]
    assert "2 of 2: held" in said["verdicts"]
    assert said["imported"] == []
    assert 0 < said["reach_ns"] < 5_000
    assert said["warm_per_second"] > said["cold_per_second"] > 0
    assert set(said["warm"]["cpu_ms"]) == {"harness", "keeper", "world", "app", "worker"}
    assert all(ms > 0 for ms in said["warm"]["cpu_ms"].values())
    assert {"start", "settle", "judge", "write"} <= set(said["warm"]["phases_ms"])
    # Sampled once a second: so short a run may be seen only between two cases, without a target's process.
    assert 50 < said["warm"]["harness_mb"] <= said["warm"]["whole_mb"] < 2_000


def test_the_table_names_every_measurement() -> None:
    played = bench.Throughput(10, 2, 2.0, {"held": 10}, {"app": 50.0, "worker": 40.0}, {"play": 90.0}, 200.0, 300.0)
    slow = bench.Throughput(2, 2, 4.0, {"held": 2})
    told = bench.tell(bench.Bench(30.0, [], played, slow, 7, True, "7 of 7: held"))
    assert "5.0 complete cases a second, 18000 an hour" in told
    assert "10.0 times as many" in told
    assert "imports nothing" in told
    assert "90 ms: app 50, worker 40" in told
    assert "200 MB at most" in told
    assert "7 times, equal verdicts" in told


@pytest.mark.parametrize(
    ("changes", "reached"),
    [
        ({}, True),
        ({"check": ""}, False),
        ({"plays": 201}, False),
        ({"kills": 1, "actions": 4}, False),
        ({"kills": 0, "actions": 1, "smallest": False}, False),
        ({"kills": 0, "actions": 4, "smallest": True}, True),
        ({"kills": 2, "actions": 9, "smallest": True}, True),
        ({"kills": 2, "actions": 1, "smallest": False}, False),
        ({"again": 49}, False),
        ({"sound": 1}, False),
    ],
)
def test_what_exploring_a_seeded_defect_has_to_come_to(changes: dict[str, Any], reached: bool) -> None:
    found = bench_explorer.Found("m", "a-check", 3, 200, 1.0, kills=1, actions=3, again=50, times=50)
    assert dataclasses.replace(found, **changes).reached == reached
