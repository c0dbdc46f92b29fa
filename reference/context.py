"""Owns the request history: how stored items become the messages that a model is sent (HIS-1 to HIS-7).

Pure. The stored items are read and never changed, and nothing here allows a call to run: a call without a result gets a
placeholder that says so, and a call that never arrived whole is left out.

What a call's result is, strongest first: the last real result stored for it; the last reconciliation (a late receipt);
the stored placeholder; the fixed text `NO_RESULT`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reference.model import HistoryFault, Item, ToolCall

NO_RESULT = (
    "[The outcome is unknown. This call was interrupted: it may or may not have taken effect."
    " It is not repeated by itself.]"
)
CUT_OFF = "[This reply was cut off here.]"
EMPTY = "[empty]"
GO_ON = "The reply above was interrupted before it was finished; continue it. Do not repeat what is done."

_ID_FIT = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")
_Message = dict[str, Any]
_Place = tuple[int, str]  # where a call stands: index of its reply in the items, original id


@dataclass(slots=True)
class _Result:
    real: str | None = None
    late: str | None = None
    placeholder: str | None = None

    @property
    def text(self) -> str:
        """The strongest text there is; HIS-2 and EFF-13 in one line."""
        return next((text for text in (self.real, self.late, self.placeholder) if text is not None), NO_RESULT)


def messages(items: Sequence[Item], note: str | None = None) -> list[_Message]:
    """The messages for these items, in the protocol of chat completions; `note` becomes a last system message.

    Each call is followed by its one result, users' messages keep their order, and the last message is never an
    assistant's, so that a strict provider accepts the request. Raises HistoryFault `duplicate_call_id` when one reply
    holds a call id twice (HIS-6), and `empty_history` when there is nothing to send.
    """
    results = _matched(items)
    ids = _Ids()
    sent: list[_Message] = []
    for index, item in enumerate(items):
        if item.kind == "user":
            sent.append({"role": "user", "content": item.text if item.text.strip() else EMPTY})
        elif item.kind == "assistant":
            sent.extend(_reply(index, item, results, ids))
        elif item.kind == "note" and item.text.strip():
            sent.append({"role": "system", "content": item.text})
    if note:
        sent.append({"role": "system", "content": note})
    elif sent and sent[-1]["role"] == "assistant":
        sent.append({"role": "system", "content": GO_ON})
    if not sent:
        raise HistoryFault("empty_history", "the history holds nothing that can be sent to a model")
    return sent


def _matched(items: Sequence[Item]) -> dict[_Place, _Result]:
    """Each result given to the nearest earlier call of the same original id, within its own turn first (HIS-1).

    A provider may use an id again in a later reply, so an id alone names no call. A result without an earlier call is
    left out (HIS-4).
    """
    calls: dict[str, list[tuple[int, str | None]]] = {}
    results: dict[_Place, _Result] = {}
    for index, item in enumerate(items):
        if item.kind == "assistant":
            _check_ids(item)
            for call in item.calls:
                calls.setdefault(call.id, []).append((index, item.turn_id))
        elif item.kind in {"tool_result", "reconciliation"} and item.call_id in calls:
            places = calls[item.call_id]
            same_turn = [place for place, turn in places if turn is not None and turn == item.turn_id]
            place = same_turn[-1] if same_turn else places[-1][0]
            _put(results.setdefault((place, item.call_id), _Result()), item)
    return results


def _put(result: _Result, item: Item) -> None:
    """Of several results of one strength the last stored counts (HIS-2)."""
    if item.kind == "reconciliation":
        result.late = item.text
    elif item.placeholder:
        result.placeholder = item.text
    else:
        result.real = item.text


def _check_ids(item: Item) -> None:
    seen: set[str] = set()
    for call in item.calls:
        if call.id in seen:
            raise HistoryFault(
                "duplicate_call_id",
                f"the reply in item {item.item} holds the call id {call.id!r} twice, so no result can be told apart",
            )
        seen.add(call.id)


def _reply(index: int, item: Item, results: dict[_Place, _Result], ids: _Ids) -> Iterator[_Message]:
    """One reply and, right behind it, the results of its calls (HIS-3)."""
    calls = [call for call in item.calls if item.complete or (index, call.id) in results]
    text = item.text
    if not item.complete:
        text = f"{text}\n{CUT_OFF}" if text.strip() else CUT_OFF
    elif not text.strip() and not calls:
        text = EMPTY
    message: _Message = {"role": "assistant", "content": text if text.strip() else None}
    renamed = [(call, ids.convert(call.id)) for call in calls]
    if calls:
        message["tool_calls"] = [_call(call, new) for call, new in renamed]
    yield message
    for call, new in renamed:
        result = results.get((index, call.id))
        yield {"role": "tool", "tool_call_id": new, "content": (result.text if result else NO_RESULT) or EMPTY}


def _call(call: ToolCall, new_id: str) -> _Message:
    return {
        "id": new_id,
        "type": "function",
        "function": {"name": call.name, "arguments": _sound(call.arguments)},
    }


def _sound(arguments: str) -> str:
    """The arguments as they came, if they are a JSON object; else an object that quotes them, since a provider refuses
    a request that repeats its own malformed JSON."""
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"malformed": arguments})


class _Ids:
    """Ids as a provider accepts them, after the matching is done (HIS-1): of a plain alphabet, of at most 40 characters
    and unique in the request. An id that fits and is new stays as it is."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def convert(self, original: str) -> str:
        """The id to send for this call; each call of this function is a new call of a tool."""
        new, again = original, 1
        while new in self._used or not _ID_FIT.match(new):
            new = f"call_{hashlib.sha256(f'{again}:{original}'.encode()).hexdigest()[:24]}"
            again += 1
        self._used.add(new)
        return new
