"""Owns the scenarios: what users do and what the model answers, before anything is broken.

A scenario is a workload with a name. Some bring a small plan of their own, which every case of theirs has in common: a
control that arrives in the middle of a stream, a restart, a first kill after which recovery runs. That is how the points
of controls, graceful exits and recovery come to be reached, so that the matrix can kill there too.

To add a scenario: add one entry. The matrix plays it without any fault first, sees which points it reaches, and crosses
those with the faults that the scenario asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase

from faults.plan import (
    Address,
    Answer,
    Await,
    Fault,
    Freeze,
    Kill,
    LockStore,
    MoveClock,
    Op,
    Raise,
    Release,
    Settle,
    Start,
    Terminate,
    User,
)
from scenarios.case import (
    Call,
    Control,
    File,
    Look,
    MoveClockStep,
    Open,
    Quit,
    Reply,
    Script,
    Send,
    SettleStep,
    Step,
    Watch,
)

STREAMED_PIECES = 24


@dataclass(frozen=True, slots=True)
class Scenario:
    """One workload.

    family: the row of the matrix it stands in. title: a sentence for the report. faults: which faults of the table the
    matrix crosses it with (names or shell patterns), each at the first hit of a point; those of `sweeps` at up to
    `ordinals_max` hits. points: at which points (shell patterns), where others would only repeat another scenario.
    plan: what every case of the scenario has in common. controls: whether it needs a target that users can control.
    tools: whether it needs the tools of the reference (files, plug-ins), which a foreign target may lack.
    """

    name: str
    family: str
    title: str
    script: Script
    steps: tuple[Step, ...]
    faults: tuple[str, ...] = ("worker-killed",)
    sweeps: tuple[str, ...] = ("worker-killed",)
    ordinals_max: int = 1
    points: tuple[str, ...] = ("*",)
    plan: tuple[Fault, ...] = ()
    controls: bool = False
    needs: frozenset[str] = field(default_factory=frozenset)


def _script(**replies: tuple[Reply, ...]) -> Script:
    return Script(replies={text.replace("_", " "): answers for text, answers in replies.items()})


def _at(address: str, *ops: Op) -> Fault:
    return Fault(at=Address.parse(address), ops=ops)


def _calls(*calls: Call, text: str = "") -> Reply:
    return Reply(text=text, calls=calls)


def _say(text: str, pieces: int = 2, usage: str = "last") -> Reply:
    return Reply(text=text, pieces=pieces, usage=usage)


CHARGE = Call(tool="charge", arguments={"account": "acme", "cents": 4200})
MAIL = Call(tool="mail", arguments={"to": "ann@example.org", "subject": "Invoice", "body": "Forty-two."})
PUBLISH = Call(tool="publish", arguments={"title": "Notes", "text": "Version one."})
ORDER = Call(tool="order", arguments={"item": "lamp", "count": 1})
PLUGIN = Call(tool="note_plugin", arguments={"text": "remember the lamp"})
READ = Call(tool="read", arguments={"path": "notes.txt"})
GREP = Call(tool="grep", arguments={"pattern": "lamp", "path": "."})
WRITE = Call(tool="write", arguments={"path": "out/summary.txt", "text": "Forty-two.\n"})
NOTES = File(path="notes.txt", text="one lamp\ntwo chairs\n")

HOUR_S = 3600.0
LOCKED_S = 5.0
LONG_TEXT = " ".join(f"word{i}" for i in range(STREAMED_PIECES * 2))

_WRITE_FAULTS = ("worker-killed", "reply-lost")
_ALL_FAULTS = ("*",)
_EVERYWHERE = ("*",)
_AROUND_A_CALL = ("tool.*", "effect.*", "reply.stored")


def _one_input(text: str, *before: Step) -> tuple[Step, ...]:
    return (*before, Open(), Send(request="r1", text=text))


def _tool(
    name: str,
    title: str,
    call: Call,
    *before: Step,
    faults: tuple[str, ...] = ("worker-killed",),
    ordinals_max: int = 1,
    points: tuple[str, ...] = _AROUND_A_CALL,
    needs: frozenset[str] = frozenset(),
) -> Scenario:
    text = f"please {name}"
    script = Script(replies={text: (_calls(call, text="On it."), _say("All done."))})
    steps = _one_input(text, *before)
    return Scenario(
        name, "one tool", title, script, steps, faults=faults, ordinals_max=ordinals_max, points=points, needs=needs
    )


_PAUSE = User(step={"do": "control", "session": "s1", "action": "pause"})
_STOP = User(step={"do": "control", "session": "s1", "action": "stop"})
_START_BOTH: tuple[Op, ...] = (Start(role="app"), Start(role="worker"))


def _sends(request: str, text: str) -> User:
    return User(step={"do": "send", "session": "s1", "request": request, "text": text})


def _watches(do: str) -> User:
    return User(step={"do": do, "session": "s1"})


def _awaits(address: str) -> Await:
    return Await(at=Address.parse(address))


_HELLO = _script(hello=(_say("Hello to you."),))
_SLOW = Script(replies={"tell me": (_say(LONG_TEXT, STREAMED_PIECES),)})
_MAIL_AFTER_STREAM = Script(replies={"mail her": (_calls(MAIL, text="I will write to her."), _say("Sent."))})

_SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "plain",
        "plain answer",
        "one input, one reply without tools",
        _HELLO,
        _one_input("hello"),
        faults=("worker-killed", "app-killed"),
    ),
    _tool("charge", "a write to a receiver that deduplicates by key", CHARGE, faults=_WRITE_FAULTS),
    _tool(
        "mail",
        "a write to a plain receiver that nobody can ask about it",
        MAIL,
        faults=_ALL_FAULTS,
        ordinals_max=2,
        points=_EVERYWHERE,
    ),
    _tool("publish", "a write to a plain receiver whose state can be asked for", PUBLISH, faults=_WRITE_FAULTS),
    # That receiver loses the reply by itself, so to lose it once more would change nothing.
    _tool("order", "a write to a receiver that does it and drops the reply", ORDER),
    _tool("read", "a built-in read", READ, NOTES, needs=frozenset({"files"})),
    _tool("write", "a file write inside the workspace", WRITE, needs=frozenset({"files"})),
    _tool(
        "plugin",
        "a third-party tool that calls itself read-only and is not",
        PLUGIN,
        needs=frozenset({"plugins"}),
        faults=_WRITE_FAULTS,
    ),
    Scenario(
        "several",
        "several calls",
        "three calls in one reply: a mail, a charge and a search",
        Script(replies={"do all three": (_calls(MAIL, CHARGE, GREP, text="Three things."), _say("All three done."))}),
        _one_input("do all three", NOTES),
        faults=("worker-killed",),
        ordinals_max=3,
        points=("tool.*", "effect.*", "reply.*", "turn.*"),
        needs=frozenset({"files"}),
    ),
    Scenario(
        "chain",
        "several calls",
        "one call after another: a charge, then a published note, then the answer",
        Script(replies={"charge and publish": (_calls(CHARGE), _calls(PUBLISH), _say("Charged and published."))}),
        _one_input("charge and publish"),
        faults=("worker-killed",),
        ordinals_max=2,
        points=("tool.*", "effect.*", "reply.*", "outbox.*"),
    ),
    Scenario(
        "long-stream",
        "long stream",
        f"a reply in {STREAMED_PIECES} pieces that repeats its counts in each",
        Script(replies={"tell me": (_say(LONG_TEXT, STREAMED_PIECES, "every"),)}),
        _one_input("tell me"),
        faults=("worker-killed", "app-killed", "stream-cut", "provider-error", "chunk-doubled", "client-gone"),
        points=("provider.*", "stream.*", "reply.*", "usage.*", "event.*"),
        sweeps=("worker-killed", "stream-cut"),
        ordinals_max=4,
    ),
    Scenario(
        "no-usage",
        "plain answer",
        "a reply for which the provider sends no counts",
        Script(replies={"hello": (_say("Hello to you.", usage="none"),)}),
        _one_input("hello"),
        ordinals_max=1,
    ),
    Scenario(
        "two-inputs",
        "two inputs",
        "a second input while the first is worked on",
        Script(replies={"mail her": (_calls(MAIL), _say("Sent.")), "and then": (_say("Then nothing."),)}),
        (Open(), Send(request="r1", text="mail her"), Send(request="r2", text="and then")),
        faults=("worker-killed", "both-killed", "graceful-restart"),
        points=("input.*", "turn.*", "work.*", "reply.*", "tool.*", "effect.*"),
    ),
    Scenario(
        "after-the-mail",
        "two inputs",
        "a second input after the first has ended, with what became of the mail in its context",
        Script(replies={"mail her": (_calls(MAIL), _say("Sent.")), "and now": (_say("Now nothing."),)}),
        (Open(), Send(request="r1", text="mail her"), SettleStep(), Send(request="r2", text="and now")),
        faults=("worker-killed", "overtaken"),
        points=("tool.*", "effect.*", "turn.*", "work.*", "attempt.*"),
    ),
    Scenario(
        "two-sessions",
        "two sessions",
        "two sessions side by side, each with a write",
        Script(replies={"charge one": (_calls(CHARGE), _say("One.")), "publish two": (_calls(PUBLISH), _say("Two."))}),
        (
            Open(session="s1"),
            Open(session="s2"),
            Send(session="s1", request="r1", text="charge one"),
            Send(session="s2", request="r2", text="publish two"),
        ),
        faults=("worker-killed", "both-killed"),
        points=("input.*", "turn.*", "work.*", "tool.*", "effect.*", "reply.*"),
    ),
    Scenario(
        "never-resent",
        "plain answer",
        "an input whose client does not ask again when no reply comes",
        _HELLO,
        (Open(), Send(request="r1", text="hello", insist=False)),
        faults=("app-killed",),
        points=("input.*",),
        ordinals_max=1,
    ),
    Scenario(
        "sent-twice",
        "two inputs",
        "the same input sent again under the same id, while it runs and after its end",
        _HELLO,
        (
            Open(),
            Send(request="r1", text="hello"),
            Send(request="r1", text="hello"),
            SettleStep(),
            Send(request="r1", text="hello"),
        ),
        faults=("app-killed",),
        points=("input.*", "turn.*", "reply.*"),
        sweeps=("app-killed",),
        ordinals_max=2,
    ),
    Scenario(
        "reload",
        "clients",
        "the page is closed while the work runs, and opened again after its end",
        _HELLO,
        (
            Open(),
            Send(request="r1", text="hello"),
            Watch(do="unwatch"),
            Watch(do="watch"),
            SettleStep(),
            Watch(do="unwatch"),
            Watch(do="watch"),
            Look(name="reloaded"),
        ),
        faults=("app-killed",),
        points=("event.*", "reply.*", "turn.*"),
        sweeps=("app-killed",),
        ordinals_max=1,
    ),
    Scenario(
        "paused",
        "controls",
        "paused in the middle of a stream, left alone, and resumed",
        _SLOW,
        (*_one_input("tell me"), SettleStep(), Look(name="paused"), Control(action="resume")),
        faults=("worker-killed", "app-killed", "downtime-3h"),
        points=("control.*", "work.*", "worker.*", "recovery.*", "attempt.*", "stream.*"),
        plan=(_at("provider.reply.chunk#6", _PAUSE),),
        controls=True,
    ),
    Scenario(
        "paused-before-a-call",
        "controls",
        "paused when a mail is intended and not yet sent, and resumed: another turn makes the call",
        _MAIL_AFTER_STREAM,
        (*_one_input("mail her"), SettleStep(), Look(name="paused"), Control(action="resume")),
        points=("tool.dispatch.stored", "effect.*", "tool.effect.done", "tool.result.stored"),
        plan=(_at("tool.intent.stored#1", _PAUSE),),
        controls=True,
    ),
    Scenario(
        "stopped",
        "controls",
        "stopped before the mail goes out; the old input is sent again, and a new one after it",
        _MAIL_AFTER_STREAM.model_copy(
            update={"replies": {**_MAIL_AFTER_STREAM.replies, "hello": (_say("Hello to you."),)}}
        ),
        (
            *_one_input("mail her"),
            SettleStep(),
            Send(request="r1", text="mail her"),
            SettleStep(),
            Look(name="stopped"),
            Send(request="r2", text="hello"),
        ),
        faults=("worker-killed", "app-killed", "downtime-30d"),
        points=("control.*", "work.*", "worker.*", "input.*", "attempt.*", "turn.*"),
        plan=(_at("tool.intent.stored#1", _STOP),),
        controls=True,
    ),
    Scenario(
        "stopped-when-sent-again",
        "controls",
        "killed when a charge had happened; recovery sends it again under its key, and is stopped just before that",
        Script(replies={"please charge": (_calls(CHARGE), _say("All done."))}),
        (*_one_input("please charge"), SettleStep(), Look(name="stopped")),
        faults=("worker-killed", "app-killed"),
        points=("control.*", "work.*"),
        ordinals_max=1,
        plan=(
            _at("effect.applied#1", Kill(), Release(), Start(role="worker")),
            _at("tool.dispatch.stored#2", _STOP),
        ),
        controls=True,
    ),
    Scenario(
        "quit-all",
        "controls",
        "quit and stop everything in the middle of a stream, then start again",
        _SLOW,
        _one_input("tell me"),
        faults=("worker-killed",),
        ordinals_max=1,
        plan=(_at("provider.reply.chunk#4", User(step=Quit().model_dump()), Start(role="app"), Start(role="worker")),),
        controls=True,
    ),
    Scenario(
        "stale-control",
        "controls",
        "a resume that was meant for an older version comes after a stop",
        _HELLO,
        (
            Open(),
            Send(request="r1", text="hello"),
            SettleStep(),
            Control(action="pause"),
            Control(action="stop", version=0),
            Look(name="controlled"),
            Control(action="resume"),
        ),
        faults=("app-killed",),
        points=("control.*",),
        ordinals_max=1,
        controls=True,
    ),
    Scenario(
        "renewal",
        "ownership",
        "the lease comes up for renewal in the middle of a turn",
        Script(replies={"please mail": (_calls(MAIL, text="On it."), _say("All done."))}),
        _one_input("please mail"),
        faults=("worker-killed", "overtaken", "both-killed"),
        points=("lease.*", "attempt.*", "tool.*"),
        plan=(_at("turn.begun#1", MoveClock(by_s=6.0)),),
        needs=frozenset({"clock"}),
    ),
    Scenario(
        "worker-restart",
        "graceful exit",
        "the worker is restarted gracefully in the middle of a tool call",
        Script(replies={"charge and publish": (_calls(CHARGE), _calls(PUBLISH), _say("Charged and published."))}),
        _one_input("charge and publish"),
        faults=("worker-killed", "both-killed"),
        points=("exit.*", "recovery.*"),
        ordinals_max=1,
        plan=(_at("tool.dispatch.stored#1", Terminate(), Start(role="worker")),),
        controls=True,
    ),
    Scenario(
        "worker-restart-stream",
        "graceful exit",
        "the worker is restarted gracefully in the middle of a stream",
        _SLOW,
        _one_input("tell me"),
        faults=("worker-killed", "stop-at", "pause-at"),
        points=("exit.*",),
        ordinals_max=1,
        plan=(_at("provider.reply.chunk#4", Terminate(), Start(role="worker")),),
        controls=True,
    ),
    Scenario(
        "app-restart",
        "graceful exit",
        "the app is restarted in the ordinary way while a reply streams",
        _SLOW,
        _one_input("tell me"),
        faults=("app-killed", "both-killed"),
        points=("app.exit.*",),
        ordinals_max=1,
        plan=(_at("provider.reply.chunk#2", Terminate(role="app"), Start(role="app")),),
        controls=True,
    ),
    Scenario(
        "recovery",
        "recovery",
        "a worker was killed before a mail went out; recovery runs",
        Script(replies={"please mail": (_calls(MAIL, text="On it."), _say("All done."))}),
        _one_input("please mail"),
        faults=(
            "killed-again",
            "both-killed",
            "killed-thrice",
            "raced",
            "pause-*",
            "stop-*",
            "input-during",
            "graceful-restart",
            "overtaken",
        ),
        points=("recovery.*",),
        ordinals_max=1,
        plan=(_at("tool.dispatch.stored#1", Kill(), Start(role="worker")),),
    ),
    Scenario(
        "recovery-before-another",
        "recovery",
        "a worker was killed before a mail went out while a second input waited; recovery runs",
        Script(replies={"mail her": (_calls(MAIL), _say("Sent.")), "and then": (_say("Then nothing."),)}),
        (Open(), Send(request="r1", text="mail her"), Send(request="r2", text="and then")),
        faults=("killed-again", "input-during"),
        points=("recovery.*",),
        ordinals_max=1,
        plan=(_at("tool.dispatch.stored#1", Kill(), Start(role="worker")),),
    ),
    Scenario(
        "recovery-makes-the-call",
        "recovery",
        "killed with its reply stored; recovery makes the call and is killed at it, and again with the next reply",
        Script(replies={"please mail": (_calls(MAIL), _say("All done."))}),
        _one_input("please mail"),
        faults=("worker-killed", "app-killed"),
        points=("turn.committed",),
        plan=(
            _at("reply.stored#1", Kill(), Start(role="worker")),
            _at("effect.applied#1", Kill(), Release(), Start(role="worker")),
            _at("reply.stored#2", Kill(), Start(role="worker")),
        ),
    ),
    Scenario(
        "recovery-unasked",
        "recovery",
        "a worker was killed before it had asked the model anything; recovery runs",
        Script(replies={"please mail": (_calls(MAIL), _say("All done."))}),
        _one_input("please mail"),
        faults=("killed-again", "input-during", "stop-*"),
        points=("recovery.*",),
        ordinals_max=1,
        plan=(_at("turn.begun#1", Kill(), Start(role="worker")),),
    ),
    Scenario(
        "recovery-stream",
        "recovery",
        "a worker was killed in the middle of a stream; recovery runs",
        _SLOW,
        _one_input("tell me"),
        faults=("killed-again", "killed-thrice", "raced", "input-during", "pause-*"),
        points=("recovery.*",),
        ordinals_max=1,
        plan=(_at("stream.text.committed#1", Kill(), Start(role="worker")),),
    ),
    Scenario(
        "recovery-known",
        "recovery",
        "a worker was killed with a stored result; recovery goes on from a checkpoint",
        Script(replies={"charge and publish": (_calls(CHARGE), _calls(PUBLISH), _say("Charged and published."))}),
        _one_input("charge and publish"),
        faults=("killed-again", "killed-thrice", "raced", "stop-*"),
        points=("recovery.*",),
        ordinals_max=1,
        plan=(_at("tool.result.stored#1", Kill(), Start(role="worker")),),
    ),
    Scenario(
        "passing-fault",
        "provider",
        "the provider fails twice and then answers",
        _HELLO,
        _one_input("hello"),
        ordinals_max=1,
        faults=("worker-killed",),
        plan=(
            _at("provider.request.received#1", Answer(do="answer", how="error", status=503)),
            _at("provider.request.received#2", Answer(do="answer", how="cut")),
        ),
    ),
    Scenario(
        "three-inputs",
        "two inputs",
        "a second and a third input while the first is worked on",
        Script(
            replies={
                "mail her": (_calls(MAIL), _say("Sent.")),
                "and then": (_say("Then nothing."),),
                "and last": (_say("Last, nothing."),),
            }
        ),
        (
            Open(),
            Send(request="r1", text="mail her"),
            Send(request="r2", text="and then"),
            Send(request="r3", text="and last"),
        ),
        points=("input.*", "turn.*", "work.*"),
        ordinals_max=1,
    ),
    Scenario(
        "three-sessions",
        "two sessions",
        "three sessions and one worker: two of them wait for it",
        Script(
            replies={
                "charge one": (_calls(CHARGE), _say("One.")),
                "answer two": (_say("Two."),),
                "answer three": (_say("Three."),),
            }
        ),
        (
            Open(session="s1"),
            Open(session="s2"),
            Open(session="s3"),
            Send(session="s1", request="r1", text="charge one"),
            Send(session="s2", request="r2", text="answer two"),
            Send(session="s3", request="r3", text="answer three"),
        ),
        points=("input.*", "turn.*", "work.*"),
        ordinals_max=1,
    ),
    Scenario(
        "two-workers",
        "ownership",
        "a second worker stands by, and the clock jumps far ahead while the first one is at work",
        Script(
            replies={
                "hello": (_say("Hello to you."),),
                "charge and publish": (_calls(CHARGE), _calls(PUBLISH), _say("Charged and published.")),
            }
        ),
        (*_one_input("hello"), SettleStep(), Send(request="r2", text="charge and publish")),
        faults=(),
        plan=(
            _at("input.committed#1", Start(role="worker", extra=True)),
            _at("provider.request.received#2", MoveClock(by_s=60.0)),
        ),
        needs=frozenset({"clock"}),
    ),
    Scenario(
        "same-call-id",
        "several calls",
        "a faulty provider sends two calls under one id",
        Script(
            replies={
                "do both": (Reply(text="Both.", calls=(MAIL, CHARGE), same_ids=True), _say("Both done.")),
            }
        ),
        _one_input("do both"),
        faults=("worker-killed", "pause-at"),
        points=("provider.request.received", "reply.*", "usage.receipt.*", "outbox.*", "work.released"),
        needs=frozenset({"files"}),
    ),
)

# Crashes that people have met, where no workload above is one already; track_record.py says which is which. Each has its
# whole plan of its own and is played so, without further faults.
_MET: tuple[Scenario, ...] = (
    Scenario(
        "met-no-worker",
        "met before",
        "an input is accepted while no worker lives, and the app dies right after its answer",
        _HELLO,
        _one_input("hello"),
        faults=(),
        plan=(
            _at("worker.idle#1", Kill()),
            _at("input.acknowledged#1", Kill(), *_START_BOTH),
        ),
    ),
    Scenario(
        "met-drain",
        "met before",
        "the worker is told to go in a turn, a second input comes while it drains, and a third when the turn goes on",
        Script(
            replies={
                "mail her": (_calls(MAIL), _say("Sent.")),
                "and then": (_say("Then nothing."),),
                "and last": (_say("Last, nothing."),),
            }
        ),
        _one_input("mail her"),
        faults=(),
        plan=(
            _at("tool.dispatch.stored#1", Terminate(), Start(role="worker")),
            _at("exit.admission.closed#1", _sends("r2", "and then")),
            _at("recovery.interface.restored#1", _sends("r3", "and last")),
        ),
        controls=True,
    ),
    Scenario(
        "met-half-call",
        "met before",
        "the stream breaks off in the middle of a tool call's arguments",
        Script(replies={"please mail": (_calls(MAIL, text="On it."), _say("All done."))}),
        _one_input("please mail"),
        faults=(),
        plan=(_at("provider.reply.chunk#3", Answer(do="answer", how="cut")),),
    ),
    Scenario(
        "met-failed-first",
        "met before",
        "the provider refuses the first input before any output, and a second one follows",
        Script(replies={"mail her": (_calls(MAIL), _say("Sent.")), "and now": (_say("Now nothing."),)}),
        (*_one_input("mail her"), SettleStep(), Send(request="r2", text="and now")),
        faults=(),
        plan=(_at("provider.request.received#1", Answer(do="answer", how="error", status=400)),),
    ),
    Scenario(
        "met-paused-then-stopped",
        "met before",
        "the first input is paused before any output and then stopped, and a second one follows",
        Script(replies={"mail her": (_calls(MAIL), _say("Sent.")), "and now": (_say("Now nothing."),)}),
        (*_one_input("mail her"), SettleStep(), Control(action="stop"), Send(request="r2", text="and now")),
        faults=(),
        plan=(_at("turn.begun#1", _PAUSE),),
        controls=True,
    ),
    Scenario(
        "met-result-not-stored",
        "met before",
        "a tool has run and storing its result fails once",
        Script(replies={"please mail": (_calls(MAIL, text="On it."), _say("All done."))}),
        _one_input("please mail"),
        faults=(),
        plan=(_at("tool.effect.done#1", Raise(errno="EIO")),),
    ),
    Scenario(
        "met-slow-tool",
        "met before",
        "the worker dies inside a tool; the session is opened again and a new input sent while recovery runs and dies too",
        Script(replies={"mail her": (_calls(MAIL), _say("Sent.")), "and now": (_say("Now nothing."),)}),
        _one_input("mail her"),
        faults=(),
        plan=(
            _at("effect.received#1", Kill(), Release(), Start(role="worker")),
            _at("recovery.ownership.taken#1", _watches("unwatch"), _watches("watch"), _sends("r2", "and now")),
            _at("recovery.repair.written#1", Kill(), Start(role="worker")),
        ),
        controls=True,
    ),
    Scenario(
        "met-reply-told-twice",
        "met before",
        "a resumed turn has replied, the reply is sent, and the app dies before it has stored that it was",
        _HELLO,
        _one_input("hello"),
        faults=(),
        plan=(
            _at("attempt.stored#1", Kill(), Start(role="worker")),
            # The app comes back last, so that what a worker does when it starts meets a reply that is not marked yet.
            _at(
                "event.sent#9",
                _awaits("turn.committed#1"),
                Kill(),
                _awaits("recovery.facts.loaded#2"),
                Start(role="app"),
            ),
            _at("turn.committed#1", _awaits("event.sent#9"), Kill(), Start(role="worker")),
        ),
    ),
    Scenario(
        "met-reply-not-sent",
        "met before",
        "a turn ends while the app is down, and the worker dies before anybody could be told",
        _HELLO,
        _one_input("hello"),
        faults=(),
        plan=(
            _at("turn.begun#1", _awaits("event.sent#1"), Kill(role="app")),  # a client has been there and comes back
            _at("turn.committed#1", Kill(), *_START_BOTH),
        ),
    ),
    Scenario(
        "met-came-back",
        "met before",
        "a client's event stream is cut, the run ends, and the client comes back with its last number, then as a new page",
        Script(replies={"please mail": (_calls(MAIL, text="On it."), _say("All done."))}),
        (
            *_one_input("please mail"),
            SettleStep(),
            Watch(do="watch"),
            SettleStep(),
            Watch(do="unwatch"),
            Watch(do="watch", anew=True),
        ),
        faults=(),
        plan=(_at("tool.dispatch.stored#1", _watches("unwatch")),),
        controls=True,
    ),
    Scenario(
        "met-paused-for-hours",
        "met before",
        "paused in a stream, killed, opened again, and left alone for two hours",
        _SLOW,
        (
            *_one_input("tell me"),
            SettleStep(),
            Watch(do="unwatch"),
            Watch(do="watch"),
            MoveClockStep(by_s=HOUR_S),
            SettleStep(),
            MoveClockStep(by_s=HOUR_S),
            SettleStep(),
            Look(name="paused"),
        ),
        faults=(),
        plan=(
            _at("provider.reply.chunk#6", _PAUSE),
            _at("control.applied#1", Kill(), Kill(role="app"), *_START_BOTH),
        ),
        controls=True,
        needs=frozenset({"clock"}),
    ),
    Scenario(
        "met-message-after-restart",
        "met before",
        "the worker died in a turn; when the turn has been resumed a new input comes, and a second worker stands by",
        Script(replies={"tell me": (_say(LONG_TEXT, STREAMED_PIECES),), "and now": (_say("Now nothing."),)}),
        _one_input("tell me"),
        faults=(),
        plan=(
            _at("provider.request.received#1", Kill(), Release(), Start(role="worker")),
            _at(
                "provider.request.received#2",
                _sends("r2", "and now"),
                Start(role="worker", extra=True),
                _awaits("worker.idle#2"),
            ),
        ),
        controls=True,
    ),
    Scenario(
        "met-two-recoverers",
        "met before",
        "two workers have read the same interrupted work; when one has taken it the other tries",
        _HELLO,
        _one_input("hello"),
        faults=(),
        plan=(
            _at("turn.begun#1", Kill(), Start(role="worker"), Start(role="worker", extra=True)),
            _at("recovery.facts.loaded#1", _awaits("recovery.facts.loaded#2")),
            _at("recovery.facts.loaded#2", _awaits("recovery.ownership.taken#1")),
        ),
    ),
    Scenario(
        "met-zombie",
        "met before",
        "the owner was killed in a turn and its parent never reaps it",
        _HELLO,
        _one_input("hello"),
        faults=(),
        plan=(_at("turn.begun#1", Kill(reaped=False), Start(role="worker")),),
    ),
    Scenario(
        "met-stopped-while-hung",
        "met before",
        "a turn hangs in the provider, is stopped, a new turn runs and ends, and the old one comes back with its reply",
        Script(replies={"mail her": (_calls(MAIL), _say("Sent.")), "and now": (_say("Now nothing."),)}),
        _one_input("mail her"),
        faults=(),
        plan=(
            _at(
                "reply.received#1",
                Freeze(do="freeze"),
                _STOP,
                MoveClock(by_s=60.0),
                Start(role="worker", extra=True),
                _sends("r2", "and now"),
                Settle(),
                Freeze(do="thaw"),
                Release(),
            ),
        ),
        controls=True,
        needs=frozenset({"clock"}),
    ),
    Scenario(
        "met-killed-every-time",
        "met before",
        "the worker dies in a turn, in the recovery from that, and twice in the resumed turn",
        _SLOW,
        _one_input("tell me"),
        faults=(),
        plan=(
            _at("stream.text.committed#1", Kill(), Start(role="worker")),
            _at("recovery.admitted#1", Kill(), Start(role="worker")),
            _at("attempt.stored#2", Kill(), Start(role="worker")),
            _at("stream.text.committed#2", Kill(), Start(role="worker")),
        ),
    ),
    Scenario(
        "met-locked",
        "met before",
        "another program holds the databases' locks for five seconds when a reply is to be stored",
        Script(replies={"please mail": (_calls(MAIL, text="On it."), _say("All done."))}),
        _one_input("please mail"),
        faults=(),
        plan=(_at("reply.received#1", LockStore(for_s=LOCKED_S)),),
    ),
    Scenario(
        "met-clock-back",
        "met before",
        "the clock goes back three hours while a worker is at work and another one looks for stale work",
        Script(replies={"charge and publish": (_calls(CHARGE), _calls(PUBLISH), _say("Charged and published."))}),
        _one_input("charge and publish"),
        faults=(),
        plan=(
            _at(
                "provider.request.received#1",
                MoveClock(by_s=-3 * HOUR_S),
                Start(role="worker", extra=True),
                _awaits("worker.idle#2"),
            ),
        ),
        needs=frozenset({"clock"}),
    ),
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (*_SCENARIOS, *_MET)}


class UnknownScenario(ValueError):
    """A name that is no scenario. The message gives the nearest names."""


def matching(glob: str) -> tuple[Scenario, ...]:
    """The scenarios whose name matches the shell pattern. Raises UnknownScenario if there is none."""
    found = tuple(each for name, each in SCENARIOS.items() if fnmatchcase(name, glob))
    if not found:
        near = get_close_matches(glob, SCENARIOS, n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise UnknownScenario(f"unknown scenario {glob!r}{hint}; `killpoint show scenarios` lists them all")
    return found
