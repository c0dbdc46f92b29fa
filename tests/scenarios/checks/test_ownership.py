"""The checks of ownership, on generated histories: one process acts for a work, and an old one is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.checks.evidence import GIVEN_BACK, OWNERS_WRITES
from tests.scenarios.checks.builder import Line, Scene, Tape, turn
from tests.scenarios.checks.examples import Witnesses, change
from tests.scenarios.checks.generated_a import (
    ANYWHERE,
    FEW,
    IN_A_CALL,
    QUICK,
    RECOVERY,
    SURE,
    Broken,
    Draw,
    answers,
    ask,
    breaks,
    broken_of,
    caught,
    good,
    held,
    names_of,
    not_examined,
    number,
    one_of,
    reached,
    recovered,
    runs,
    send_all,
    tools_at,
    try_broken,
    try_good,
    verdict,
)

NAMES = names_of("ownership")
W1, TAKEN = "w_s1_r1", "recovery.ownership.taken"


class Over(Exception):
    """The overtaken worker has nothing left to do."""


@st.composite
def overtaken(draw: st.DrawFn, at: tuple[str, ...] = (*ANYWHERE, *RECOVERY[1:]), deaths: tuple[int, int] = (0, 0)) -> Tape:
    """A worker is frozen at a point beyond its lease; another takes its work, perhaps dies and is replaced by a third, and
    ends it; then the first is thawed and does nothing any more, since it is refused."""
    point = one_of(draw, at)

    def overtake(scene: Scene) -> None:
        stalled = scene.who("worker")
        scene.mark("freeze", **stalled)
        scene.held.clear()
        scene.start("worker")
        work = scene.works[W1]
        for _ in range(number(draw, *deaths)):
            scene.recover(work)
            scene.kill("worker")
            scene.start("worker")
        scene.loop(work, "s1", scene.recover(work))
        scene.mark("thaw", **stalled)
        raise Over

    die = {"attempt.stored#1": "worker"} if point.startswith("recovery.") else {}
    scene = Scene({"alpha": answers(draw, "alpha", tools_at(point), (1, 2))}, die=die, held={f"{point}#1": overtake})
    send_all(draw, scene, 1)
    try:
        scene.run()
    except Over:
        fired = [x for x in scene.lines if x["kind"] == "point.fired"][-1]["data"]
        scene.mark("point.released", **{k: fired[k] for k in ("point", "ordinal", "nonce")}, answer="go")
    return scene.tape()


def stalled_at(t: Tape) -> Line:
    """Where the overtaken worker stood still."""
    nonce = t.get("point.released", -1)["data"]["nonce"]
    return t.get("point.reached", nonce=nonce)


def late(t: Tape, point: str, **data: Any) -> Line:
    """What the overtaken worker still reaches after it was let go."""
    freeze = t.get("freeze")["data"]
    made = {"role": "worker", "life": freeze["life"], "pid": freeze["pid"], "ordinal": 99, "local": 99, "nonce": "late"}
    return t.put("point.reached", t.get("point.released", -1), point=point, **{**made, "work": W1, "detail": {}, **data})


def took_over(t: Tape) -> Line:
    """The first taking of the work after the freeze."""
    freeze = t.get("freeze")
    return next(x for x in t.all("point.reached", point=TAKEN) if t.seq(x) > t.seq(freeze))


# One owner, under a growing generation ---------------------------------------------------------------------------------

good("one-owner", st.one_of(recovered(), overtaken()))
ALSO_TAKEN = ("live-owner-kept", "old-generation-refused", "dead-owner-replaced", "owner-claims-first")


def claims(t: Tape, work: str) -> list[Line]:
    return [x for x in t.all("point.reached", work=work) if x["data"]["point"] in {"work.claimed", TAKEN}]


@breaks("one-owner", "dead-owner-replaced", of=recovered())
def the_generation_does_not_grow(t: Tape, draw: Draw) -> Witnesses:
    taken = one_of(draw, t.all("point.reached", point=TAKEN))
    mine = claims(t, taken["data"]["work"])
    before = mine[mine.index(taken) - 1]
    taken["data"]["detail"]["generation"] = before["data"]["detail"]["generation"] - number(draw, 0, 1)
    return before, taken


@breaks("one-owner", *ALSO_TAKEN, of=recovered())
def two_take_it_under_one_generation(t: Tape, draw: Draw) -> Witnesses:
    claim = one_of(draw, claims(t, W1))
    return claim, t.again(claim, claim, life=40, pid=940, nonce="second")


@breaks("one-owner", of=overtaken(at=("attempt.stored",)))
def the_overtaken_owner_asks_the_model(t: Tape, draw: Draw) -> Witnesses:
    attempt = stalled_at(t)["data"]["detail"]["attempt"]
    return took_over(t), ask(t, t.get("point.released", -1), "alpha", attempt=attempt)


@breaks("one-owner", "old-generation-refused", of=overtaken(at=("tool.dispatch.stored",)))
def the_overtaken_owner_calls_the_tool(t: Tape, draw: Draw) -> Witnesses:
    key = stalled_at(t)["data"]["detail"]["key"]
    effect = {"n": 700, "receiver": one_of(draw, ["keyed", "plain", "ambiguous"]), "key": key, "arguments": {"x": 1}}
    asked = t.put("effect.received", t.get("point.released", -1), **effect)
    done = late(t, "tool.effect.done", detail=stalled_at(t)["data"]["detail"])
    t.move(done, asked)
    return took_over(t), asked


@QUICK
@given(overtaken(at=("attempt.stored",), deaths=(1, 2)))
def test_an_owner_that_takes_its_work_back_after_its_successor_died_acts_lawfully(t: Tape) -> None:
    """Thawed, it claims the work again under the next generation and asks the model under a new attempt."""
    generation = max(x["data"]["detail"]["generation"] for x in claims(t, W1))
    released = t.get("point.released", -1)
    stored = late(t, "attempt.stored", detail={"attempt": "a_801"})
    late(t, TAKEN, detail={"generation": generation + 1}, nonce="again")
    ask(t, stored, "alpha", n=801)
    assert t.seq(released) < t.seq(t.get("provider.request", n=801))
    for name in ("one-owner", "old-generation-refused", "owner-claims-first"):
        held(t, name)
    old = stalled_at(t)["data"]["detail"]["attempt"]
    caught(t, "one-owner", (took_over(t), ask(t, released, "alpha", n=802, attempt=old)))


@pytest.mark.parametrize("why", ["no generations", "one claim told twice", "the dead one's request"])
@FEW
@given(t=recovered())
def test_what_two_claims_need_not_show(t: Tape, why: str) -> None:
    if why == "no generations":
        for line in t.all("point.reached"):
            line["data"]["detail"].pop("generation", None)
    elif why == "one claim told twice":
        claim = claims(t, W1)[0]
        t.again(claim, claim, nonce="again")
    else:  # what a killed owner had sent may be received after its successor's claim
        mine = [x for x in t.all("point.reached", point="attempt.stored") if x["data"]["life"] == 1]
        for stored in mine[-1:]:
            sent = t.all("provider.request", attempt=stored["data"]["detail"]["attempt"])
            for request in sent:
                t.move(request, t.get("point.reached", -1, point=TAKEN))
    assert verdict(t, "one-owner").violations == []


# A claim before any act ------------------------------------------------------------------------------------------------

good("owner-claims-first", st.one_of(recovered(), overtaken()))


@breaks("owner-claims-first", *ALSO_TAKEN, of=recovered())
def a_stranger_acts(t: Tape, draw: Draw) -> Witnesses:
    act = one_of(draw, [x for x in t.all("point.reached") if x["data"]["point"] in OWNERS_WRITES and x["data"]["work"]])
    started = t.put(
        "process.started", t.lines[2], role="worker", life=41, pid=act["data"]["pid"], start_time=7.0, cold=False
    )
    return started, t.again(act, act, life=41, nonce="stranger")  # the very same pid, and yet another process


@breaks("owner-claims-first", "dead-owner-replaced", of=recovered(again=(0, 0)))
def the_next_life_acts_under_the_old_claim(t: Tape, draw: Draw) -> Witnesses:
    taken = t.get("point.reached", point=TAKEN)
    t.drop(taken)
    mine = t.all("point.reached", life=taken["data"]["life"], work=taken["data"]["work"])
    act = next(x for x in mine if x["data"]["point"] in OWNERS_WRITES)
    return t.get("process.started", role="worker", life=taken["data"]["life"]), act


@pytest.mark.parametrize("claims_at_all", [True, False])
@FEW
@given(t=recovered())
def test_a_process_may_look_without_a_claim_and_a_target_without_claims_is_not_judged(t: Tape, claims_at_all: bool) -> None:
    if claims_at_all:
        examined = held(t, "owner-claims-first")
        late_look = {"role": "worker", "life": 42, "pid": 942, "ordinal": 1, "local": 1, "nonce": "look", "detail": {}}
        for point in ("worker.idle", "recovery.facts.loaded", "reply.received"):
            t.put("point.reached", t.lines[3], point=point, work=W1, **late_look)
        assert held(t, "owner-claims-first") == examined
    else:
        t.drop(*[x for x in t.all("point.reached") if x["data"]["point"] in {"work.claimed", TAKEN}])
        not_examined(t, "owner-claims-first")


# A live owner keeps it -------------------------------------------------------------------------------------------------


@st.composite
def threatened(draw: st.DrawFn) -> Tape:
    """While a worker is at work the clock jumps, its client leaves or the app is killed; it keeps its work to the end."""

    def threaten(scene: Scene) -> None:
        what = one_of(draw, ["clock", "client", "app"])
        if what == "clock":
            by_s = one_of(draw, [-10800.0, 60.0, 86400.0])
            scene.mark("clock.moved", by_s=by_s, offset_s=by_s, why="clock")
        elif what == "client":
            scene.mark("client.disconnected", client="c1", session="s1")
            scene.connect("s1")
        else:
            scene.kill("app")
            scene.restart()

    point = one_of(draw, ["provider.request.received", "effect.received", "effect.applied"])
    scene = Scene({"alpha": answers(draw, "alpha", ("charge", "publish"), (1, 2))}, held={f"{point}#1": threaten})
    scene.open()
    scene.send("r1", "alpha")
    return scene.run().tape()


good("live-owner-kept", threatened())


@breaks("live-owner-kept", "one-owner", *ALSO_TAKEN)
def another_takes_it_from_a_live_owner(t: Tape, draw: Draw) -> Witnesses:
    claim = reached(t, "work.claimed")
    back = next(x for x in t.all("point.reached") if x["data"]["point"] in GIVEN_BACK)
    middle = [x for x in t.lines if t.seq(claim) <= t.seq(x) < t.seq(back)]
    how = {"point": one_of(draw, ["work.claimed", TAKEN]), "detail": {"generation": number(draw, 2, 9)}}
    return claim, t.again(claim, one_of(draw, middle), life=43, pid=943, nonce="thief", **how)


REASONS = ("died", "frozen", "held", "gave back", "another work", "controlled", "provider failed", "reply cut", "exiting")


@pytest.mark.parametrize("why", REASONS)
@FEW
@given(t=threatened())
def test_when_a_work_may_change_its_owner(t: Tape, why: str) -> None:
    """Its owner died, was stalled by the harness, or let go: by itself, for a user, or because the provider failed."""
    claim, mine = reached(t, "work.claimed"), {"role": "worker", "life": 1, "pid": 201}
    place = t.get("provider.answered")
    data = {**mine, "ordinal": 9, "local": 9, "nonce": "x", "work": W1, "detail": {}}
    if why == "died":
        t.put("process.exited", claim, **mine, status=9, signal=9, exit_code=None)
    elif why == "frozen":
        t.put("freeze", claim, **mine)
    elif why == "held":
        t.put("point.fired", claim, point="x", ordinal=1, nonce=claim["data"]["nonce"], ops=[])
    elif why == "gave back":
        t.put("point.reached", place, point="work.released", **data)
    elif why == "another work":
        t.put("point.reached", place, point="work.claimed", **{**data, "work": "w_other", "detail": {"generation": 1}})
    elif why == "controlled":
        t.put("client.invoked", claim, call=900, client="c1", op="control", session="s1", action="pause")
    elif why == "provider failed":
        change(place, status=503)
    elif why == "reply cut":
        change(t.get("provider.billed"), complete=False)
    else:
        t.put("point.reached", place, point="exit.admission.closed", **{**data, "work": None})
    after = reached(t, "reply.stored")
    t.again(claim, after, life=43, pid=943, nonce="next", detail={"generation": 2})
    violations = verdict(t, "live-owner-kept").violations
    assert [v for v in violations if v.expected.seq == t.seq(claim)] == []


# An old generation is refused ------------------------------------------------------------------------------------------

good("old-generation-refused", overtaken())


@breaks("old-generation-refused", of=overtaken(deaths=(0, 1)))
def an_old_write_is_taken(t: Tape, draw: Draw) -> Witnesses:
    point = one_of(draw, sorted(OWNERS_WRITES - {"recovery.admitted", "recovery.intent.consumed"}))
    return took_over(t), late(t, point)


@pytest.mark.parametrize("why", ["never let go", "killed", "other work", "no write", "claims again"])
@FEW
@given(t=overtaken())
def test_what_an_overtaken_owner_may_do(t: Tape, why: str) -> None:
    """Stand still for ever, be dead by then, work for others, reach what is no write, or take the work again by right."""
    freeze = t.get("freeze")["data"]
    if why == "never let go":
        t.drop(t.get("point.released", -1), t.get("thaw"))
        not_examined(t, "old-generation-refused")
    elif why == "killed":
        t.put("process.exited", t.get("freeze"), **freeze, status=9, signal=9, exit_code=None)
        not_examined(t, "old-generation-refused")
    elif why == "other work":
        late(t, "reply.stored", work="w_other")
        held(t, "old-generation-refused")
    elif why == "no write":
        late(t, "reply.received")
        held(t, "old-generation-refused")
    else:
        late(t, "reply.stored")
        late(t, TAKEN, detail={"generation": 50}, nonce="again")
        held(t, "old-generation-refused")


# A dead owner is replaced ----------------------------------------------------------------------------------------------

KILLED = runs(("turn.begun", "attempt.stored", *IN_A_CALL), SURE, (1, 2), then=RECOVERY[1:], again=(0, 2))
good("dead-owner-replaced", KILLED)


@breaks("dead-owner-replaced", "owner-claims-first", of=runs(("turn.begun", "attempt.stored", *IN_A_CALL), SURE, (1, 2)))
def nobody_takes_what_the_dead_one_left(t: Tape, draw: Draw) -> Witnesses:
    kill = t.get("kill", role="worker")
    t.drop(*[x for x in claims(t, W1) if t.seq(x) > t.seq(kill)])
    return kill, t.final


@breaks("dead-owner-replaced", "one-owner", "owner-claims-first")
def it_is_taken_without_a_new_generation(t: Tape, draw: Draw) -> Witnesses:
    kill, claim = t.get("kill", role="worker"), claims(t, W1)[0]
    taken = next(x for x in claims(t, W1) if t.seq(x) > t.seq(kill))
    taken["data"]["detail"]["generation"] = claim["data"]["detail"]["generation"]
    return kill, t.final


@breaks("dead-owner-replaced", "owner-claims-first", "no-two-executions")
def a_dead_process_goes_on(t: Tape, draw: Draw) -> Witnesses:
    kill = t.get("kill", role="worker")
    taken = next(x for x in claims(t, W1) if t.seq(x) > t.seq(kill))
    change(taken, life=kill["data"]["life"], pid=kill["data"]["pid"])
    return kill, t.final


@pytest.mark.parametrize("why", ["gave back", "done", "stopped", "excused", "exit"])
@FEW
@given(t=runs(("attempt.stored",), SURE, (1, 1), sessions=1))
def test_what_nobody_has_to_take_over(t: Tape, why: str) -> None:
    """A work that its owner had given back or finished, that a user stopped, or that an outer fault keeps waiting."""
    kill, claim = t.get("kill", role="worker"), claims(t, W1)[0]
    t.drop(*[x for x in claims(t, W1) if t.seq(x) > t.seq(kill)])
    if why == "gave back":
        t.again(claim, claim, point=min(GIVEN_BACK), nonce="back")
    elif why == "done":
        for line in [*t.all("provider.request"), *t.all("provider.billed")]:
            line["t_ns"] = claim["t_ns"] + line["data"]["n"] * 10 + (line["kind"] == "provider.billed")
    elif why == "stopped":
        t.put("client.invoked", kill, call=900, client="c1", op="control", session="s1", action="stop")
    elif why == "excused":
        change(t.get("provider.answered", -1), status=503)
        t.view()["works"][0].update(state="waiting", reason_code="provider_unavailable")
    else:
        t.drop(*t.all("kill"))  # it ended by itself
    assert verdict(t, "dead-owner-replaced").violations == []


# A store that cannot be read -------------------------------------------------------------------------------------------


@st.composite
def unreadable(draw: st.DrawFn, times: tuple[int, int] = (1, 2), mended: bool = True) -> Tape:
    """All is killed, the store is broken, what is started finds it so, and it is mended as it was; perhaps once more."""
    scene = Scene({"alpha": answers(draw, "alpha", SURE, (0, 1))})
    send_all(draw, scene, 1)
    for n in range(number(draw, *times)):
        digest = f"{n}{one_of(draw, 'abc')}" * 32
        scene.kill("worker")
        scene.mark("store.broken", how="torn", sha256=digest)
        scene.start("worker")
        for i in range(number(draw, 0, 2)):
            scene.mark("store.digest", when=f"broken.{i}", sha256=digest)
        if mended:
            scene.mark("store.mended", sha256=digest)
    return scene.run().tape()


good("no-repair-while-unreadable", unreadable())
good("unreadable-store-refused", unreadable())


@breaks("no-repair-while-unreadable")
def the_broken_store_is_repaired_or_made_anew(t: Tape, draw: Draw) -> Witnesses:
    looks = [*t.all("store.mended"), *t.all("store.digest")]
    later = one_of(draw, looks)
    broken = [x for x in t.all("store.broken") if t.seq(x) < t.seq(later)][-1]
    return broken, change(later, sha256="f" * 64)


@breaks("unreadable-store-refused")
def something_is_done_all_the_same(t: Tape, draw: Draw) -> Witnesses:
    broken = one_of(draw, t.all("store.broken"))
    mended = next(x for x in t.all("store.mended") if t.seq(x) > t.seq(broken))
    within = [x for x in t.lines if t.seq(broken) <= t.seq(x) < t.seq(mended)]
    if draw(st.booleans()):
        return broken, ask(t, one_of(draw, within), "alpha")
    effect = {"n": 700, "receiver": "plain", "key": "k", "arguments": {"x": 1}}
    return broken, t.put("effect.received", one_of(draw, within), **effect)


@pytest.mark.parametrize("why", ["before", "after", "nobody", "a later digest"])
@FEW
@given(t=unreadable((1, 1)))
def test_what_stands_outside_of_the_time_in_which_the_store_is_broken(t: Tape, why: str) -> None:
    broken, mended = t.get("store.broken"), t.get("store.mended")
    if why == "before":
        ask(t, t.lines[t.lines.index(broken) - 1], "alpha")
    elif why == "after":
        ask(t, mended, "alpha")
    elif why == "nobody":  # nobody was started before it was mended, so nobody could refuse anything
        t.move(t.get("process.started", -1, role="worker"), mended)
        ask(t, broken, "alpha")
        not_examined(t, "unreadable-store-refused")
    else:
        t.put("store.digest", mended, when="mended", sha256="f" * 64)
    assert verdict(t, "unreadable-store-refused").violations == []
    held(t, "no-repair-while-unreadable")


@QUICK
@given(unreadable((1, 1), mended=False))
def test_a_store_that_is_never_mended_stays_refused_to_the_end(t: Tape) -> None:
    broken = t.get("store.broken")
    caught(t, "unreadable-store-refused", (broken, t.get("provider.request")))
    t.drop(*[x for kind in ("provider.request", "effect.received") for x in t.all(kind)])
    held(t, "unreadable-store-refused")
    caught(t, "no-repair-while-unreadable", (broken, t.put("store.digest", t.final, when="end", sha256="f" * 64)))


# One execution ---------------------------------------------------------------------------------------------------------

good("no-two-executions", st.one_of(recovered(), overtaken()))


@breaks("no-two-executions", of=runs(tools=SURE, steps=(0, 2), sessions=1))
def two_ask_at_once(t: Tape, draw: Draw) -> Witnesses:
    first = one_of(draw, t.all("provider.request"))
    end = t.get("provider.billed", n=first["data"]["n"])
    inside = [x for x in t.lines if t.seq(first) <= t.seq(x) < t.seq(end)]
    second = t.again(first, one_of(draw, inside), n=700, attempt="a_700")
    t.again(end, end, n=700, attempt="a_700")
    return first, second


@breaks("no-two-executions", of=recovered())
def one_owner_admits_twice(t: Tape, draw: Draw) -> Witnesses:
    admitted = one_of(draw, t.all("point.reached", point="recovery.admitted"))
    later = [
        x for x in t.all("point.reached") if t.seq(x) >= t.seq(admitted) and x["data"]["life"] == admitted["data"]["life"]
    ]
    mine = [x for x in later if not (x["data"]["point"] == TAKEN and x["data"]["work"] == admitted["data"]["work"])]
    return admitted, t.again(admitted, mine[0], nonce="twice", detail={"key": one_of(draw, ["same", "other"])})


@pytest.mark.parametrize("why", ["cut", "death between", "frozen", "one after the other", "no claim"])
@FEW
@given(t=recovered(again=(0, 0)))
def test_what_two_requests_do_not_make_two_executions(t: Tape, why: str) -> None:
    """One that was cut, one whose owner died or was frozen before the other, and one that came when the first had ended."""
    first = t.get("provider.request", -1)
    end = t.get("provider.billed", n=first["data"]["n"])
    after = end if why == "one after the other" else first
    if why == "death between":
        after = t.put("kill", first, role="worker", life=1, pid=201, point=None, nonce=None, proved=True)
    elif why == "frozen":
        after = t.put("freeze", first, role="worker", life=2, pid=202)
    second = t.again(first, after, n=700, attempt="a_700")
    t.again(end, max(end, second, key=t.seq), n=700, attempt="a_700", complete=why != "cut")
    if why == "no claim":
        t.drop(second)
        for line in t.all("point.reached", point="recovery.admitted"):
            t.again(line, line, nonce="twice", work="w_never_claimed")
    assert verdict(t, "no-two-executions").violations == []


# All of them -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@QUICK
@given(data=st.data())
def test_the_check_examines_right_histories_and_holds(name: str, data: st.DataObject) -> None:
    try_good(name, data.draw)


@pytest.mark.parametrize("broken", broken_of("ownership"), ids=str)
@QUICK
@given(data=st.data())
def test_a_broken_promise_is_caught(broken: Broken, data: st.DataObject) -> None:
    try_broken(broken, data.draw)


@pytest.mark.parametrize("name", NAMES)
def test_a_target_that_tells_nothing_of_its_owners_is_not_judged(name: str) -> None:
    t = turn(last="one")
    t.drop(*t.all("point.reached"), *t.all("kill"))
    not_examined(t, name)
