"""Every invariant has a corruption that it finds; the corruptions are beside, one file for each."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from limpet.domain.cause import Raised, WorkerKilled
from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, RetryAt, Settlement
from limpet.storage.base import ANY_QUEUE, Pool, Want
from limpet.storage.sqlite.invariants import names
from limpet.storage.sqlite.store import SqliteStore

CORRUPTIONS = Path(__file__).parent / "corruptions"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a job in every state that a job comes to by itself, and a dead session."""
    path = tmp_path / "jobs.db"
    ids = IdSource(SystemClock())
    tasks = frozenset({"work"})
    live, dead = ids.new(), ids.new()
    with closing(SqliteStore(f"sqlite:///{path}")) as store:
        later = SystemClock().wall() + 3_600_000_000
        store.enqueue([NewJob(ids.new(), "work", '{"n": 1}') for _ in range(6)])
        store.enqueue([NewJob(ids.new(), "stranger", "{}")])
        store.enqueue([NewJob(ids.new(), "work", "{}", priority=3, scheduled_for=later)])
        for session in (dead, live):
            new = NewSession(session, SessionKind.WORKER, "w", "h", 1, tasks=tasks)
            digest = store.register(new).tasks
        want = Want((Pool(digest, {ANY_QUEUE: 3}, 3),))
        one = Want((Pool(digest, {ANY_QUEUE: 1}, 1),))
        first, second, third = store.exchange(dead, 1, (), want).claimed
        error = Raised("ValueError", "no")
        outcomes: list[Settlement] = [
            Complete(first.lease, "[1]"),
            Fail(second.lease, error),
            RetryAt(third.lease, later, error),
        ]
        lost = store.exchange(dead, 2, outcomes, one).claimed
        store.renew(dead, [job.lease for job in lost])
        store.end(dead, WorkerKilled(9))
        store.recover(dead)
        many = Want((Pool(digest, {ANY_QUEUE: 9}, 9),))
        held = store.exchange(live, 1, (), many).claimed
        store.release(live, [job.lease for job in held[1:]], WorkerKilled(15))
        states = store.queues()[0].counts
        wanted = {State.READY, State.RUNNING, State.BLOCKED, State.SCHEDULED}
        assert wanted | {State.SUCCEEDED, State.FAILED} == states.keys()
        assert store.invariants() == ()
    return path


def test_every_invariant_has_a_corruption() -> None:
    assert {file.stem for file in CORRUPTIONS.glob("*.sql")} == set(names())


@pytest.mark.parametrize("invariant", names())
def test_fsck_finds_the_corruption_and_names_it(path: Path, invariant: str) -> None:
    with closing(apsw.Connection(str(path))) as raw:
        raw.execute((CORRUPTIONS / f"{invariant}.sql").read_text())
    with closing(SqliteStore(f"sqlite:///{path}")) as store:
        (broken,) = store.invariants()
    assert broken.invariant == invariant
    assert broken.count >= 1
    assert broken.sentence
    assert broken.example
