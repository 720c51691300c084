"""An app on a store of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
