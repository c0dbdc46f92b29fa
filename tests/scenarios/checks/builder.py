"""Owns made-up histories: a small right runtime that writes the records of a case, and a tape on which a test breaks one.

`Scene` plays sessions, inputs and tools as a right runtime would, dies where it is told to and recovers. Its `tape()`
holds the records as they would be stored. Nothing is started: time is a counter.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from scenarios.case import Call, Case, Reply, Script
from scenarios.checks import CHECKS, Evidence, judge
from scenarios.checks.evidence import RECEIVERS
from scenarios.history import History

Line = dict[str, Any]
MS = 1_000_000
PLACEHOLDER = "The outcome of this call is unknown."
NOTE = "The request quoted here was interrupted; continue it.\nRequest: "
SET_ASIDE = "The request above was interrupted; a newer one goes first. It is continued later."


class Died(Exception):
    """The process that was running has been killed."""


def call(tool: str, **arguments: Any) -> Call:
    return Call(tool=tool, arguments=arguments)


def replies(*steps: Reply | Call | str, last: str) -> tuple[Reply, ...]:
    """A script: each call or text as one reply with calls, then the last text."""
    made = [s if isinstance(s, Reply) else Reply(text="", calls=(s,)) for s in steps if not isinstance(s, str)]
    return (*made, Reply(text=last))


class Tape:
    """The records of one case, to be broken."""

    def __init__(self, case: Case, lines: list[Line]) -> None:
        self.case = case
        self.lines = lines

    def __repr__(self) -> str:
        """Short, since what generates histories writes each one down that it drew."""
        return f"<history of {len(self.lines)} records>"

    def all(self, kind: str, **match: Any) -> list[Line]:
        return [x for x in self.lines if x["kind"] == kind and all(x["data"].get(k) == v for k, v in match.items())]

    def get(self, kind: str, nth: int = 0, **match: Any) -> Line:
        return self.all(kind, **match)[nth]

    def drop(self, *lines: Line) -> None:
        self.lines = [x for x in self.lines if not any(x is line for line in lines)]

    def put(self, kind: str, after: Line, **data: Any) -> Line:
        """A new line right after another one."""
        line = {"t_ns": after["t_ns"] + 1, "kind": kind, "data": data}
        self.lines.insert(next(i for i, x in enumerate(self.lines) if x is after) + 1, line)
        return line

    def again(self, line: Line, after: Line, **changes: Any) -> Line:
        """A copy of a line, changed, right after another one."""
        return self.put(line["kind"], after, **{**copy.deepcopy(line["data"]), **changes})

    def move(self, line: Line, after: Line) -> Line:
        self.drop(line)
        return self.put(line["kind"], after, **line["data"])

    @property
    def end(self) -> Line:
        """Where the case is closed; behind it the harness clears up."""
        return self.get("case.closed")

    @property
    def final(self) -> Line:
        return self.get("snapshot.taken", when="final")

    def view(self, session: str = "s1", when: str = "final") -> dict[str, Any]:
        """A session in a snapshot, to be changed in place."""
        found: dict[str, Any] = self.get("snapshot.taken", when=when)["data"]["sessions"][session]
        return found

    def seq(self, line: Line) -> int:
        order = sorted(self.lines, key=lambda x: x["t_ns"])
        return next(i for i, x in enumerate(order) if x is line)

    def evidence(self) -> Evidence:
        return Evidence(History.join(json.loads(json.dumps(self.lines))), self.case)

    def results(self) -> dict[str, Any]:
        evidence = self.evidence()
        return {name: judge(evidence, each) for name, each in CHECKS.items()}

    def violated(self) -> set[str]:
        evidence = self.evidence()
        return {name for name, each in CHECKS.items() if judge(evidence, each).status == "violated"}


class Scene:
    """A right runtime, its clients and its world, as the records that a run of them leaves."""

    def __init__(
        self,
        script: dict[str, tuple[Reply, ...]] | None = None,
        *,
        die: dict[str, str] | None = None,
        held: dict[str, Callable[[Scene], None]] | None = None,
    ) -> None:
        """die: address to what dies there (`worker` or `both`). held: address to what users do while it stands there."""
        self.script = script or {"hello": replies(last="good day to you")}
        self.die, self.held = die or {}, held or {}
        self.lines: list[Line] = []
        self.now = 0
        self.counts: dict[str, int] = {}
        self.n = self.effect_n = self.calls = self.nonce = self.made = 0
        self.sessions: dict[str, dict[str, Any]] = {}
        self.works: dict[str, dict[str, Any]] = {}
        self.world: dict[str, str] = {}
        self.lives: dict[str, int] = {}
        self.watching: set[str] = set()
        self.admitted: set[str] = set()
        self.mark("case.opened", id="c1", scenario="made", fault="x", target="made", policy="continue", disarmed=False)
        self.start("app")
        self.start("worker")

    # Records --------------------------------------------------------------------------------------------------------

    def mark(self, kind: str, **data: Any) -> Line:
        self.now += MS
        nested = any(isinstance(value, dict | list | tuple) for value in data.values())
        line = {"t_ns": self.now, "kind": kind, "data": json.loads(json.dumps(data)) if nested else data}
        self.lines.append(line)
        return line

    def wait(self, ms: float) -> None:
        self.now += int(ms * MS)

    def who(self, role: str) -> dict[str, Any]:
        life = self.lives.get(role, 1)
        return {"role": role, "life": life, "pid": {"app": 100, "worker": 200, "world": 900}[role] + life}

    def start(self, role: str) -> None:
        self.lives[role] = self.lives.get(role, 0) + 1
        who = self.who(role)
        self.mark("process.started", **who, start_time=float(who["pid"]), cold=False)

    def reach(self, point: str, work: str | None = None, role: str = "worker", **detail: Any) -> None:
        self.counts[point] = ordinal = self.counts.get(point, 0) + 1
        self.nonce += 1
        nonce = f"{self.nonce:016x}"
        self.mark("point.reached", point=point, ordinal=ordinal, **self.who(role), nonce=nonce, local=ordinal, work=work,
                  detail=detail)  # fmt: skip
        address = f"{point}#{ordinal}"
        if address in self.held:
            self.mark("point.fired", point=point, ordinal=ordinal, nonce=nonce, ops=[{"do": "user"}])
            self.held[address](self)
            self.mark("point.released", point=point, ordinal=ordinal, nonce=nonce, answer="go")
        if address in self.die:
            self.mark("point.fired", point=point, ordinal=ordinal, nonce=nonce, ops=[{"do": "kill"}])
            self.kill("worker", point, ordinal, nonce)
            if self.die[address] == "both":
                self.kill("app", point, ordinal, nonce)
            raise Died

    def kill(self, role: str, point: str | None = None, ordinal: int | None = None, nonce: str | None = None) -> None:
        who = self.who(role)
        self.mark(
            "kill", **who, signal="SIGKILL", status=9, point=point, ordinal=ordinal, nonce=nonce, proved=True, why=None
        )
        self.mark("process.exited", **who, status=9, signal=9, exit_code=None)
        holds = {i["request_id"]: True for s in self.sessions.values() for i in s["inputs"]}
        files = {"work.db": {"ok": True, "detail": "ok", "sha256": "a" * 64}}
        self.mark("store.at_death", point=point, ordinal=ordinal, files=files, holds=holds)
        if role == "app":
            for session in sorted(self.watching):
                self.mark("client.disconnected", client="c1", session=session)
            self.watching.clear()

    # Clients ----------------------------------------------------------------------------------------------------------

    def invoke(self, op: str, session: str | None, body: dict[str, Any], outcome: str = "ok", **data: Any) -> Line:
        self.calls += 1
        number = self.calls
        self.mark("client.invoked", call=number, client="c1", op=op, session=session, **data)
        return self.mark("client.heard", call=number, outcome=outcome, status=200 if outcome == "ok" else None, body=body)

    def open(self, session: str = "s1") -> None:
        self.sessions[session] = {
            "session": session, "event": 0, "announced": 0, "desired_state": "run", "control_version": 0, "inputs": [],
            "works": [], "transcript": [], "effects": [], "attempts": [],
        }  # fmt: skip
        self.invoke("open", session, {"session": f"s_{session}"})
        self.connect(session)

    def connect(self, session: str = "s1", client: str = "c1") -> None:
        mine = {"client": client, "session": session}
        told = (x["data"] for x in self.lines if x["kind"] == "client.event")
        seen = [event["event"] for event in told if mine.items() <= event.items()]
        after = max(seen, default=0)
        self.mark("client.connected", client=client, session=session, after=after)
        self.watching.add(session)
        for event in [e for e in self.sessions[session].get("_events", []) if e["event"] > after]:
            self.mark("client.event", client=client, session=session, **event)

    def tell(self, session: str, type_: str, **data: Any) -> None:
        view = self.sessions[session]
        view["event"] += 1
        view["announced"] = view["event"]
        event = {"event": view["event"], "type": type_, "data": data}
        view.setdefault("_events", []).append(copy.deepcopy(event))
        if session in self.watching:
            self.mark("client.event", client="c1", session=session, **event)

    def send(self, request: str, text: str = "hello", session: str = "s1", outcome: str = "ok") -> dict[str, Any]:
        view = self.sessions[session]
        known = next((i for i in view["inputs"] if i["request_id"] == request), None)
        if known is None:
            work_id = f"w_{session}_{request}"
            known = {"request_id": request, "text": text, "work_id": work_id, "position": len(view["inputs"]) + 1,
                     "consumed": False}  # fmt: skip
            view["inputs"].append(known)
            self.works[work_id] = work = {
                "work_id": work_id, "state": "queued", "reason_code": None, "desired_state": "run",
                "control_version": view["control_version"], "permission_scope": "workspace", "goal_revision": None,
                "host": "h1", "parent": None, "children": [], "progress": 0, "recovery_policy": "continue", "generation": 0,
                "first_input": request, "messages": [], "turns": [], "recoveries": [],
            }  # fmt: skip
            view["works"].append(work)
        body = {"status": "accepted", "input": f"i_{request}", "work_id": known["work_id"], "position": known["position"]}
        self.invoke("send", session, body if outcome == "ok" else {}, outcome, request_id=request, text=text)
        return self.works[known["work_id"]]

    def control(self, action: str, session: str = "s1", version: int | None = None) -> None:
        view = self.sessions[session]
        view["control_version"] += 1
        wanted = {"pause": "paused", "stop": "cancelled", "resume": "run"}[action]
        view["desired_state"] = wanted
        for work in view["works"]:
            if work["state"] not in {"done", "cancelled"} and (action != "resume" or work["desired_state"] == "paused"):
                work["desired_state"], work["control_version"] = wanted, view["control_version"]
                work["state"] = "queued" if action == "resume" else wanted
                work["reason_code"] = None if action == "resume" else f"user_{action}"
                for turn in work["turns"]:
                    turn["state"] = "interrupted" if turn["state"] == "running" else turn["state"]
                for decision in work["recoveries"]:
                    decision["void"] = decision["void"] or decision["key"] not in self.admitted
                self.tell(session, f"work.{work['state']}", work_id=work["work_id"], state=work["state"])
        body = {"desired_state": wanted, "control_version": view["control_version"]}
        self.invoke("control", session, body, action=action, version=version)

    # The runtime ------------------------------------------------------------------------------------------------------

    def run(self) -> Scene:
        """Work on everything that is wanted, dying and starting again, until it is at rest."""
        while True:
            wanted = [w for w in self.works.values() if w["desired_state"] == "run" and w["state"] != "done"]
            if not wanted:
                return self
            try:
                self.serve(wanted[0])
            except Died:
                self.restart()

    def restart(self) -> None:
        for role in ("app", "worker"):
            last = [x for x in self.lines if x["kind"].startswith("process.") and x["data"]["role"] == role][-1]
            if last["kind"] == "process.exited":
                self.start(role)
                for session in self.sessions if role == "app" else ():
                    self.connect(session)

    def session_of(self, work: dict[str, Any]) -> str:
        return next(name for name, view in self.sessions.items() if any(w is work for w in view["works"]))

    def serve(self, work: dict[str, Any]) -> None:
        session, name = self.session_of(work), work["work_id"]
        if not work["turns"]:
            work["generation"] += 1
            self.reach("work.claimed", name, generation=work["generation"])
            if work["desired_state"] != "run":
                self.reach("control.applied", name)
                return
            turn = self.begin(work)
            item = next(i for i in self.sessions[session]["inputs"] if i["work_id"] == name)
            item["consumed"] = True
            self.store(session, kind="user", turn_id=turn["turn_id"], request_id=item["request_id"], text=item["text"])
            self.reach("turn.begun", name, turn=turn["turn_id"])
        else:
            turn = self.recover(work)
        self.loop(work, session, turn)

    def begin(self, work: dict[str, Any], predecessor: str | None = None) -> dict[str, Any]:
        self.made += 1
        turn = {"turn_id": f"t_{self.made}", "work_id": work["work_id"], "state": "running", "predecessor": predecessor,
                "attempts": []}  # fmt: skip
        work["turns"].append(turn)
        work["state"] = "working"
        self.tell(self.session_of(work), "work.working", work_id=work["work_id"], state="working")
        return turn

    def store(self, session: str, **item: Any) -> dict[str, Any]:
        items = self.sessions[session]["transcript"]
        made = {"item": len(items) + 1, "text": "", "complete": True, "calls": [], "call_id": None, "placeholder": False,
                "request_id": None, **item}  # fmt: skip
        items.append(made)
        return made

    def messages(self, session: str, text: str) -> list[dict[str, Any]]:
        items = self.sessions[session]["transcript"]
        results = {
            i["call_id"]: i["text"] for kind in ("tool_result", "reconciliation") for i in items if i["kind"] == kind
        }
        made: list[dict[str, Any]] = []
        for item in items:
            if item["kind"] == "user":
                made.append({"role": "user", "content": item["text"]})
            elif item["kind"] == "note":
                made.append({"role": "system", "content": item["text"]})
            elif item["kind"] == "assistant":
                message = {"role": "assistant", "content": item["text"] + ("" if item["complete"] else " [interrupted]")}
                if item["calls"]:
                    message["tool_calls"] = [
                        {"id": c["call_id"], "type": "function",
                         "function": {"name": c["tool"], "arguments": json.dumps(c["arguments"])}}
                        for c in item["calls"]
                    ]  # fmt: skip
                made.append(message)
                for name in [c["call_id"] for c in item["calls"]]:
                    made.append({"role": "tool", "tool_call_id": name, "content": results.get(name, PLACEHOLDER)})
        if made[-1]["role"] == "assistant":
            made.append({"role": "system", "content": NOTE + text})
        return made

    def loop(self, work: dict[str, Any], session: str, turn: dict[str, Any]) -> None:
        name = work["work_id"]
        text = next(i["text"] for i in self.sessions[session]["inputs"] if i["work_id"] == name)
        script = self.script.get(text, (Reply(text="ok", pieces=1),))
        items = self.sessions[session]["transcript"]
        mine = [i for i in items if i["turn_id"] in {t["turn_id"] for t in work["turns"]}]
        last = mine[-1] if mine else None
        step = sum(i["kind"] == "assistant" and bool(i["calls"]) for i in mine)
        if not (last and last["kind"] == "assistant" and last["complete"] and not last["calls"]):
            while True:
                if work["desired_state"] != "run":
                    self.reach("control.applied", name)
                    return
                reply = script[min(step, len(script) - 1)]
                stored = self.ask(work, session, turn, reply, text)
                step += 1
                for each in stored["calls"]:
                    if work["desired_state"] != "run":
                        self.result(work, session, turn, each, PLACEHOLDER, placeholder=True)
                        continue
                    self.use(work, session, turn, each)
                if not stored["calls"]:
                    break
        if work["desired_state"] != "run":
            self.reach("control.applied", name)
            return
        turn["state"] = work["state"] = work["desired_state"] = "done"
        work["progress"] = len(items)
        self.tell(session, "work.done", work_id=name, state="done")
        self.reach("turn.committed", name)
        self.reach("work.released", name, generation=work["generation"])

    def ask(self, work: Any, session: str, turn: Any, reply: Reply, text: str) -> dict[str, Any]:
        name = work["work_id"]
        self.made += 1
        attempt = f"a_{self.made}"
        turn["attempts"].append(attempt)
        row = {"attempt": attempt, "work_id": name, "turn_id": turn["turn_id"], "state": "open", "input_tokens": None,
               "cached_tokens": None, "output_tokens": None, "watermark_tokens": None, "late": False}  # fmt: skip
        self.sessions[session]["attempts"].append(row)
        self.reach("attempt.stored", name, attempt=attempt)
        self.n += 1
        n, messages = self.n, self.messages(session, text)
        tokens = {"input_tokens": 10 + len(messages), "cached_tokens": 0, "output_tokens": 0}
        self.mark("provider.request", n=n, attempt=attempt, headers={}, body={"messages": messages, "stream": True})
        partial = ""
        try:
            self.reach("provider.request.received", role="world", n=n, attempt=attempt)
            words = reply.text.split() or ["tool"]
            for i, _ in enumerate(words):
                tokens["output_tokens"] += 1
                self.mark("provider.chunk", n=n, i=i, output_tokens=tokens["output_tokens"])
                if reply.usage == "every":
                    row["watermark_tokens"] = tokens["output_tokens"]
                if reply.text and i < len(words) - 1:
                    partial = " ".join(words[: i + 1])
                    self.reach("stream.text.committed", name, attempt=attempt)
        except Died:
            self.mark("provider.billed", n=n, attempt=attempt, **tokens, complete=False)
            if partial:
                self.store(session, kind="assistant", turn_id=turn["turn_id"], text=partial, complete=False)
            raise
        self.mark("provider.billed", n=n, attempt=attempt, **tokens, complete=True)
        self.mark("provider.answered", n=n, status=200)
        self.reach("reply.received", name, attempt=attempt)
        self.reach("usage.receipt.received", name, attempt=attempt)
        if reply.usage != "none":
            row.update(state="known", **tokens)
        calls = [
            {"call_id": f"call_{n}_{i}", "tool": c.tool, "arguments": dict(c.arguments)} for i, c in enumerate(reply.calls)
        ]
        item = self.store(session, kind="assistant", turn_id=turn["turn_id"], text=reply.text, calls=calls)
        self.tell(session, "reply", work_id=name, text=reply.text)
        self.reach("reply.stored", name, attempt=attempt)
        self.reach("usage.receipt.stored", name, attempt=attempt)
        return item

    def use(self, work: Any, session: str, turn: Any, made: dict[str, Any]) -> None:
        name, tool = work["work_id"], made["tool"]
        effects = self.sessions[session]["effects"]
        if tool in RECEIVERS and any(x["state"] == "outcome_unknown" for x in effects):
            self.result(work, session, turn, made, "refused: another outcome is unknown")
            return
        effect = next((x for x in effects if x["call_id"] == made["call_id"]), None)
        if effect is None:
            effect = {"call_id": made["call_id"], "tool": tool, "state": "not_started", "turn_id": turn["turn_id"],
                      "implementation": f"{tool}@1", "idempotency_key": f"k_{made['call_id']}",
                      "input_summary": json.dumps(made["arguments"]) or "{}", "dispatched_at": None, "dispatches": 0,
                      "checks": []}  # fmt: skip
            effects.append(effect)
            self.reach("tool.intent.stored", name, call=made["call_id"], key=effect["idempotency_key"])
        if work["desired_state"] != "run":
            self.result(work, session, turn, made, PLACEHOLDER, placeholder=True)
            return
        effect.update(state="outcome_unknown", dispatched_at=1000.0 + self.now / 1e9, dispatches=effect["dispatches"] + 1)
        self.reach("tool.dispatch.stored", name, call=made["call_id"], key=effect["idempotency_key"])
        text = self.request_effect(tool, effect["idempotency_key"], made["arguments"])
        self.reach("tool.effect.done", name, call=made["call_id"], key=effect["idempotency_key"])
        effect["state"] = "succeeded"
        self.result(work, session, turn, made, text)
        self.reach("tool.result.stored", name, call=made["call_id"], key=effect["idempotency_key"], ok=True)

    def request_effect(self, tool: str, key: str, arguments: dict[str, Any]) -> str:
        receiver = RECEIVERS.get(tool)
        if receiver is None:
            return f"read {key}"
        self.effect_n += 1
        n = self.effect_n
        data = {"n": n, "receiver": receiver, "key": key, "arguments": arguments}
        self.mark("effect.received", **data, tool_key=key)
        try:
            self.reach("effect.received", role="world", n=n)
        finally:
            if not (receiver == "keyed" and key in self.world):
                self.world[key] = f"rcpt_{n}"
                self.mark("effect.applied", **data, duplicate_of=None)
        self.reach("effect.applied", role="world", n=n)
        self.mark("effect.answered", n=n, status=200)
        return self.world[key]

    def result(self, work: Any, session: str, turn: Any, made: Any, text: str, placeholder: bool = False) -> None:
        self.store(session, kind="tool_result", turn_id=turn["turn_id"], call_id=made["call_id"], text=text,
                   placeholder=placeholder)  # fmt: skip
        self.tell(session, "tool.result", work_id=work["work_id"], call_id=made["call_id"])

    def recover(self, work: dict[str, Any]) -> dict[str, Any]:
        session, name = self.session_of(work), work["work_id"]
        view = self.sessions[session]
        known = {w["work_id"] for w in view["works"]}
        self.reach("recovery.facts.loaded", name, generation=work["generation"])
        work["generation"] += 1
        generation = work["generation"]
        self.reach("recovery.ownership.taken", name, generation=generation)
        old = work["turns"][-1]
        for row in view["attempts"]:
            if row["work_id"] == name and row["state"] == "open":
                row["state"] = "unknown"
        unsure = self.repair(work, session, old)
        self.reach("recovery.repair.written", name, generation=generation)
        safe = not unsure and old["state"] == "running"
        key = f"{name}:{work['control_version']}:{len(view['transcript'])}:{generation}"
        work["recoveries"].append({"key": key, "way": "checkpoint" if safe else "new_turn", "generation": generation,
                                   "control_version": work["control_version"], "turn_id": old["turn_id"],
                                   "void": False})  # fmt: skip
        self.reach("recovery.decision.stored", name, generation=generation, key=key)
        if work["desired_state"] != "run":
            return old
        newer = [w for w in view["works"] if not w["turns"] and w["desired_state"] == "run" and w["work_id"] not in known]
        if newer:
            work["recoveries"][-1]["void"] = True
            old["state"] = "interrupted"
            self.store(session, kind="note", turn_id=old["turn_id"], text=SET_ASIDE)
            self.reach("work.released", name, generation=generation)
            self.serve(newer[0])
            return self.recover(work)
        self.admitted.add(key)
        turn = old
        if not safe:
            old["state"] = "interrupted" if old["state"] == "running" else old["state"]
            turn = self.begin(work, predecessor=old["turn_id"])
        for point in ("recovery.admitted", "recovery.intent.consumed"):
            self.reach(point, name, generation=generation, key=key)
        self.tell(session, "recovered", work_id=name)
        self.make_open_calls(work, session, turn)
        self.reach("recovery.interface.restored", name, generation=generation)
        return turn

    def repair(self, work: dict[str, Any], session: str, turn: dict[str, Any]) -> bool:
        """Close what the last life left open; True if an outcome stays unknown."""
        view = self.sessions[session]
        unsure = False
        answered = {i["call_id"] for i in view["transcript"] if i["kind"] == "tool_result"}
        for item in list(view["transcript"]):
            for made in item["calls"]:
                if made["call_id"] in answered or work["desired_state"] != "run":
                    continue
                effect = next((x for x in view["effects"] if x["call_id"] == made["call_id"]), None)
                if effect is None or effect["state"] == "not_started":
                    continue  # no repair makes a call: it is made once the work is admitted
                key, tool = effect["idempotency_key"], made["tool"]
                if tool in {"mail", "note_plugin"}:
                    self.result(work, session, turn, made, PLACEHOLDER, placeholder=True)
                    unsure = True
                    continue
                if tool in {"publish", "order"}:
                    self.mark("effect.queried", n=self.effect_n, key=key, found=key in self.world)
                text = self.world.get(key) if tool in {"publish", "order"} else None
                text = text or self.request_effect(tool, key, made["arguments"])
                effect["state"] = "succeeded"
                self.result(work, session, turn, made, text)
        return unsure or any(x["turn_id"] == turn["turn_id"] and x["state"] == "outcome_unknown" for x in view["effects"])

    def make_open_calls(self, work: dict[str, Any], session: str, turn: dict[str, Any]) -> None:
        """Make the calls of this work that no life had begun."""
        view = self.sessions[session]
        answered = {i["call_id"] for i in view["transcript"] if i["kind"] == "tool_result"}
        turns = {t["turn_id"] for t in work["turns"]}
        for item in [i for i in view["transcript"] if i["turn_id"] in turns]:
            for made in [c for c in item["calls"] if c["call_id"] not in answered]:
                self.use(work, session, turn, made)

    # The end ----------------------------------------------------------------------------------------------------------

    def look(self, when: str) -> Line:
        sessions = {}
        for name, view in self.sessions.items():
            known = [a for a in view["attempts"] if a["state"] == "known"]
            totals = {c: sum(a[c] for a in known) for c in ("input_tokens", "cached_tokens", "output_tokens")}
            totals |= {"known_attempts": len(known), "unknown_attempts": len(view["attempts"]) - len(known)}
            sessions[name] = {k: v for k, v in view.items() if k != "_events"} | {"totals": totals}
        return self.mark("snapshot.taken", when=when, sessions=sessions)

    def clear_up(self) -> None:
        """What the harness does when the case is closed: clients leave, and processes are killed without being judged."""
        for client in ("c1", "c2"):
            for session in self.sessions:
                self.mark("client.disconnected", client=client, session=session)
        for role in self.lives:
            self.mark("process.exited", **self.who(role), status=9, signal=9, exit_code=None)

    def tape(self) -> Tape:
        """Settle, look twice, and give the records with the case."""
        for view in self.sessions.values():
            for row in view["attempts"]:
                row["state"] = "unknown" if row["state"] == "open" else row["state"]
        self.mark("case.settled", within_s_max=15.0, settled=True, why=None)
        self.look("final")
        for session in self.sessions:
            self.connect(session, client="c2")
        self.look("again")
        self.mark("case.closed")
        self.clear_up()
        plan = [{"at": address, "ops": [{"do": "kill"}]} for address in self.die]
        case = Case.model_validate(
            {"schema": "killpoint.case/1", "id": "c1", "target": "made", "scenario": "made",
             "script": Script(replies=self.script), "steps": [], "plan": plan}
        )  # fmt: skip
        return Tape(case, self.lines)


def turn(
    *steps: Reply | Call, last: str = "all is done", die: dict[str, str] | str | None = None, text: str = "hello"
) -> Tape:
    """One session with one input, from its sending to its end."""
    plan = {die: "worker"} if isinstance(die, str) else die
    scene = Scene({text: replies(*steps, last=last)}, die=plan)
    scene.open()
    scene.send("r1", text)
    return scene.run().tape()


def every(tape: Tape, kind: str) -> Iterator[Line]:
    yield from [line for line in tape.lines if line["kind"] == kind]
