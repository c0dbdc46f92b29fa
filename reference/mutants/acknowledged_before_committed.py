"""Owns one seeded defect: a client hears that its input is accepted before the input is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reference import app as api
from reference import intake
from reference.mutants import swap
from reference.store import Tx

CHANGES = "a client hears that its input is accepted before the input is committed"
CHECK = "committed-before-accepted"
CLAUSES = ("ADM-1",)
CELLS = ("plain/input.acknowledged#1/app-killed",)


class _Unkept:
    """The store with a write that is undone at its end."""

    def __init__(self, store: Any) -> None:
        self.settings, self.read, self.arriving, self._store = store.settings, store.read, store.arriving, store

    @contextmanager
    def write(self) -> Iterator[Tx]:
        driver = self._store.work.driver
        driver.execute("BEGIN IMMEDIATE")
        try:
            yield Tx(driver)
        finally:
            driver.execute("ROLLBACK")


def _early(app: Any, request: Any, body: Any) -> Any:
    app.refuse_if_closing()
    store, session = app.store(), request.path_params["session"]
    unkept: Any = _Unkept(store)
    accepted, _ = intake.accept(unkept, session, body.request_id, body.text, body.version)

    def later() -> None:
        intake.accept(store, session, body.request_id, body.text, body.version)

    return api.Answer(accepted, 202, "input.acknowledged", accepted["work_id"], then=later)


def apply() -> None:
    """Put it in."""
    swap(api, "HANDLERS", lambda found: found | {"send_input": _early})
