"""Owns the main program of a reproducer in one file: it plays the recorded case, and says which of three things came.

It brings nothing of its own to what is played and judged: the case goes to `scenarios/runner.py`, its history to
`scenarios/judge.py`, as in the harness. Here is what stands around that: what has to be there before anything is started,
what has changed since the case was recorded, how often it is played, and the exit status.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from faults.processes import Keeper, KeeperError
from reports.model import Violation
from scenarios.case import Case
from scenarios.clients import HttpClient, StdioClient
from scenarios.history import History, as_line
from scenarios.judge import judge
from scenarios.runner import Stagehand
from scenarios.showing import Show
from scenarios.standalone.front import LocalWorld
from scenarios.target import Client, Places, Stage, Target

GONE, REPRODUCED, UNUSABLE, OTHER, FAULT, INTERRUPTED = 0, 1, 2, 3, 4, 130
ASK_S_MAX = 60

Data = dict[str, Any]

# What the target's Python is asked about itself and the module or script that it is to run.
_QUESTION = """
import hashlib, json, platform, sys
from importlib import metadata, util
from pathlib import Path
name = sys.argv[1]
spec = util.find_spec(name) if name and not name.endswith(".py") else None
files = [path for folder in (spec and spec.submodule_search_locations or ()) for path in sorted(Path(folder).rglob("*.py"))]
files = files or [Path(each) for each in (spec.origin if spec else name,) if each and Path(each).is_file()]
sources = hashlib.sha256(b"\\0".join(path.read_bytes() for path in files)).hexdigest()[:12] if files else None
found = {"python": platform.python_version(), "there": bool(spec or not name or files), "sources": sources, "package": None}
try:
    package = metadata.packages_distributions()[name.partition(".")[0]][0]
    found["package"] = package + " " + metadata.version(package)
except Exception:
    pass
print(json.dumps(found))
"""
ASKED = {"Python of the target": "python", "package of the target": "package", "sources of the target": "sources"}


class Unusable(Exception):
    """The file was called wrongly, or something that it needs is not there. One line, for a person."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Unusable(f"{message}; see --help")


def main(recorded: Data, home: Path, about: str) -> int:
    """Play what was recorded as the command line says, and give the exit status.

    home: the folder in which this file's modules are unpacked. about: what --help says first.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # asked to end is as good as Ctrl-C: leave nothing behind
    try:
        options = _options(about)
        chosen = _chosen(recorded["target"], options, recorded["environment"])
        _tell_changes(recorded["versions"], _look_around(chosen["commands"], home))
        return _play(recorded, _target(chosen, home), options, home)
    except Unusable as error:
        sys.stderr.write(f"{Path(sys.argv[0]).name}: {error}\n")
        return UNUSABLE
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        sys.stderr.write("this file itself failed, so nothing is said of the target\n")
        return FAULT


# Before anything is started --------------------------------------------------------------------------------------------


def _options(about: str) -> argparse.Namespace:
    parser = _Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--python", help="the Python that the target is installed for")
    parser.add_argument("--command", action="append", default=[], metavar="[ROLE=]LINE", help="another command line")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable for the target; an empty one is removed",
    )
    parser.add_argument("--cold", action="store_true", help="start every process from its command line, none by a fork")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="how often it is played")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the history of each play in this folder")
    options = parser.parse_args()
    if options.times < 1:
        raise Unusable(f"--times {options.times}: give a number from 1 on")
    if options.keep is not None and options.keep.exists() and (not options.keep.is_dir() or any(options.keep.iterdir())):
        raise Unusable(f"--keep {options.keep}: is there and not an empty folder; give a new one")
    return options


def _chosen(target: Data, options: argparse.Namespace, given: Mapping[str, str]) -> Data:
    """The target as recorded, with what the options change."""
    commands: Data = dict(target["commands"])
    for text in options.command:
        role, _, line = text.partition("=") if text.partition("=")[0] in commands else (None, "", text)
        if role is None and len(commands) > 1:
            raise Unusable(f"--command {text!r}: say for which role, as ROLE=LINE; there are: {', '.join(commands)}")
        commands[role or next(iter(commands))] = [_here(word) for word in shlex.split(line)]
    if options.python and not any(line[0] == "{python}" for line in commands.values()):
        raise Unusable("--python: this target is not started by a Python; give its command line with --command")
    python = _here(options.python or "") or target["python"]
    commands = {role: [word.replace("{python}", python or "") for word in line] for role, line in commands.items()}
    environment: Data = {role: {**own, **given} for role, own in target["environment"].items()}
    for text in options.set:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise Unusable(f"--set {text!r}: give NAME=VALUE, or NAME= to remove the variable")
        for own in (os.environ, *environment.values()):
            own.pop(name, None)
            if value:
                own[name] = value
    # What can be forked is what was recorded; another command line is started as it stands.
    warm = {"entry": None, "preload": None} if options.command or options.cold else {}
    return {**target, "commands": commands, "environment": environment, "python": python, **warm}


def _here(word: str) -> str:
    """A path as seen from where the file was called; the target is started elsewhere."""
    return str(Path(word).absolute()) if "/" in word and Path(word).exists() else word


def _look_around(commands: Mapping[str, list[str]], home: Path) -> dict[str, str]:
    """What is here now, under the names under which it was recorded. Raises Unusable if the target is not."""
    now = {"system": f"{platform.system()} {platform.release()}"}
    for line in commands.values():
        if not line or shutil.which(line[0]) is None:
            wanted = line[0] if line else "the command"
            raise Unusable(
                f"{wanted}: is not there or cannot be run; name the target's with --python PATH or --command LINE"
            )
        program = runs(line).replace("{harness}", str(home))
        if program.endswith(".py") and not Path(program).exists():
            raise Unusable(f"{program}: is not there; name the target's own with --command LINE")
        found = ask(line[0], program, home) if program else {}
        if not found.get("there", True):
            raise Unusable(f"{line[0]}: has no module {program!r}; name the Python that has it with --python PATH")
        now |= {name: found[key] for name, key in ASKED.items() if found.get(key)}
    return now


def runs(line: list[str]) -> str:
    """The module or the script that a command line of a Python runs, or nothing."""
    if line[1:2] == ["-m"] and len(line) > 2:
        return line[2]
    return line[1] if len(line) > 1 and line[1].endswith(".py") else ""


@cache
def ask(python: str, program: str, folder: Path) -> Data:
    """What this Python says of itself and of a module or a script that it is to run: `python`, its version; `there`,
    whether it has it; `package`, the distribution that it is of and its version; `sources`, a digest of its files. Empty if
    it is no Python. It is started in `folder`."""
    try:
        line = [python, "-c", _QUESTION, program]
        ran = subprocess.run(line, capture_output=True, text=True, timeout=ASK_S_MAX, check=True, cwd=folder)
        return dict(json.loads(ran.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}


def _tell_changes(recorded: Mapping[str, str], now: Mapping[str, str]) -> None:
    for name, value in recorded.items():
        if name in now and now[name] != value:
            _say(f"changed since it was recorded: {name} was {value}, is {now[name]}")


def _target(data: Data, home: Path) -> Target:
    """The target from its description."""

    def filled(text: str, places: Places) -> str:
        for name, value in markers(places, home).items():
            text = text.replace(name, value)
        return text

    def command(places: Places) -> list[str]:
        return [filled(word, places) for word in data["commands"][places.role]]

    def variables(places: Places) -> dict[str, str]:
        return {name: filled(value, places) for name, value in data["environment"][places.role].items()}

    clients: dict[str, Callable[[Stage], Client]] = {
        "http": HttpClient,
        "stdio": lambda stage: StdioClient(stage, Show(command, variables)),
    }
    return Target(
        name=data["name"],
        title=data["name"],
        roles=tuple(data["roles"]),
        entrance_role=data["entrance_role"],
        command=command,
        environment=variables,
        client=clients[data["client"]],
        claims=tuple(data["claims"]),
        points=tuple(data["points"]),
        ready=(lambda places: Path(filled(data["ready"], places))) if data["ready"] else None,
        stdio=data["client"] == "stdio",
        entry=data["entry"],
        preload=data["preload"],
        python=data["python"] if data["entry"] else sys.executable,
    )


def markers(places: Places, home: Path) -> dict[str, str]:
    """What stands in a recorded command line or variable for the places of one life, and for the harness's own files."""
    return {
        "{store}": str(places.store),
        "{workspace}": str(places.workspace),
        "{folder}": str(places.folder),
        "{provider_url}": places.provider_url,
        "{effects_url}": places.effects_url,
        "{life}": str(places.life),
        "{harness}": str(home),
    }


# Playing -------------------------------------------------------------------------------------------------------------


def _play(recorded: Data, target: Target, options: argparse.Namespace, home: Path) -> int:
    case = Case.model_validate(recorded["case"])
    expected = {violation["check"] for violation in recorded["violations"]}
    results: Counter[str] = Counter()
    told: list[list[str]] = []
    with _keeper(target) as keeper:
        keeper.guard(home)
        try:
            world = LocalWorld()
        except OSError as error:
            raise Unusable(f"no port of 127.0.0.1 can be had ({error.strerror})") from None
        try:
            for number in range(1, options.times + 1):
                result, lines = _once(case, target, keeper, world, home / "logs" / str(number), expected, options.keep)
                results[result] += 1
                kind = _kind(lines)
                _say(f"{number} of {options.times}: {result}", *(() if kind in told else lines))
                told.append(kind)
        finally:
            world.stop()
            keeper.forget(home)
    _say(", ".join(f"{result} {count} of {options.times}" for result, count in results.most_common()))
    if results["reproduced"]:
        return REPRODUCED
    return OTHER if results.keys() - {"no longer reproduced"} else GONE


def _keeper(target: Target) -> Keeper:
    try:
        return Keeper(target.python, target.preload, dict(os.environ))
    except KeeperError as error:
        raise Unusable(f"{error}; --cold starts the target without that") from None


def _once(
    case: Case, target: Target, keeper: Keeper, world: LocalWorld, logs: Path, expected: set[str], keep: Path | None
) -> tuple[str, list[str]]:
    """Play the case once: what came, and the lines that say more."""
    try:
        played = Stagehand(case, target, keeper, world, logs).play()
    except Exception as fault:  # as in the harness: whatever it is, it says nothing about the target
        return "not judged", [f"the player failed: {type(fault).__name__}: {fault}"]
    history = History.read(played.history, played.world)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"history-{logs.name}.jsonl").write_bytes(b"".join(map(as_line, history.lines())))
    shutil.rmtree(logs)
    cell = judge(case, history, target.claims, {})
    lines = [line for violation in cell.violations for line in _told(violation)]
    found = {violation.check for violation in cell.violations}
    if found & expected:
        missing = [f"not seen this time: {check}" for check in sorted(expected - found)]
        return "reproduced", lines + missing
    if found:
        return "another violation", [*lines, f"recorded was {', '.join(sorted(expected))}"]
    return ("no longer reproduced", []) if cell.status == "held" else ("not judged", [f"{cell.status}: {cell.why}"])


def _say(line: str, *more: str) -> None:
    sys.stdout.write("\n  ".join((line, *more)) + "\n")
    sys.stdout.flush()


def _kind(lines: list[str]) -> list[str]:
    """What makes two outcomes the same for a reader: the broken promises, not the ids in what was seen."""
    return [line for line in lines if not line.startswith(" ")]


def _told(violation: Violation) -> list[str]:
    return [
        f"{violation.check} ({', '.join(violation.clauses)}): {violation.promise}",
        f"  expected: {violation.expected.says}",
        f"  seen:     {violation.seen.says}",
    ]
