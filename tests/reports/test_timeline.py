"""The timeline and the words: every record has its place, no two numbers meet, and nothing secret is told."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports import words
from reports.timeline import _SHAPES, LEGEND, MARKS_MAX, draw, since
from tests.reports.made_up import History, case, cell, history

KINDS = st.sampled_from([*words._SAY, "some.thing"])
DATA = st.dictionaries(
    st.sampled_from(["role", "life", "pid", "point", "ordinal", "n", "call", "outcome", "duplicate_of", "files", "text"]),
    st.none() | st.integers(-1, 5) | st.text(max_size=5) | st.sampled_from(["app", "worker", "world", "unknown"]),
)
RECORDS = st.lists(
    st.fixed_dictionaries({"t_ns": st.integers(0, 10**15), "kind": KINDS, "data": DATA}), min_size=1, max_size=40
).map(lambda records: sorted(records, key=lambda record: record["t_ns"]))


def numbers(drawing: str) -> list[tuple[float, float, str]]:
    """Where each number stands: x, y, text."""
    found = re.findall(
        r'<g class="k" transform="translate\(([\d.]+) ([\d.]+)\)">.*?<text class="n"[^>]*>(\d+\+?)</text>', drawing
    )
    return [(float(x), float(y), text) for x, y, text in found]


def test_every_record_that_is_drawn_has_its_own_column() -> None:
    drawing = str(draw(history(chunks=20).records, "t").drawing)
    places = [x for x, _, _ in numbers(drawing)]
    assert len(places) > 35
    assert all(after - before >= 18 for before, after in pairwise(places))


def test_a_burst_of_pieces_and_events_shares_two_marks() -> None:
    few, many = (len(numbers(str(draw(history(chunks=n).records, "t").drawing))) for n in (4, 200))
    assert few == many


def test_a_kill_is_a_cross_with_a_rule_and_ends_the_bar() -> None:
    drawing = str(draw(history().records, "t").drawing)
    assert drawing.count('class="kr"') == 1
    assert _SHAPES["kill"] in drawing
    bars = [
        (float(x), float(width))
        for x, width in re.findall(r'class="life" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawing)
    ]
    assert len(bars) == 3
    kill_x = float(re.findall(r'class="kr" d="M([\d.]+)', drawing)[0])
    assert any(abs(x + width - kill_x) < 0.2 for x, width in bars)


def test_a_frozen_owner_and_its_successor_stand_in_two_lanes() -> None:
    made = draw(history(frozen=True).records, "t")
    assert "worker, also" in made.labels
    assert made.drawing.count('class="ice"') == 1


def test_a_write_applied_twice_looks_unlike_a_write() -> None:
    assert _SHAPES["twice"] in draw(history(twice=True).records, "t").drawing
    assert _SHAPES["twice"] not in draw(history().records, "t").drawing


def test_a_request_that_was_never_answered_stays_open() -> None:
    made = History()
    made.add("client.invoked", call=1, op="send")
    assert 'class="d"' in draw(made.records, "t").drawing


def test_it_is_named_for_those_who_do_not_see_it() -> None:
    root = ElementTree.fromstring(str(draw(history().records, "<Timeline & co>").drawing))
    assert root.get("role") == "img"
    named = {element.get("id"): element.text for element in root if element.get("id")}
    assert set((root.get("aria-labelledby") or "").split()) == set(named)
    assert "<Timeline & co>" in named.values()


def test_what_is_too_long_to_draw_is_counted() -> None:
    made = History()
    for n in range(MARKS_MAX + 50):
        made.add("effect.applied", n=n, receiver="plain")
    drawn = draw(made.records, "t")
    assert drawn.left_out == 50
    assert len(numbers(str(drawn.drawing))) == MARKS_MAX


def test_the_legend_shows_shapes_that_differ() -> None:
    assert len({_SHAPES[name] for name, _ in LEGEND}) == len(LEGEND)


@settings(max_examples=150, deadline=None)
@given(RECORDS)
def test_any_history_is_drawn_as_well_formed_svg(records: Any) -> None:
    made = draw(records, "t")
    ElementTree.fromstring(str(made.drawing))
    ElementTree.fromstring(str(made.labels))
    assert len({x for x, _, _ in numbers(str(made.drawing))}) == len(numbers(str(made.drawing)))


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0.0 ms"), (1_500_000, "1.5 ms"), (250_000_000, "250 ms"), (2_500_000_000, "2.50 s"), (18e10, "3.0 min")],
)
def test_spans_are_told_in_the_unit_that_a_reader_wants(ns: float, text: str) -> None:
    assert since(ns) == text


# Words ---------------------------------------------------------------------------------------------------------------


@given(KINDS, DATA)
def test_any_record_can_be_said_in_one_short_line(kind: str, data: Any) -> None:
    said = words.say(kind, data)
    assert "\n" not in said
    assert len(said) <= 200


def test_no_credential_is_told() -> None:
    data = {
        "headers": {"Authorization": "Bearer abcdef123", "X-Api-Key": "k", "set-cookie": "c", "Idempotency-Key": "seen"},
        "body": {
            "token": "t",
            "input_tokens": 5,
            "text": "use Bearer abcdef123 and sk-abcdefgh123",
            "nested": [{"password": "p"}],
        },
    }
    text = words.plain_json(data, 1000)
    assert not [secret for secret in ("abcdef", '"k"', '"c"', '"t"', '"p"') if secret in text]
    assert '"input_tokens": 5' in text
    assert '"Idempotency-Key": "seen"' in text


def test_a_plan_is_told_in_words() -> None:
    plan = {
        "plan": [
            {
                "at": "tool.effect.done#3",
                "ops": [{"do": "freeze", "role": "self"}, {"do": "start", "role": "worker", "extra": True}],
            },
            {
                "at": {"point": "effect.applied", "ordinal": 2},
                "ops": [{"do": "answer", "how": "error", "status": 503}, {"do": "new op"}],
            },
        ]
    }
    assert words.plan_in_words(plan) == [
        (
            "When tool.effect.done is reached for the 3rd time",
            ["freeze the process that stands there (SIGSTOP)", "start another worker beside the running one"],
        ),
        ("When effect.applied is reached for the 2nd time", ["answer with status 503", '{"do": "new op"}']),
    ]
    assert words.steps_in_words(case("c"))[1] == "send “Book the room.” to s1 as r1"


def test_a_replay_command_can_be_pasted_into_a_shell(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert words.replay_command(cell("a"), tmp_path / "out") == ".venv/bin/killpoint replay out/cases/a.json"
    played = cell("a", mutant="unknown-write-sent-again")
    assert words.replay_command(played).endswith("replay cases/a.json --mutant unknown-write-sent-again")
    assert words.replay_command(cell("a", case="cases/a b.json")) == ".venv/bin/killpoint replay 'cases/a b.json'"
