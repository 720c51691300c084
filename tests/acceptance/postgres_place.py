"""PostgreSQL servers that the tests of its failures start, break and end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from servers.postgres import PostgresServer


@contextmanager
def open_folder(within: Path | None = None) -> Iterator[Path]:
    """A folder that the server's user can read, other than those below pytest's own."""
    with TemporaryDirectory(prefix="limpet-postgres-", dir=within) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def running(server: PostgresServer) -> Iterator[PostgresServer]:
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def raw_and_empty(server: PostgresServer) -> Iterator[psycopg.Connection]:
    """What an operator has: the server itself, on which there is no store."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS limpet CASCADE")
        yield connection
