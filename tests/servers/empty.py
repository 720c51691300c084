"""Stores on the shared servers, each time without a job."""

import atexit

import psycopg
import redis

from limpet.storage.postgres.store import PostgresStore
from servers.shared import shared_url

# Three times as fast as TRUNCATE, which makes new files for every table and index.
_LISTED = """
SELECT string_agg(format('DELETE FROM %I.%I', schemaname, tablename), '; ') FROM pg_tables
WHERE schemaname = 'limpet' AND tablename <> 'store'
"""
# A test may leave its store closed: it has moved.
_OPENED = "UPDATE limpet.store SET closed = NULL, relocation = NULL, cursor = NULL"


def empty_redis(kind: str) -> str:
    """The URL of a Redis or Valkey server that has nothing in it; what was there is lost."""
    url = shared_url(kind)
    with redis.Redis.from_url(url) as server:
        server.flushdb()
    return url


_own: dict[str, psycopg.Connection[tuple[object, ...]]] = {}
_emptied: dict[str, str] = {}


def empty_postgres(kind: str = "postgres") -> str:
    """The URL of a PostgreSQL store that has nothing in it; what was there before is lost."""
    url = shared_url(kind)
    if kind not in _own:
        connection = _own[kind] = psycopg.connect(url, autocommit=True)
        atexit.register(connection.close)
        connection.execute("SET lock_timeout = '10s'")
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP SCHEMA IF EXISTS limpet CASCADE")
        store = PostgresStore(url)
        store.migrate()
        store.close()
        listed = connection.execute(_LISTED).fetchone()
        assert listed is not None
        _emptied[kind] = f"{listed[0]}; {_OPENED}"
    else:
        _own[kind].execute(_emptied[kind].encode())
    return url
