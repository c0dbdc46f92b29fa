"""The pages in a real browser: on a phone and on a desk, in light and dark, the page never scrolls sideways.

A page of the report runs no script, so a page around it does the measuring: it shows the report in frames of the widths
in question and writes what it measured into its own title, which the browser then prints.
"""

from __future__ import annotations

import json
import re
import subprocess
from html import escape
from pathlib import Path
from typing import Any

import pytest

from tests.reports import made_up
from tests.reports.browser import BROWSER

pytestmark = pytest.mark.browser

WIDTHS = (320, 360, 768, 1280)
BROWSER_S_MAX = 60
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--allow-file-access-from-files", "--virtual-time-budget=5000",
)  # fmt: skip

AROUND = """<!doctype html><meta charset="utf-8"><title></title><body>{frames}<script>
addEventListener("load", () => {{
  document.title = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => {{
    const page = frame.contentDocument, root = page.documentElement;
    const small = [...page.querySelectorAll("a.m")].map(mark => mark.getBoundingClientRect());
    return {{
      name: frame.title, width: frame.clientWidth, scrolls: root.scrollWidth, view: root.clientWidth,
      ground: getComputedStyle(page.body).backgroundColor,
      boxes: [...page.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth).length,
      least: Math.min(99, ...small.flatMap(box => [box.width, box.height])),
      sticky: [...page.querySelectorAll("th.c")].filter(cell => getComputedStyle(cell).position !== "sticky").length,
    }};
  }}));
}});
</script>"""


def measure(folder: Path, *flags: str) -> list[dict[str, Any]]:
    """Show the report and the page of a failed cell in every width, and give what the browser measured."""
    broken = sorted((folder / "repro").glob("*.json"))[0].stem
    pages = ("report.html", f"cells/{broken}.html")
    frames = "".join(
        f'<iframe title="{escape(page)}" src="{escape(page)}" style="width:{width}px;height:800px;border:0"></iframe>'
        for page in pages
        for width in WIDTHS
    )
    (folder / "around.html").write_text(AROUND.format(frames=frames), "utf-8")
    done = subprocess.run(
        [
            str(BROWSER),
            *FLAGS,
            *flags,
            f"--user-data-dir={folder}/profile",
            "--dump-dom",
            (folder / "around.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=BROWSER_S_MAX,
        check=True,
    )
    title = re.search(r"<title>(\[.*?\])</title>", done.stdout)
    assert title, f"the browser measured nothing: {done.stdout[:300]} {done.stderr[-300:]}"
    found: list[dict[str, Any]] = json.loads(title[1])
    assert [each["width"] for each in found] == [*WIDTHS, *WIDTHS]
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser") / "report"
    made_up.write_run(folder, made_up.cells(300))
    return folder


@pytest.fixture(scope="module")
def light(run: Path) -> list[dict[str, Any]]:
    return measure(run, "--blink-settings=preferredColorScheme=1")


def test_no_page_scrolls_sideways_and_wide_things_scroll_by_themselves(light: list[dict[str, Any]]) -> None:
    for page in light:
        assert page["scrolls"] <= page["view"], page
        if page["width"] in (320, 360):
            assert page["boxes"] > 0, f"nothing scrolls inside its own box: {page}"


def test_first_columns_stay_in_sight_and_marks_can_be_hit_by_a_finger(light: list[dict[str, Any]]) -> None:
    for page in light:
        assert page["sticky"] == 0, page
        assert page["least"] >= 24, page


def test_dark_and_light_differ(run: Path, light: list[dict[str, Any]]) -> None:
    dark = measure(run, "--blink-settings=preferredColorScheme=0")
    assert {page["ground"] for page in light} == {"rgb(253, 252, 249)"}
    assert {page["ground"] for page in dark} == {"rgb(21, 22, 24)"}
