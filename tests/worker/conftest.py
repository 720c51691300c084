"""One worker for the tests that can share it, and a place for those that need their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from worker.jobs import app
from worker.place import Place


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("shared"), app)
    yield place
    app.move_to(place.url)
    place.close()


@pytest.fixture
def shared(_shared: Place, tmp_path: Path) -> Iterator[Place]:
    """A place with a running worker that other tests use too; its notes are the test's own."""
    app.move_to(_shared.url)
    if not _shared.workers or _shared.workers[-1].popen.poll() is not None:
        _shared.worker("--grace", "1s", "--lanes", "3", "--lease", "4s")
    before = len(_shared.workers[-1].text)
    mine = Place(_shared.folder, app, _shared.mark, _shared.workers, tmp_path / "notes")
    yield mine
    print(_shared.workers[-1].text[before:][-20_000:])
    assert _shared.workers[-1].popen.poll() is None, "the test ended the shared worker"
    assert not mine.workers[-1].log("session_over"), "the test ended the session"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place of the test's own; nothing may be left of its workers at the end."""
    place = Place(tmp_path, app)
    yield place
    for worker in place.workers:
        print(f"--- {worker.log_file.name}\n{worker.text[-20_000:]}")
    place.close()
