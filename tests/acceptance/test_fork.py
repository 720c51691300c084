"""A process that forks while it uses a store: both go on, and neither loses what it commits."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from limpet.domain.clock import SystemClock
from limpet.domain.ids import IdSource
from limpet.domain.job import NewJob
from limpet.storage.base import CHUNK
from limpet.storage.sqlite.store import SqliteStore

CHILDREN = 8
JOBS_OF_A_CHILD = 20
# Opens the store, writes, and closes it; the last to close a file takes its WAL file away.
VISITOR = """
import sys
from limpet.storage.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1])
store.pause("nowhere")
store.close()
"""


def enqueue(store: SqliteStore, ids: IdSource, count: int = 1) -> list[str]:
    jobs = [NewJob(ids.new(), "work", "{}") for _ in range(count)]
    for job in jobs:
        store.enqueue([job])
    return [job.id for job in jobs]


def fork(child: Callable[[], None]) -> int:
    """Fork; the child ends with 0 if it came through."""
    pid = os.fork()
    if pid == 0:
        try:
            child()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"the child failed: {error!r}\n".encode())
        finally:
            os._exit(70)
    return pid


def ended_well(pid: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@contextmanager
def busy_threads(store: SqliteStore, ids: IdSource) -> Iterator[list[str]]:
    """Four threads that enqueue and read all the time; the list gets the ids of their jobs."""
    enqueued: list[str] = []
    troubles: list[BaseException] = []
    over = threading.Event()

    def work() -> None:
        try:
            while not over.is_set():
                enqueued.extend(enqueue(store, ids))
                assert store.states(enqueued[-1:])
        except BaseException as error:
            troubles.append(error)

    enqueued.extend(enqueue(store, ids))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield enqueued
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert troubles == []


def assert_all_there(store: SqliteStore, ids: list[str]) -> None:
    assert len(ids) == len(set(ids)), "an id was made twice"
    states: dict[str, object] = {}
    for start in range(0, len(ids), CHUNK):
        states |= store.states(ids[start : start + CHUNK])
    assert states.keys() == set(ids)
    assert sum(sum(queue.counts.values()) for queue in store.queues()) == len(ids)
    assert store.invariants() == ()


def test_parent_and_child_go_on_when_a_busy_process_forks(tmp_path: Path) -> None:
    ids = IdSource(SystemClock())
    with closing(SqliteStore(f"sqlite:///{tmp_path / 'jobs.db'}")) as store:
        with busy_threads(store, ids) as enqueued:
            children = []
            for number in range(CHILDREN):
                file = tmp_path / f"child{number}"

                def child(file: Path = file) -> None:
                    file.write_text("\n".join(enqueue(store, ids, JOBS_OF_A_CHILD)))

                before = len(enqueued)
                children.append(fork(child))
                while len(enqueued) < before + 4:  # the parent goes on
                    time.sleep(0.001)
            assert [ended_well(pid) for pid in children] == [True] * CHILDREN
        of_children = [
            line
            for number in range(CHILDREN)
            for line in (tmp_path / f"child{number}").read_text().splitlines()
        ]
        assert len(of_children) == CHILDREN * JOBS_OF_A_CHILD
        assert_all_there(store, enqueued + of_children)


def test_children_of_multiprocessing_go_on_when_a_busy_process_forks(tmp_path: Path) -> None:
    ids = IdSource(SystemClock())
    context = multiprocessing.get_context("fork")
    with closing(SqliteStore(f"sqlite:///{tmp_path / 'jobs.db'}")) as store:
        with busy_threads(store, ids) as enqueued:

            def child(number: int) -> None:
                file = tmp_path / f"child{number}"
                file.write_text("\n".join(enqueue(store, ids, JOBS_OF_A_CHILD)))

            children = [context.Process(target=child, args=(number,)) for number in range(4)]
            for each in children:
                each.start()
            for each in children:
                each.join()
                assert each.exitcode == 0
        of_children = [
            line for file in tmp_path.glob("child*") for line in file.read_text().splitlines()
        ]
        assert len(of_children) == 4 * JOBS_OF_A_CHILD
        assert_all_there(store, enqueued + of_children)


@pytest.mark.parametrize("how", ["closes the store", "exits"])
def test_a_child_s_commits_are_kept_when_the_parent_ends_and_a_visitor_tidies_up(
    tmp_path: Path, how: str
) -> None:
    """A child that only believed to hold SQLite's lock would commit to a WAL file that is gone."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    ids = IdSource(SystemClock())
    jobs = [ids.new() for _ in range(3)]

    def child(store: SqliteStore) -> None:
        store.enqueue([NewJob(jobs[1], "work", "{}")])
        assert len(store.states(jobs)) == 2
        (tmp_path / "child wrote").touch()
        wait_for(tmp_path / "visitor left")
        store.enqueue([NewJob(jobs[2], "work", "{}")])
        assert len(store.states(jobs)) == 3
        (tmp_path / "child wrote again").touch()
        wait_for(tmp_path / "over")

    def parent() -> None:
        store = SqliteStore(url)
        store.enqueue([NewJob(jobs[0], "work", "{}")])
        assert len(store.states(jobs)) == 1
        fork(lambda: child(store))
        wait_for(tmp_path / "child wrote")
        if how == "closes the store":
            store.close()
            (tmp_path / "parent left").touch()
            wait_for(tmp_path / "over")

    pid = fork(parent)
    if how == "exits":
        assert ended_well(pid)
    else:
        wait_for(tmp_path / "parent left")
    subprocess.run([sys.executable, "-c", VISITOR, url], check=True)
    (tmp_path / "visitor left").touch()
    wait_for(tmp_path / "child wrote again")
    with closing(SqliteStore(url)) as other:
        assert other.states(jobs).keys() == set(jobs)
        assert other.invariants() == ()
    (tmp_path / "over").touch()
    if how == "closes the store":
        assert ended_well(pid)


def wait_for(sign: Path) -> None:
    """Wait for another process to make a file; give up after a while, so that none stays behind."""
    give_up = time.monotonic() + 30
    while not sign.exists():
        assert time.monotonic() < give_up, f"no sign of: {sign.name}"
        time.sleep(0.005)
