"""Limpet as a contender, on a store of any kind."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from contender import HERE, Contender, Place
from engines import Engine

from limpet.domain.errors import InvalidOption
from limpet.domain.state import FINAL
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

LIMPET = str(Path(sys.executable).parent / "limpet")
JOBS = str(HERE / "limpet_jobs.py")


class Limpet(Contender):
    """A worker with its defaults, on that engine, with jobs of that kind of task."""

    def __init__(self, kind: str, engine: Engine, options: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.engine = engine
        self.options = options
        self.name = f"Limpet on {engine.name}, {kind} tasks"
        self.settings = f"`limpet worker{''.join(f' {each}' for each in options)}`"

    def missing(self) -> str | None:
        if why := self.engine.missing():
            return why
        try:
            # Opens nothing: this only finds the store that serves such a URL.
            open_store(self.engine.example).close()
        except InvalidOption as error:
            return str(error)
        return None

    def worker(self, *more: str) -> list[str]:
        return [LIMPET, "worker", "limpet_jobs:app", *self.options, *more]

    def feed(self, what: str, word: str) -> list[str]:
        return [sys.executable, JOBS, what, word]

    def environment(self) -> dict[str, str]:
        return {"BENCH_KIND": self.kind}

    @contextlib.contextmanager
    def counting(self, place: Place) -> Iterator[Callable[[], int]]:
        with self.store(place) as store:
            yield lambda: _unfinished(store)

    def store(self, place: Place) -> contextlib.AbstractContextManager[Store]:
        """The store, opened by its URL."""
        return contextlib.closing(open_store(place.url))


def _unfinished(store: Store) -> int:
    return sum(
        count
        for queue in store.queues()
        for state, count in queue.counts.items()
        if state not in FINAL
    )
