"""Owns what a fresh database is: the version that this program reads, and an image of a database that holds nothing.

The tables are described once, in schema.py, with a library that is large. Only a process that makes a database needs
it; a process that finds one does not load it, and a fork server learns the images from a child of its own. Copying an
image costs a third of the statements that made it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

HEAD = {"work": "0001_work", "usage": "0001_usage"}

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


def fill(driver: sqlite3.Connection, name: str) -> None:
    """Make an empty database a fresh one of this kind, in one transaction."""
    with closing(sqlite3.connect(":memory:")) as source:
        source.deserialize(image(name))
        source.backup(driver)


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
