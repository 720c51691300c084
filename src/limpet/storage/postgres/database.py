"""The connections of one process to one store.

A verb takes an idle connection, or opens one. Renewals have connections of their own, so that no
renewal waits for another verb. While this process holds a session, one spare connection for
renewals is kept open: a renewal whose answer is late is sent again on it, because opening a new
connection takes several times as long. After a fork the child starts with no connections. Behind a
pooler no setting is kept in a connection: every verb is a transaction with its own limits.
"""

import contextlib
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg

from limpet.domain.clock import Clock
from limpet.domain.errors import LimpetError, StoreRefused
from limpet.domain.fork import anew_in_child
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.refusals import no_text
from limpet.storage.idle import Idle
from limpet.storage.postgres.chime import Chime
from limpet.storage.postgres.failures import is_cut, may_be_repeated, translate_error
from limpet.storage.postgres.location import Location
from limpet.storage.postgres.overdue import OVERDUE
from limpet.storage.postgres.schema import apply, create_or_check
from limpet.storage.postgres.transaction import Transaction, statement
from limpet.storage.sql.rows import Row

T = TypeVar("T")
Connection = psycopg.Connection[Row]

_log = logging.getLogger("limpet.store")

_MOST_ORDINARY, _MOST_URGENT = 8, 5
_MOST_TRIES = 6
_OLDEST_SERVER = 130_000
# Shorter than the shortest lease, so that a frozen client holds no lock for long. A renewal that
# waits for a lock gives up sooner and is sent again.
_IDLE_MS, _LOCK_MS, _STATEMENT_MS = 1_500, 10_000, 30_000
_URGENT_LOCK_MS = 1_000
_WRITING, _READING = "READ COMMITTED", "REPEATABLE READ READ ONLY"
# How long a verb may take altogether before its connection counts as dead. A renewal is one small
# write that must be tried again before the lease is over: it has a share of the shortest lease that
# this process holds. A verb that reads everything has no limit.
_URGENT_SECONDS, _SECONDS = 3.0, 40.0
_URGENT_SHARE, _MOST_URGENT_SECONDS = 0.4, 10.0
# The same for a new connection; connect_timeout in the URL wins over these.
_CONNECT_SHARE, _LEAST_CONNECT_SECONDS, _MOST_CONNECT_SECONDS = 0.8, 2, 5

_ADVICE = "Look for a long transaction in pg_stat_activity."

# Statements are prepared only on request, and no longer once a pooler has lost one.
_NEVER_BY_ITSELF = 1_000_000_000
_NOT_KEPT = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)

# Connections of the parent, in a forked child: closing them there would end the parent's sessions.
_left_to_the_parent: list[Connection] = []


class Database:
    """The connections to one schema, and the ways in which verbs use them."""

    def __init__(self, location: Location, clock: Clock | None) -> None:
        self.location = location
        self.clock = clock
        self._pools: dict[bool, Idle] = {}
        self._chime = Chime(self._ring)
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: leave the connections to the parent, and open new ones."""
        for pool in self._pools.values():
            _left_to_the_parent.extend(pool._idle)
        self._pools = {
            False: Idle(_MOST_ORDINARY, _ADVICE),
            True: Idle(_MOST_URGENT, _ADVICE, in_turn=True),
        }
        self._shortest_lease: float | None = None
        self.epoch: str | None = None
        self.pooled = False
        self._keeps = True

    def hold_lease(self, seconds: float) -> None:
        """Prepare to hold and renew a session with a lease of this length.

        The connection for its renewals is open before the lease begins to run.
        """
        self._shortest_lease = min(self._shortest_lease or seconds, seconds)
        try:
            with self._connection(urgent=True):
                pass
        except psycopg.Error as error:
            raise translate_error(error, self.location) from error

    @property
    def _connect_seconds(self) -> int:
        if self._shortest_lease is None:
            return _MOST_CONNECT_SECONDS
        share = round(self._shortest_lease * _CONNECT_SHARE)
        return max(_LEAST_CONNECT_SECONDS, min(share, _MOST_CONNECT_SECONDS))

    @property
    def _urgent_seconds(self) -> float:
        if self._shortest_lease is None:
            return _URGENT_SECONDS
        return min(self._shortest_lease * _URGENT_SHARE, _MOST_URGENT_SECONDS)

    # -- how verbs run

    def once(
        self,
        verb: Callable[[Transaction], T],
        *,
        urgent: bool = False,
        reading: bool = False,
        seconds: float = _SECONDS,
    ) -> T:
        """Run a verb of one statement, which is atomic by itself."""

        def work(tx: Transaction) -> T:
            if self.pooled:
                return self._within(tx, _WRITING, verb, urgent=urgent)
            answer = verb(tx)
            self._committed(tx)
            return answer

        return self._done(
            work,
            urgent=urgent,
            reading=reading,
            seconds=self._urgent_seconds if urgent else seconds,
        )

    def write(self, verb: Callable[[Transaction], T], *, seconds: float = _SECONDS) -> T:
        """Run a verb of several statements in one transaction."""
        return self._done(lambda tx: self._within(tx, _WRITING, verb), seconds=seconds)

    def read(self, verb: Callable[[Transaction], T], *, no_timeout: bool = False) -> T:
        """Run a verb of several statements that all see the same snapshot.

        `no_timeout`: the verb reads everything, and may take as long as that takes.
        """
        return self._done(
            lambda tx: self._within(tx, _READING, verb),
            reading=True,
            seconds=math.inf if no_timeout else _SECONDS,
        )

    def _within(
        self,
        tx: Transaction,
        level: str,
        verb: Callable[[Transaction], T],
        *,
        urgent: bool = False,
    ) -> T:
        begin = statement("connection", "begin_lent" if self.pooled else "begin", tx.quoted)
        tx.connection.execute(begin.format(level=level, **_limits(urgent)).encode())
        try:
            answer = verb(tx)
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                tx.run("connection", "rollback")
            raise
        tx.run("connection", "commit")
        self._committed(tx)
        return answer

    def _committed(self, tx: Transaction) -> None:
        if tx.rings:
            self._chime.request(tx.rings)

    def _ring(self, topics: list[Topic]) -> None:
        ring = statement("bell", "ring", self.location.quoted)
        notifies = [ring.format(channel=quoted(self.channel(topic))) for topic in topics]
        text = "; ".join([statement("bell", "at_once", self.location.quoted), *notifies])
        self.once(lambda tx: tx.connection.execute(text.encode()), urgent=True)

    def channel(self, topic: str) -> str:
        """The notification channel of a topic in this schema."""
        return f"{self.location.quoted}.{topic}"

    def _tx(self, connection: Connection, *, again: bool) -> Transaction:
        return Transaction(
            connection,
            self.location,
            self.clock,
            again=again,
            kept=self._keeps and not self.pooled,
            may_ring=self._chime.may_ring,
        )

    def _done(
        self,
        work: Callable[[Transaction], T],
        *,
        seconds: float,
        urgent: bool = False,
        reading: bool = False,
    ) -> T:
        tries, cut = 0, False
        while True:
            tries += 1
            fresh, use = True, None
            began = time.monotonic()
            try:
                with (
                    self._connection(urgent) as (connection, fresh),
                    OVERDUE.watched(connection, seconds) as use,
                ):
                    self._check(connection, may_create=not reading)
                    return work(self._tx(connection, again=tries > 1))
            except UnicodeEncodeError as error:
                raise no_text(error) from error
            except psycopg.Error as error:
                if isinstance(error, _NOT_KEPT) and self._keeps:
                    self._keeps = False
                elif may_be_repeated(error) and tries < _MOST_TRIES:
                    time.sleep(random.uniform(0, 0.002 * 2**tries))
                elif is_cut(error) and not fresh and tries < _MOST_TRIES:
                    # The connection was cut while idle. Every verb may be repeated. Other idle
                    # connections are dead too, unless they had an answer since.
                    self._close_idle(began)
                    cut = True
                    if urgent and use is not None and use.cut:
                        # The renewal has been sent on another connection by now.
                        raise translate_error(error, self.location, cut=cut) from error
                elif isinstance(error, pg.ReadOnlySqlTransaction) and not fresh:
                    # The server behind this connection is a standby now; a new connection may
                    # lead to the primary.
                    self._close_idle()
                else:
                    if error.sqlstate in ("42P01", "42883", "3F000"):
                        self.epoch = None  # the tables are gone; check again next time
                    raise translate_error(error, self.location, cut=cut) from error

    @contextmanager
    def _connection(self, urgent: bool) -> Iterator[tuple[Connection, bool]]:
        pool = self._pools[urgent]
        connection = pool.take()
        fresh = connection is None
        sound = False
        try:
            if connection is None:
                connection = self.connect(urgent=urgent)
                # A pooler may deliver notifications of another client; the driver would keep them.
                connection.add_notify_handler(lambda _: None)
            try:
                yield connection, fresh
                sound = True
            except Exception as error:
                sound = _is_idle(connection) and not isinstance(error, pg.ReadOnlySqlTransaction)
                raise
        finally:
            if connection is not None and not sound:
                connection.close()
            pool.give_back(connection if sound else None)
            if sound and urgent and self._shortest_lease is not None:
                self._open_spare(pool)

    def _open_spare(self, pool: Idle) -> None:
        """Open one connection in advance, so that no renewal waits for a new connection."""
        if not pool.wants_spare():
            return

        def open_one() -> None:
            spare = None
            try:
                with contextlib.suppress(psycopg.Error, LimpetError):
                    spare = self.connect(urgent=True)
            finally:
                wanted = self._shortest_lease is not None and self._pools[True] is pool
                if spare is not None and not wanted:
                    spare.close()
                    spare = None
                pool.add_spare(spare)

        thread = threading.Thread(target=open_one, name="limpet-spare", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # out of threads, or the process is ending
            pool.add_spare(None)

    def connect(self, *, urgent: bool = False) -> Connection:
        """A new connection, set up; the caller closes it."""
        connection: Connection = psycopg.connect(
            self.location.conninfo_within(self._connect_seconds),
            autocommit=True,
            prepare_threshold=_NEVER_BY_ITSELF,
        )
        if connection.info.server_version < _OLDEST_SERVER:
            version = connection.info.server_version // 10_000
            connection.close()
            raise StoreRefused(
                f"{self.location.url} is PostgreSQL {version}; Limpet needs 13 or newer."
            )
        settings = {name: str(value) for name, value in _limits(urgent).items()}
        try:
            with OVERDUE.watched(connection, max(_URGENT_SECONDS, self._urgent_seconds)):
                row: Any = connection.execute(
                    statement("connection", "set_up", self.location.quoted),
                    {"pid": connection.info.backend_pid, **settings},
                ).fetchone()
            self.pooled = bool(row[0])
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: Connection, *, may_create: bool) -> None:
        if self.epoch is None:
            self.epoch = create_or_check(
                connection, self.location, self.clock, may_create=may_create
            )

    # -- the store itself

    def migrate(self) -> list[str]:
        """Bring the schema up to date, also from a version that is too old for other use."""
        try:
            connection = self.connect()
            try:
                return apply(connection, self.location, self.clock)
            finally:
                connection.close()
        except psycopg.Error as error:
            raise translate_error(error, self.location) from error

    def close(self) -> None:
        self._chime.close()
        self._shortest_lease = None
        self._close_idle()

    def _close_idle(self, silent_since: float = math.inf) -> None:
        for pool in self._pools.values():
            for connection in pool.empty(silent_since):
                connection.close()


def quoted(name: str) -> str:
    """A name, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _limits(urgent: bool) -> dict[str, int]:
    lock = _URGENT_LOCK_MS if urgent else _LOCK_MS
    return {"idle": _IDLE_MS, "lock": lock, "statement": _STATEMENT_MS}


def _is_idle(connection: Connection) -> bool:
    """Whether a connection can be used again; a lost one is in an unknown state."""
    return connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
