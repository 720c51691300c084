"""Every test of this folder that asks for `store` runs on every backend, on a clock of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.driver import BACKENDS, Holder

from limpet.storage.base import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(backend: str, clock: FakeClock, tmp_path: Path) -> Iterator[Store]:
    """A store that is sound when the test ends, whatever the test did to it."""
    opened = open_store(BACKENDS[backend](tmp_path), clock)
    opened.migrate()
    try:
        yield opened
        assert opened.invariants() == ()
    finally:
        opened.close()


@pytest.fixture
def holder(store: Store) -> Holder:
    """A worker that knows `task`."""
    return Holder(store)
