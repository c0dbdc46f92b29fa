"""Owns the confinement of tools to their workspace: no path, link or race leads out of it.

A path is walked one name at a time from an open folder, and no link is followed, not even one that points inside. What
has been opened cannot be swapped for something else afterwards, so there is no moment between a check and its use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATH_CHARS_MAX = 4096
DEPTH_MAX = 32
WALK_ENTRIES_MAX = 20_000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFTOVER = (".reference-", ".partial")


class WorkspaceError(Exception):
    """A path that a tool may not or cannot use. One line, for the model."""


def parts(path: str) -> tuple[str, ...]:
    """The names that `path` walks through, none for the workspace itself. Raises WorkspaceError for a path that is
    absolute, holds `..` or is no path."""
    if "\0" in path or len(path) > PATH_CHARS_MAX:
        raise WorkspaceError(f"path: is no usable path; give one of at most {PATH_CHARS_MAX} characters")
    if path.startswith("/"):
        raise WorkspaceError(f"{path}: is absolute; give a path relative to the workspace")
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    if ".." in names:
        raise WorkspaceError(f"{path}: holds `..`; a tool stays in its workspace")
    if len(names) > DEPTH_MAX:
        raise WorkspaceError(f"{path}: is deeper than {DEPTH_MAX} folders")
    return names


class Workspace:
    """The folder that tools may use. `root` itself was chosen by the user and may be reached through links."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def folder(self, names: tuple[str, ...], create: bool = False) -> Iterator[int]:
        """An open descriptor of the folder at `names`, closed afterwards. With `create`, missing folders are made."""
        with _told(self.root.name or "/"):
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for depth, name in enumerate(names):
                with _told("/".join(names[: depth + 1])):
                    if create:
                        with suppress(FileExistsError):
                            os.mkdir(name, 0o755, dir_fd=fd)
                    inner = os.open(name, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def read(self, path: str, bytes_max: int) -> tuple[bytes, bool]:
        """Up to `bytes_max` bytes of the file at `path`, and whether there are more."""
        names = parts(path)
        if not names:
            raise WorkspaceError(f"{path or '.'}: is a folder, not a file")
        with self.folder(names[:-1]) as folder, _told(path):
            return read_at(folder, names[-1], bytes_max)

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` at `path` whole or not at all: written beside it, synced, renamed, and the folder synced."""
        names = parts(path)
        if not names:
            raise WorkspaceError(f"{path or '.'}: is a folder, not a file")
        name = names[-1]
        partial = f"{_LEFTOVER[0]}{name[:200]}{_LEFTOVER[1]}"  # one name per target: a death leaves at most one behind
        with self.folder(names[:-1], create=True) as folder, _told(path):
            _refuse_folder_or_link(folder, name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with suppress(FileNotFoundError):
                os.unlink(partial, dir_fd=folder)
            fd = os.open(partial, flags, 0o644, dir_fd=folder)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(partial, dir_fd=folder)
                raise
            os.fsync(folder)

    def walk(self, path: str) -> Iterator[tuple[str, int, str]]:
        """Every plain file below `path` in sorted order: its path from the workspace, an open descriptor of its folder
        (valid until the next step), and its name. Links and special files are passed over. Ends after
        `WALK_ENTRIES_MAX` entries."""
        names = parts(path)
        left = [WALK_ENTRIES_MAX]
        with self.folder(names) as folder:
            yield from _walk(folder, "/".join(names), left, DEPTH_MAX)


def read_at(folder: int, name: str, bytes_max: int) -> tuple[bytes, bool]:
    """Up to `bytes_max` bytes of the plain file `name` in an open folder, and whether there are more. Raises OSError."""
    # Non-blocking, so that opening a FIFO does not wait for a writer; what is no plain file is refused after that.
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "is no plain file")
        data = file.read(bytes_max + 1)
    return data[:bytes_max], len(data) > bytes_max


def entries(folder: int) -> list[tuple[str, str]]:
    """Name and kind (`file`, `folder`, `link`, `other`) of everything in an open folder, sorted, without what a write
    that was cut off has left."""
    found = []
    with os.scandir(folder) as scan:
        for entry in scan:
            if entry.name.startswith(_LEFTOVER[0]) and entry.name.endswith(_LEFTOVER[1]):
                continue
            found.append((entry.name, _kind(entry)))
    return sorted(found)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _walk(folder: int, prefix: str, left: list[int], depth: int) -> Iterator[tuple[str, int, str]]:
    for name, kind in entries(folder):
        if left[0] <= 0:
            return
        left[0] -= 1
        path = f"{prefix}/{name}" if prefix else name
        if kind == "file":
            yield path, folder, name
        elif kind == "folder" and depth > 0:
            try:
                inner = os.open(name, _DIRECTORY, dir_fd=folder)
            except OSError:
                continue  # gone, swapped for a link, or not readable: not there for a tool
            try:
                yield from _walk(inner, path, left, depth - 1)
            finally:
                os.close(inner)


def _refuse_folder_or_link(folder: int, name: str) -> None:
    """A rename would replace a link and not write through it; that a link stood there is still worth an error."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "is a link")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EISDIR, "is a folder or special file")


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of the system as one line that says which path and why."""
    try:
        yield
    except OSError as error:
        why = {
            errno.ELOOP: "is a link, and links are not followed",
            errno.ENOENT: "does not exist",
            errno.ENOTDIR: "is not a folder, or leads through a link or file",
            errno.ENAMETOOLONG: "has a name that is too long",
        }.get(error.errno or 0, error.strerror or "cannot be used")
        raise WorkspaceError(f"{path}: {why}") from None
    except UnicodeError:
        raise WorkspaceError("path: is no text that a file name can have") from None
