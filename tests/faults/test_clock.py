"""A case moves its clock and reboots its host by two small files."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

from faults.clock import CaseClock, HostBoot


def test_the_clock_is_moved_forward_and_back_and_a_reader_sees_whole_text(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    clock = CaseClock(path)
    assert path.read_text() == "0"
    with path.open() as opened_before:
        assert clock.move(10800) == 10800.0
        assert opened_before.read() == "0"  # replaced, not rewritten
    assert float(path.read_text()) == 10800.0
    assert clock.move(-10800.5) == clock.offset_s == float(path.read_text()) == clock.read() == -0.5
    path.write_text("7.5")
    assert clock.read() == 7.5, "what a target would read, not what was said to it"
    assert [each.name for each in tmp_path.iterdir()] == ["clock"]


def test_a_reboot_gives_a_new_identity_in_the_form_of_the_kernels(tmp_path: Path) -> None:
    boot = HostBoot(tmp_path / "boot")
    first = boot.boot_id
    assert (tmp_path / "boot").read_text() == first == str(uuid.UUID(first))
    assert boot.reboot() != first
    assert (tmp_path / "boot").read_text() == boot.read() == boot.boot_id
    (tmp_path / "boot").write_text("another")
    assert boot.read() == "another"


def test_two_parts_of_a_plan_change_clock_and_host_at_the_same_time(tmp_path: Path) -> None:
    clock, boot = CaseClock(tmp_path / "clock"), HostBoot(tmp_path / "boot")
    identities: list[str] = []

    def change() -> None:
        for _ in range(200):
            clock.move(1.0)
            identities.append(boot.reboot())

    parts = [threading.Thread(target=change) for _ in range(4)]
    for part in parts:
        part.start()
    for part in parts:
        part.join(30)
    assert clock.read() == 800.0 and len(set(identities)) == 800 and boot.read() in identities
