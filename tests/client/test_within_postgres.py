"""`within=` on PostgreSQL: the job exists if and only if the user's own transaction commits.

On psycopg, asyncpg and SQLAlchemy, where they can on connections that block and on such that are
awaited.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from contract.driver import EVERY_BACKEND
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from limpet import App, State, TransactionRefused
from limpet.storage.contract.bell import Topic
from limpet.storage.postgres import within as module

ORDERS = "CREATE TABLE IF NOT EXISTS public.orders (n integer); TRUNCATE public.orders"
ORDER = "INSERT INTO public.orders VALUES (1)"
# BEGIN, INSERT, SAVEPOINT, the enqueue, RELEASE, COMMIT.
STATEMENTS = 6


@pytest.fixture
def url(tmp_path: Path) -> str:
    return EVERY_BACKEND["postgres"](tmp_path)


@pytest.fixture
def app(url: str) -> Iterator[App]:
    made = App(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(ORDERS)
    yield made
    made.close()


async def _psycopg(url: str, enqueue: Any, did: Callable[[], None], end: str) -> None:
    connection = psycopg.connect(url)
    connection.execute("BEGIN") if connection.autocommit else connection.execute("SELECT 1")
    did()
    connection.execute(ORDER)
    did()
    enqueue(within=connection)
    connection.commit() if end == "commit" else connection.rollback()
    did()
    connection.close()


async def _psycopg_async(url: str, enqueue: Any, did: Callable[[], None], end: str) -> None:
    connection = await psycopg.AsyncConnection.connect(url)
    await connection.execute("SELECT 1")
    did()
    await connection.execute(ORDER)
    did()
    await enqueue(within=connection)
    await (connection.commit() if end == "commit" else connection.rollback())
    did()
    await connection.close()


async def _asyncpg(url: str, enqueue: Any, did: Callable[[], None], end: str) -> None:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    did()
    await connection.execute(ORDER)
    did()
    await enqueue(within=connection)
    await (transaction.commit() if end == "commit" else transaction.rollback())
    did()
    await connection.close()


def _with(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


async def _sqlalchemy(url: str, enqueue: Any, did: Callable[[], None], end: str) -> None:
    engine = sqlalchemy.create_engine(_with(url, "psycopg"))
    connection = engine.connect()
    transaction = connection.begin()
    did()
    connection.execute(sqlalchemy.text(ORDER))
    did()
    enqueue(within=connection)
    transaction.commit() if end == "commit" else transaction.rollback()
    did()
    connection.close()
    engine.dispose()


async def _sqlalchemy_session(url: str, enqueue: Any, did: Callable[[], None], end: str) -> None:
    engine = sqlalchemy.create_engine(_with(url, "psycopg"))
    session = Session(engine)
    did()
    session.execute(sqlalchemy.text(ORDER))
    did()
    enqueue(within=session)
    session.commit() if end == "commit" else session.rollback()
    did()
    session.close()
    engine.dispose()


async def _sqlalchemy_asyncpg(url: str, enqueue: Any, did: Callable[[], None], end: str) -> None:
    engine = create_async_engine(_with(url, "asyncpg"))
    connection = await engine.connect()
    transaction = await connection.begin()
    did()
    await connection.execute(sqlalchemy.text(ORDER))
    did()
    await enqueue(within=connection)
    await (transaction.commit() if end == "commit" else transaction.rollback())
    did()
    await connection.close()
    await engine.dispose()


async def _sqlalchemy_async_session(
    url: str, enqueue: Any, did: Callable[[], None], end: str
) -> None:
    engine = create_async_engine(_with(url, "psycopg"))
    session = AsyncSession(engine)
    did()
    await session.execute(sqlalchemy.text(ORDER))
    did()
    await enqueue(within=session)
    await (session.commit() if end == "commit" else session.rollback())
    did()
    await session.close()
    await engine.dispose()


Transaction = Callable[[str, Any, Callable[[], None], str], Awaitable[None]]
SYNC: dict[str, Transaction] = {
    "psycopg": _psycopg,
    "sqlalchemy": _sqlalchemy,
    "sqlalchemy-session": _sqlalchemy_session,
}
ASYNC: dict[str, Transaction] = {
    "psycopg-async": _psycopg_async,
    "asyncpg": _asyncpg,
    "sqlalchemy-asyncpg": _sqlalchemy_asyncpg,
    "sqlalchemy-async-session": _sqlalchemy_async_session,
}
DRIVERS = SYNC | ASYNC


def run(app: App, url: str, driver: str, end: str, did: Callable[[], None] = lambda: None) -> None:
    """One transaction of the user: an order, and a job for it."""

    @app.task(name=f"work-{driver}-{end}")
    def work() -> None: ...

    enqueue = work.aenqueue if driver in ASYNC else work.enqueue
    asyncio.run(DRIVERS[driver](url, enqueue, did, end))  # type: ignore[arg-type]


def orders_and_jobs(app: App, url: str) -> tuple[int, int]:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM public.orders").fetchone()
    assert row is not None
    jobs = sum(view.counts.get(State.READY, 0) for view in app.client.store.queues())
    return row[0], jobs


@pytest.mark.parametrize("driver", DRIVERS)
def test_job_exists_if_and_only_if_the_transaction_commits(app: App, url: str, driver: str) -> None:
    app.client.store.migrate()
    run(app, url, driver, "rollback")
    assert orders_and_jobs(app, url) == (0, 0)
    run(app, url, driver, "commit")
    assert orders_and_jobs(app, url) == (1, 1)
    assert app.client.store.invariants() == ()


@pytest.mark.parametrize("statements", range(1, STATEMENTS + 1))
@pytest.mark.parametrize("driver", DRIVERS)
def test_killed_between_any_two_statements_nothing_is_half_done(
    app: App, url: str, driver: str, statements: int
) -> None:
    app.client.store.migrate()
    child = os.fork()
    if child == 0:
        try:
            _run_and_die(app, url, driver, statements)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    committed = 1 if statements == STATEMENTS else 0
    assert orders_and_jobs(app, url) == (committed, committed)
    assert app.client.store.invariants() == ()


def _run_and_die(app: App, url: str, driver: str, statements: int) -> None:
    """Kill this process after that many statements, of the user and of Limpet."""
    left = statements

    def did() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    plain, awaited = module._sender, module._async_sender

    def counted(connection: object) -> Any:
        send = plain(connection)

        def after(say: Any) -> Any:
            rows = send(say)
            did()
            return rows

        return after

    async def counted_async(connection: object) -> Any:
        send = await awaited(connection)

        async def after(say: Any) -> Any:
            rows = await send(say)
            did()
            return rows

        return after

    module._sender, module._async_sender = counted, counted_async
    run(app, url, driver, "commit", did)


def test_commit_rings_the_bell(app: App, url: str) -> None:
    @app.task
    def work() -> None: ...

    with closing(app.client.store.listen(Topic.READY)) as bell:
        with psycopg.connect(url) as connection:
            work.using(within=connection).enqueue()
            assert not bell.wait(timedelta(milliseconds=100))
        assert bell.wait(timedelta(seconds=10))


def test_failed_enqueue_leaves_the_users_transaction_as_it_was(app: App, url: str) -> None:
    @app.task
    def work() -> None: ...

    app.client.store.migrate()
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS limpet_nobody; CREATE ROLE limpet_nobody LOGIN")
        admin.execute("GRANT ALL ON public.orders TO limpet_nobody")
    with psycopg.connect(url.replace("postgres@", "limpet_nobody@")) as connection:
        connection.execute(ORDER)
        with pytest.raises(TransactionRefused, match="may not write"):
            work.using(within=connection).enqueue()
    assert orders_and_jobs(app, url) == (1, 0)


class OwnSession(Session):
    """As an application has it."""


def test_session_of_the_users_own_class_is_known(app: App, url: str) -> None:
    @app.task
    def work() -> None: ...

    engine = sqlalchemy.create_engine(_with(url, "psycopg"))
    with OwnSession(engine) as session, session.begin():
        session.execute(sqlalchemy.text(ORDER))
        work.using(within=session).enqueue()
    engine.dispose()
    assert orders_and_jobs(app, url) == (1, 1)


def test_any_error_of_a_driver_leaves_the_users_transaction_as_it_was(
    app: App, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    def work() -> None: ...

    class OldError(Exception):
        """As psycopg2 has it: with another name for the code, where there is one."""

        pgcode: str | None = None

    def sender(connection: Any) -> Any:
        send = module._psycopg(connection)

        def fails(say: Any) -> Any:
            answer = send(say)
            if "v1_admit" in say.text:
                raise OldError("no")
            return answer

        return fails

    app.client.store.migrate()
    monkeypatch.setattr(module, "_sender", sender)
    for code, raised in ((None, OldError), ("LP002", TransactionRefused)):
        OldError.pgcode = code
        with psycopg.connect(url) as connection:
            connection.execute(ORDER)
            with pytest.raises(raised):
                work.using(within=connection).enqueue()
    assert orders_and_jobs(app, url) == (2, 0)


def test_what_cannot_commit_with_the_store_is_refused(app: App, url: str) -> None:
    @app.task
    def work() -> None: ...

    app.client.store.migrate()
    with pytest.raises(TransactionRefused, match="not a builtins.str"):
        work.using(within="connection").enqueue()
    with psycopg.connect(url, autocommit=True) as idle:
        with pytest.raises(TransactionRefused, match="no open transaction"):
            work.using(within=idle).enqueue()
        with pytest.raises(TransactionRefused, match="use enqueue"):
            asyncio.run(work.using(within=idle).aenqueue())
    with psycopg.connect(url) as failed:
        with pytest.raises(psycopg.Error):
            failed.execute("SELECT 1/0")
        with pytest.raises(TransactionRefused, match="has failed"):
            work.using(within=failed).enqueue()
        failed.rollback()
    lite = sqlalchemy.create_engine("sqlite://")
    with lite.connect() as other, pytest.raises(TransactionRefused, match="to sqlite"):
        work.using(within=other).enqueue()
    lite.dispose()

    async def awaited() -> None:
        connection = await asyncpg.connect(url)
        with pytest.raises(TransactionRefused, match="aenqueue"):
            work.using(within=connection).enqueue()
        with pytest.raises(TransactionRefused, match="no open transaction"):
            await work.using(within=connection).aenqueue()
        await connection.close()

    asyncio.run(awaited())


def test_connection_to_another_database_is_refused(app: App, url: str) -> None:
    @app.task
    def work() -> None: ...

    app.client.store.migrate()
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS limpet_other")
        admin.execute("CREATE DATABASE limpet_other")
    other = f"{url.rpartition('/')[0]}/limpet_other"
    for refusal in ("does not see the schema", "another database"):
        with psycopg.connect(other) as connection:
            refused = pytest.raises(TransactionRefused, match=refusal)
            with refused:
                work.using(within=connection).enqueue()
        with closing(App(other)) as elsewhere:
            elsewhere.client.store.migrate()
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("DROP DATABASE limpet_other WITH (FORCE)")
