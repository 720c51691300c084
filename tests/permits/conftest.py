"""A store for each test, and a server of which nothing but the test tells."""

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from permits.front import Front, Run
from permits.measured import Measure, Measured
from servers import shared_url

from limpet import App
from limpet.domain.permit import PermitRecord
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

STORES = ("sqlite", "redis", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On each store; what becomes of a command's processes has nothing to do with it."""
    if "store_kind" in metafunc.fixturenames:
        is_of_commands = "test_gate_run" in metafunc.module.__name__
        kinds = STORES[:1] if is_of_commands else STORES
        never = [mark.args[0] for mark in metafunc.definition.iter_markers("not_on")]
        metafunc.parametrize("store_kind", [kind for kind in kinds if kind not in never])


@pytest.fixture
def url(store_kind: str, tmp_path: Path) -> str:
    mark = uuid.uuid4().hex[:8]
    match store_kind:
        case "sqlite":
            return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
        case "postgres":
            return f"{shared_url('postgres')}?schema=permits_{mark}"
        case kind:
            return f"{shared_url(kind)}?namespace=permits-{mark}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"test-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("LIMPET_SERVER_ID", name)
    return name


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as opened:
        opened.migrate()
        yield opened
        assert opened.invariants() == ()


@pytest.fixture
def app(url: str, store: Store) -> Iterator[App]:
    made = App(url)
    yield made
    made.close()


@pytest.fixture
def measure(store: Store, server: str) -> Measure:
    """A monitor of the test's own server."""
    return lambda cores=3.0, busy=0.0: Measured(store, server, cores, busy)


@pytest.fixture
def run(url: str, store: Store, server: str) -> Iterator[Run]:
    started: list[Front] = []

    def begin(*words: str, options: tuple[str, ...] = ()) -> Front:
        front = Front(url, words, options)
        started.append(front)
        return front

    yield begin
    for each in started:
        for pid in each.living():
            os.kill(pid, signal.SIGKILL)
        each.process.communicate()


def names(permits: tuple[PermitRecord, ...]) -> list[str]:
    """What holds them."""
    return [each.what for each in permits]
