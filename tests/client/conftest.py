"""An app on a store of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from client.families import Work

from limpet import App


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"


@pytest.fixture
def app(url: str) -> Iterator[App]:
    made = App(url)
    made.client.store.migrate()
    yield made
    assert made.client.store.invariants() == ()
    made.close()


@pytest.fixture
def work(app: App) -> Work:
    @app.task
    def work(n: int) -> int:
        return n

    return work


@pytest.fixture
def total(app: App) -> Work:
    @app.task(queue="sums")
    def total(n: int) -> int:
        return n

    return total
