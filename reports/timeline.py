"""Owns the drawing of one case's history: lanes for clients, lives, world and harness, as one SVG.

The order is exact and the distances are not: what happens within a millisecond and what takes an hour must both be read
on one sheet. So every mark gets a column of its own, wide enough for its number, and a longer wait gets a wider gap that
grows with its logarithm. Numbers therefore never collide, however dense a moment was, and they are the `seq` of the
table below the drawing, where the words are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

from reports.words import clean, say

MARKS_MAX = 600
COLUMN = 19
COLUMN_AFTER_START = 46
GAP_MAX = 64
LANE = 46
TOP = 8
AXIS = 26
LABELS = 74
TICK_APART = 84

# Bursts of these, next to each other, share one mark: each piece of a stream alone says nothing.
_BURSTS = frozenset({"provider.chunk", "client.event"})
_UNDRAWN = frozenset({"case.opened", "case.closed", "point.released"})

# Shapes around (0, 0); `class` gives the colour, the shape alone tells them apart.
_SHAPES: dict[str, str] = {
    "ask": '<path class="f" d="M-4-5 5 0-4 5z"/>',
    "ok": '<circle class="f" r="4.5"/>',
    "bad": '<circle class="o" r="4.5"/><path class="s" d="M-3 3 3-3"/>',
    "unknown": '<circle class="o" r="5.5"/><text class="q" y="3.2">?</text>',
    "event": '<path class="s" d="M0-5V5"/>',
    "watch": '<path class="s" d="M-3-5H3M0-5V5"/>',
    "gone": '<path class="s" d="M-3 5H3M0-5V5"/>',
    "point": '<path class="o" d="M0-6 6 0 0 6-6 0z"/>',
    "fired": '<path class="f" d="M0-6 6 0 0 6-6 0z"/>',
    "kill": '<path class="x" d="M-6-6 6 6M6-6-6 6"/>',
    "start": '<path class="s" d="M0-9V9"/>',
    "exit": '<path class="s" d="M0-9V9M-3-9H0M-3 9H0"/>',
    "freeze": '<path class="x2" d="M-3-6V6M3-6V6"/>',
    "thaw": '<path class="o" d="M-4-5 5 0-4 5z"/>',
    "piece": '<circle class="f" r="2.5"/>',
    "bill": '<circle class="o" r="5"/><circle class="f" r="2"/>',
    "write": '<path class="f" d="M-5-5H5V5H-5z"/>',
    "twice": '<path class="x2" d="M-6-6H3V3H-6z"/><path class="x2f" d="M-3-3H6V6H-3z"/>',
    "query": '<path class="o" d="M-5-5H5V5H-5z"/>',
    "note": '<path class="o" d="M-4-5H4V5H-4z"/><path class="s" d="M-2-2H2M-2 1H2"/>',
}
_SHAPE_OF: dict[str, str] = {
    "client.invoked": "ask",
    "client.event": "event",
    "client.connected": "watch",
    "client.disconnected": "gone",
    "point.reached": "point",
    "point.fired": "fired",
    "kill": "kill",
    "process.started": "start",
    "process.exited": "exit",
    "freeze": "freeze",
    "thaw": "thaw",
    "provider.request": "ask",
    "provider.chunk": "piece",
    "provider.billed": "bill",
    "provider.answered": "ok",
    "provider.refused": "bad",
    "effect.received": "ask",
    "effect.applied": "write",
    "effect.answered": "ok",
    "effect.queried": "query",
}
LEGEND: tuple[tuple[str, str], ...] = (
    ("ask", "request"),
    ("ok", "reply"),
    ("bad", "refusal or error"),
    ("unknown", "no reply: unknown"),
    ("event", "event"),
    ("point", "point reached"),
    ("fired", "plan carried out"),
    ("kill", "kill"),
    ("freeze", "frozen"),
    ("piece", "piece of a stream"),
    ("bill", "billed"),
    ("write", "write applied"),
    ("twice", "write applied twice"),
    ("query", "state asked for"),
    ("note", "clock, store, snapshot"),
)


def shape(name: str) -> Markup:
    """One shape of the legend, to be put into an SVG."""
    return Markup(_SHAPES[name])  # noqa: S704 - a constant of this module


@dataclass(slots=True)
class _Mark:
    """One or several records at one place. `seqs` are first and last."""

    seq: int
    last: int
    t_ns: int
    kind: str
    data: Mapping[str, Any]
    lane: str
    x: float = 0.0


@dataclass(slots=True)
class _Life:
    """One life of a process: from its start to its end, which may never have been seen."""

    role: str
    life: int
    pid: Any
    begin: int
    end: int | None = None
    killed: bool = False
    frozen: list[list[int | None]] = field(default_factory=list)
    row: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """The drawing: `labels` stands still beside it, `drawing` scrolls; both are SVG. `width` is in pixels."""

    labels: Markup
    drawing: Markup
    width: int
    height: int
    left_out: int


def draw(
    records: Sequence[Mapping[str, Any]], title: str, uid: str = "timeline", said: Sequence[str] | None = None
) -> Timeline:
    """The timeline of these records (`kind`, `t_ns`, `data`), which are in order; their numbers are their places. `said`
    is each of them in words, if the caller has that at hand."""
    said = said if said is not None else [say(record["kind"], record["data"]) for record in records]
    lives = _lives(records)
    _stack(lives, len(records))
    rows = _rows(lives)
    marks = _marks(records, {key: life.row for key, life in lives.items()})
    left_out = max(0, len(marks) - MARKS_MAX)
    marks = marks[:MARKS_MAX]
    width = _place(marks)
    at = _positions(marks, len(records), width)
    y_of = {name: TOP + LANE * i + LANE / 2 + 4 for i, (name, _) in enumerate(rows)}
    height = TOP + LANE * len(rows) + AXIS

    parts = [_grid(rows, width), _bars(lives, at, y_of, width), _spans(records, at, y_of), _rules(marks, height)]
    parts += (_mark(mark, y_of, said[mark.seq]) for mark in marks)
    parts.append(_axis(marks, height))
    names = ", ".join(label for _, label in rows)
    head = (
        f'<svg class="tl" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{uid}-t {uid}-d"><title id="{uid}-t">{escape(title)}</title>'
        f'<desc id="{uid}-d">{len(records)} records in order, in the lanes {escape(names)}. '
        "The numbers are those of the table of records below.</desc>"
    )
    labels = "".join(f'<text x="2" y="{y_of[name] + 4:g}">{escape(label)}</text>' for name, label in rows)
    return Timeline(
        labels=Markup(  # noqa: S704 - numbers and escaped text only
            f'<svg class="tl" viewBox="0 0 {LABELS} {height}" width="{LABELS}" height="{height}" aria-hidden="true">'
            f"{clean(labels)}</svg>"
        ),
        drawing=Markup(clean(f"{head}{''.join(parts)}</svg>")),  # noqa: S704 - numbers and escaped text only
        width=width,
        height=height,
        left_out=left_out,
    )


# Reading -------------------------------------------------------------------------------------------------------------


def _lives(records: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], _Life]:
    lives: dict[tuple[str, int], _Life] = {}
    for i, record in enumerate(records):
        data, kind = record["data"], record["kind"]
        key = (str(data.get("role")), data.get("life") if isinstance(data.get("life"), int) else 0)
        if kind == "process.started":
            lives[key] = _Life(key[0], key[1], data.get("pid"), i)
        elif (life := lives.get(key)) is None:
            continue
        elif kind in ("process.exited", "kill"):
            life.end = i if life.end is None else min(life.end, i)
            life.killed = life.killed or kind == "kill"
        elif kind == "freeze":
            life.frozen.append([i, None])
        elif kind == "thaw" and life.frozen:
            life.frozen[-1][1] = i
    return lives


def _stack(lives: Mapping[tuple[str, int], _Life], end: int) -> None:
    """Give each life a row of its role in which it overlaps no other."""
    busy: dict[str, list[int]] = {}
    for life in sorted(lives.values(), key=lambda each: each.begin):
        ends = busy.setdefault(life.role, [])
        life.row = next((row for row, until in enumerate(ends) if until <= life.begin), len(ends))
        until = end if life.end is None else life.end
        ends[life.row : life.row + 1] = [until]


def _rows(lives: Mapping[tuple[str, int], _Life]) -> list[tuple[str, str]]:
    rows = [("client", "client")]
    roles = ["app", "worker", *sorted({life.role for life in lives.values()} - {"app", "worker"})]
    for role in roles:
        number = 1 + max((life.row for life in lives.values() if life.role == role), default=0)
        rows += [(f"{role}/{row}", role if row == 0 else f"{role}, also") for row in range(number)]
    return [*rows, ("provider", "provider"), ("effect", "effects"), ("harness", "harness")]


def _marks(records: Sequence[Mapping[str, Any]], rows: Mapping[tuple[str, int], int]) -> list[_Mark]:
    marks: list[_Mark] = []
    for i, record in enumerate(records):
        kind, data = record["kind"], record["data"]
        if kind in _UNDRAWN:
            continue
        burst = _open_burst(marks, kind, data)
        if burst is not None:
            burst.last = i
            continue
        marks.append(_Mark(i, i, record["t_ns"], kind, data, _lane(kind, data, rows)))
    return marks


def _open_burst(marks: Sequence[_Mark], kind: str, data: Mapping[str, Any]) -> _Mark | None:
    """The mark that this record joins: one of its kind, with nothing but other bursts since."""
    if kind not in _BURSTS:
        return None
    for mark in reversed(marks):
        if mark.kind not in _BURSTS:
            return None
        if mark.kind == kind and mark.data.get("n") == data.get("n"):
            return mark
    return None


def _lane(kind: str, data: Mapping[str, Any], rows: Mapping[tuple[str, int], int]) -> str:
    group = kind.partition(".")[0]
    if group in ("client", "provider", "effect"):
        return group
    if group in ("process", "kill", "freeze", "thaw", "point"):
        if str(data.get("role")) == "world" or (kind == "point.fired" and "role" not in data):
            head = str(data.get("point")).partition(".")[0]
            return head if head in ("provider", "effect") and data.get("role") == "world" else "harness"
        life = data.get("life")
        row = rows.get((str(data.get("role")), life if isinstance(life, int) else 0), 0)
        return f"{data.get('role')}/{row}"
    return "harness"


# Placing -------------------------------------------------------------------------------------------------------------


def _place(marks: Sequence[_Mark]) -> int:
    """Give each mark its column; the width of the whole comes back, in pixels."""
    x = 16.0
    for before, mark in zip([None, *marks], marks, strict=False):
        if before is not None:
            waited_ms = max(0.0, (mark.t_ns - before.t_ns) / 1e6)
            least = COLUMN_AFTER_START if before.kind == "process.started" else COLUMN
            wide = COLUMN + 4 if mark.last > mark.seq or before.last > before.seq else COLUMN
            x += max(least, min(GAP_MAX, wide + 5 * math.log2(1 + waited_ms / 8)))
        mark.x = round(x, 1)
    return int(x + 40)


def _positions(marks: Sequence[_Mark], count: int, width: int) -> list[float]:
    """The x of every record, also of those that share a mark or have none."""
    at = [0.0] * (count + 1)
    x, known = 8.0, {mark.seq: mark.x for mark in marks}
    for seq in range(count):
        x = known.get(seq, x)
        at[seq] = x
    at[count] = width - 8.0
    return at


# Drawing -------------------------------------------------------------------------------------------------------------


def _grid(rows: Sequence[tuple[str, str]], width: int) -> str:
    """A line for each lane, with its name for paper, where nothing stands still beside what scrolls."""
    parts = []
    for i, (_, label) in enumerate(rows):
        y = TOP + LANE * i + LANE / 2 + 4
        parts.append(f'<path class="g" d="M0 {y:g}H{width}"/><text class="pl" x="0" y="{y - 13:g}">{escape(label)}</text>')
    return "".join(parts)


def _bars(lives: Mapping[tuple[str, int], _Life], at: Sequence[float], y_of: Mapping[str, float], width: int) -> str:
    parts = []
    for life in lives.values():
        y = y_of.get(f"{life.role}/{life.row}")
        if y is None:
            continue
        x1, x2 = at[life.begin], at[life.end] if life.end is not None else width - 8.0
        parts.append(f'<rect class="life" x="{x1:g}" y="{y - 8:g}" width="{max(2.0, x2 - x1):g}" height="16" rx="2"/>')
        for begin, end in life.frozen:
            fx1, fx2 = at[begin or 0], at[end] if end is not None else x2
            parts.append(f'<rect class="ice" x="{fx1:g}" y="{y - 8:g}" width="{max(2.0, fx2 - fx1):g}" height="16"/>')
        parts.append(f'<text class="l" x="{x1 + 1:g}" y="{y + 18:g}">life {life.life}</text>')
    return "".join(parts)


def _spans(records: Sequence[Mapping[str, Any]], at: Sequence[float], y_of: Mapping[str, float]) -> str:
    """A thin line from each request to its end; dashed to the edge where no reply ever came."""
    open_: dict[tuple[str, Any], int] = {}
    parts = []
    begins = {
        "client.invoked": ("client", "call"),
        "provider.request": ("provider", "n"),
        "effect.received": ("effect", "n"),
    }
    ends = {"client.heard": ("client", "call"), "provider.answered": ("provider", "n"), "effect.answered": ("effect", "n")}
    for i, record in enumerate(records):
        if begin := begins.get(record["kind"]):
            open_[begin[0], str(record["data"].get(begin[1]))] = i
        elif end := ends.get(record["kind"]):
            start = open_.pop((end[0], str(record["data"].get(end[1]))), None)
            if start is not None:
                parts.append(f'<path class="s" d="M{at[start]:g} {y_of[end[0]]:g}H{at[i]:g}"/>')
    parts += (f'<path class="d" d="M{at[start]:g} {y_of[lane]:g}h34"/>' for (lane, _), start in open_.items())
    return "".join(parts)


def _rules(marks: Iterable[_Mark], height: int) -> str:
    """A vertical rule where the plan struck or a process was killed: the two moments that a reader looks for first."""
    return "".join(
        f'<path class="{"kr" if mark.kind == "kill" else "fr"}" d="M{mark.x:g} {TOP}V{height - AXIS}"/>'
        for mark in marks
        if mark.kind in ("kill", "point.fired", "clock.moved")
    )


def _mark(mark: _Mark, y_of: Mapping[str, float], said: str) -> str:
    y = y_of.get(mark.lane, y_of["harness"])
    number = str(mark.seq) if mark.last == mark.seq else f"{mark.seq}+"
    words = said if mark.last == mark.seq else f"{mark.kind}, to record {mark.last}"
    return (
        f'<a href="#r{mark.seq}" tabindex="-1"><g class="k" transform="translate({mark.x:g} {y:g})">'
        f'<title>{mark.seq}: {escape(words)}</title>{_SHAPES[_shape(mark)]}<text class="n" y="-12">{number}</text></g></a>'
    )


def _shape(mark: _Mark) -> str:
    if mark.kind == "client.heard":
        return {"ok": "ok", "unknown": "unknown"}.get(str(mark.data.get("outcome")), "bad")
    if mark.kind == "effect.applied" and mark.data.get("duplicate_of") is not None:
        return "twice"
    return _SHAPE_OF.get(mark.kind, "note")


def _axis(marks: Sequence[_Mark], height: int) -> str:
    """Times since the first mark, as often as there is room for them."""
    parts, free = [], -1.0
    for mark in marks:
        if mark.x < free:
            continue
        free = mark.x + TICK_APART
        parts.append(
            f'<path class="s" d="M{mark.x:g} {height - AXIS}v4"/>'
            f'<text class="t" x="{mark.x:g}" y="{height - 8}">{since(mark.t_ns - marks[0].t_ns)}</text>'
        )
    return "".join(parts)


def since(ns: float) -> str:
    """A span of nanoseconds, in the unit that a reader wants."""
    ms = ns / 1e6
    if ms < 10:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.2f} s" if ms < 100_000 else f"{ms / 60000:.1f} min"
