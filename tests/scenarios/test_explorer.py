"""Exploring finds a seeded defect, makes it small, keeps it, and says what it reached; a sound runtime gives it nothing."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis.database import DirectoryBasedExampleDatabase
from rich.console import Console

from faults.plan import Kill, Start, User
from reports.model import Cell, CheckResult, Violation, Witness
from scenarios import explorer, schedules
from scenarios.case import Case, Control, File, Look, Open, Send, SettleStep, load
from scenarios.engine import Engine, Judged
from scenarios.explorer import Coverage, Explored, Failure, Wish
from scenarios.lanes import Lanes
from scenarios.shrinker import Shrinking
from scenarios.targets import TARGETS
from tests.scenarios.plans import death, moment
from tests.scenarios.runs import killpoint

REFERENCE, NAIVE = TARGETS["reference"], TARGETS["naive"]


def explored(
    out: Path, wish: Wish, target: str = "reference", monkeypatch: pytest.MonkeyPatch | None = None
) -> tuple[int, str, Any]:
    said = io.StringIO()
    status = explorer.explore(TARGETS[target], wish, out, 2, Console(file=said, width=240))
    return status, said.getvalue(), json.loads((out / "explore.json").read_bytes())


# On real processes ---------------------------------------------------------------------------------------------------


def test_a_defect_is_found_made_small_and_kept_and_is_tried_first_next_time(tmp_path: Path) -> None:
    wish = Wish(examples=160, seed=1, mutant="unknown-write-sent-again", database=tmp_path / "kept", first=True)
    status, said, data = explored(tmp_path / "one", wish)
    assert status == 1
    failure = data["failures"][-1]  # those before it came by chance
    assert failure["check"] == "no-duplicate-write"
    assert (failure["seen"], failure["of"]) == (10, 10) and failure["smallest"]
    assert data["plays"] <= 200
    case = load(tmp_path / "one" / failure["case"])
    kills = [op for fault in case.plan for op in fault.ops if op.do == "kill"]
    assert len(kills) == 1 and len(case.steps) <= 3, failure["size"]
    assert f"killpoint replay {tmp_path / 'one' / failure['case']} --mutant unknown-write-sent-again" in said
    assert "expected:" in said and "seen:" in said

    status, said, data = explored(tmp_path / "two", replace(wish, examples=1))
    assert status == 1 and "failures of earlier times are tried first" in said
    assert data["failures"][-1]["found_after"] <= 2 and data["failures"][-1]["check"] == "no-duplicate-write"

    status, said, data = explored(tmp_path / "sound", replace(wish, examples=1, mutant=None))
    assert status == 0 and not data["failures"], "what fails with a defect is kept for that defect alone"


def test_the_naive_script_is_found_out_by_what_the_world_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "SETTLE_S_MAX", 3.0)
    wish = Wish(examples=32, seed=3, database=tmp_path / "kept", first=True, shrink_plays_max=6)
    status, _, data = explored(tmp_path / "out", wish, "naive")
    failure = data["failures"][-1]
    faults = {"no-duplicate-write", "unknown-never-resent", "usage-equals-billed", "request-acceptable"}
    assert status == 1 and failure["check"] in faults
    tried = explorer.CONFIRM_PLAYS + 6 + explorer.AGAIN_PLAYS
    assert failure["plays"] <= tried + explorer.SMALL_PLAYS * (1 + explorer.LARGER_TRIED_MAX)


def test_a_sound_runtime_gives_it_nothing_and_it_says_what_it_reached(tmp_path: Path) -> None:
    status, said, data = explored(tmp_path / "out", Wish(examples=24, seed=4, database=tmp_path / "kept"))
    assert (status, data["failures"], data["void"]) == (0, [], [])
    assert data["schedules"] == 24 and sum(data["statuses"].values()) == 24
    assert set(data["statuses"]) <= {"held", "inconclusive"}
    fired = data["coverage"]["fired"]
    assert fired and all(each["times"] >= 1 and each["state"] and each["fault"] for each in fired)
    missing = {tuple(pair) for pair in data["coverage"]["pairs_never_played"]}
    assert missing == set(schedules.pairs(REFERENCE)) - {(each["point"], each["fault"]) for each in fired}
    assert "never played: " in said and f"of {len(REFERENCE.points)} points" in said


def test_a_failure_that_does_not_come_again_is_told_with_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first play of all fails, by a check that is made up; no later one does."""
    whole = Engine.play
    plays = Counter[str]()

    def play(engine: Engine, case: Case, record_all: bool = False) -> Judged:
        plays["all"] += 1
        if plays["all"] == 1:
            judged = whole(engine, case, record_all)
            return replace(judged, cell=_violated(judged.cell))
        return Judged(_nothing(case), [])

    monkeypatch.setattr(Engine, "play", play)
    monkeypatch.setattr(explorer, "BATCH", 1)
    status, said, data = explored(tmp_path / "out", Wish(examples=2, seed=5, database=tmp_path / "kept"))
    (failure,) = data["failures"]
    assert status == 1 and (failure["seen"], failure["of"]) == (0, explorer.CHANCE_PLAYS)
    assert "fails again 0 of 30, below 3/30 = 10%" in said
    assert failure["schedule"]["plan"] == json.loads(load(tmp_path / "out" / failure["case"]).to_json())["plan"]


def _violated(cell: Cell, times: int = 1) -> Cell:
    witness = Witness(seq=None, says="something")
    found = Violation(check="made-up", clauses=["ADM-1"], promise="a promise", expected=witness, seen=witness)
    result = CheckResult(check="made-up", status="violated", clauses=["ADM-1"], examined=1, violations=[found] * times)
    return cell.model_copy(update={"status": "violated", "violations": [found] * times, "checks": [result]})


def _nothing(case: Case) -> Cell:
    return Cell(id=case.id, scenario="", family="", point=None, ordinal=None, fault="none", entrance="http", status="held")


# Without processes ---------------------------------------------------------------------------------------------------


def test_what_fails_by_chance_is_no_smaller_case(tmp_path: Path) -> None:
    """With its death the case fails each time; without it, every other time."""
    case = schedules.draw(REFERENCE, "9/0").model_copy(update={"plan": (death("turn.begun#1"),)})
    exploration = _exploration(tmp_path, lambda case, nth: bool(case.plan) or nth % 2 == 1)
    chance = case.model_copy(update={"plan": ()})
    assert exploration._fails("made-up", [chance, case], 1) == [False, True]
    assert exploration._fails("made-up", [chance], 3) == [True], "a failure that came by chance is looked for more often"


@pytest.mark.parametrize("sound", [0, 1, 2, 3])
def test_the_smallest_case_that_fails_each_time_is_settled_on(tmp_path: Path, sound: int) -> None:
    """The cases on the way down are a, b, c and d, each a little smaller; those from `sound` on fail only now and then."""
    cases = [schedules.draw(REFERENCE, f"9/{n}").model_copy(update={"id": n}) for n in "abcd"]
    exploration = _exploration(tmp_path, lambda case, nth: case in cases[: sound + 1] or nth % 3 == 1)
    failure = Failure("made-up", cases[0], cases[0], 1)
    small = Shrinking(cases[3], larger=cases[:3])
    seen, of = exploration._settled_on(failure, small, explorer.SMALL_PLAYS)
    assert (seen, of, failure.case) == (10, 10, cases[sound])


def test_where_none_fails_each_time_the_smallest_is_told_with_its_rate(tmp_path: Path) -> None:
    cases = [schedules.draw(REFERENCE, f"9/{n}") for n in range(3)]
    exploration = _exploration(tmp_path, lambda case, nth: nth % 2 == 1, lambda case: [{"of": case.digest}])
    failure = Failure("made-up", cases[0], cases[0], 1)
    seen, of = exploration._settled_on(failure, Shrinking(cases[2], larger=cases[:2]), explorer.SMALL_PLAYS)
    assert (seen, of, failure.case) == (5, 10, cases[2])
    assert failure.judged and failure.judged.lines == [{"of": cases[2].digest}], "its own evidence, and no larger one's"


def test_what_waits_in_vain_where_the_failure_did_not_is_no_smaller_case(tmp_path: Path) -> None:
    """After a wait whose bound passed, what comes next comes at a moment that the clock chose."""
    case = schedules.draw(REFERENCE, "9/0").model_copy(update={"plan": (death("turn.begun#1"),)})
    missed = [
        {"kind": kind, "data": data, "t_ns": 1} for kind, data in (("rest.missed", {}), ("point.awaited", {"came": False}))
    ]
    come = [{"kind": "point.awaited", "data": {"came": True}, "t_ns": 1}]
    exploration = _exploration(tmp_path, lambda case, nth: True, lambda case: come if case.plan else missed)
    smaller = case.model_copy(update={"plan": ()})
    assert exploration._fails("made-up", [smaller, case], 1, missed=1) == [False, True]
    assert exploration._fails("made-up", [smaller], 1, missed=2) == [True], "it had waited in vain from the first"


@pytest.mark.parametrize("side_by_side", [1, 5])
def test_what_comes_by_chance_does_not_end_the_search_for_one_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side_by_side: int
) -> None:
    """The third schedule fails every other time, the tenth each time."""
    lanes = _Played(
        lambda case, nth: case.id == "explored/6/9" or (case.id == "explored/6/2" and nth % 2 == 1), side_by_side
    )
    data = _explored_without_processes(tmp_path, monkeypatch, lanes)
    chance, sure = data["failures"]
    assert (chance["found_after"], chance["seen"], chance["of"], chance["smallest"]) == (3, 2, 5, False)
    assert chance["case"].startswith("cases/explored-6-2") and chance["plays"] == explorer.CONFIRM_PLAYS
    assert (sure["found_after"], sure["seen"], sure["of"], sure["smallest"]) == (15, 10, 10, True)
    assert data["schedules"] == 10, "nothing is played after the failure that was wanted"
    assert data["plays"] == 10 + chance["plays"] + sure["plays"] == lanes.plays.total()


def test_a_check_that_comes_by_chance_is_told_a_few_times_however_often_it_is_violated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each schedule violates it twice in its first play, and never again."""
    lanes = _Played(lambda case, nth: nth == 1, violations=2)
    data = _explored_without_processes(tmp_path, monkeypatch, lanes)
    assert len(data["failures"]) == explorer.CHANCES_MAX


def test_where_nothing_comes_each_time_the_likeliest_is_made_small_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third schedule never fails again, the tenth two times of three."""
    lanes = _Played(
        lambda case, nth: (case.id == "explored/6/9" and nth % 3 != 2) or (case.id == "explored/6/2" and nth == 1)
    )
    data = _explored_without_processes(tmp_path, monkeypatch, lanes)
    once, often = data["failures"]
    assert data["schedules"] == 24
    assert (once["seen"], once["of"], once["smallest"]) == (0, explorer.CHANCE_PLAYS, False)
    assert (often["seen"], often["of"], often["smallest"]) == (20, explorer.CHANCE_PLAYS, True)
    assert load(tmp_path / "out" / often["case"]).plan == ()
    kept = DirectoryBasedExampleDatabase(tmp_path / "kept").fetch(b"reference")
    plans = sorted(len(json.loads(value)["plan"]) for value in kept)
    assert plans == sorted((0, len(once["schedule"]["plan"]))), "each is kept as it is now, and not as it was too"


def test_of_what_a_schedule_breaks_that_stands_for_it_which_comes_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tenth schedule breaks one promise in its first play alone, and another one each time."""

    class Two(_Played):
        def play(self, case: Case) -> Judged:
            judged = super().play(case)
            found = [*judged.cell.violations]
            if found and self.plays[case.digest] == 1:
                found.insert(0, found[0].model_copy(update={"check": "by-chance"}))
            return replace(judged, cell=judged.cell.model_copy(update={"violations": found}))

    data = _explored_without_processes(tmp_path, monkeypatch, Two(_sure))
    (failure,) = data["failures"]
    assert (failure["check"], failure["seen"], failure["of"], failure["found_after"]) == ("made-up", 10, 10, 10)


def _sure(case: Case, nth: int) -> bool:
    """The tenth schedule fails each time, as it was drawn."""
    return case.id == "explored/6/9" and bool(case.plan)


def _never_again(case: Case, nth: int) -> bool:
    return case.id == "explored/6/9" and nth == 1


def _now_and_then(case: Case, nth: int) -> bool:
    return case.id == "explored/6/9" and nth % 3 != 0


@pytest.mark.parametrize("side_by_side", [1, 4])
@pytest.mark.parametrize("fails", [_sure, _never_again, _now_and_then])
@pytest.mark.parametrize("plays_max", [7, 12, 20, 33, 40, 60])
def test_no_more_is_played_than_the_whole_may_cost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plays_max: int,
    fails: Callable[[Case, int], bool],
    side_by_side: int,
) -> None:
    lanes = _Played(fails, side_by_side)
    data = _explored_without_processes(tmp_path, monkeypatch, lanes, plays_max)
    assert data["plays"] == lanes.plays.total() <= plays_max
    assert len(data["failures"]) == (plays_max > 10)
    if fails is _sure and plays_max >= 33:
        (failure,) = data["failures"]
        assert (failure["seen"], failure["of"]) == (10, 10), "the plays that count how often it fails are set aside"


def _explored_without_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lanes: _Played, plays_max: int | None = None
) -> Any:
    monkeypatch.setattr(explorer, "Lanes", lambda *_: lanes)
    wish = Wish(examples=24, seed=6, database=tmp_path / "kept", first=True, plays_max=plays_max)
    explorer.explore(REFERENCE, wish, tmp_path / "out", 1, Console(file=io.StringIO()))
    return json.loads((tmp_path / "out" / "explore.json").read_bytes())


def _exploration(
    tmp_path: Path, fails: Callable[[Case, int], bool], lines: Callable[[Case], list[dict[str, Any]]] = lambda _: []
) -> explorer._Exploration:
    explored = Explored(Wish(database=tmp_path / "kept"), REFERENCE)
    return explorer._Exploration(explored, _Played(fails, lines=lines), tmp_path, Console(file=io.StringIO()))


def test_what_the_harness_waits_for_and_looks_at_is_no_act_of_a_user() -> None:
    case = schedules.draw(REFERENCE, "9/0")
    steps = (
        Open(),
        File(path="a", text="b"),
        Send(request="r1", text="one"),
        SettleStep(),
        Look(name="x"),
        Control(action="stop"),
    )
    ops = (User(step={"do": "control", "session": "s1", "action": "pause"}), Kill(), Start(role="worker"))
    case = case.model_copy(update={"steps": steps, "plan": (moment("turn.begun#1", *ops),)})
    assert explorer.deaths_and_acts(case) == (1, 3)


def test_nothing_held_is_no_success() -> None:
    found = Explored(Wish(), REFERENCE, statuses=Counter(inconclusive=9))
    assert found.status == 3
    found.statuses["held"] = 1
    assert found.status == 0
    found.voids.append("explored/0/1: a death that was not ours")
    assert found.status == 3


def test_coverage_counts_where_what_was_played_and_what_clients_had_been_told() -> None:
    case = schedules.draw(REFERENCE, "9/0").model_copy(update={"plan": (death("turn.begun#1"), death("reply.stored#2"))})
    coverage = Coverage()
    coverage.add(
        case,
        [
            {"kind": "point.reached", "data": {"point": "turn.begun", "ordinal": 1}},
            {"kind": "client.event", "data": {"data": {"state": "working"}}},
            {"kind": "point.fired", "data": {"point": "turn.begun", "ordinal": 1}},
            {"kind": "client.event", "data": {"data": {}}},
            {"kind": "point.reached", "data": {"point": "reply.stored", "ordinal": 1}},
        ],
    )
    assert coverage.reached == Counter({("turn.begun", 1): 1, ("reply.stored", 1): 1})
    assert coverage.fired == {("turn.begun", 1, "working", "worker-killed"): 1}
    missing = coverage.missing(REFERENCE)
    assert ("turn.begun", "worker-killed") not in missing and ("reply.stored", "worker-killed") in missing
    assert "work.claimed" in coverage.unreached(REFERENCE) and "turn.begun" not in coverage.unreached(REFERENCE)
    again = [("turn.begun", 1), ("turn.begun", 2), ("event.sent", 1), ("event.sent", 2)]
    coverage.add(case, [{"kind": "point.reached", "data": {"point": name, "ordinal": n}} for name, n in again])
    coverage.add(case, [{"kind": "point.reached", "data": {"point": "turn.begun", "ordinal": 1}}])
    often = {("turn.begun", 1), ("reply.stored", 1), ("event.sent", 1), ("event.sent", 2)}
    assert coverage.often() == often, (
        "a second turn begins in one of three; events are heard of in one, and come twice there"
    )


def test_what_cannot_be_read_any_more_is_taken_out_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "Lanes", _NoLanes)
    wish = Wish(examples=1, database=tmp_path / "kept")
    database = DirectoryBasedExampleDatabase(wish.database)
    database.save(b"reference", b'{"schema": "killpoint.case/0"}')
    explorer.explore(REFERENCE, wish, tmp_path / "out", 1, Console(file=io.StringIO()))
    assert list(database.fetch(b"reference")) == []


def test_a_batch_is_begun_before_the_one_before_it_has_ended_and_its_schedules_do_not_depend_on_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, judged = list[list[str]](), list[str]()

    class Lanes(_NoLanes):
        def map(self, play: Any, each: Any) -> Any:
            begun.append([case.digest for case in each])
            return map(self.one, each, [len(begun)] * len(each))

        def one(self, case: Case, batch: int) -> Judged:
            judged.append(f"{batch} of {len(begun)}")
            point, ordinal = (case.plan[0].at.point, case.plan[0].at.ordinal) if case.plan else ("turn.begun", 1)
            fired = {"kind": "point.fired", "data": {"point": point, "ordinal": ordinal}}
            return Judged(_nothing(case), [fired] if case.plan else [])

    monkeypatch.setattr(explorer, "Lanes", Lanes)
    monkeypatch.setattr(explorer, "BATCH", 8)
    drawn = []
    for name, first in (("all", False), ("first", True)):
        wish = Wish(examples=30, seed=6, database=tmp_path / "kept", first=first)
        explorer.explore(REFERENCE, wish, tmp_path / name, 1, Console(file=io.StringIO()))
        drawn.append([digest for batch in begun for digest in batch])
        sizes = list(map(len, begun))
        if first:
            assert set(sizes) <= {0, 1} and all(each.split(" of ")[0] == each.split(" of ")[1] for each in judged)
        else:
            assert sizes[1:] == [8, 8, 8, 6] and set(judged) == {"2 of 3", "3 of 4", "4 of 5", "5 of 5"}
        begun.clear()
        judged.clear()
    assert drawn[0] == drawn[1]


def test_what_is_kept_from_earlier_times_does_not_change_what_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = schedules.draw(REFERENCE, "9/0").model_copy(update={"plan": (death("turn.begun#1"),)})
    reached = [{"kind": kind, "data": {"point": "turn.begun", "ordinal": 1}} for kind in ("point.reached", "point.fired")]
    drawn = []
    for name in ("without", "with"):
        if name == "with":
            DirectoryBasedExampleDatabase(tmp_path / "with").save(b"reference", kept.to_json().encode())
        lanes = _Played(lambda case, nth: False, lines=lambda case: reached if case.id == kept.id else [])
        monkeypatch.setattr(explorer, "Lanes", lambda *_, lanes=lanes: lanes)
        monkeypatch.setattr(explorer, "BATCH", 4)
        wish = Wish(examples=12, seed=6, database=tmp_path / name)
        explorer.explore(REFERENCE, wish, tmp_path / f"out-{name}", 1, Console(file=io.StringIO()))
        drawn.append(list(lanes.plays))
    assert drawn[1] == [kept.digest, *drawn[0]]


class _NoLanes(Lanes):
    """Lanes that start nothing and hold everything."""

    def __enter__(self) -> _NoLanes:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""

    def map(self, play: Any, each: Any) -> Any:
        return iter([Judged(_nothing(case), []) for case in each])


class _Played(_NoLanes):
    """Lanes whose plays are this function, of the case and of how often it has been played. plays: how often each was."""

    def __init__(
        self,
        fails: Callable[[Case, int], bool],
        side_by_side: int = 1,
        violations: int = 1,
        lines: Callable[[Case], list[dict[str, Any]]] = lambda _: [],
    ) -> None:
        super().__init__(REFERENCE, side_by_side)
        self.plays, self._fails, self._violations, self._lines = Counter[str](), fails, violations, lines

    def map(self, play: Any, each: Any) -> Any:
        own = play is not Engine.play
        return iter([play(self, case) if own else self.play(case) for case in each])

    def play(self, case: Case) -> Judged:
        self.plays[case.digest] += 1
        cell = _nothing(case)
        failed = self._fails(case, self.plays[case.digest])
        return Judged(_violated(cell, self._violations) if failed else cell, self._lines(case))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mutant", "unknown-write-sent-agian"), "nearest: unknown-write-sent-again"),
        (("--mutant", "unknown-*"), "is a pattern"),
        (("--mutant", "unknown-write-sent-again", "--target", "naive"), "it cannot be put into naive"),
        (("--target", "nobody"), "unknown target 'nobody'"),
        (("--examples", "0"), "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_explored_is_said_in_one_line(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    ran = killpoint("explore", *arguments, "--out", str(tmp_path / "out"), cwd=tmp_path)
    assert ran.returncode == 2 and words in ran.stderr and len(ran.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    ran = killpoint("explore", "--examples", "1", "--out", str(tmp_path / "out"), cwd=tmp_path)
    assert ran.returncode == 2 and len(ran.stderr.strip().splitlines()) == 1
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["mine.txt"]
