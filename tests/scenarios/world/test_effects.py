"""The three receivers do what each promises, and the log says what was really written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from scenarios.world.effects import BODY_BYTES_MAX
from tests.scenarios.world.conftest import Opened

Open = Callable[..., Opened]


def send(client: httpx.Client, case: Opened, receiver: str, arguments: Any, key: str | None = "k1") -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(f"{case.addresses.effects_url}/{receiver}", json=arguments, headers=headers)


def state(client: httpx.Client, case: Opened, key: str = "k1") -> dict[str, Any]:
    answer = client.get(f"{case.addresses.effects_url}/state", params={"key": key}).json()
    assert isinstance(answer, dict)
    return answer


def test_keyed_writes_once_for_a_key_and_answers_the_same_receipt(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    first, second = (send(client, case, "keyed", {"a": 1}).json() for _ in range(2))
    assert first == second == {"receipt": "rcpt_1", "key": "k1"}
    assert len(case.records("effect.received")) == 2
    assert [record["n"] for record in case.records("effect.applied")] == [1]
    assert [record["status"] for record in case.records("effect.answered")] == [200, 200]


def test_keyed_writes_again_under_another_key_and_the_log_says_that_it_is_the_same(
    open_case: Open, client: httpx.Client
) -> None:
    case = open_case()
    send(client, case, "keyed", {"a": 1, "b": 2}, "k1")
    send(client, case, "keyed", {"b": 2, "a": 1}, "k2")
    assert [record["duplicate_of"] for record in case.records("effect.applied")] == [None, 1]


def test_plain_writes_every_request(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    receipts = [send(client, case, "plain", {"a": 1}).json()["receipt"] for _ in range(3)]
    assert receipts == ["rcpt_1", "rcpt_2", "rcpt_3"]
    assert [record["duplicate_of"] for record in case.records("effect.applied")] == [None, 1, 1]
    assert state(client, case) == {"found": True, "count": 3, "receipt": "rcpt_1"}


def test_the_same_arguments_to_another_receiver_are_no_duplicate(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    send(client, case, "plain", {"a": 1})
    send(client, case, "keyed", {"a": 1})
    assert [record["duplicate_of"] for record in case.records("effect.applied")] == [None, None]


def test_plain_takes_a_write_without_a_key(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    assert send(client, case, "plain", {"a": 1}, None).json() == {"receipt": "rcpt_1", "key": None}
    assert case.records("effect.received")[0]["key"] is None


def test_ambiguous_writes_and_drops_the_first_answer_of_a_key(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    for key in ("k1", "k2"):
        with pytest.raises(httpx.RemoteProtocolError):
            send(client, case, "ambiguous", {"a": key}, key)
        assert state(client, case, key)["found"] is True
    assert case.records("effect.answered") == []
    assert send(client, case, "ambiguous", {"a": "k1"}, "k1").status_code == 200
    assert [record["duplicate_of"] for record in case.records("effect.applied")] == [None, None, 1]


def test_a_query_of_what_was_never_written_finds_nothing_and_is_logged(open_case: Open, client: httpx.Client) -> None:
    case = open_case()
    assert state(client, case, "never") == {"found": False, "count": 0, "receipt": None}
    assert case.records("effect.queried") == [{"kind": "effect.queried", "n": 1, "key": "never", "found": False}]


@pytest.mark.parametrize("query", ["", "?key=", "?key=a&key=b", "?other=1"])
def test_a_query_without_one_key_is_refused(open_case: Open, client: httpx.Client, query: str) -> None:
    answer = client.get(f"{open_case().addresses.effects_url}/state{query}")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "key")


@pytest.mark.parametrize(
    ("receiver", "content", "key", "status", "field"),
    [
        ("keyed", b"{}", None, 400, "Idempotency-Key"),
        ("plain", b"{", "k", 400, "body"),
        ("plain", b"[1]", "k", 400, "body"),
        ("plain", b" " * (BODY_BYTES_MAX + 1), "k", 413, "body"),
    ],
)
def test_a_wrong_write_is_refused_and_not_applied(
    open_case: Open, client: httpx.Client, receiver: str, content: bytes, key: str | None, status: int, field: str
) -> None:
    case = open_case()
    headers = {"Idempotency-Key": key} if key else {}
    answer = client.post(f"{case.addresses.effects_url}/{receiver}", content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)
    assert case.records("effect.received", "effect.applied") == []


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "plain", 405), ("POST", "state", 405), ("POST", "other", 404)]
)
def test_other_addresses_are_refused(open_case: Open, client: httpx.Client, method: str, path: str, status: int) -> None:
    assert client.request(method, f"{open_case().addresses.effects_url}/{path}").status_code == status
