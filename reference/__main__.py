"""Owns the command line: `python -m reference serve|worker|send|show|sessions|watch|pause|resume|stop|retry|resolve|quit`.

Exit status: 0 done; 1 the app or the work failed; 2 used wrongly; 130 interrupted. Every error is one line.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.main import get_command

from reference import entry
from reference.client import Client, ClientError
from reference.model import Refused, StateUnavailable

AT_REST = frozenset({"done", "cancelled", "paused", "failed", "recovery_failed"})

cli = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=False)

# A parser of our own, since the library's builds a validator anew for each path that it reads.
Data = Annotated[Path, typer.Option("--data", envvar="REFERENCE_DATA", help="Folder that holds everything.", parser=Path)]
Workspace = Annotated[
    Path | None, typer.Option("--workspace", help="Folder for tools; by default DATA/workspace.", parser=Path)
]
Session = Annotated[str, typer.Argument(help="Id of a session.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Version = Annotated[int | None, typer.Option("--version", help="Control version that you have seen.")]
DATA = Path(".reference")


@cli.callback()
def _about() -> None:
    """A runtime of agent sessions that goes on after a crash."""


@cli.command()
def serve(
    data: Data = DATA,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = entry.HOST,
    port: Annotated[int, typer.Option(help="Port; 0 for any.")] = entry.PORT,
    workers: Annotated[int, typer.Option(help="Worker processes to keep running.")] = entry.WORKERS,
    workspace: Workspace = None,
) -> int:
    """Serve the HTTP API. DATA/serve.json says where, DATA/token holds the token."""
    return entry.serve(data, workspace, host, port, workers)


@cli.command()
def worker(
    data: Data = DATA,
    workspace: Workspace = None,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> int:
    """Work on what was accepted, until told to end."""
    return entry.worker(data, workspace, supervised)


@cli.command("mutants", hidden=True)
def list_mutants(as_json: AsJson = False) -> int:
    """The seeded defects of this runtime, for a harness that shows that its checks can fail."""
    from reference import mutants  # noqa: PLC0415 (never in ordinary use)

    rows = mutants.listed()
    _say(json.dumps(rows) if as_json else "\n".join(f"{row['name']}: {row['changes']}" for row in rows))
    return 0


@cli.command()
def send(
    text: Annotated[str, typer.Argument(help="What you want; `-` reads it from standard input.")],
    data: Data = DATA,
    session: Annotated[str | None, typer.Option("--session", help="Session to send it to; a new one by default.")] = None,
    request_id: Annotated[str | None, typer.Option("--request-id", help="Same id, same request.")] = None,
    workspace: Annotated[str | None, typer.Option("--workspace", help="Folder for a new session's tools.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the answer.")] = True,
) -> int:
    """Send an input and print the answer."""
    with Client(data) as client:
        folder = str(Path(workspace).absolute()) if workspace is not None else None
        session = session or client.create_session(folder)
        accepted = client.send(session, sys.stdin.read() if text == "-" else text, request_id)
        print(f"session {session}", file=sys.stderr, flush=True)  # noqa: T201
        if not wait:
            _say(accepted["work_id"])
            return 0
        return _follow(client, session, accepted["work_id"])


def _follow(client: Client, session: str, work_id: str) -> int:
    """Wait until the work is at rest, and print what was replied in it."""
    for event in client.events(session):
        if event.data.get("work_id") == work_id and event.data.get("state") in AT_REST:
            break
    seen = client.session(session)
    work = next(work for work in seen["works"] if work["work_id"] == work_id)
    turns = {turn["turn_id"] for turn in work["turns"]}
    for item in seen["transcript"]:
        if item["kind"] == "assistant" and item["turn_id"] in turns and item["text"]:
            _say(item["text"])
    if work["state"] == "done":
        return 0
    reason = f" ({work['reason_code']})" if work.get("reason_code") else ""
    raise ClientError(f"{work_id} is {work['state']}{reason}", mistake=False)


@cli.command()
def show(session: Session, data: Data = DATA, as_json: AsJson = False) -> int:
    """Show a session: what was said and done, and where it stands."""
    with Client(data) as client:
        seen = client.session(session)
    if as_json:
        _say(json.dumps(seen, indent=1, ensure_ascii=False))
        return 0
    _say(f"session {session}: {seen['desired_state']}, control version {seen['control_version']}")
    for work in seen["works"]:
        reason = f" ({work['reason_code']})" if work.get("reason_code") else ""
        _say(f"work {work['work_id']}: {work['state']}{reason}")
    for item in seen["transcript"]:
        mark = "" if item.get("complete", True) else " (cut off)"
        calls = "".join(f" -> {call['tool']} {call['call_id']}" for call in item.get("calls") or [])
        _say(f"{item['item']:>4} {item['kind']}{mark}{calls}: {item['text']}")
    for effect in seen["effects"]:
        if effect["state"] == "outcome_unknown":
            checks = ", ".join(effect.get("checks") or []) or "nothing"
            _say(f"unknown: {effect['tool']} {effect['call_id']}; can be checked: {checks}")
    return 0


@cli.command()
def sessions(data: Data = DATA, as_json: AsJson = False) -> int:
    """List the sessions."""
    with Client(data) as client:
        found = client.sessions()
    if as_json:
        _say(json.dumps(found, indent=1, ensure_ascii=False))
        return 0
    for name, seen in found.items():
        _say(f"{name}  {seen.get('state') or seen['desired_state']}  inputs {len(seen['inputs'])}")
    return 0


@cli.command()
def pause(session: Session, data: Data = DATA, version: Version = None) -> int:
    """Pause a session until it is resumed."""
    return _control(data, session, "pause", version)


@cli.command()
def resume(session: Session, data: Data = DATA, version: Version = None) -> int:
    """Resume a session that was paused."""
    return _control(data, session, "resume", version)


@cli.command()
def stop(session: Session, data: Data = DATA, version: Version = None) -> int:
    """Stop everything unfinished in a session, for good."""
    return _control(data, session, "stop", version)


@cli.command()
def retry(session: Session, data: Data = DATA, version: Version = None) -> int:
    """Try again what failed in a session."""
    return _control(data, session, "retry", version)


def _control(data: Path, session: str, action: Literal["pause", "resume", "stop", "retry"], version: int | None) -> int:
    with Client(data) as client:
        stored = client.control(session, action, version)
    _say(f"{session}: {stored['desired_state']}, control version {stored['control_version']}")
    return 0


@cli.command()
def resolve(
    session: Session,
    call_id: Annotated[str, typer.Argument(help="Id of the call, as `show` gives it.")],
    action: Annotated[Literal["retry", "abandon"], typer.Argument(help="What to do with it.")],
    data: Data = DATA,
    risk_acknowledged: Annotated[
        bool, typer.Option("--risk-acknowledged", help="I know that it may have happened, or may happen twice.")
    ] = False,
) -> int:
    """Decide about a call whose outcome is unknown."""
    with Client(data) as client:
        stored = client.resolve(session, call_id, action, risk_acknowledged)
    _say(json.dumps(stored, ensure_ascii=False))
    return 0


@cli.command()
def watch(
    session: Session,
    data: Data = DATA,
    after: Annotated[int, typer.Option("--after", min=0, help="Number of the last event that you have.")] = 0,
) -> int:
    """Print a session's events as they come, one a line."""
    with Client(data) as client:
        for event in client.events(session, after):
            _say(f"{event.number} {event.type} {json.dumps(event.data, ensure_ascii=False)}")
    raise ClientError("the app is gone", mistake=False)


@cli.command(name="quit")
def quit_(data: Data = DATA) -> int:
    """Quit and stop everything: no work goes on afterwards, here or after a restart."""
    with Client(data) as client:
        stopped = client.quit()
    _say(f"stopped {len(stopped['works'])} works")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


@functools.cache
def command() -> Any:
    """The parser, built once."""
    return get_command(cli)


def main(argv: list[str] | None = None) -> int:
    """Run one command; its exit status. `argv` is without the program's name."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        entry.seed_defect()
        return int(command().main(args=arguments, prog_name="python -m reference", standalone_mode=False) or 0)
    except (Refused, StateUnavailable, ClientError) as error:
        return entry.wrong(str(error), 2 if getattr(error, "mistake", True) else 1)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that closing standard output at exit cannot fail again
        return 1
    except Exception as error:
        message = getattr(error, "format_message", None)  # the parser's own errors
        if message is None:
            return entry.wrong(f"{type(error).__name__}: {error}", 1)
        return entry.wrong(f"{message().rstrip('.')}; see python -m reference {_named(arguments)}--help", 2)


def _named(arguments: list[str]) -> str:
    """The command that was meant, if it is one, for the hint."""
    found = arguments[0] if arguments and arguments[0] in getattr(command(), "commands", {}) else ""
    return f"{found} " if found else ""


if __name__ == "__main__":
    sys.exit(main())
