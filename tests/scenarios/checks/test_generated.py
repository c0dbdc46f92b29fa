"""On generated right histories no check complains, and a generated fault in one is caught by the check that is for it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults.catalogue import POINTS
from scenarios.case import Call, Reply
from tests.scenarios.checks.builder import Line, Scene, Tape, call

# Points that the made runtime reaches, and at which its worker can die.
DEADLY = sorted(
    p.name
    for p in POINTS
    if p.role in {"worker", "world"} and not p.name.startswith(("exit.", "control.", "lease.", "outbox.", "work.released"))
)
TOOLS = ("read", "charge", "mail", "publish", "order", "note_plugin")
SLOW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@st.composite
def scripts(draw: st.DrawFn) -> dict[str, tuple[Reply, ...]]:
    """Up to three texts, each with a few steps of a few calls, and a last reply of a few words."""
    number = iter(range(10_000))
    made = {}
    for text in ("alpha", "beta", "gamma")[: draw(st.integers(1, 3))]:
        steps = []
        for _ in range(draw(st.integers(0, 3))):
            calls: tuple[Call, ...] = tuple(
                call(draw(st.sampled_from(TOOLS)), n=next(number)) for _ in range(draw(st.integers(1, 2)))
            )
            usage = draw(st.sampled_from(["last", "every"]))
            steps.append(Reply(text=draw(st.sampled_from(["", f"thinking of {text}"])), calls=calls, usage=usage))
        words = " ".join(f"{text}{i}" for i in range(draw(st.integers(1, 5))))
        made[text] = (*steps, Reply(text=words, usage=draw(st.sampled_from(["last", "every"]))))
    return made


@st.composite
def scenes(draw: st.DrawFn, deaths_min: int = 0) -> Tape:
    """A right run of some sessions and inputs, with some deaths anywhere, also in recovery, and a client that resends."""
    script = draw(scripts())
    addresses = st.tuples(st.sampled_from(DEADLY), st.integers(1, 3)).map(lambda a: f"{a[0]}#{a[1]}")
    early = [f"{point}#1" for point in ("attempt.stored", "provider.request.received", "reply.received", "reply.stored")]
    die = draw(st.dictionaries(addresses, st.sampled_from(["worker", "both"]), max_size=4))
    if deaths_min:
        die[draw(st.sampled_from(early))] = "worker"
    held = {}
    if draw(st.booleans()) and not deaths_min:
        action = draw(st.sampled_from(["pause", "stop"]))
        point = draw(st.sampled_from([p for p in DEADLY if p not in {"turn.committed", "recovery.interface.restored"}]))
        held[f"{point}#{draw(st.integers(1, 3))}"] = lambda scene: scene.control(action)
    scene = Scene(script, die=die, held=held)
    sessions = [f"s{i + 1}" for i in range(draw(st.integers(1, 2)))]
    for session in sessions:
        scene.open(session)
    for i, text in enumerate(script):
        session = sessions[i % len(sessions)]
        heard = draw(st.sampled_from(["ok", "unknown"]))
        scene.send(f"r{i}", text, session, outcome=heard)
        if heard == "unknown" or draw(st.booleans()):
            scene.send(f"r{i}", text, session)
    return scene.run().tape()


@SLOW
@given(scenes())
def test_no_check_complains_of_a_right_run(tape: Tape) -> None:
    results = tape.results()
    bad = {name: (r.why, r.violations) for name, r in results.items() if r.status not in {"held", "not run"}}
    assert bad == {}
    assert results["acknowledged-input-not-lost"].examined > 0
    assert results["store-whole-at-death"].examined == len(tape.all("store.at_death"))


def lose_an_input(t: Tape, line: Line) -> str | None:
    del line
    view = t.view()
    gone = view["inputs"].pop(0)
    view["transcript"] = [i for i in view["transcript"] if i["text"] != gone["text"]]
    return "acknowledged-input-not-lost"


def double_an_input(t: Tape, line: Line) -> str | None:
    del line
    t.view()["inputs"].append(t.view()["inputs"][0])
    return "no-duplicate-input"


def append_the_input_again(t: Tape, line: Line) -> str | None:
    messages = line["data"]["body"]["messages"]
    messages.append({"role": "user", "content": next(m for m in messages if m["role"] == "user")["content"]})
    return "input-appended-once"


def double_a_write(t: Tape, line: Line) -> str | None:
    del line
    writes = t.all("effect.applied")
    if not writes:
        return None
    t.again(writes[-1], writes[-1], n=999, duplicate_of=writes[-1]["data"]["n"])
    return "no-duplicate-write"


def resend_a_write(t: Tape, line: Line) -> str | None:
    del line
    asked = [x for x in t.all("effect.received") if x["data"]["receiver"] == "plain"]
    if not asked:
        return None
    t.again(asked[0], t.final, n=999)
    return "unknown-never-resent"


def make_unknown_zero(t: Tape, line: Line) -> str | None:
    del line
    unknown = [a for a in t.view()["attempts"] if a["state"] == "unknown"]
    if not unknown:
        return None
    unknown[0].update(state="known", input_tokens=0, cached_tokens=0, output_tokens=0)
    return "usage-equals-billed"


def share_an_attempt(t: Tape, line: Line) -> str | None:
    t.again(line, t.get("provider.answered", -1), n=998)
    return "retry-is-a-new-attempt"


def run_after_the_end(t: Tape, line: Line) -> str | None:
    t.again(line, t.final, n=998, attempt="a_998")
    return "finished-stays-finished"


def ask_on_reconnect(t: Tape, line: Line) -> str | None:
    t.again(line, t.get("snapshot.taken", when="again"), n=998, attempt="a_998")
    return "reconnect-is-silent"


def leave_out_a_result(t: Tape, line: Line) -> str | None:
    del line
    for request in t.all("provider.request"):
        messages = request["data"]["body"]["messages"]
        results = [m for m in messages if m["role"] == "tool"]
        if results:
            messages.remove(results[0])
            return "request-acceptable"
    return None


def rewrite_an_item(t: Tape, line: Line) -> str | None:
    del line
    t.view(when="again")["transcript"][0]["text"] += "!"
    return "transcript-append-only"


def skip_an_event(t: Tape, line: Line) -> str | None:
    del line
    t.drop(t.get("client.event", 1, client="c2"))
    return "events-only-grow"


def keep_the_generation(t: Tape, line: Line) -> str | None:
    del line
    taken = t.all("point.reached", point="recovery.ownership.taken")
    if not taken:
        return None
    taken[-1]["data"]["detail"]["generation"] -= 1
    return "one-owner"


def tear_the_store(t: Tape, line: Line) -> str | None:
    del line
    deaths = t.all("store.at_death")
    if not deaths:
        return None
    deaths[-1]["data"]["files"]["work.db"]["ok"] = False
    return "store-whole-at-death"


def forget_an_acknowledged_input(t: Tape, line: Line) -> str | None:
    del line
    deaths = t.all("store.at_death")
    if not deaths:
        return None
    deaths[-1]["data"]["holds"]["r0"] = False
    return "committed-before-accepted"


def admit_twice(t: Tape, line: Line) -> str | None:
    del line
    for work in t.view()["works"]:
        if work["recoveries"]:
            work["recoveries"].append({**work["recoveries"][0], "way": "new_turn"})
            return "continuation-once"
    return None


def pause_without_a_user(t: Tape, line: Line) -> str | None:
    del line
    t.view()["works"][0].update(state="paused", desired_state="paused", reason_code="restart")
    return "reason-for-every-rest"


def never_settle(t: Tape, line: Line) -> str | None:
    del line
    t.get("case.settled")["data"].update(settled=False, why="still working")
    return "everything-ends"


def sum_the_totals_wrongly(t: Tape, line: Line) -> str | None:
    del line
    t.view()["totals"]["output_tokens"] += 1
    return "totals-can-be-rebuilt"


def call_it_done_without_the_model(t: Tape, line: Line) -> str | None:
    del line
    for kind in ("provider.request", "provider.billed", "provider.answered", "provider.chunk"):
        t.drop(*t.all(kind))
    return "done-means-done"


def join_the_pieces(t: Tape, line: Line) -> str | None:
    del line
    whole = [i for i in t.view()["transcript"] if i["kind"] == "assistant" and i["complete"] and i["text"]]
    whole[-1]["text"] = f"{whole[-1]['text']} {whole[-1]['text']}"
    return "partial-marked-incomplete"


FAULTS: list[Callable[[Tape, Line], str | None]] = [
    lose_an_input,
    double_an_input,
    append_the_input_again,
    double_a_write,
    resend_a_write,
    make_unknown_zero,
    share_an_attempt,
    run_after_the_end,
    ask_on_reconnect,
    leave_out_a_result,
    rewrite_an_item,
    skip_an_event,
    keep_the_generation,
    tear_the_store,
    forget_an_acknowledged_input,
    admit_twice,
    pause_without_a_user,
    never_settle,
    sum_the_totals_wrongly,
    call_it_done_without_the_model,
    join_the_pieces,
]


@settings(SLOW, max_examples=200)
@given(scenes(deaths_min=1), st.sampled_from(FAULTS), st.data())
def test_a_fault_put_into_a_right_run_is_caught_by_its_check(
    tape: Tape, fault: Callable[[Tape, Line], str | None], data: st.DataObject
) -> None:
    line = data.draw(st.sampled_from(tape.all("provider.request")))
    expected = fault(tape, line)
    if expected is not None:
        assert expected in tape.violated()
