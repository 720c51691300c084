"""Every test of this folder that asks for `store` runs on every backend, on a clock of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.driver import BACKENDS, Holder
from contract.opened import opened
from contract.racers import dismiss

from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def sound(url: str, clock: FakeClock) -> Iterator[Store]:
    """Lend a store, and see that every invariant of it holds at the end."""
    with opened(url, clock) as store:
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
    yield from sound(BACKENDS[backend](tmp_path), clock)


@pytest.fixture(params=sorted(set(BACKENDS) - {"sqlite-memory"}))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store that several processes can open; see `racers.on_processes`."""
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def shared(url: str) -> Iterator[Store]:
    """The store at `url`, sound like `store` when the test ends."""
    yield from sound(url, FakeClock())


@pytest.fixture
def holder(store: Store) -> Holder:
    """A worker that knows `task`."""
    return Holder(store)
