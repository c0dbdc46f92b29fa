"""The pages: whole, safe, readable without script, without colour and without the network."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.assemble import assemble
from reports.model import CheckResult, Comparisons, Evidence, Kill, Script, Violation, Witness
from reports.pages import cell_page, report_page
from reports.words import place_in_words
from tests.reports import made_up
from tests.reports.reading import Page

CSS = (Path(__file__).parents[2] / "reports/templates/style.css").read_text("utf-8")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`${{7*7}}{{7*7}}&lt;javascript:alert(1)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "report"
    made_up.write_run(folder, made_up.cells(80, bad=0.2))
    return folder


@pytest.fixture(scope="module")
def parsed(run: Path) -> dict[Path, Page]:
    """Every page of the run, as a browser reads it."""
    return {path: Page.read(path) for path in pages(run)}


def pages(folder: Path) -> list[Path]:
    return [folder / "report.html", *sorted((folder / "cells").glob("*.html"))]


def test_every_page_is_balanced_and_repeats_no_id(parsed: dict[Path, Page]) -> None:
    for path, page in parsed.items():
        assert not page.unbalanced, (path.name, page.unbalanced[:3])
        assert len(page.ids) == len(set(page.ids)), path.name


def test_every_link_leads_to_a_file_of_the_report_or_to_a_place_on_the_page(parsed: dict[Path, Page]) -> None:
    assert len(parsed) == 81
    for path, page in parsed.items():
        for href in page.hrefs:
            if href == "data:,":
                continue
            file, _, place = href.partition("#")
            assert not re.match(r"[a-z]+:|//", file), f"{path.name} reaches outside: {href}"
            if file:
                assert (path.parent / unquote(file)).is_file(), f"{path.name}: {href} leads nowhere"
            else:
                assert place in page.ids, f"{path.name}: #{place} leads nowhere"


def test_nothing_is_loaded_and_nothing_runs(parsed: dict[Path, Page]) -> None:
    for page in parsed.values():
        assert not {tag for tag, _ in page.elements} & {"script", "img", "iframe", "object", "embed", "form", "base"}
        assert not [
            name for _, attributes in page.elements for name in attributes if name.startswith("on") or name == "src"
        ]
        assert "url(" not in CSS
        assert "@import" not in CSS
        policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
        assert policy.startswith("default-src 'none'")


def test_every_table_has_a_caption_and_every_heading_cell_its_scope(parsed: dict[Path, Page]) -> None:
    for page in parsed.values():
        assert len(page.all("table")) == len(page.all("caption")) > 0
        assert {each.get("scope") for each in page.all("th")} <= {"col", "row", "rowgroup"}


def test_what_scrolls_sideways_can_be_reached_by_keyboard_and_has_a_name(parsed: dict[Path, Page]) -> None:
    for page in parsed.values():
        boxes = [each for each in page.all("div") if "scroll" in each.get("class", "").split()]
        assert boxes
        assert all(
            each.get("tabindex") == "0" and each.get("role") == "region" and each.get("aria-label") for each in boxes
        )


def test_the_matrix_has_one_mark_for_each_cell_and_says_its_state_without_colour(run: Path) -> None:
    page = Page.read(run / "report.html")
    marks = [each for each in page.all("a") if each.get("class", "").startswith("m ")]
    assert len(marks) == 80 - 3  # the canary and the disarmed stand apart
    assert {each["title"].partition(":")[0] for each in marks} == {"held", "violated", "inconclusive", "void"}
    for state, glyph in (("held", "✓"), ("violated", "✗"), ("inconclusive", "?"), ("void", "⊘")):
        assert f'class="m {state}"' in (run / "report.html").read_text("utf-8")
        assert glyph in page.text


def test_verdict_and_what_was_not_judged_come_first(run: Path) -> None:
    text = Page.read(run / "report.html").text
    places = [
        text.index(words) for words in ("Rejected", "What was not judged", "page cache", "Broken promises", "Clauses")
    ]
    assert places == sorted(places)


def test_several_ordinals_share_one_square() -> None:
    made = [made_up.cell(f"c{i}", ordinal=i, page=f"cells/c{i}.html") for i in (1, 2, 3)]
    html = report_page(assemble(made, made_up.inputs(made)))
    square = re.search(r'<td><div class="ms">(.*?)</div></td>', html)
    assert square
    assert re.findall(r'href="cells/c(\d)\.html"', square[1]) == ["1", "2", "3"]


def test_twelve_hundred_cells_stay_small() -> None:
    made = [cell.model_copy(update={"page": cell.case}) for cell in made_up.cells(1200)]
    assert len(report_page(assemble(made, made_up.inputs(made))).encode()) < 1_500_000


def test_an_empty_run_is_a_page_too() -> None:
    page = Page(report_page(assemble([], made_up.inputs([], finished=False))))
    assert not page.unbalanced
    assert "Incomplete" in page.text
    assert "the run has not finished" in page.text
    assert "No cell has been judged yet" in page.text


def test_a_cell_page_says_what_broke_where_and_how_to_see_it_again(run: Path) -> None:
    path = next(
        path for path in pages(run)[1:] if "no_duplicate_write" in path.read_text() and "Violated" in path.read_text()
    )
    page = Page.read(path)
    for words in (
        "No write that may have happened is sent again blindly.",
        "write 2 with the same arguments was applied after the restart",
        ".venv/bin/killpoint replay",
        "fires after",
        "kill the process that stands there (SIGKILL)",
        "0123456789abcdef",
        "sha256:",
        "nothing to look at, so it shows nothing",
        "35.0 ms",
    ):
        assert words in page.text, words
    assert {"#r21", "#r33"} <= set(page.hrefs)
    assert page.all("svg")
    assert "verysecret" not in path.read_text()


LEFT = Evidence(
    seen={"kill worker": 1, "life worker": 2, "clock forward": 2592000},
    planned={"clock forward": 2592000, "extra worker": 1, "kill worker": 2},
)


def test_a_cell_page_says_what_the_fault_left_behind_and_what_it_was_compared_with() -> None:
    compared = {"compared": ["write once/none"], "not_compared": ["the same play disarmed"]}
    html = cell_page(made_up.cell("c", evidence=LEFT, **compared), [], {})
    page = Page(html)
    assert not page.unbalanced and "What the fault left behind" in page.text
    assert "Compared with write once/none." in page.text
    assert "Not compared with the same play disarmed, which the run does not have." in page.text
    for what, planned, seen in (
        ("seconds of the clock, forward", 2592000, 2592000),
        ("lives of the worker begun beside another", 1, 2),
        ("proved kills of the worker", 2, 1),
    ):
        assert f'{what}</th><td class="r">{planned}</td><td class="r">{seen}</td>' in html, what
    assert "Vacuous" not in page.text and "What the fault left behind" not in cell_page(made_up.cell("c"), [], {})


def test_a_vacuous_cell_says_first_that_it_shows_nothing() -> None:
    found = ["at <turn.begun>#1 the plan is: kill it", "and no life began"]
    page = Page(cell_page(made_up.cell("c", "inconclusive", evidence=LEFT, vacuous=found), [], {}))
    assert not page.unbalanced and all(line in page.text for line in found)
    assert page.text.index("Vacuous") < page.text.index("Play it again")


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((0, 0, 0, 0), "No cell had a fault of which anything could be missed."),
        ((9, 9, 0, 0), "and 9 also against the same scenario fault-free and the same play disarmed. All differed"),
        ((9, 8, 1, 2), "(1 lacked one of the two). 2 did not differ where they should."),
    ],
)
def test_the_report_tells_of_its_comparisons_in_a_sentence(numbers: tuple[int, int, int, int], says: str) -> None:
    planned, compared, lacking, vacuous = numbers
    made = Comparisons(planned=planned, compared=compared, lacking=lacking, vacuous=vacuous)
    cells = [made_up.cell("canary", "violated", canary=True), made_up.cell("a")]
    report = assemble(cells, made_up.inputs(cells)).model_copy(update={"comparisons": made})
    assert says in Page(report_page(report)).text


def test_what_is_counted_at_a_place_is_told_in_words_and_an_unknown_place_as_it_is() -> None:
    assert place_in_words("kill worker") == "proved kills of the worker"
    assert place_in_words("lost provider") == "requests that the model provider never answered"
    assert place_in_words("copy") == "copies of the store at a death"
    assert place_in_words("quake s1") == "quake s1"


def test_a_witness_beyond_the_history_is_told_without_a_dead_link() -> None:
    cell = made_up.cell("c", "violated")
    page = Page(cell_page(cell, made_up.history().records[:5], made_up.case("c")))
    assert "(#33)" in page.text
    assert "#r33" not in page.hrefs


def test_a_cell_without_history_point_or_case_is_a_page_too() -> None:
    cell = made_up.cell("c", "not run", point=None, kills=[], checks=[], violations=[], phases={}, case=None)
    page = Page(cell_page(cell, [], {}))
    assert not page.unbalanced
    assert "No history was recorded" in page.text
    assert "Nobody was killed" in page.text


def hostile_cell(text: str):
    broken = Violation(
        check=text, clauses=[text], promise=text, expected=Witness(says=text, seq=0), seen=Witness(says=text)
    )
    kill = Kill(pid=1, role=text, life=1, signal=text, status=9, point=text, ordinal=1, nonce=text, proved=False, why=text)
    return made_up.cell(
        text, "violated", scenario=text, family=text, point=text, fault=text, entrance=text, why=text, clauses=[text],
        kills=[kill], violations=[broken], phases={text: 1.0}, digest=text,
        checks=[CheckResult(check=text, clauses=[text], status="void", why=text)], points_reached={text: 1},
    )  # fmt: skip


def hostile_page(text: str) -> tuple[str, str]:
    cell = hostile_cell(text)
    records = [
        {"t_ns": i, "kind": kind, "data": dict.fromkeys(("role", "point", "op", "text", "why", "receiver", "n"), text)}
        for i, kind in enumerate(("process.started", "client.invoked", "point.reached", "effect.applied", "kill", text))
    ]
    about = {"name": text, "role": text, "moment": text, "sentence": text}
    case = made_up.case(text, at=text, fault=text) | {
        "steps": [{"do": text}, {"do": "send", "text": text, "request": text}]
    }
    report = assemble(
        [cell.model_copy(update={"page": "cells/x.html"})],
        made_up.inputs([cell], target=text, notes=[text], command=text, points=[about], clause_texts={text: text},
                       claimed=[text], versions={text: text}, excused={text: {"reason": text, "until": text}}),
    )  # fmt: skip
    return report_page(report), cell_page(cell, records, case, about)


SHAPE = [[tag for tag, _ in Page(html).elements] for html in hostile_page("plain")]


def test_hostile_text_stays_text() -> None:
    for html, shape in zip(hostile_page(HOSTILE), SHAPE, strict=True):
        page = Page(html)
        assert not page.unbalanced
        assert [tag for tag, _ in page.elements if tag not in ("wbr", "span")] == [
            tag for tag in shape if tag not in ("wbr", "span")
        ], "data made an element"
        assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
        assert "{{7*7}}" in page.text


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_no_text_makes_an_element(text: str) -> None:
    for html, shape in zip(hostile_page(text), SHAPE, strict=True):
        page = Page(html)
        assert not page.unbalanced
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", html)
        kept = [tag for tag, _ in page.elements if tag not in ("wbr", "span")]
        assert kept == [tag for tag in shape if tag not in ("wbr", "span")]


# Colours -------------------------------------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    def part(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = (part(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_colour_has_contrast_enough(theme: int) -> None:
    blocks = re.findall(r":root\{([^}]*--paper[^}]*--ink[^}]*)\}", CSS)
    assert len(blocks) == 2
    colours = dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", blocks[theme]))
    texts = ("ink", "soft", "link", "held", "violated", "inconclusive", "void", "quiet")
    for text, ground in product(texts, ("paper", "wash")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for text in ("held", "violated", "inconclusive", "void", "quiet"):
        assert contrast(colours[text], colours[f"{text}-wash"]) >= 4.5, text


def test_a_cell_page_links_the_file_that_plays_it_by_itself_or_says_why_there_is_none() -> None:
    cell = made_up.cell("c", "violated", violations=[made_up.violation()], repro="repro/c.json")
    assert 'href="../repro/c.py"' in cell_page(cell, [], made_up.case("c"), script=Script(text="pass"))
    without = cell_page(cell, [], made_up.case("c"), script=Script(why_not="its client is <its> own"))
    assert "There is no file that plays it by itself: its client is &lt;its&gt; own." in without and "c.py" not in without
