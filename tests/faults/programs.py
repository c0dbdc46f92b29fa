"""Owns the small programs that the tests start, stop and kill: warm by entry, cold by `python -m tests.faults.programs`."""

# ruff: noqa: T201, PTH208 (they speak through their output, and list their descriptors with one descriptor)

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from faults.probe import reach

warmed: list[int] = []


def warm() -> None:
    """What a keeper preloads."""
    warmed.append(os.getpid())


def broken_warm() -> None:
    raise RuntimeError("no such provider")


def threaded_warm() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def say(argv: list[str]) -> int:
    """Say where and how it runs, and exit with the status given as first argument."""
    print(f"argv={sys.argv[-len(argv) :]} cwd={Path.cwd()} mark={os.environ.get('MARK')}")
    print(f"inherited={'KEEPER_MARK' in os.environ} session={os.getsid(0) == os.getpid()} stdin={sys.stdin.read()!r}")
    print(f"warmed={bool(warmed)}")
    print("to stderr", file=sys.stderr)
    return int(argv[0])


def fails(argv: list[str]) -> int:
    raise LookupError("this is in the log")


def leaves(argv: list[str]) -> None:
    sys.exit("left with words")


def stands(argv: list[str]) -> int:
    """Reach the points named, one after the other."""
    for point in argv:
        reach(point, work="w_1", detail={"argv": len(argv)})
    return 0


def graceful(argv: list[str]) -> int:
    """End by itself when it is told to."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    reach("turn.begun")
    told.wait()
    return 7


def rests(argv: list[str]) -> int:
    """Do nothing until a signal comes, which it leaves as it is."""
    signal.pause()
    return 0


def dispositions(argv: list[str]) -> int:
    """Exit with 0 if it has the signal handlers of a fresh interpreter."""
    default = [signal.getsignal(each) == signal.SIG_DFL for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)]
    return 0 if all(default) and signal.getsignal(signal.SIGINT) is signal.default_int_handler else 1


def descriptors(argv: list[str]) -> int:
    """Say which descriptors it has, but for the one that looks."""
    print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1])
    return 0


def echoes(argv: list[str]) -> int:
    """Answer each line of its input with the same in capitals."""
    for line in sys.stdin:
        print(line.strip().upper(), flush=True)
    return 0


def family(argv: list[str]) -> int:
    """Start a process in a session of its own, write its pid to the file named, and stand at a point."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
    Path(argv[0]).write_text(str(child.pid))
    reach("turn.begun")
    child.returncode = 0  # left behind on purpose
    return 0


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](sys.argv[2:]))
