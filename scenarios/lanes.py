"""Owns the playing of many cases side by side in one process of the harness: several engines, one world."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Self, TypeVar

from scenarios.engine import Engine, processes
from scenarios.runner import LATE_POINT_S_MAX
from scenarios.target import Target
from scenarios.world.handle import World

Given = TypeVar("Given")
Result = TypeVar("Result")


class Lanes:
    """So many engines of one target (0: as `processes` says). A context manager: leaving it ends their fork servers.

    environment, late_point_s_max: as of `Engine`.
    """

    def __init__(
        self,
        target: Target,
        jobs: int = 0,
        environment: Mapping[str, str] | None = None,
        late_point_s_max: float = LATE_POINT_S_MAX,
    ) -> None:
        self.target = target
        self._environment, self._late_point_s_max = dict(environment or {}), late_point_s_max
        self.count = jobs or processes()
        self._free: SimpleQueue[Engine] = SimpleQueue()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="killpoint-")))
            world = stack.enter_context(World.start())
            for lane in range(self.count):
                engine = Engine(self.target, scratch / str(lane), world, self._environment, self._late_point_s_max)
                self._free.put(stack.enter_context(engine))
            self._pool = stack.enter_context(ThreadPoolExecutor(self.count))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._stack.close()

    def map(self, play: Callable[[Engine, Given], Result], each: Iterable[Given]) -> Iterator[Result]:
        """What `play` gives for each of these, in their order; each is played by an engine that is free."""

        def one(given: Given) -> Result:
            engine = self._free.get()
            try:
                return play(engine, given)
            finally:
                self._free.put(engine)

        return self._pool.map(one, each)
