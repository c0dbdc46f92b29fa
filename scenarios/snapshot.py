"""Owns the shape in which a target's own account of itself is judged: the snapshot, the same for every target.

A target's adapter fills it from what the target shows through its public entrances. It is the target's *word*: no check
believes it where the world or the client saw something else.

Times are seconds since the epoch by the target's own clock. What a target cannot tell stays at its default and is then
not judged; it is never guessed.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

DesiredState = Literal["run", "paused", "cancelled", "done"]
WorkState = Literal[
    "queued", "recovering", "working", "waiting", "paused", "cancelled", "done", "failed", "recovery_failed"
]
EffectState = Literal["not_started", "outcome_unknown", "succeeded", "failed", "abandoned"]
UsageState = Literal["open", "known", "unknown"]

TERMINAL: frozenset[str] = frozenset({"done", "cancelled"})
AT_REST: frozenset[str] = frozenset({"done", "cancelled", "paused", "failed", "recovery_failed", "waiting"})


class _Shape(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class InputView(_Shape):
    """One accepted input. `request_id` is the client's; `position` is its place in the session, from 1."""

    request_id: str
    text: str
    work_id: str | None = None
    position: int = 0
    consumed: bool = False


class RecoveryView(_Shape):
    """One stored recovery decision (REC-2): its way, continuation key, the control version and generation it was for.
    `void` says that a newer control or input decided instead (INT-14)."""

    key: str
    way: Literal["associate", "checkpoint", "new_turn"]
    control_version: int
    generation: int
    turn_id: str | None = None
    void: bool = False


class TurnView(_Shape):
    """One turn. `predecessor` is the turn that it continues after an interruption; `attempts` are its model requests."""

    turn_id: str
    work_id: str
    state: Literal["running", "done", "interrupted", "cancelled"]
    predecessor: str | None = None
    attempts: list[str] = []


class WorkView(_Shape):
    """One work with its run intent (INT-1). `generation` grows with each change of owner."""

    work_id: str
    state: WorkState
    reason_code: str | None = None
    desired_state: DesiredState = "run"
    control_version: int = 0
    permission_scope: str | None = None
    goal_revision: int | None = None
    host: str | None = None
    parent: str | None = None
    children: list[str] = []
    progress: int | None = None
    recovery_policy: str | None = None
    generation: int = 0
    first_input: str | None = None
    messages: list[str] = []
    turns: list[TurnView] = []
    recoveries: list[RecoveryView] = []


class CallView(_Shape):
    """One tool call inside an assistant's reply."""

    call_id: str
    tool: str
    arguments: dict[str, Any] = {}


class ItemView(_Shape):
    """One item of the stored transcript, in stored order. `complete` is false for a reply that was cut off; `placeholder`
    is true for a result that recovery made because no real one was known."""

    item: int
    kind: Literal["user", "assistant", "tool_result", "note", "reconciliation"]
    turn_id: str | None = None
    request_id: str | None = None
    text: str = ""
    complete: bool = True
    calls: list[CallView] = []
    call_id: str | None = None
    placeholder: bool = False


class EffectView(_Shape):
    """One tool call's effect (EFF-1 to EFF-6). `checks` names what can still be checked about an unknown one."""

    call_id: str
    tool: str
    state: EffectState
    turn_id: str | None = None
    implementation: str | None = None
    idempotency_key: str | None = None
    input_summary: str | None = None
    dispatched_at: float | None = None
    dispatches: int = 0
    checks: list[str] = []


class AttemptView(_Shape):
    """One model request in the usage ledger. Tokens are None where they are not known; `watermark_tokens` is the largest
    output count that a stream has shown, a lower bound while the attempt is unknown. `late` marks a receipt that came
    after the attempt's owner had changed (USE-6)."""

    attempt: str
    work_id: str | None = None
    turn_id: str | None = None
    state: UsageState = "open"
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    watermark_tokens: int | None = None
    late: bool = False


class TotalsView(_Shape):
    """Totals derived from the ledger (USE-5). `unknown_attempts` counts what is not in the sums; `cached_tokens` is None
    for a target that does not tell them apart."""

    input_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0
    known_attempts: int = 0
    unknown_attempts: int = 0


class SessionView(_Shape):
    """One session. `event` is the number of the newest event that is part of this view."""

    session: str
    state: str | None = None
    event: int | None = None
    announced: int | None = None
    desired_state: DesiredState = "run"
    control_version: int = 0
    inputs: list[InputView] = []
    works: list[WorkView] = []
    transcript: list[ItemView] = []
    effects: list[EffectView] = []
    attempts: list[AttemptView] = []
    totals: TotalsView | None = None


class Snapshot(_Shape):
    """What a target says of itself at one moment. `sessions` is keyed by the name that the case gave the session, not
    by the target's own id."""

    sessions: dict[str, SessionView] = {}

    @property
    def works(self) -> list[WorkView]:
        """Every work of every session."""
        return [work for session in self.sessions.values() for work in session.works]
