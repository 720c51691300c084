"""What the tests of `limpet move` have in common."""

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from contract.driver import BOOM, Holder, add_many, new_job
from servers import shared_url

from limpet.domain.cause import Drained
from limpet.domain.clock import SystemClock
from limpet.domain.errors import StoreMoved, StoreNotMoved
from limpet.domain.ids import IdSource
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.relocation import MoveStage
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

PAIRS = [("sqlite", "redis"), ("redis", "postgres"), ("postgres", "sqlite")]
AT_ONCE = timedelta()
IDS = IdSource(SystemClock())


def fresh_url(kind: str, folder: Path) -> str:
    """The URL of a store that is not there yet."""
    mark = uuid.uuid4().hex[:12]
    match kind:
        case "sqlite":
            return f"sqlite:///{folder}/{mark}.db?synchronous=normal"
        case "postgres":
            return f"{shared_url('postgres')}?schema=move_{mark}"
        case _:
            return f"{shared_url(kind)}?namespace=move-{mark}"


@contextmanager
def fresh_stores(folder: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores that were not there before, and takes them away at the end."""
    opened: list[Store] = []
    schemas: list[str] = []

    def make(kind: str, clock: FakeClock | None = None, url: str = "") -> Store:
        url = url or fresh_url(kind, folder)
        if kind == "postgres":
            schemas.append(url.rpartition("schema=")[2])
        store = open_store(url, clock)
        store.migrate()
        opened.append(store)
        return store

    try:
        yield make
    finally:
        for store in opened:
            store.close()
        _forget(schemas)


def _forget(schemas: list[str]) -> None:
    if schemas:
        with psycopg.connect(shared_url("postgres"), autocommit=True) as connection:
            for schema in set(schemas):
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def assert_moved(source: Store, target: Store) -> None:
    """Both are sound; the one is an archive and the other open."""
    assert source.invariants() == target.invariants() == ()
    left, come = source.relocation()[0], target.relocation()[0]
    assert left is not None
    assert come is not None
    assert (left.stage, come.stage, left.id) == (MoveStage.MOVED, MoveStage.ARRIVED, come.id)
    with pytest.raises(StoreMoved, match="was moved to"):
        source.enqueue([new_job()])


class Killed(BaseException):
    """The mover is gone."""


class Life:
    """A mover's, which ends after so many calls to its stores.

    What it knows between two calls is nowhere but in them, so it is the same whether it dies right
    after one or right before the next.
    """

    def __init__(self, calls: int) -> None:
        self._left = calls
        self.calls = 0

    def live(self, verb: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        if self.calls == self._left:
            self.end()
        self.calls += 1
        return verb(*given)

    def end(self) -> None:
        raise Killed


class Meanwhile(Life):
    """A mover's during which somebody else does something, once."""

    def __init__(self, calls: int, what: Callable[[], object]) -> None:
        super().__init__(calls)
        self._what = what
        self.done = False

    def end(self) -> None:
        self.done = True
        with contextlib.suppress(StoreNotMoved):
            self._what()


class Mortal:
    """A store whose user dies."""

    def __init__(self, store: Store, life: Life) -> None:
        self._store = store
        self._life = life

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)

        def call(*given: Any) -> Any:
            return self._life.live(verb, given)

        return call


def small(store: Store) -> list[str]:
    """A store with some jobs, some of which are over."""
    holder = Holder(store)
    jobs = add_many(store, 25)
    first, second, *rest = (each.lease for each in holder.claim(4))
    holder.settle(Complete(first, "1"), Fail(second, BOOM))
    holder.release(*rest, cause=Drained())
    store.pause("other")
    holder.die(Drained())
    return jobs


def accepted(store: Store) -> str | None:
    """Somebody enqueues; the id of a job that the store took."""
    job = new_job()
    try:
        store.enqueue([job])
    except StoreMoved:
        return None
    return job.id


def taken(store: Store) -> list[str]:
    """Somebody starts a worker, which runs all that it is given."""
    try:
        holder = Holder(store)
    except StoreMoved:
        return []
    leases = [each.lease for each in holder.claim(1_000)]
    assert holder.settle(*(Complete(lease) for lease in leases)) == ()
    holder.die(Drained())
    return [lease.job for lease in leases]


def run_move(source: str, target: str, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "limpet.cli.main", "move", source, target, *more],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("LIMPET_")},
    )  # fmt: skip
