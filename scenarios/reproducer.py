"""Owns the writing of a reproducer: one Python file that plays a failed case by itself and says whether it fails again.

The file plays the case with the harness's own modules, carried in it as they stand, so that its verdict is the harness's
and never drifts from it. Which modules these are is read from their imports. What they take from packages is stood in for
by `scenarios/standalone/`. The top of the file is for a person; the machinery comes after it.
"""

from __future__ import annotations

import ast
import json
import pprint
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from faults.catalogue import point
from reports import words
from reports.model import Violation
from scenarios.case import Case
from scenarios.clients import HttpClient, StdioClient
from scenarios.showing import Show
from scenarios.standalone.player import ASKED, ask, markers, runs
from scenarios.target import Places, Stage, Target

PLAYER = "scenarios/standalone/player.py"
STAND_INS = {"pydantic.py": "scenarios/standalone/data.py", "orjson.py": "scenarios/standalone/compact.py"}
PROBE = ("faults/__init__.py", "faults/probe.py")
# A case may have been made small with a bound that another machine does not keep.
SETTLE_S_MIN = 15.0
WIDTH = 110
THERE = "the process that stands there"  # as the words of a plan have it; at a point of the world, a plan means the worker
NO_SECRET = "scripted"  # noqa: S105 (what stands where a secret would)

_ROOT = Path(__file__).resolve().parents[1]
_ROOMS = ("faults", "scenarios", "reports")
# The harness's own files, and not what else may stand in its folder, such as an environment.
_OURS = re.compile(rf"{re.escape(str(_ROOT))}(?=/(?:{'|'.join(_ROOMS)})/|:|$)")
_BESIDE = re.compile(r"with_name\(\"([\w.]+)\"\)")
_PATH = re.compile(r"/(?:[\w.@+-]+/)*[\w.@+-]+")
_OF_EVERY_SYSTEM = ("/bin", "/dev", "/etc", "/proc", "/run", "/sys", "/tmp", "/usr", "/var")  # noqa: S108 (not written to)


def write(
    case: Case,
    target: Target,
    violations: Sequence[Violation],
    versions: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> str:
    """The text of a file that plays `case` on `target` and ends with: reproduced, another violation, no longer reproduced.

    violations: what was seen, one at least. versions: what it was seen on. environment: variables that the target had.
    Raises ValueError, in one line, where the target cannot be described by plain data, or nothing was violated.
    """
    if not violations:
        raise ValueError(f"{case.id}: nothing was violated, so there is nothing to reproduce")
    described = _describe(target)
    recorded = {
        "case": case.model_copy(
            update={"settle_s_max": max(case.settle_s_max, SETTLE_S_MIN), "target": target.name}
        ).model_dump(mode="json", by_alias=True),
        "violations": [words.scrub(each.model_dump(mode="json")) for each in violations],
        "environment": _without_secrets(environment or {}),
        "target": described,
        "versions": _versions(described, versions),
    }
    files = {PLAYER: "", **_carried(described)}
    parts = [
        f'#!/usr/bin/env python3\n"""{_quoted(_about(recorded))}"""',
        _BEFORE,
        f"RECORDED = {pprint.pformat(recorded, width=WIDTH, sort_dicts=False)}",
        _MAIN,
        *(f"FILES[{path!r}] = r'''{text}'''" for path, text in files.items()),
        'if __name__ == "__main__":\n    sys.exit(main())\n',
    ]
    return "\n\n".join(parts)


# What is carried -----------------------------------------------------------------------------------------------------


def _carried(described: Mapping[str, Any]) -> dict[str, str]:
    """The files that are unpacked when it is run, by path: modules of the harness, stand-ins, the target's own script."""
    roots = [PLAYER]
    lines = json.dumps([described["commands"], described["environment"]])
    roots += re.findall(r"\{harness\}/([\w./-]+\.py)", lines)
    roots += PROBE if "{harness}" in json.dumps(described["environment"]) else ()
    carried = {path: text for root in roots for path, text in closure(root).items()}
    return carried | {package: (_ROOT / path).read_text("utf-8") for package, path in STAND_INS.items()}


@cache
def closure(root: str) -> dict[str, str]:
    """A module of the harness and all of it that it needs, by path from the project's folder, as they stand.

    Raises ValueError for a file that cannot be carried as it stands.
    """
    found: dict[str, str] = {}
    waiting = [root]
    while waiting:
        path = waiting.pop()
        if path in found or not (_ROOT / path).is_file():
            continue
        text = found[path] = (_ROOT / path).read_text("utf-8")
        if "'''" in text or text.endswith("\\"):
            raise ValueError(f"{path}: cannot be carried as it stands, since it holds three single quotes")
        if path.endswith(".py"):
            waiting += [str(Path(path).with_name(name)) for name in _BESIDE.findall(text)]
            waiting += [each for module in imported(text) for each in _files_of(module)]
    return found


def imported(text: str) -> Iterator[str]:
    """The modules that a module's text imports when it runs, and what it takes from each, dotted."""
    for node in _run(ast.parse(text).body):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _run(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Everything in it but what only a type checker reads."""
    for node in body:
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from ast.walk(node)


def _files_of(module: str) -> list[str]:
    """Where a dotted name of ours may stand: itself, what it is part of, and the packages around it."""
    parts = module.split(".")
    if parts[0] not in _ROOMS:
        return []
    whole = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return [f"{each}{ending}" for each in whole for ending in (".py", "/__init__.py")]


# The target as plain data --------------------------------------------------------------------------------------------


def _describe(target: Target) -> dict[str, Any]:
    commands = {role: [_own(word, target) for word in _plain(target, "command", role)] for role in target.roles}
    environment = {role: _without_secrets(_plain(target, "environment", role)) for role in target.roles}
    for name, value in (pair for own in environment.values() for pair in own.items()):
        found = next((path for path in _PATH.findall(value) if _only_here(path)), None)
        if found:
            raise ValueError(f"target {target.name}: its variable {name} names {found}, which is only on this machine")
    return {
        "name": target.name,
        "python": next((line[0] for line in _lines(target) if _is_python(line[0], target)), None),
        "entry": target.entry,
        "preload": target.preload,
        "roles": list(target.roles),
        "entrance_role": target.entrance_role,
        "commands": commands,
        "environment": environment,
        "ready": _plain(target, "ready", target.entrance_role) if target.ready else None,
        "client": _client(target),
        "claims": list(target.claims),
        "points": list(target.points),
    }


def _client(target: Target) -> str:
    """How its client is made, in a word. Raises ValueError for a client that is not of the harness."""
    try:
        client: Any = target.client(cast(Stage, None))  # it is made, not used
    except Exception:
        client = None
    if type(client) is HttpClient:
        return "http"
    show = client.show if type(client) is StdioClient else None
    if type(show) is not Show or (show.command, show.environment) != (target.command, target.environment):
        raise ValueError(
            f"target {target.name}: its client is code of its own, which one file cannot carry; use killpoint replay"
        )
    return "stdio"


def _samples(role: str) -> tuple[Places, Places]:
    """Two lives in places that are nowhere, to see what is made of them."""
    return tuple(  # type: ignore[return-value]
        Places(Path(f"/kp-{sign}-folder"), f"http://kp-{sign}-provider", f"http://kp-{sign}-effects", role, life)
        for sign, life in (("one", 70411), ("two", 70412))
    )


def _plain(target: Target, what: str, role: str) -> Any:
    """What `command`, `environment` or `ready` gives for a life, with a word in braces for each thing that changes."""
    try:
        found = [_marked(getattr(target, what)(places), places) for places in _samples(role)]
    except Exception as error:
        raise ValueError(f"target {target.name}: its {what} is not plain data ({type(error).__name__}: {error})") from None
    if found[0] != found[1]:
        raise ValueError(f"target {target.name}: its {what} is not the same each time, which one file cannot carry")
    return found[0]


def _marked(value: Any, places: Places) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _marked(each, places) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_marked(each, places) for each in value]
    text = _OURS.sub("{harness}", str(value))
    for name, each in markers(places, _ROOT).items():
        text = text.replace(each, name) if name != "{harness}" else text
    return text


def _own(word: str, target: Target) -> str:
    return "{python}" if _is_python(word, target) else word


def _is_python(word: str, target: Target) -> bool:
    return word in (target.python, sys.executable)


def _lines(target: Target) -> list[list[str]]:
    return [target.command(_samples(role)[0]) for role in target.roles]


def _only_here(path: str) -> bool:
    return not path.startswith(_OF_EVERY_SYSTEM) and path.count("/") > 1 and Path(path).exists()


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """These variables, with a word in place of each secret. The world that the file plays takes any key."""
    return {
        name: NO_SECRET if words.scrub({name: value}) != {name: value} else value for name, value in environment.items()
    }


def _versions(described: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, str]:
    """What was known when it was recorded, and what the target's Python says of itself; the harness's own Python, which
    another one takes the place of, is left out."""
    line = next(iter(described["commands"].values()))
    program = runs([word.replace("{harness}", str(_ROOT)) for word in line])
    found = ask(described["python"], program, Path("/")) if described["python"] else {}
    known = {name: value for name, value in versions.items() if name not in ("python", "target")}
    return {**known, **{name: found[key] for name, key in ASKED.items() if found.get(key)}}


# What a person reads -------------------------------------------------------------------------------------------------


def _about(recorded: Mapping[str, Any]) -> str:
    case, target = recorded["case"], recorded["target"]
    return _ABOUT.format(
        title=words.short(f"{target['name']}: {recorded['violations'][0]['promise']}", WIDTH - 4),
        broken="\n\n".join(map(_broken, recorded["violations"])),
        model="\n".join(_numbered(_model(case))),
        users="\n".join(_numbered(words.steps_in_words(case))),
        plan="\n".join(_plan(case)) or _line("Nothing does.", 8),
        bound=f"{case['settle_s_max']:g}",
        commands="\n".join(_line(f"{role}: {' '.join(line)}", 8) for role, line in target["commands"].items()),
        python=_line(f"where {{python}} is {target['python']}; another one with --python PATH.", 8)
        if target["python"]
        else _line("Another one with --command ROLE=LINE.", 8),
        forked=", instead of forking it with its modules imported" if target["entry"] else ", as is done anyway",
        variables="".join(
            f"\n    reproduce.py --set {name}=        the same without {name}={value}, which it is set to"
            for name, value in recorded["environment"].items()
        ),
        versions="\n".join(f"    {name}: {value}" for name, value in recorded["versions"].items()),
    )


def _broken(violation: Mapping[str, Any]) -> str:
    clauses = ", ".join(violation["clauses"])
    return "\n".join(
        _line(text)
        for text in (
            f"promised: {violation['promise']} ({clauses})",
            f"expected: {violation['expected']['says']}",
            f"seen:     {violation['seen']['says']}",
            f"by the check {violation['check']}",
        )
    )


def _model(case: Mapping[str, Any]) -> list[str]:
    """What the scripted model answers, a line for each reply."""
    return [
        f"asked {words.short(text, 60)!r}, {'then' if number else 'it'} {_reply(reply)}"
        for text, replies in case["script"]["replies"].items()
        for number, reply in enumerate(replies)
    ]


def _reply(reply: Mapping[str, Any]) -> str:
    calls = [f"calls {call['tool']} with {words.plain_json(call['arguments'], 200)}" for call in reply["calls"]]
    return (
        " and ".join([*calls, *([f"says {words.short(reply['text'], 60)!r}"] if reply["text"] else [])]) or "says nothing"
    )


def _plan(case: Mapping[str, Any]) -> Iterator[str]:
    """What breaks, each address with the sentence of its point."""
    for fault, (when, ops) in zip(case["plan"], words.plan_in_words(case), strict=True):
        about = point(fault["at"].partition("#")[0])
        who = "the worker" if about.role == "world" else THERE
        yield _line(f"{when} ({about.sentence}):", 8)
        yield from _numbered([op.replace(THERE, who) for op in ops], 12)


def _numbered(lines: Sequence[str], indent: int = 8) -> list[str]:
    return [_line(f"{number}. {line}", indent) for number, line in enumerate(lines, 1)]


def _line(text: str, indent: int = 4) -> str:
    return textwrap.fill(
        " ".join(words.clean(text).split(" ")),
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _quoted(text: str) -> str:
    """As it has to stand between three double quotes."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


_ABOUT = """{title}

A reproducer. It starts the target on this machine, lets it work against a scripted model provider and a service that
it writes to, both on 127.0.0.1, breaks it where the plan says, and judges what these two, the users and the store have
seen. It needs the standard library of Python and the target; it sends nothing anywhere and leaves nothing behind.

WHAT WAS BROKEN

{broken}

WHAT IS PLAYED

    The model:
{model}

    The users:
{users}

    What breaks:
{plan}

    At the end it is waited, {bound} s at most, until everything is at rest.

WHAT HAS TO BE THERE

    - Linux with /proc; Python 3.11 or newer for this file.
    - A free port on 127.0.0.1, and 64 MB in /dev/shm or else in the folder for temporary files.
    - The target, which is started by
{commands}
{python}

HOW TO RUN IT

    reproduce.py                 once (put the name of this file for reproduce.py, and a Python before it)
    reproduce.py --times 50      so many times
    reproduce.py --keep DIR      keep the history of each play
    reproduce.py --cold          start each process from its command line{forked}{variables}

WHAT IT SAYS, AND ITS EXIT STATUS

    1  reproduced: a check that found something when this was recorded found it again.
    0  no longer reproduced: everything was played, and every promise was kept.
    3  another violation: only other checks found something; or not judged, with the reason. It says which.
    2  it was called wrongly, or something that it needs is not there: one line says what.
    4  this file itself failed.

RECORDED WITH

{versions}

WHAT IS INSIDE

    First what was recorded, as data; then `main`; then, as text, the modules of killpoint that play and judge such a case,
    unchanged, and stand-ins for packages (`pydantic.py`, `orjson.py`, `scenarios/standalone/front.py`). They are unpacked
    into a folder of their own for as long as it runs.
"""

_BEFORE = """import os
import sys
import tempfile"""

_MAIN = """
FILES = {}  # what is unpacked, by path; see below


def main():
    if sys.platform != "linux" or sys.version_info < (3, 11):
        sys.stderr.write("this needs Linux and Python 3.11 or newer; call it with such a Python\\n")
        return 2
    try:
        folder = tempfile.TemporaryDirectory(prefix="killpoint-")
    except OSError as error:
        sys.stderr.write("no folder for temporary files can be made (%s); set TMPDIR to one\\n" % error)
        return 2
    with folder as home:
        for path, text in FILES.items():
            os.makedirs(os.path.dirname(os.path.join(home, path)), exist_ok=True)
            with open(os.path.join(home, path), "w", encoding="utf-8") as file:
                file.write(text)
        sys.dont_write_bytecode = True
        sys.path.insert(0, home)
        from pathlib import Path

        from scenarios.standalone.player import main as play

        return play(RECORDED, Path(home), __doc__)
""".rstrip()
