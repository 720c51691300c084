"""`within=`: the job exists if and only if the user's own transaction commits."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from limpet import App, State, TransactionRefused


def test_the_job_exists_if_and_only_if_the_transaction_commits(app: App, tmp_path: Path) -> None:
    @app.task
    def work(n: int) -> None: ...

    work.enqueue(n=0)
    own = apsw.Connection(str(tmp_path / "jobs.db"))
    own.execute("CREATE TABLE orders (n INTEGER)")
    own.execute("BEGIN IMMEDIATE")
    own.execute("INSERT INTO orders VALUES (1)")
    dropped = work.enqueue(n=1, within=own)  # type: ignore[call-arg]
    own.execute("ROLLBACK")
    own.execute("BEGIN IMMEDIATE")
    own.execute("INSERT INTO orders VALUES (2)")
    kept = work.using(within=own).enqueue(n=2)
    assert app.client.store.states([kept.id]) == {}
    own.execute("COMMIT")
    assert app.client.store.states([dropped.id, kept.id]) == {kept.id: State.READY}
    own.close()


def test_a_refused_enqueue_leaves_the_users_transaction_as_it_was(app: App, tmp_path: Path) -> None:
    @app.task
    def work(n: int) -> None: ...

    work.enqueue(n=0)
    own = apsw.Connection(str(tmp_path / "jobs.db"))
    own.execute("CREATE TABLE orders (n INTEGER)")
    own.execute("BEGIN IMMEDIATE")
    own.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(Exception, match="n: Input"):
        work.using(within=own).enqueue(n="x")  # type: ignore[arg-type]
    own.execute("COMMIT")
    assert own.execute("SELECT n FROM orders").fetchall() == [(1,)]
    own.close()


@pytest.mark.parametrize("step", range(5))
def test_killed_between_any_two_statements_nothing_is_half_done(
    app: App, url: str, tmp_path: Path, step: int
) -> None:
    @app.task
    def work(n: int) -> None: ...

    work.enqueue(n=0)
    setup = apsw.Connection(str(tmp_path / "jobs.db"))
    setup.execute("CREATE TABLE orders (n INTEGER)")
    setup.close()
    child = os.fork()
    if child == 0:
        own = apsw.Connection(str(tmp_path / "jobs.db"))
        steps: list[Callable[[], object]] = [
            lambda: own.execute("BEGIN IMMEDIATE"),
            lambda: own.execute("INSERT INTO orders VALUES (1)"),
            lambda: work.using(within=own).enqueue(n=1),
            lambda: own.execute("COMMIT"),
            lambda: None,
        ]
        for each in steps[: step + 1]:
            each()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    check = apsw.Connection(str(tmp_path / "jobs.db"))
    orders = check.execute("SELECT count(*) FROM orders").fetchall()[0][0]
    check.close()
    jobs = app.client.store.queues()[0].counts[State.READY] - 1
    assert orders == jobs == (1 if step >= 3 else 0)


def test_pythons_own_sqlite_module_is_refused_with_the_reason(app: App, tmp_path: Path) -> None:
    @app.task
    def work() -> None: ...

    own = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(TransactionRefused, match="drop each other's locks"):
        work.using(within=own).enqueue()
    own.close()


def test_what_cannot_commit_with_the_store_is_refused(app: App, tmp_path: Path) -> None:
    @app.task
    def work() -> None: ...

    work.enqueue()
    with pytest.raises(TransactionRefused, match="not a builtins.str"):
        work.using(within="connection").enqueue()
    elsewhere = apsw.Connection(str(tmp_path / "other.db"))
    elsewhere.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransactionRefused, match="cannot span two files"):
        work.using(within=elsewhere).enqueue()
    elsewhere.close()
    idle = apsw.Connection(str(tmp_path / "jobs.db"))
    with pytest.raises(TransactionRefused, match="no open transaction"):
        work.using(within=idle).enqueue()
    idle.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransactionRefused, match="use enqueue"):
        asyncio.run(work.using(within=idle).aenqueue())
    idle.execute("ROLLBACK")
    idle.close()
    memory = apsw.Connection(":memory:")
    with pytest.raises(TransactionRefused, match="memory"):
        work.using(within=memory).enqueue()
    memory.close()
