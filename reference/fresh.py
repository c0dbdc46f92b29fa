"""Owns what a fresh database is: the version that this program reads, and an image of a database that holds nothing.

The tables are described once, in schema.py, with a library that is large. Only a process that makes a database needs
it; a process that finds one does not load it, and a fork server learns the images from a child of its own. A database is
made by writing an image under its name.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

HEAD = {"work": "0001_work", "usage": "0001_usage"}

_BESIDE = ("-wal", "-shm", "-journal")
# The two bytes of a database's header that say by which version of the format it is written and read: 2 is WAL mode.
_MODE, _WAL = slice(18, 20), b"\x02\x02"

_images: dict[str, bytes] = {}


def image(name: str) -> bytes:
    """A fresh database of this kind, its version's stamp included, as SQLite serialises it."""
    if name not in _images:
        from reference import schema  # noqa: PLC0415 (only where a database is made)

        with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
            for statement in schema.creation(name):
                made.execute(statement)
            _images[name] = made.serialize()
    return _images[name]


def make(path: Path, name: str) -> None:
    """Make a fresh database of this kind at `path`, in WAL mode and durable: the whole file or none. Nobody else may be
    making one there. What stood there holds nothing, nor does what an earlier try left beside it."""
    data = bytearray(image(name))
    data[_MODE] = _WAL
    partial = path.with_name(f".{path.name}.partial")
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    for ending in _BESIDE:
        path.with_name(path.name + ending).unlink(missing_ok=True)
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def learn() -> None:
    """Know all images without having loaded what they are made with, which a child process does. Fork with one thread
    only."""
    for name in HEAD:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(image(name))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            _images[name] = pipe.read()
        os.waitpid(child, 0)
