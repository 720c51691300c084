"""Two workers for the tests that can share one, and a place for those that need their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from worker.jobs import app
from worker.place import Place


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    yield from _kept(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def _narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    yield from _kept(tmp_path_factory.mktemp("narrow"))


def _kept(folder: Path) -> Iterator[Place]:
    place = Place(folder, app)
    yield place
    app.registry.move_to(place.url)
    place.close()


@pytest.fixture
def shared(_shared: Place, tmp_path: Path) -> Iterator[Place]:
    """A running worker that other tests use too, with three lanes and a grace of a second."""
    yield from _lent(_shared, tmp_path, "--grace", "1s", "--lanes", "3", "--lease", "4s")


@pytest.fixture
def narrow(_narrow: Place, tmp_path: Path) -> Iterator[Place]:
    """The same with one lane, in which each job meets what the one before has left."""
    yield from _lent(_narrow, tmp_path, "--grace", "4s", "--lanes", "1")


def _lent(kept: Place, tmp_path: Path, *words: str) -> Iterator[Place]:
    """A place whose notes are the test's own; the worker must outlive the test."""
    app.registry.move_to(kept.url)
    if not kept.workers or kept.last.popen.poll() is not None:
        kept.worker(*words)
    before = kept.last.log_file.stat().st_size
    yield Place(kept.folder, app, kept.mark, kept.workers, tmp_path / "notes")
    with kept.last.log_file.open("rb") as log:
        log.seek(before)
        since = log.read().decode(errors="replace")
    print(since[-20_000:])
    assert kept.last.popen.poll() is None, "the test ended the shared worker"
    assert "session_over" not in since, "the test ended the session"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place of the test's own; nothing may be left of its workers at the end."""
    place = Place(tmp_path, app)
    yield place
    for worker in place.workers:
        print(f"--- {worker.log_file.name}\n{worker.text[-20_000:]}")
    place.close()
