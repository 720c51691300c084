"""Writes nonsense straight into single fields of a store, as anyone may who can write it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol

import apsw
import msgspec
import psycopg
import redis

from limpet.storage.contract.store import Store
from limpet.storage.postgres.store import PostgresStore
from limpet.storage.redis.store import RedisStore
from limpet.storage.sqlite.store import SqliteStore

# No field that is JSON holds any of these, each in a way of its own.
HOSTILE = (
    "",
    "{",
    "7",
    "null",
    '"x"',
    "[null, {}]",
    '{"kind": 7}',
    '{"x": "\\ud800"}',
    "[" * 500 + "]" * 500,
    "1e999",
)

# What a column of whole numbers may hold.
NUMBERS = (0, -1, 2**31 - 1, 2**62, 2**63 - 1, -(2**63))

# field → table, column, and the column by which the row is found; `n` stands for a job's number.
_SQL = {
    "session.lock": ("session", "lock", "id"),
    "session.cause": ("session", "cause", "id"),
    "session.schedules": ("session", "schedules", "id"),
    "session.pools": ("session", "pools", "id"),
    "session.pid": ("session", "pid", "id"),
    "session.lease": ("session", "lease", "id"),
    "session.registered_at": ("session", "registered_at", "id"),
    "session.renewed_at": ("session", "renewed_at", "id"),
    "session.host": ("session", "host", "id"),
    "queue.declared": ("queue", "declared", "name"),
    "queue.adjusted": ("queue", "adjusted", "name"),
    "schedule.definition": ("schedule", "definition", "id"),
    "schedule.timing": ("schedule", "timing", "id"),
    "host.body": ("host", "body", "server"),
}
_SQLITE = _SQL | {
    "job.args": ("payload", "args", "n"),
    "job.options": ("payload", "options", "n"),
    "job.secrets": ("payload", "secrets", "n"),
    "job.rules": ("job", "rules", "id"),
    "job.error": ("result", "error", "n"),
    "job.result": ("result", "value", "n"),
    "job.result_secrets": ("result", "secrets", "n"),
    "event.cause": ("event", "cause", "n"),
    "event.event": ("event", "event", "n"),
    "key.rate": ("key", "rate", "key"),
    "breaker.body": ("breaker", "body", "name"),
    "flow.jobs": ("staged", "jobs", "flow"),
}
_POSTGRES = _SQL | {
    "job.args": ("job", "args", "id"),
    "job.options": ("job", "options", "id"),
    "job.secrets": ("job", "secrets", "id"),
    "job.rules": ("job", "rules", "id"),
    "job.error": ("trouble", "error", "id"),
    "job.result": ("done", "result", "id"),
    "job.result_secrets": ("done", "result_secrets", "id"),
    "event.cause": ("event", "cause", "id"),
    "event.event": ("event", "event", "id"),
    "key.rate": ("key", "set_rate", "name"),
    "breaker.body": ("breaker", "piece", "name"),
    "flow.jobs": ("staged", "job", "flow"),
}
# field → hash, or the place of a field in what is packed there.
_REDIS = {
    "queue.declared": "declared",
    "queue.adjusted": "adjusted",
    "key.rate": "key_rules",
    "breaker.body": "breaker_rules",
    "job.error": "error",
    "job.result": "result",
    "job.result_secrets": "result_secrets",
}
_PAYLOAD = ("version", "job.args", "job.options", "job.secrets", "none")
_SCHEDULE = ("schedule.timing", "schedule.definition")
_EVENT = {"event.event": 1, "event.cause": 4}


class Writer(Protocol):
    """Says what a field of a row holds, whatever it is."""

    def write(self, field: str, row: str, value: str | int) -> None: ...


class SqliteWriter:
    """Writes with a connection of its own, or, where the store is in memory, with the store's."""

    def __init__(self, store: SqliteStore, raw: apsw.Connection | None) -> None:
        self._store = store
        self._raw = raw

    def write(self, field: str, row: str, value: str | int) -> None:
        table, column, by = _SQLITE[field]
        which = f"{by} = ?" if by != "n" else "n = (SELECT n FROM limpet_job WHERE id = ?)"
        self._run(f"UPDATE limpet_{table} SET {column} = ? WHERE {which}", value, row)

    def _run(self, statement: str, *values: Any) -> None:
        if self._raw is not None:
            self._raw.execute(statement, values)
        else:
            self._store._db.write(lambda tx: tx.connection.execute(statement, values).fetchall())


class PostgresWriter:
    """Writes with a connection of its own."""

    def __init__(self, schema: str, raw: psycopg.Connection[Any]) -> None:
        self._schema = schema
        self._raw = raw

    def write(self, field: str, row: str, value: str | int) -> None:
        table, column, by = _POSTGRES[field]
        text = f"UPDATE {self._schema}.{table} SET {column} = %s WHERE {by} = %s"
        self._raw.execute(text.encode(), (value, row))


class RedisWriter:
    """Writes with a client of its own, into a field of a hash or of what is packed there."""

    def __init__(self, prefix: str, raw: "redis.Redis") -> None:
        self._prefix = prefix
        self._raw = raw

    def write(self, field: str, row: str, value: str | int) -> None:
        kind, _, name = field.partition(".")
        if kind == "session":
            self._raw.hset(f"{self._prefix}session/{row}", name, value)
        elif field in _REDIS:
            self._set(_REDIS[field], row, str(value).encode())
        elif field in _PAYLOAD:
            parts = msgspec.msgpack.decode(b"\x95" + self._kept("job", row))
            parts[_PAYLOAD.index(field)] = value
            self._set("job", row, b"".join(map(msgspec.msgpack.encode, parts)))
        elif field == "job.rules":
            extra = msgspec.msgpack.decode(self._kept("extra", row))
            self._set("extra", row, msgspec.msgpack.encode([*extra[:5], value]))
        elif field in _SCHEDULE:
            schedule = msgspec.msgpack.decode(self._kept("schedules", row))
            schedule[_SCHEDULE.index(field)] = value
            self._set("schedules", row, msgspec.msgpack.encode(schedule))
        elif field in _EVENT:
            self._change_first_event(row, _EVENT[field], value)
        elif field == "flow.jobs":
            self._set(f"flow/{row}", "0", str(value).encode())
        else:
            assert field == "host.body"
            self._set("hosts", row, bytes(8) + str(value).encode())

    def _change_first_event(self, row: str, place: int, value: str | int) -> None:
        key = f"{self._prefix}events/{row}"
        kept = self._raw.lpop(key)
        assert isinstance(kept, bytes)
        entry = msgspec.msgpack.decode(kept)
        entry[place] = value
        self._raw.lpush(key, msgspec.msgpack.encode(entry))

    def _kept(self, name: str, row: str) -> bytes:
        kept = self._raw.hget(self._prefix + name, row)
        assert isinstance(kept, bytes)
        return kept

    def _set(self, name: str, row: str, value: bytes) -> None:
        self._raw.hset(self._prefix + name, row, value)


@contextmanager
def writer_for(store: Store) -> Iterator[Writer]:
    """Whoever writes into that store without asking it."""
    if isinstance(store, SqliteStore):
        if store._location.in_memory:
            yield SqliteWriter(store, None)
            return
        with closing(apsw.Connection(str(store._location.path))) as raw:
            raw.setbusytimeout(5_000)
            yield SqliteWriter(store, raw)
    elif isinstance(store, PostgresStore):
        location = store._db.location
        with closing(psycopg.connect(location.conninfo, autocommit=True)) as connection:
            yield PostgresWriter(location.quoted, connection)
    else:
        assert isinstance(store, RedisStore)
        there = store._location
        with closing(redis.Redis.from_url(there.url.partition("?")[0])) as client:
            yield RedisWriter(there.key.removesuffix("store"), client)
