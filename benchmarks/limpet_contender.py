"""Limpet on SQLite, as a contender."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from contender import HERE, Contender, Place

from limpet.domain.state import State
from limpet.storage.sqlite.store import SqliteStore

LIMPET = str(Path(sys.executable).parent / "limpet")
JOBS = str(HERE / "limpet_jobs.py")


class Limpet(Contender):
    """A worker as it comes, on a store with that `synchronous`, fed with tasks of that kind."""

    def __init__(self, kind: str, synchronous: str, options: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.synchronous = synchronous
        self.options = options
        self.name = f"Limpet, {kind} tasks, {synchronous}"
        self.settings = f"`limpet worker{''.join(f' {each}' for each in options)}`"

    def missing(self) -> str | None:
        return None

    def worker(self, *more: str) -> list[str]:
        return [LIMPET, "worker", "limpet_jobs:app", *self.options, *more]

    def fill(self, jobs: int) -> list[str]:
        return [sys.executable, JOBS, "fill", self.kind, str(jobs)]

    def pick_up(self, jobs: int) -> list[str]:
        return [sys.executable, JOBS, "pickup", self.kind, str(jobs)]

    @contextlib.contextmanager
    def place(self) -> Iterator[Place]:
        with super().place() as place:
            place.environment = {"BENCH_STORE": self.url(place)}
            yield place

    def url(self, place: Place) -> str:
        return f"sqlite:///{place.folder}/jobs.db?synchronous={self.synchronous}"

    @contextlib.contextmanager
    def store(self, place: Place) -> Iterator[SqliteStore]:
        """The store, as anyone on this machine may open it."""
        with contextlib.closing(SqliteStore(self.url(place))) as store:
            yield store


def succeeded(store: SqliteStore) -> int:
    """How many jobs the store shows as finished."""
    return sum(queue.counts.get(State.SUCCEEDED, 0) for queue in store.queues())
