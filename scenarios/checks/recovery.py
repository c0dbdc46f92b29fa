"""Owns the checks of recovery (REC): its order, its one way, its repeatability, and what it may cost."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from scenarios.checks.base import Findings, check
from scenarios.checks.evidence import Evidence, Input, Life, Process, Request, canonical, detail, process
from scenarios.history import Record
from scenarios.snapshot import AT_REST, TERMINAL, ItemView, RecoveryView, SessionView, WorkView

# The steps of recovery in their order, from the taking of the work on.
STEPS = (
    "recovery.ownership.taken",
    "recovery.repair.written",
    "recovery.decision.stored",
    "recovery.admitted",
    "recovery.intent.consumed",
    "recovery.interface.restored",
)
TRIES_IN_A_ROW_MAX = 12
BACKOFF_MS_MIN = 90.0


@check(
    "recovery-in-order",
    "REC-1 OWN-4",
    "recovery loads facts, confirms ownership, repairs, decides, admits and restores the interface, in this order",
    depends_on_kill=True,
)
def recovery_in_order(e: Evidence, found: Findings) -> None:
    loaded: set[tuple[str, Process]] = set()
    newest: dict[tuple[str, Process], int] = {}  # the place in STEPS that this owner has come to for this work
    stored: dict[tuple[str, str], set[object]] = {}
    for record in e.reached_at("recovery.facts.loaded", *STEPS):
        work, who, name = record.get("work") or "", process(record), record["point"]
        if name == "recovery.facts.loaded":
            loaded.add((work, who))
            continue
        step, key = STEPS.index(name), detail(record).get("key")
        if name in {STEPS[0], STEPS[-1]}:
            _step(e, found, record, bool(loaded & {(work, who), ("", who)}), "the facts are loaded first")
        else:
            _step(e, found, record, (work, who) in newest, "ownership is taken first")
        if step > 0:
            _step(e, found, record, newest.get((work, who), 0) <= step, f"{name} comes before what follows it")
        if name in {"recovery.admitted", "recovery.intent.consumed"}:
            # Which decision is meant is told by its key; a killed owner's decision may be followed by the next one.
            keys = stored.get((STEPS[step - 1], work), set())
            _step(e, found, record, bool(keys & {key, None} or (keys and key is None)), f"{STEPS[step - 1]} comes first")
        stored.setdefault((name, work), set()).add(key)
        newest[work, who] = step


def _step(e: Evidence, found: Findings, record: Record, holds: bool, rule: str) -> None:
    life = e.lives.get(process(record))
    found.verify(
        holds,
        f"{record.get('work')}: {rule}",
        f"{record['role']} {record['life']} reached {record['point']} without it",
        since=life.started if life else None,
        at=record,
    )


@check(
    "continuation-once",
    "REC-2 REC-6 OWN-7",
    "an interrupted execution is continued once, in exactly one way: never both a checkpoint and a new turn",
    depends_on_kill=True,
    needs=("final",),
)
def continuation_once(e: Evidence, found: Findings) -> None:
    for name, session in e.final.sessions.items():
        _one_successor(e, found, name, session)
        standing = [(work, decision) for work in session.works for decision in work.recoveries if not decision.void]
        for key, count in Counter(decision.key for _, decision in standing).items():
            found.verify(
                count == 1 and bool(key),
                f"{name}: the continuation key {key!r} once",
                f"it stands {count} times",
                since=next(_taken(e, work, decision) for work, decision in standing if decision.key == key),
                at=e.final_record,
            )
        for work in session.works:
            _one_way(e, found, work)


def _one_successor(e: Evidence, found: Findings, name: str, session: SessionView) -> None:
    successors = Counter(turn.predecessor for work in session.works for turn in work.turns if turn.predecessor)
    for predecessor, count in successors.items():
        found.verify(
            count == 1,
            f"{name}: one turn continues {predecessor}",
            f"{count} turns do",
            since=None,
            at=e.final_record,
        )


def _one_way(e: Evidence, found: Findings, work: WorkView) -> None:
    standing: dict[int, list[RecoveryView]] = {}
    for decision in work.recoveries:
        if not decision.void:
            standing.setdefault(decision.generation, []).append(decision)
    for generation, decisions in standing.items():
        found.verify(
            len(decisions) == 1,
            f"{work.work_id}: one way for generation {generation}",
            f"{len(decisions)} stand: {', '.join(sorted(decision.way for decision in decisions))}",
            since=_taken(e, work, decisions[0]),
            at=e.final_record,
        )
    made = [turn for turn in work.turns if turn.predecessor]
    if work.recoveries and made:
        ways = [decision.way for decision in work.recoveries]
        found.verify(
            len(made) <= ways.count("new_turn"),
            f"{work.work_id}: a decision for a new turn behind each turn that continues another",
            f"{len(made)} turns do, and the decisions are {', '.join(ways)}",
            since=_taken(e, work, work.recoveries[-1]),
            at=e.final_record,
        )


def _taken(e: Evidence, work: WorkView, decision: RecoveryView) -> Record | None:
    """Where the work was taken under the generation that this decision was made for."""
    found = (record for record in e.reached_at("recovery.ownership.taken") if record.get("work") == work.work_id)
    return next((record for record in found if detail(record).get("generation") == decision.generation), None)


@check(
    "decision-stored",
    "REC-2 REC-5 REC-6",
    "every recovery that is admitted has its decision stored, with control version and continuation key",
    depends_on_kill=True,
    needs=("final",),
)
def decision_stored(e: Evidence, found: Findings) -> None:
    for record in e.reached_at("recovery.admitted"):
        known = e.works.get(record.get("work") or "")
        if known is None:
            continue
        key = detail(record).get("key")
        decisions = known[1].recoveries
        found.verify(
            any(decision.key and (key is None or decision.key == key) for decision in decisions),
            f"{record['work']}: the decision that was admitted stands in the snapshot",
            f"it holds {len(decisions)} decisions, and not that one",
            since=record,
            at=e.final_record,
        )


@check(
    "checkpoint-covers-effects",
    "REC-3",
    "a checkpoint is gone on from only if it covers every effect that the world had been asked for",
    depends_on_kill=True,
    needs=("final",),
)
def checkpoint_covers_effects(e: Evidence, found: Findings) -> None:
    for name, session in e.final.sessions.items():
        for work in session.works:
            for decision in work.recoveries:
                taken = _taken(e, work, decision)
                if taken is not None and decision.way == "checkpoint" and not decision.void:
                    _covered(e, found, session, decision, taken, _held_from_then_on(e, name, work, taken))


def _held_from_then_on(e: Evidence, session: str, work: WorkView, taken: Record) -> bool:
    """Whether a user held the work after this taking, and the model was not asked for it any more: a write that may be sent
    again, and for which the checkpoint could be gone on from, was then rightly not sent."""
    held = any(c.action != "resume" and c.invoked.seq > taken.seq for c in e.commands_of(session))
    own = [each for each in e.inputs if e.work_id(each) == work.work_id]
    asked = any(request.record.seq > taken.seq for each in own for request in e.requests_of(each))
    return held and not asked


def _covered(e: Evidence, found: Findings, session: SessionView, decision: RecoveryView, taken: Record, held: bool) -> None:
    """Each write of the turn that the world had been asked for before the taking has its outcome now, or had it stored as
    unknown by the turn itself, which went on with that."""
    placed = [r for r in e.reached_at("tool.result.stored") if detail(r).get("state") == "outcome_unknown"]
    settled = {detail(r).get("call") for r in placed if r.seq < taken.seq}
    keys = {x.idempotency_key: x for x in session.effects if x.turn_id == decision.turn_id and x.idempotency_key}
    for asked in e.history.of("effect.received"):
        effect = keys.get(asked["key"]) if asked.seq < taken.seq else None
        known = effect is not None and effect.state == "outcome_unknown" and (held or effect.call_id in settled)
        if effect is not None and not known:
            found.verify(
                effect.state not in {"outcome_unknown", "not_started"},
                f"{decision.turn_id}: no checkpoint while an effect of it is unknown",
                f"the world had been asked for {effect.call_id}, which is {effect.state}",
                since=asked,
                at=taken,
            )


@check(
    "repair-is-stable",
    "REC-4",
    "repair has a stable key: run again, it changes nothing",
    depends_on_kill=True,
    needs=("final",),
)
def repair_is_stable(e: Evidence, found: Findings) -> None:
    repaired = e.reached_at("recovery.repair.written")
    if not repaired:
        return
    for name, session in e.final.sessions.items():
        made = Counter(item.call_id for item in session.transcript if item.placeholder)
        for call, count in made.items():
            found.verify(
                count == 1,
                f"{name}: one placeholder for the call {call}",
                f"{count} of them, one for each repair",
                since=repaired[0],
                at=e.final_record,
            )
        replies = [item.complete for item in session.transcript if item.kind == "assistant"]
        served = [r for r in e.requests if r.active in {each.text for each in e.inputs if each.session == name}]
        if not all(replies):
            found.verify(
                len(replies) <= len(served),
                f"{name}: one item at most for each of {len(served)} requests, whole or cut off",
                f"{len(replies)} items, {replies.count(False)} of them cut off",
                since=repaired[0],
                at=e.final_record,
            )
    _look_again(e, found)
    digests = [record for record in e.history.of("store.digest") if str(record["when"]).startswith("repair")]
    for first, second in pairwise(digests):
        found.verify(
            first["sha256"] == second["sha256"],
            "the digest of the first repair",
            "another one after the second",
            since=first,
            at=second,
        )


def _look_again(e: Evidence, found: Findings) -> None:
    for record, again in e.snapshots:
        for name, session in e.final.sessions.items() if record["when"] == "again" else ():
            other = again.sessions.get(name)
            found.verify(
                other is not None and other.transcript == session.transcript,
                f"{name}: looking again repairs nothing",
                "the transcript changed between the final snapshot and the look after it",
                since=e.final_record,
                at=record,
            )


@check(
    "reason-for-every-rest",
    "REC-5 UIX-3",
    "what waits, failed or is paused says why, and only a user's word makes it paused or cancelled",
    needs=("final",),
)
def reason_for_every_rest(e: Evidence, found: Findings) -> None:
    for work_id, (name, work) in e.works.items():
        wanted = {"paused": {"pause"}, "cancelled": {"stop", "quit"}}.get(work.state, set())
        said = [command.invoked for command in e.commands_of(name) if command.action in wanted]
        found.verify(
            work.state in AT_REST and (work.state in TERMINAL or bool(work.reason_code)),
            f"{name}: the work {work_id} rests, with its reason unless it is done",
            f"it is {work.state}, reason {work.reason_code!r}",
            since=e.settled_record,
            at=e.final_record,
        )
        if wanted:
            found.verify(
                bool(said),
                f"{name}: a user said so, since the work {work_id} is {work.state}",
                f"no client asked for a {' or a '.join(sorted(wanted))}",
                since=None,
                at=e.final_record,
            )


@check(
    "fair-among-sessions",
    "REC-7",
    "many sessions recover in fair order: the first work of one is begun before another session's that came later",
    depends_on_kill=True,
)
def fair_among_sessions(e: Evidence, found: Findings) -> None:
    ends = [end for end in e.ends if end["role"] != "app"]
    heads = _first_waiting(e)
    for waiting, accepted in heads:
        begun = _first_act(e, waiting)
        died = next((end for end in ends if accepted.seq < end.seq and (begun is None or end.seq < begun.seq)), None)
        if died is None or e.controlled(waiting.session) or e.excused(waiting):
            continue
        for other, other_accepted in e.accepted:
            first = _first_act(e, other)
            if other.session == waiting.session or other_accepted.seq < accepted.seq or first is None:
                continue
            if begun is not None and len(_workers_at(e, first)) > 1:
                continue  # two take up work at once, and which of them is heard first says nothing
            if _stands_for_an_older(e, other, first, accepted):
                continue
            if first.seq > died.seq and other.invoked.seq > accepted.seq:
                found.verify(
                    begun is not None and begun.seq < first.seq,
                    f"{waiting.session}: {waiting.request_id} is begun before {other.request_id} of {other.session}, "
                    "which came later",
                    "it was overtaken while it waited",
                    since=accepted,
                    at=first,
                )


def _stands_for_an_older(e: Evidence, other: Input, first: Record, accepted: Record) -> bool:
    """Whether an input of the same session, accepted before that place, had been begun and not finished when this one came
    first: a newer input goes before a continuation, in its place (INT-13)."""
    finished = {record.get("work") for record in e.reached_at("turn.committed") if record.seq < first.seq}
    return any(
        each.session == other.session and its.seq < accepted.seq and e.turn_begun(each, first.seq)
        for each, its in e.accepted
        if each is not other and e.work_id(each) not in finished
    )


def _workers_at(e: Evidence, record: Record) -> list[Life]:
    return [life for life in e.lives.values() if life.role != "app" and life.alive_at(record.seq)]


def _first_waiting(e: Evidence) -> list[tuple[Input, Record]]:
    heads: dict[str, tuple[Input, Record]] = {}
    for each, accepted in e.accepted:
        heads.setdefault(each.session, (each, accepted))
    return list(heads.values())


def _first_act(e: Evidence, each: Input) -> Record | None:
    work = e.work_id(each)
    acts = [request.record for request in e.requests_of(each)[:1]]
    acts += [claim.record for claim in e.claims.get(work or "", [])[:1]]
    return min(acts, key=lambda record: record.seq) if acts else None


@check(
    "retries-wait-their-time",
    "REC-8",
    "after a passing fault no model is called before the backoff has passed, and a lasting fault keeps its reason",
)
def retries_wait_their_time(e: Evidence, found: Findings) -> None:
    for each in e.inputs:
        row: list[Request] = []
        for request in e.requests_of(each):
            last = row[-1] if row else None
            if last is not None and last.answered is not None and not _wait_cut_short(e, each, last, request):
                waited_ms = (request.record.t_ns - last.answered.t_ns) / 1e6
                found.verify(
                    waited_ms >= BACKOFF_MS_MIN and len(row) <= TRIES_IN_A_ROW_MAX,
                    f"{each.session}: a wait of {BACKOFF_MS_MIN:g} ms at least, and at most {TRIES_IN_A_ROW_MAX} tries",
                    f"request {request.n} came {waited_ms:.1f} ms after failure {len(row)}",
                    since=last.answered,
                    at=request.record,
                )
            passing = request.answered is not None and (request.answered.get("status") or 200) in {429, *range(500, 600)}
            row = [*row, request] if passing else []
        work = e.work(each)
        if row and work is not None and e.settled:
            found.verify(
                (work.state in {"waiting", "failed"} and bool(work.reason_code)) or work.state in {"paused", "cancelled"},
                f"{each.session}: the work of {each.request_id} waits or failed, with its reason",
                f"it is {work.state}, reason {work.reason_code!r}",
                since=row[-1].record,
                at=e.final_record,
            )


def _wait_cut_short(e: Evidence, each: Input, failed: Request, again: Request) -> bool:
    """Whether something between a failure and the next request lets the second come at once: a user's word, a moved
    clock, or the end of a worker that had not yet given the work back to wait, and so may not have heard of the failure."""
    start = failed.answered.seq if failed.answered else failed.record.seq
    asked = [command.invoked for command in e.commands_of(each.session)]
    waits = [r for r in e.reached_at("work.released") if r.get("work") == e.work_id(each) and r.seq > start]
    ends = [end for end in e.ends if end["role"] != "app" and not any(r.seq < end.seq for r in waits)]
    return any(start < r.seq < again.record.seq for r in (*asked, *ends, *e.history.of("clock.moved")))


@check(
    "killed-again-same-outcome",
    "REC-9",
    "killed at any point of recovery, and again in the next one, the outcome is the same as with one crash",
    depends_on_kill=True,
    needs=("final",),
)
def killed_again_same_outcome(e: Evidence, found: Findings) -> None:
    in_recovery = [kill for kill in e.history.kills if str(kill.get("point")).startswith("recovery.")]
    if len(e.history.kills) < 2 or not in_recovery or e.doubled:
        return
    for each, accepted in e.accepted:
        work = e.work(each)
        if work is None or e.controlled(each.session) or e.excused(each) or accepted.seq > in_recovery[-1].seq:
            continue
        found.verify(
            work.state == "done" and _last_text_once(e, each),
            f"{each.session}: {each.request_id} ends with its one last reply, as after one crash",
            f"its work is {work.state} ({work.reason_code}); {_count_last_text(e, each)} items hold that reply",
            since=in_recovery[-1],
            at=e.final_record,
        )


def _count_last_text(e: Evidence, each: Input) -> int:
    text = e.script(each.text)[-1].text
    session = e.session(each.session)
    items = session.transcript if session else []
    return sum(item.kind == "assistant" and item.complete and item.text == text for item in items)


def _last_text_once(e: Evidence, each: Input) -> bool:
    wanted = e.script(each.text)[-1].text
    times = sum(
        reply.text == wanted and not reply.calls
        for other in e.inputs
        if other.session == each.session
        for reply in e.script(other.text)
    )
    return 1 <= _count_last_text(e, each) <= times


@check(
    "partial-marked-incomplete",
    "REC-11 HIS-5",
    "a reply that was cut off is marked incomplete; pieces are never joined into a reply that looks whole",
    needs=("final",),
)
def partial_marked_incomplete(e: Evidence, found: Findings) -> None:
    for name, session in e.final.sessions.items():
        mine = [each for each in e.inputs if each.session == name]
        texts = {reply.text for each in mine for reply in e.script(each.text)}
        served = [r for each in mine for r in e.requests_of(each)]
        for item in session.transcript:
            if item.kind == "assistant" and served and not e.doubled:
                _whole_or_marked(e, found, name, item, texts, served)


def _whole_or_marked(
    e: Evidence, found: Findings, name: str, item: ItemView, texts: set[str], served: list[Request]
) -> None:
    whole = [r for r in served if r.complete and e.reply(r).text == item.text]
    cut = [r for r in served if r.billed is not None and not r.complete]
    if item.complete:
        found.verify(
            bool(whole),
            f"{name}: item {item.item} is a reply that the provider sent to its end",
            f"it looks whole and reads {item.text[:60]!r}",
            since=cut[-1].billed if cut else served[-1].record,
            at=e.final_record,
        )
    else:
        found.verify(
            any(text.startswith(item.text) for text in texts),
            f"{name}: item {item.item} is the beginning of one reply",
            f"it reads {item.text[:60]!r}",
            since=cut[-1].billed if cut else served[-1].record,
            at=e.final_record,
        )


@check(
    "committed-partial-kept",
    "REC-11",
    "text of a cut reply that was committed stays, and the rest is asked for anew as a new attempt",
    depends_on_kill=True,
    needs=("final",),
)
def committed_partial_kept(e: Evidence, found: Findings) -> None:
    pieces: Counter[str] = Counter()
    for kill in e.history.kills:
        at = e.by_nonce.get(kill.get("nonce") or "")
        each = e.input_of_work(at.get("work")) if at and at["point"] == "stream.text.committed" else None
        session = e.session(each.session) if each else None
        if at is None or each is None or session is None or at["pid"] != kill["pid"]:
            continue
        pieces[each.session] += 1
        kept = [item for item in session.transcript if item.kind == "assistant" and not item.complete and item.text]
        found.verify(
            len(kept) >= pieces[each.session],
            f"{each.session}: the committed piece of each of {pieces[each.session]} cut replies stays, marked incomplete",
            f"the transcript holds {len(kept)} incomplete replies",
            since=at,
            at=e.final_record,
        )
        if not e.controlled(each.session) and not e.excused(each):
            name = detail(at).get("attempt")
            found.verify(
                any(r.record.seq > kill.seq and (name is None or r.attempt != name) for r in e.requests_of(each)),
                f"{each.session}: the rest of {each.request_id} is asked for anew, as a new attempt",
                f"no request under another attempt than {name} followed",
                since=at,
                at=None,
            )


@check(
    "stored-reply-reused",
    "REC-13 REC-2",
    "a reply that is stored is gone on from, announced again if need be, and never asked for again",
)
def stored_reply_reused(e: Evidence, found: Findings) -> None:
    by_attempt = {request.attempt: request for request in e.requests if request.attempt}
    for stored in e.reached_at("reply.stored"):
        request = by_attempt.get(str(detail(stored).get("attempt")))
        each = e.input_of(request) if request else None
        if request is None or each is None or not request.complete:
            continue
        if request.senseless and e.controlled(each.session):
            continue  # nobody can go on from a reply that makes no sense: told to go on, one has to ask again (HIS-6)
        again = [r for r in e.requests_of(each) if r.record.seq > stored.seq and r.step == request.step]
        found.verify(
            not again,
            f"{each.session}: the stored reply of attempt {request.attempt} is used",
            f"request {again[0].n} asks for it again" if again else "",
            since=stored,
            at=again[0].record if again else None,
        )


@check(
    "work-repeated-within-bound",
    "REC-2 REC-13",
    "a crash repeats no more model calls than its breakpoint allows",
    kind="repeated",
)
def work_repeated_within_bound(e: Evidence, found: Findings) -> None:
    repeated: list[Request] = []
    for each in e.inputs:
        steps: set[int] = set()
        for request in e.requests_of(each):
            found.saw()
            if request.step in steps:
                repeated.append(request)
            steps.add(request.step)
    bound = e.repeats_allowed
    if len(repeated) > bound:
        killed = ", ".join(str(kill.get("point")) for kill in e.history.kills) or "nothing"
        beyond = sorted(repeated, key=lambda request: request.record.seq)[bound]
        found.broken(
            f"at most {bound} repeated model calls, after kills at {killed}",
            f"{len(repeated)} of them; request {beyond.n} is the first beyond",
            since=e.history.kills[-1] if e.history.kills else None,
            at=beyond.record,
        )


@check(
    "call-is-whole",
    "REC-11",
    "a call that is stored or made is one that the provider sent to its end: nothing of a cut reply's arguments is in it",
    needs=("final",),
)
def call_is_whole(e: Evidence, found: Findings) -> None:
    if e.doubled:
        return
    cut = [request.billed for request in e.requests if request.billed is not None and not request.complete]
    since = cut[-1] if cut else None
    for name, item in e.items:
        for call in item.calls:
            found.verify(
                (call.tool, canonical(call.arguments)) in e.sent_calls,
                f"{name}: the call {call.call_id} of {call.tool} as a whole reply had it",
                f"item {item.item} has it with the arguments {canonical(call.arguments)}",
                since=since,
                at=e.final_record,
            )
    sent = {arguments for _, arguments in e.sent_calls}
    for record in e.history.of("effect.received"):
        found.verify(
            canonical(record["arguments"]) in sent,
            "the world is asked only for what a whole reply asked for",
            f"it received {canonical(record['arguments'])}",
            since=since,
            at=record,
        )
