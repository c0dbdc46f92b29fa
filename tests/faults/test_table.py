"""Every fault, at every point where it applies, is a plan that can be stored, and that leaves the target running."""

from __future__ import annotations

import pytest

from faults.catalogue import POINTS, RECOVERY_POINTS, TURN_BEGUN, WORKER_IDLE, Point
from faults.catalogue import point as point_named
from faults.plan import (
    Address,
    Answer,
    Await,
    AwaitRefusal,
    BreakStore,
    Fault,
    Freeze,
    Kill,
    LockStore,
    MoveClock,
    Raise,
    Reboot,
    Release,
    Settle,
    Start,
    Terminate,
    User,
)
from faults.table import FAULTS, FaultLine, UnknownFault, fault, matching

EMPTY_FOR_NOW = {"process-error", "process-error-full"}


class Play:
    """Plays the operations of one line of a plan on paper, and refuses what makes no sense."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self.up = {"app": 1, "worker": 1}
        self.frozen: set[str] = set()
        self.standing = True
        self.broken = False
        self.quit = False
        self.trace: list[str] = []

    def role(self, role: str) -> str:
        if role != "self":
            return role
        return "app" if self.point.role == "app" else "worker"

    def ends(self, role: str) -> None:
        if role == self.point.role:
            self.standing = False

    def play(self, line: Fault) -> None:
        for op in line.ops:
            self.trace.append(op.do)
            self.one(op)

    def one(self, op: object) -> None:
        match op:
            case Kill() | Terminate():
                role = self.role(op.role)
                # A process that a quit has told to go, or that refused its store, may have ended by itself.
                assert self.up[role] or self.quit, f"{role} is down already"
                assert role not in self.frozen
                if isinstance(op, Terminate) and op.grace:
                    self.standing = False
                self.up[role] = 0
                self.ends(role)
            case Start():
                if self.quit and not op.extra:
                    self.up[op.role] = 0  # whoever was told to quit ends by itself, and is waited for before the start
                assert self.up[op.role] == 0 or op.extra, f"{op.role} runs already"
                self.up[op.role] += 1
            case Freeze(do="freeze"):
                self.frozen.add(self.role(op.role))
            case Freeze():
                self.frozen.remove(self.role(op.role))
            case Release() | Answer() | Raise() | LockStore():
                assert self.standing, "nobody stands there"
                if isinstance(op, Answer):
                    assert self.point.role == "world"
                if self.point.role == "worker":
                    assert not self.frozen, "released before it was thawed"
                self.standing = False
            case BreakStore():
                assert not any(self.up.values()), "a store is broken and mended with everybody down"
                self.broken = op.do == "break_store"
            case User():
                step = op.step
                needs_app = step["do"] in {"control", "quit"}
                if needs_app:
                    assert self.up["app"], "nobody can acknowledge it"
                self.quit = self.quit or step["do"] == "quit"
            case Settle():
                assert self.up["worker"] - len(self.frozen & {"worker"}) > 0, "nobody could finish the work"
                assert self.frozen or not self.standing, "what stands at the point cannot settle"
            case Await():
                assert self.standing, "who waits for another one stands at the point"
            case MoveClock() | Reboot() | AwaitRefusal():
                pass
            case _:
                raise AssertionError(f"unknown operation {op!r}")


@pytest.mark.parametrize("line", FAULTS.values(), ids=lambda line: line.name)
def test_its_plans_can_be_stored_and_leave_everybody_up(line: FaultLine) -> None:
    for point in filter(line.applies, POINTS):
        address = Address(point=point.name, ordinal=2)
        plan = line.plan(address, point)
        assert tuple(Fault.model_validate_json(each.model_dump_json()) for each in plan) == plan
        assert address in [each.at for each in plan] and all(each.ops for each in plan)
        assert len({str(each.at) for each in plan}) == len(plan)
        for each in plan:
            play = Play(point_named(each.at.point))
            play.play(each)
            assert play.up["app"] >= 1 and play.up["worker"] >= 1, (point.name, play.trace)
            assert not play.frozen and not play.broken, (point.name, play.trace)


@pytest.mark.parametrize("line", FAULTS.values(), ids=lambda line: line.name)
def test_after_a_death_the_world_goes_on_before_anything_is_started(line: FaultLine) -> None:
    for point in (point for point in POINTS if point.role == "world" and line.applies(point)):
        (only,) = line.plan(Address(point=point.name), point)
        names = [op.do for op in only.ops]
        if "kill" in names and "start" in names:
            assert names.index("release") < names.index("start"), point.name


def test_every_line_has_words_clauses_and_a_place_to_be_played() -> None:
    for name, line in FAULTS.items():
        assert line.name == name and len(line.sentence.split()) >= 6 and not line.sentence.endswith(".")
        assert line.clauses and all("-" in clause for clause in line.clauses)
        assert any(line.applies(point) for point in POINTS) is (name not in EMPTY_FOR_NOW), name


def test_the_faults_asked_for_are_there() -> None:
    controls = {f"{control}-{when}" for control in ("pause", "stop", "quit") for when in ("before", "at", "after")}
    assert set(FAULTS) == controls | EMPTY_FOR_NOW | {
        "worker-killed",
        "app-killed",
        "both-killed",
        "graceful-restart",
        "graceful-restart-expired",
        "app-exit",
        "overtaken",
        "raced",
        "downtime-3h",
        "downtime-30d",
        "client-gone",
        "reply-lost",
        "stream-cut",
        "provider-error",
        "chunk-doubled",
        "store-unreadable",
        "store-locked",
        "killed-again",
        "killed-thrice",
        "input-during",
    }


def ops(name: str, point: str) -> list[str]:
    """The plan of a fault at a point, in short."""
    (only,) = FAULTS[name].plan(Address(point=point), point_named(point))

    def short(op: object) -> str:
        match op:
            case Kill() | Terminate() | Freeze() | Start():
                return f"{op.do} {op.role}"
            case User():
                return f"user {op.step.get('action', op.step['do'])}"
            case MoveClock():
                return f"clock {op.by_s:.0f}"
            case _:
                return str(getattr(op, "do", op))

    return [short(op) for op in only.ops]


def test_the_one_that_dies_is_the_one_that_is_named() -> None:
    assert ops("worker-killed", "tool.effect.done") == ["kill self", "start worker"]
    assert ops("worker-killed", "effect.applied") == ["kill self", "release", "start worker"]
    assert ops("app-killed", "input.committed") == ["kill self", "start app"]
    assert ops("app-killed", "tool.effect.done") == ["kill app", "start app"]
    assert ops("both-killed", "input.committed") == ["kill self", "kill worker", "reboot", "start app", "start worker"]


def test_an_overtaken_owner_is_thawed_before_it_is_released() -> None:
    overtaking = ["clock 60", "start worker", "settle"]
    assert ops("overtaken", "turn.begun") == ["freeze self", *overtaking, "thaw self", "release"]
    assert ops("overtaken", "effect.received") == ["freeze self", "release", *overtaking, "thaw self"]


def test_two_that_race_have_both_read_before_either_takes() -> None:
    where = point_named("recovery.facts.loaded")
    first, second = FAULTS["raced"].plan(Address(point=where.name), where)
    assert [op.do for op in first.ops] == ["start", "await"]
    assert [str(op.at) for op in (first.ops[1], *second.ops) if isinstance(op, Await)] == [
        "recovery.facts.loaded#2",
        "recovery.ownership.taken#1",
    ]
    assert str(second.at) == "recovery.facts.loaded#2"
    assert [point.name for point in POINTS if FAULTS["raced"].applies(point)] == [where.name]


def test_a_control_comes_before_at_or_after() -> None:
    assert ops("pause-before", "turn.begun") == ["user pause", "kill self", "start worker"]
    assert ops("pause-at", "turn.begun") == ["user pause", "release"]
    assert ops("pause-after", "turn.begun") == ["kill self", "user pause", "start worker"]
    app_back = ["kill self", "kill worker", "start app", "user stop", "start worker"]
    assert ops("stop-after", "input.committed") == app_back
    both_back = ["terminate app", "start app", "start worker"]
    assert ops("quit-before", "turn.begun") == ["user quit", "kill self", *both_back]
    assert ops("quit-at", "turn.begun") == ["user quit", "release", "terminate app", "terminate worker", *both_back[1:]]


def test_deaths_in_recovery_presuppose_a_first_and_follow_one_another() -> None:
    for point in RECOVERY_POINTS:
        address = Address(point=point.name, ordinal=2)
        (again,) = FAULTS["killed-again"].plan(address, point)
        assert again.at == address and [op.do for op in again.ops] == ["kill", "start"]
        second, third = FAULTS["killed-thrice"].plan(address, point)
        assert second == again
        assert str(third.at) == "recovery.facts.loaded#3" and third.ops == again.ops
    for name in ("killed-again", "killed-thrice"):
        assert {point.name for point in POINTS if FAULTS[name].applies(point)} == {each.name for each in RECOVERY_POINTS}


def test_a_fault_is_refused_where_it_does_not_apply() -> None:
    turn = point_named("turn.begun")
    with pytest.raises(ValueError, match=r"stream-cut does not apply at turn\.begun, a point of the worker"):
        FAULTS["stream-cut"].plan(Address(point="turn.begun"), turn)
    with pytest.raises(ValueError, match=r"tool\.effect\.done#1 is no address of turn\.begun"):
        FAULTS["worker-killed"].plan(Address(point="tool.effect.done"), turn)


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    assert fault("worker-killed").name == "worker-killed"
    with pytest.raises(UnknownFault, match="unknown fault 'worker-kiled'; nearest: worker-killed"):
        fault("worker-kiled")
    assert [line.name for line in matching("downtime-*")] == ["downtime-3h", "downtime-30d"]
    with pytest.raises(UnknownFault):
        matching("nothing-*")


def test_nobody_acts_on_a_session_before_there_is_one() -> None:
    """A worker is idle for the first time before a user has come, and what is done to no session changes nothing."""
    idle = WORKER_IDLE
    acting = {name for name, line in FAULTS.items() if line.applies(idle)}
    assert not acting & {
        "input-during",
        *(f"{act}-{when}" for act in ("pause", "stop") for when in ("before", "at", "after")),
    }
    assert {"quit-before", "quit-at", "quit-after", "worker-killed"} <= acting
    assert FAULTS["pause-at"].applies(TURN_BEGUN) and FAULTS["input-during"].applies(TURN_BEGUN)
