"""Owns the built-in tools for files: `read`, `grep`, `glob`, `list`, which only read, and `write`."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import ClassVar

from pydantic import AliasChoices, Field

from reference.model import Outcome, OutcomeUnknown, ToolContext
from reference.tools.base import RESULT_CHARS_MAX, Arguments, BaseTool
from reference.tools.workspace import PATH_CHARS_MAX, Workspace, WorkspaceError, entries, parts, read_at

READ_BYTES_MAX = RESULT_CHARS_MAX - 1024  # so that the mark behind it fits as well
WRITE_CHARS_MAX = 1024 * 1024
GREP_FILE_BYTES_MAX = 1024 * 1024
GREP_TOTAL_BYTES_MAX = 32 * 1024 * 1024
GREP_MATCHES_MAX = 200
LINE_CHARS_MAX = 500
LIST_ENTRIES_MAX = 1000
PATTERN_PARTS_MAX = 32


class ReadArguments(Arguments):
    path: str = Field(min_length=1, description="File to read, relative to the workspace.")


class Read(BaseTool):
    """The text of one file."""

    name = "read"
    description = f"Read a text file of the workspace (at most {READ_BYTES_MAX} bytes)."
    arguments: ClassVar = ReadArguments
    read_only = True

    async def do(self, ctx: ToolContext, arguments: ReadArguments) -> Outcome:
        try:
            data, more = Workspace(ctx.workspace).read(arguments.path, READ_BYTES_MAX)
        except WorkspaceError as error:
            return Outcome(False, str(error))
        text = data.decode("utf-8", "replace")
        return Outcome(True, f"{text}\n[cut after {READ_BYTES_MAX} bytes]" if more else text)


class GrepArguments(Arguments):
    pattern: str = Field(min_length=1, max_length=1000, description="Text to look for, as it stands: no expression.")
    path: str = Field(default=".", description="Folder to search, relative to the workspace.")
    ignore_case: bool = False


class Grep(BaseTool):
    """Lines that hold a text. Not a regular expression: a model's expression could run for ever in the worker, which
    renews its lease on the same thread."""

    name = "grep"
    description = f"Find lines that hold a text in the workspace's files (at most {GREP_MATCHES_MAX} lines)."
    arguments: ClassVar = GrepArguments
    read_only = True

    async def do(self, ctx: ToolContext, arguments: GrepArguments) -> Outcome:
        found: list[str] = []
        try:
            for line in self._lines(Workspace(ctx.workspace), arguments):
                found.append(line)
                if len(found) >= GREP_MATCHES_MAX:
                    found.append(f"[stopped after {GREP_MATCHES_MAX} lines]")
                    break
        except WorkspaceError as error:
            return Outcome(False, str(error))
        return Outcome(True, "\n".join(found) or "no line holds it")

    def _lines(self, workspace: Workspace, arguments: GrepArguments) -> Iterator[str]:
        fold = str.casefold if arguments.ignore_case else str
        wanted = fold(arguments.pattern)
        left = GREP_TOTAL_BYTES_MAX
        for path, folder, name in workspace.walk(arguments.path):
            try:
                data, _ = read_at(folder, name, min(GREP_FILE_BYTES_MAX, left))
            except OSError:
                continue
            left -= len(data)
            if b"\0" not in data[:1024]:
                for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
                    if wanted in fold(line):
                        yield f"{path}:{number}: {line[:LINE_CHARS_MAX]}"
            if left <= 0:
                yield f"[stopped after {GREP_TOTAL_BYTES_MAX} bytes]"
                return


class GlobArguments(Arguments):
    pattern: str = Field(min_length=1, max_length=PATH_CHARS_MAX, description="Such as `*.py` or `src/**/*.py`.")


class Glob(BaseTool):
    """Paths that match a pattern."""

    name = "glob"
    description = f"Find files of the workspace by pattern; `**` stands for any folders (at most {LIST_ENTRIES_MAX})."
    arguments: ClassVar = GlobArguments
    read_only = True

    async def do(self, ctx: ToolContext, arguments: GlobArguments) -> Outcome:
        found: list[str] = []
        try:
            wanted = parts(arguments.pattern)
            for path, _, _ in Workspace(ctx.workspace).walk("."):
                if matches(path, wanted):
                    found.append(path)
                if len(found) >= LIST_ENTRIES_MAX:
                    found.append(f"[stopped after {LIST_ENTRIES_MAX} paths]")
                    break
        except WorkspaceError as error:
            return Outcome(False, str(error))
        return Outcome(True, "\n".join(found) or "no file matches")


def matches(path: str, pattern: tuple[str, ...]) -> bool:
    """Whether the path's names match the pattern's, `**` standing for none or more. Its time grows with the product of
    both lengths, whatever the pattern."""
    names = path.split("/")
    reachable = [True] + [False] * len(names)  # after no part of the pattern: only the empty beginning of the path
    for part in pattern:
        if part == "**":
            first = reachable.index(True) if True in reachable else len(reachable)
            reachable = [i >= first for i in range(len(reachable))]
        else:
            reachable = [False] + [reachable[i] and fnmatchcase(name, part) for i, name in enumerate(names)]
    return reachable[-1]


class ListArguments(Arguments):
    path: str = Field(default=".", description="Folder to list, relative to the workspace.")


class List(BaseTool):
    """What is in one folder."""

    name = "list"
    description = f"List a folder of the workspace (at most {LIST_ENTRIES_MAX} entries)."
    arguments: ClassVar = ListArguments
    read_only = True

    async def do(self, ctx: ToolContext, arguments: ListArguments) -> Outcome:
        try:
            with Workspace(ctx.workspace).folder(parts(arguments.path)) as folder:
                found = entries(folder)
        except WorkspaceError as error:
            return Outcome(False, str(error))
        lines = [f"{name}/" if kind == "folder" else name for name, kind in found[:LIST_ENTRIES_MAX]]
        if len(found) > LIST_ENTRIES_MAX:
            lines.append(f"[{len(found) - LIST_ENTRIES_MAX} more]")
        return Outcome(True, "\n".join(lines) or "empty")


class WriteArguments(Arguments):
    path: str = Field(min_length=1, description="File to write, relative to the workspace.")
    text: str = Field(
        max_length=WRITE_CHARS_MAX,
        description="The file's whole new text.",
        validation_alias=AliasChoices("text", "content"),
    )


class Write(BaseTool):
    """The whole text of one file, replaced at once. What the file holds afterwards shows whether it happened."""

    name = "write"
    description = f"Write a text file of the workspace, replacing what it held (at most {WRITE_CHARS_MAX} characters)."
    arguments: ClassVar = WriteArguments
    state_probe = True

    async def do(self, ctx: ToolContext, arguments: WriteArguments) -> Outcome:
        data = arguments.text.encode("utf-8", "replace")
        try:
            Workspace(ctx.workspace).replace(arguments.path, data)
        except WorkspaceError as error:
            return Outcome(False, str(error))
        return _written(arguments.path, data)

    async def find(self, ctx: ToolContext, key: str, arguments: WriteArguments) -> Outcome | None:
        data = arguments.text.encode("utf-8", "replace")
        if not ctx.workspace.is_dir():
            raise OutcomeUnknown(f"{arguments.path}: the workspace is not there, so the file cannot be compared")
        try:
            held, more = Workspace(ctx.workspace).read(arguments.path, len(data))
        except WorkspaceError:
            return None
        return _written(arguments.path, data) if held == data and not more else None


def _written(path: str, data: bytes) -> Outcome:
    return Outcome(True, f"wrote {len(data)} bytes to {path}")
