"""Who waits is woken by a commit of another process, and sees what changed even where nothing rings."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from reference.bell import Bell


def test_a_ring_is_heard_by_every_other_listener_until_it_is_cleared(tmp_path: Path) -> None:
    rung, heard = Bell(tmp_path / "bell"), Bell(tmp_path / "bell")
    ear = heard.ear()
    assert ear is not None
    assert not select.select([ear], [], [], 0)[0]
    rung.ring()
    rung.ring()
    assert select.select([ear], [], [], 1)[0] == [ear]
    heard.clear()
    assert not select.select([ear], [], [], 0)[0]
    rung.close()
    heard.close()


def test_ringing_leaves_the_same_bytes(tmp_path: Path) -> None:
    bell = Bell(tmp_path / "bell")
    bell.ring()
    once = (tmp_path / "bell").read_bytes()
    bell.ring()
    bell.close()
    assert (tmp_path / "bell").read_bytes() == once


def test_a_bell_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="bell"):
        Bell(tmp_path / "nowhere" / "bell")
