"""Owns how the two processes of the runtime, `serve` and `worker`, come from their arguments to an exit status.

Whoever starts such a process, the app or a harness, names each option once and in one plain form: `--name value`. That is
read here, since the library that reads the command line for people costs a process as much as its store. What is
written in any other way, `--help` and mistakes too, is left to the command line, which means the same by it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from reference.model import Refused, StateUnavailable
from reference.settings import Settings

HOST, PORT, WORKERS = "127.0.0.1", 0, 2
_OPTIONS = {
    "serve": frozenset({"--data", "--workspace", "--host", "--port", "--workers"}),
    "worker": frozenset({"--data", "--workspace"}),
}
_SUPERVISED = "--supervised"


def main(argv: list[str] | None = None) -> int:
    """Run one process, or whatever else the command line says; its exit status. `argv` is without the program's name."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    run = plain(arguments)
    if run is None:
        from reference.__main__ import main as command_line  # noqa: PLC0415 (what is to be spared)

        return command_line(arguments)
    try:
        seed_defect()
        return run()
    except (Refused, StateUnavailable) as error:
        return wrong(str(error), 2)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return wrong(f"{type(error).__name__}: {error}", 1)


def plain(arguments: list[str]) -> Callable[[], int] | None:
    """What these arguments ask for, if they ask for a process in the plain form; None leaves them to the command line."""
    words = list(arguments)
    command = words.pop(0) if words else ""
    if command not in _OPTIONS:
        return None
    supervised = command == "worker" and words[:1] == [_SUPERVISED]
    names, values = words[supervised::2], words[supervised + 1 :: 2]
    given = dict(zip(names, values, strict=False))
    if not len(given) == len(names) == len(values) or not _OPTIONS[command].issuperset(given) or "--data" not in given:
        return None
    numbers = [given[name] for name in ("--port", "--workers") if name in given]
    if any(not value or value.startswith("-") for value in values) or not all(map(_is_number, numbers)):
        return None
    data, workspace = Path(given["--data"]), Path(given["--workspace"]) if "--workspace" in given else None
    if command == "worker":
        return lambda: worker(data, workspace, supervised)
    host, port, workers = given.get("--host", HOST), int(given.get("--port", PORT)), int(given.get("--workers", WORKERS))
    return lambda: serve(data, workspace, host, port, workers)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def serve(data: Path, workspace: Path | None, host: str, port: int, workers: int) -> int:
    """Run the app's process; its exit status."""
    from reference.serving import serve as run  # noqa: PLC0415 (a client needs none of it)

    return _ended(run(_settings(data, workspace), host, port, workers))


def worker(data: Path, workspace: Path | None, supervised: bool) -> int:
    """Run a worker's process; its exit status. supervised: it ends with whoever holds its standard input."""
    from reference.worker import main as run  # noqa: PLC0415 (a client needs none of it)

    if supervised:
        threading.Thread(target=_go_with_parent, daemon=True).start()
    return _ended(run(_settings(data, workspace)))


def _settings(data: Path, workspace: Path | None) -> Settings:
    return Settings.load(data.absolute(), workspace.absolute() if workspace else None)


def _ended(status: int) -> int:
    """The exit status of a process that has ended in order: a signal that still comes changes nothing of that."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    return status


def _go_with_parent() -> None:
    """End gracefully when standard input ends, which is when the app that cares for this worker is gone."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def seed_defect() -> None:
    """Put in the defect that the environment names, if any."""
    if name := os.environ.get("REFERENCE_MUTANT"):
        from reference import mutants  # noqa: PLC0415 (never in ordinary use)

        mutants.apply(name)


def wrong(message: str, status: int) -> int:
    """Say in one line what went wrong; the exit status."""
    print("reference: " + " ".join(message.split()), file=sys.stderr)  # noqa: T201
    return status
