"""A SQLite store in a file, as the tests of bad input need it."""

import re
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from limpet.domain.clock import SystemClock
from limpet.domain.errors import StoreError
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import State
from limpet.storage.sqlite.store import SqliteStore

IDS = IdSource(SystemClock())


def new_job(text: str = "") -> NewJob:
    return NewJob(IDS.new(), "work", f'"{text}"')


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def made(path: Path) -> str:
    """Make a store with one job; the answer is the job's id."""
    job = new_job()
    with closing(SqliteStore(url_of(path))) as store:
        store.enqueue([job])
    return job.id


def assert_told(error: StoreError, *words: str) -> None:
    """One sentence or two, for a person, that says what to do."""
    text = str(error)
    assert re.fullmatch(r"[^\n]+[.]", text), text
    assert "Traceback" not in text
    assert "Errno" not in text
    for word in words:
        assert word in text


def assert_sound(path: Path, jobs: int) -> None:
    """The store can be used, and has that many jobs and no half ones."""
    with closing(SqliteStore(url_of(path))) as store:
        assert store.invariants() == ()
        assert sum(sum(queue.counts.values()) for queue in store.queues()) == jobs
        last = new_job()
        assert store.enqueue([last])[0].outcome == "new"
        assert store.states([last.id]) == {last.id: State.READY}
        assert store.invariants() == ()


def new_session(lease: timedelta = timedelta(seconds=10)) -> NewSession:
    return NewSession(IDS.new(), SessionKind.WORKER, "w", "here", 1, lease, frozenset({"work"}))
