"""Owns the settings of a process: where its data is, and what its environment says. Read once, at start."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reference.model import Refused

RENEWALS_PER_LEASE = 3
DEFAULT_PROVIDER_URL = "http://127.0.0.1:8000/v1"


@dataclass(frozen=True, slots=True)
class Settings:
    """What one process runs under. Every `_s` is in seconds.

    lease_s: how long a claim holds without renewal. watch_s: for how long an expired claim must be seen to stand still
    before it is taken over; two renewals by default. grace_s: how long a graceful exit may take.
    backoff_s, backoff_s_max, tries_max: waiting after a passing provider fault (REC-8).
    pieces_per_commit: partial text is stored each time that so many pieces have come.
    """

    data: Path
    workspace: Path
    provider_url: str = DEFAULT_PROVIDER_URL
    provider_key: str = ""
    model: str = "default"
    effects_url: str | None = None
    lease_s: float = 15.0
    watch_s: float = 10.0
    grace_s: float = 10.0
    backoff_s: float = 1.0
    backoff_s_max: float = 60.0
    tries_max: int = 5
    pieces_per_commit: int = 8
    permission_scope: str = "workspace"

    @property
    def work_db(self) -> Path:
        """The database of work."""
        return self.data / "work.db"

    @property
    def usage_db(self) -> Path:
        """The ledger of usage."""
        return self.data / "usage.db"

    @classmethod
    def load(cls, data: Path, workspace: Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
        """The settings for `data` under this environment. Raises Refused naming the variable that is wrong."""
        env = os.environ if env is None else env
        lease_s = _seconds(env, "REFERENCE_LEASE_S", 15.0)
        return cls(
            data=data,
            workspace=workspace or Path(env.get("REFERENCE_WORKSPACE") or data / "workspace"),
            provider_url=env.get("REFERENCE_PROVIDER_URL", DEFAULT_PROVIDER_URL).rstrip("/"),
            provider_key=env.get("REFERENCE_PROVIDER_KEY", ""),
            model=env.get("REFERENCE_MODEL", "default"),
            effects_url=env.get("REFERENCE_EFFECTS_URL", "").rstrip("/") or None,
            lease_s=lease_s,
            watch_s=_seconds(env, "REFERENCE_WATCH_S", 2 * lease_s / RENEWALS_PER_LEASE),
            grace_s=_seconds(env, "REFERENCE_GRACE_S", 10.0),
            backoff_s=_seconds(env, "REFERENCE_BACKOFF_S", 1.0),
            pieces_per_commit=max(1, int(_seconds(env, "REFERENCE_PIECES_PER_COMMIT", 8))),
        )


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise Refused("setting_invalid", f"{name}={text!r} is no number above 0; give one such as {default:g}", name, 400)
    return value
