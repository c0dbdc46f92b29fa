"""Tools: what they do, that they stay in their workspace, and what the registry vouches for."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.model import Outcome, OutcomeUnknown, ToolContext
from reference.settings import Settings
from reference.tools import PLUGINS, TRUSTED, Entry, ToolRegistry, parse, registry
from reference.tools.base import RESULT_CHARS_MAX, Arguments, BaseTool
from reference.tools.files import LIST_ENTRIES_MAX, READ_BYTES_MAX, matches
from reference.tools.workspace import Workspace, WorkspaceError, entries, parts

ALL = ToolRegistry(TRUSTED, PLUGINS, effects=True)


def tool(name: str) -> Entry:
    found = ALL.get(name)
    assert found is not None
    return found


def call(workspace: Path, name: str, effects_url: str | None = None, key: str = "k1", **arguments: Any) -> Outcome:
    async def run() -> Outcome:
        async with aiohttp.ClientSession() as client:
            return await tool(name).run(ToolContext(workspace, effects_url, client, key), arguments)

    return anyio.run(run)


def probe(workspace: Path, name: str, effects_url: str | None = None, key: str = "k1", **arguments: Any) -> Outcome | None:
    async def run() -> Outcome | None:
        async with aiohttp.ClientSession() as client:
            return await tool(name).probe(ToolContext(workspace, effects_url, client, key), key, arguments)

    return anyio.run(run)


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    inside = tmp_path / "workspace"
    (inside / "src" / "deep").mkdir(parents=True)
    (inside / "a.txt").write_text("alpha\nbeta\n")
    (inside / "src" / "b.py").write_text("import alpha\n")
    (inside / "src" / "deep" / "c.py").write_text("Alpha\n")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.txt").write_text("alpha secret")
    (inside / "link.txt").symlink_to(secret / "key.txt")
    (inside / "linked").symlink_to(secret)
    (inside / "inner").symlink_to("src")
    os.mkfifo(inside / "pipe")
    return inside


# What the file tools do ---------------------------------------------------------------------------------------------


def test_read_gives_the_text(workspace: Path) -> None:
    assert call(workspace, "read", path="a.txt") == Outcome(True, "alpha\nbeta\n")


def test_list_names_what_is_there(workspace: Path) -> None:
    assert call(workspace, "list").text.split("\n") == ["a.txt", "inner", "link.txt", "linked", "pipe", "src/"]


def test_grep_names_file_and_line_and_looks_behind_no_link(workspace: Path) -> None:
    assert call(workspace, "grep", pattern="alpha").text == "a.txt:1: alpha\nsrc/b.py:1: import alpha"
    assert call(workspace, "grep", pattern="alpha", ignore_case=True, path="src/deep").text == "src/deep/c.py:1: Alpha"
    assert call(workspace, "grep", pattern=".*").text == "no line holds it"


def test_glob_finds_files_by_pattern_and_looks_behind_no_link(workspace: Path) -> None:
    assert call(workspace, "glob", pattern="**/*.py").text == "src/b.py\nsrc/deep/c.py"
    assert call(workspace, "glob", pattern="*.txt").text == "a.txt"


def test_write_replaces_the_whole_file_and_makes_folders(workspace: Path) -> None:
    assert call(workspace, "write", path="new/x.txt", text="one").ok
    assert call(workspace, "write", path="new/x.txt", content="two") == Outcome(True, "wrote 3 bytes to new/x.txt")
    assert (workspace / "new" / "x.txt").read_text() == "two"
    assert names_in(workspace / "new") == ["x.txt"]


def test_a_write_is_found_by_what_the_file_holds(workspace: Path) -> None:
    assert probe(workspace, "write", path="x.txt", text="new") is None
    done = call(workspace, "write", path="x.txt", text="new")
    assert probe(workspace, "write", path="x.txt", text="new") == done
    (workspace / "x.txt").write_text("newer")
    assert probe(workspace, "write", path="x.txt", text="new") is None


def test_what_a_write_that_was_cut_off_has_left_is_not_seen_and_not_in_the_way(workspace: Path) -> None:
    (workspace / ".reference-x.txt.partial").write_text("half")
    assert "partial" not in call(workspace, "list").text
    assert call(workspace, "glob", pattern="**").text.find("partial") == -1
    assert call(workspace, "write", path="x.txt", text="whole").ok
    assert not (workspace / ".reference-x.txt.partial").exists()


def test_large_files_and_folders_are_cut_and_say_so(workspace: Path) -> None:
    (workspace / "big.txt").write_text("x" * (RESULT_CHARS_MAX + 5))
    assert call(workspace, "read", path="big.txt").text.endswith(f"[cut after {READ_BYTES_MAX} bytes]")
    (workspace / "many").mkdir()
    for number in range(LIST_ENTRIES_MAX + 3):
        (workspace / "many" / f"{number}").touch()
    assert call(workspace, "list", path="many").text.endswith("\n[3 more]")


# That they stay inside ----------------------------------------------------------------------------------------------

ESCAPES = [
    "../secret/key.txt",
    "/etc/passwd",
    "src/../../secret/key.txt",
    "link.txt",
    "linked/key.txt",
    "inner/b.py",
    "a\0b",
]


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("name", ["read", "write", "list", "grep"])
def test_no_path_and_no_link_leads_out(workspace: Path, name: str, path: str) -> None:
    extra = {"write": {"text": "changed"}, "grep": {"pattern": "alpha"}}.get(name, {})
    found = call(workspace, name, path=path, **extra)
    assert not found.ok
    assert "secret" not in found.text.replace(path, "")
    assert (workspace.parent / "secret" / "key.txt").read_text() == "alpha secret"
    assert names_in(workspace.parent / "secret") == ["key.txt"]


def test_a_glob_cannot_lead_out(workspace: Path) -> None:
    assert not call(workspace, "glob", pattern="../**").ok
    assert not call(workspace, "glob", pattern="/etc/*").ok


@pytest.mark.parametrize("path", ["pipe", "src", ".", "missing", "a.txt/x", "n" * 300])
def test_what_is_no_plain_file_is_refused_and_not_waited_for(workspace: Path, path: str) -> None:
    assert not call(workspace, "read", path=path).ok
    if path != "missing":
        assert not call(workspace, "write", path=path, text="x").ok


def test_a_folder_swapped_for_a_link_during_a_call_leads_nowhere(workspace: Path) -> None:
    """While the folder is open, its name is made to point outside: the open folder is still the one that was checked."""
    with Workspace(workspace).folder(("src",)) as folder:
        (workspace / "src").rename(workspace / "moved")
        (workspace / "src").symlink_to(workspace.parent / "secret")
        assert [name for name, _ in entries(folder)] == ["b.py", "deep"]
    with pytest.raises(WorkspaceError), Workspace(workspace).folder(("src",)):
        pass


@settings(deadline=None)  # a machine that is busy is no failure
@given(st.text(max_size=30))
def test_a_path_is_walked_by_plain_names_or_refused(path: str) -> None:
    try:
        names = parts(path)
    except WorkspaceError:
        return
    assert not path.startswith("/")
    assert all(name not in {"", ".", ".."} and "/" not in name and "\0" not in name for name in names)


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/b/c.py", "**/*.py", True),
        ("c.py", "**/*.py", True),
        ("a/b/c.py", "*.py", False),
        ("a/b/c.py", "a/**", True),
        ("a/b/c.py", "a/*/c.py", True),
        ("a/b/c.py", "b/**", False),
        ("/".join("a" * 30), "/".join(["**"] * 30 + ["b"]), False),
    ],
)
def test_glob_patterns(path: str, pattern: str, expected: bool) -> None:
    assert matches(path, tuple(pattern.split("/"))) is expected


# Arguments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "names"),
    [
        ("read", {}, "path"),
        ("read", {"path": 5}, "path"),
        ("read", {"path": "a.txt", "mode": "x"}, "mode"),
        ("grep", {"pattern": ""}, "pattern"),
        ("write", {"path": "x", "text": ["x"]}, "text"),
        ("charge", {"amount": "5"}, "amount"),
        ("order", {"quantity": 1.5}, "quantity"),
    ],
)
def test_wrong_arguments_are_a_result_that_names_them(
    workspace: Path, name: str, arguments: dict[str, Any], names: str
) -> None:
    found = call(workspace, name, **arguments)
    assert not found.ok
    assert f"{name}: {names}" in found.text
    assert "nothing was done" in found.text


@settings(deadline=None)  # a machine that is busy is no failure
@given(st.sampled_from([each.name for each in TRUSTED if not each.needs_effects]), st.data())
def test_no_arguments_make_a_tool_raise(name: str, data: st.DataObject) -> None:
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )
    names = st.sampled_from(["path", "pattern", "text", "ignore_case", "other"])
    found = call(Path("/proc/self/task/does-not-exist"), name, **data.draw(st.dictionaries(names, values, max_size=3)))
    assert not found.ok


@pytest.mark.parametrize("text", ["{", "[]", "5", "null", "[" * 100_000, '{"a": ' * 5_000])
def test_arguments_that_are_no_json_object_are_a_result(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Outcome)
    assert not found.ok


def test_the_schema_is_what_the_arguments_are_checked_by() -> None:
    for each in ALL.offered():
        function = each["function"]
        found = tool(function["name"])
        assert function["parameters"] == found.parameters
        assert function["parameters"]["type"] == "object"
        assert function["description"]
        json.dumps(each)


# The registry -------------------------------------------------------------------------------------------------------


def test_what_recovery_may_assume_of_each_tool() -> None:
    rows = {name: tool(name) for name in ("read", "grep", "glob", "list", "write", "charge", "mail", "publish", "order")}
    assert {name for name, each in rows.items() if each.read_only} == {"read", "grep", "glob", "list"}
    assert {name for name, each in rows.items() if each.builtin} == {"read", "grep", "glob", "list"}
    assert {name for name, each in rows.items() if each.idempotent} == {"charge"}
    assert {name for name, each in rows.items() if each.state_probe} == {"write", "charge", "publish", "order"}
    assert all(each.trusted for each in rows.values())


def test_a_plugins_own_word_counts_as_unknown() -> None:
    plugin = tool("note_plugin")
    assert plugin.claims == {"read_only": True, "idempotent": True, "state_probe": False}
    assert not (plugin.trusted or plugin.read_only or plugin.idempotent or plugin.state_probe or plugin.builtin)


def test_a_plugin_cannot_take_the_name_of_a_tool() -> None:
    class Impostor(BaseTool):
        name = "read"
        description = "Not what it says."
        arguments: ClassVar = Arguments
        read_only = True

    with pytest.raises(ValueError, match="'read'"):
        ToolRegistry(TRUSTED, [Impostor()], effects=True)
    assert not ToolRegistry([], [Impostor()], effects=True).get("read").builtin  # type: ignore[union-attr]


def test_the_identity_of_an_implementation_is_stable_and_its_own() -> None:
    found = [each.implementation for each in TRUSTED + PLUGINS]
    assert len(set(found)) == len(found)
    assert found == [type(each)().implementation for each in TRUSTED + PLUGINS]
    assert found[0].startswith("builtin:read@")


def test_without_an_effect_service_its_tools_are_known_and_not_offered(tmp_path: Path) -> None:
    bare = registry(Settings(tmp_path, tmp_path))
    assert [each["function"]["name"] for each in bare.offered()] == ["read", "grep", "glob", "list", "write"]
    assert bare.get("charge") is not None
    assert not call(tmp_path, "charge", amount=1).ok


# Tools over HTTP ----------------------------------------------------------------------------------------------------


class Service(BaseHTTPRequestHandler):
    """Keeps what it was sent, and answers as the test says."""

    how = "ok"
    seen: ClassVar[list[tuple[str, str | None, Any]]] = []
    state: ClassVar[dict[str, Any]] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, self.headers["Idempotency-Key"], json.loads(body)))
        if type(self).how == "drop":
            self.close_connection = True
            return
        if type(self).how == "garbage":
            self._answer(200, b"<html>")
            return
        status = 200 if type(self).how == "ok" else int(type(self).how)
        self._answer(status, json.dumps({"receipt": "rcpt_1", "key": self.headers["Idempotency-Key"]}).encode())

    def do_GET(self) -> None:
        self.seen.append((self.path, None, None))
        self._answer(int(self.state.get("status", 200)), json.dumps(self.state).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    Service.how, Service.seen, Service.state = "ok", [], {}
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/effects"
        server.shutdown()
        thread.join()


RECEIVERS = {"charge": "keyed", "mail": "plain", "publish": "plain", "order": "ambiguous", "note_plugin": "plain"}


@pytest.mark.parametrize(("name", "receiver"), RECEIVERS.items())
def test_a_write_carries_its_key_and_its_arguments(tmp_path: Path, service: str, name: str, receiver: str) -> None:
    found = call(tmp_path, name, service, key="k7", other=5)
    assert found == Outcome(True, '{"key": "k7", "receipt": "rcpt_1"}')
    assert Service.seen == [(f"/effects/{receiver}", "k7", {"other": 5})]


@pytest.mark.parametrize("how", ["drop", "500", "503", "429", "408", "garbage"])
def test_a_reply_that_does_not_say_whether_it_acted_leaves_the_outcome_unknown(
    tmp_path: Path, service: str, how: str
) -> None:
    Service.how = how
    with pytest.raises(OutcomeUnknown):
        call(tmp_path, "mail", service)
    assert len(Service.seen) == 1, "nothing is sent again by the tool itself"


def test_a_refusal_is_a_result(tmp_path: Path, service: str) -> None:
    Service.how = "422"
    found = call(tmp_path, "charge", service)
    assert not found.ok
    assert "422" in found.text


def test_a_service_that_is_not_there_has_certainly_not_acted(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/effects"
    found = call(tmp_path, "mail", url)
    assert not found.ok
    assert "nothing was sent" in found.text


def test_a_query_finds_the_write_with_the_same_result_as_its_reply(tmp_path: Path, service: str) -> None:
    done = call(tmp_path, "order", service, key="k 7")
    Service.state = {"found": True, "count": 1, "receipt": "rcpt_1"}
    assert probe(tmp_path, "order", service, key="k 7") == done
    assert Service.seen[-1][0] in {"/effects/state?key=k+7", "/effects/state?key=k%207"}


def test_a_query_that_finds_nothing_says_so_only_if_nothing_is_under_way(tmp_path: Path, service: str) -> None:
    Service.state = {"found": False, "count": 0, "receipt": None}
    assert probe(tmp_path, "publish", service) is None
    for unclear in ({"found": False, "pending": 1}, {"status": 500}, {}, {"found": "no"}):
        Service.state = unclear
        with pytest.raises(OutcomeUnknown):
            probe(tmp_path, "publish", service)


def test_what_cannot_be_queried_stays_unknown(tmp_path: Path, service: str) -> None:
    for name in ("mail", "note_plugin"):
        with pytest.raises(OutcomeUnknown):
            probe(tmp_path, name, service)
    assert Service.seen == []
