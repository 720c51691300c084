"""Every test of this folder that asks for `store` runs on every backend, on a clock of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from contract.driver import BACKENDS, Holder
from contract.racers import dismiss
from servers.warm import warmed

from limpet.storage.base import Store
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock


def sound(store: Store) -> Iterator[Store]:
    """Lend a store, and see that every invariant of it holds at the end."""
    with closing(store), ExitStack() as stack:
        if isinstance(store, PostgresStore):
            stack.enter_context(warmed(store))  # its schema was made with the first of them
        else:
            store.migrate()
        yield store
        assert store.invariants() == ()


@pytest.fixture(scope="module", autouse=True)
def _racers_are_dismissed() -> Iterator[None]:
    """No test of another module meets processes that it did not start."""
    yield
    dismiss()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(backend: str, clock: FakeClock, tmp_path: Path) -> Iterator[Store]:
    """A store that is sound when the test ends, whatever the test did to it."""
    yield from sound(open_store(BACKENDS[backend](tmp_path), clock))


@pytest.fixture(params=sorted(set(BACKENDS) - {"sqlite-memory"}))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store that several processes can open; see `racers.on_processes`."""
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def shared(url: str) -> Iterator[Store]:
    """The store at `url`, sound like `store` when the test ends."""
    yield from sound(open_store(url, FakeClock()))


@pytest.fixture
def holder(store: Store) -> Holder:
    """A worker that knows `task`."""
    return Holder(store)
