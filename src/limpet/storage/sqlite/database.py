"""The connections to one database, and the thread that writes.

All writing of a process goes through one thread. What waits when the thread gets its turn is done
in one transaction and made durable by one sync (group commit): renewals first, then the rest in
order. Each verb is a savepoint of its own, so that one that is refused takes nobody along.
Reading has its own connection and waits for no writer.
"""

import contextlib
import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import apsw

from limpet.domain.clock import Clock
from limpet.domain.errors import LimpetError, StoreBusy, StoreUnavailable
from limpet.storage.base import CHUNK, Topic
from limpet.storage.sqlite.bell import MemoryBell, ring
from limpet.storage.sqlite.boot import ForeignSessions, Renewals, watch
from limpet.storage.sqlite.connection import Connections, checkpoint
from limpet.storage.sqlite.location import Location
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.sqlite.turns import Turns

T = TypeVar("T")

# How long a caller waits for its write before it is withdrawn.
PATIENCE_SECONDS = 30.0
# How long one attempt to begin waits for a writer that does not take turns.
_BEGIN_SECONDS = 10.0
_MOST_VERBS_AT_ONCE = 256


@dataclass(slots=True)
class _Request:
    verb: Callable[[Transaction], Any]
    rows: int
    future: Future[Any] = field(default_factory=Future)


class Database:
    """One database as one process uses it."""

    def __init__(self, location: Location, clock: Clock, boot: str) -> None:
        self.location = location
        self.clock = clock
        self.boot = boot
        self._connections = Connections(location, clock, boot)
        self._turns = None if location.in_memory else Turns(location.path)
        self._memory_bells: dict[Topic, weakref.WeakSet[MemoryBell]] = {
            topic: weakref.WeakSet() for topic in Topic
        }
        self._closed = False
        self._watched: Renewals = {}
        self._set_up_threading()
        _opened.add(self)

    def _set_up_threading(self) -> None:
        self._thread: threading.Thread | None = None
        self._wanted = threading.Condition()
        self._urgent: deque[_Request] = deque()
        self._ordinary: deque[_Request] = deque()
        # Held while the writing connection is in use; a fork waits for it.
        self._writing = threading.Lock()
        self._reading = threading.Lock()

    # -- what the store calls

    def write(self, verb: Callable[[Transaction], T], *, rows: int = 1, urgent: bool = False) -> T:
        """Do a verb in a transaction and return when it is durable."""
        request = _Request(verb, rows)
        with self._wanted:
            if self._closed:
                raise StoreUnavailable(f"{self.location.path} was closed by this program.")
            (self._urgent if urgent else self._ordinary).append(request)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="limpet-sqlite", daemon=True
                )
                self._thread.start()
            self._wanted.notify()
        try:
            result: T = request.future.result(PATIENCE_SECONDS)
        except TimeoutError:
            # Cancelling succeeds only while the verb has not begun: then nothing was written.
            if request.future.cancel():
                raise StoreBusy(
                    f"could not write to {self.location.path} for {PATIENCE_SECONDS:.0f} s, "
                    f"because another process has the turn; nothing was written. Look for a "
                    f"stopped process that has the file open."
                ) from None
            result = request.future.result()
        return result

    def read(self, verb: Callable[[Transaction], T]) -> T:
        """Do a reading verb on one consistent moment of the database."""
        if self.location.in_memory:
            return self.write(verb)
        with self._reading:
            try:
                connection = self._connections.reader()
                connection.execute("BEGIN")
                try:
                    return verb(self._transaction(connection))
                finally:
                    connection.execute("ROLLBACK")
            except apsw.Error as error:
                raise self._connections.explain(error) from error

    def migrate(self) -> list[str]:
        """Bring the schema up to date, with the turn in hand and nobody reading."""
        if self.location.in_memory:
            with self._writing:
                return self._connections.migrate()
        # Its own turn: the writing thread's files hold the lock for every thread that uses them.
        turns = Turns(self.location.path)
        with contextlib.closing(turns), turns.take(urgent=False), self._writing, self._reading:
            return self._connections.migrate()

    def memory_bell(self, topic: Topic) -> MemoryBell:
        """A bell for a database in memory."""
        bell = MemoryBell()
        self._memory_bells[topic].add(bell)
        return bell

    def ring(self, topics: set[Topic]) -> None:
        """Wake who listens for what has just become durable."""
        for topic in topics:
            if self.location.in_memory:
                for bell in list(self._memory_bells[topic]):
                    bell.ring()
            else:
                ring(self.location.path, topic)

    def close(self) -> None:
        """Finish what was asked for, then close; the last one out tidies up the WAL file."""
        with self._wanted:
            self._closed = True
            thread = self._thread
            self._wanted.notify()
        if thread is not None:
            # It finishes, unless a stopped process has the turn; then whoever waits is told so.
            thread.join(PATIENCE_SECONDS)
        with self._writing, self._reading:
            self._connections.close()
            if self._turns is not None:
                self._turns.close()
        _opened.discard(self)

    # -- the writing thread

    def _serve(self) -> None:
        while True:
            with self._wanted:
                while not self._urgent and not self._ordinary:
                    if self._closed:
                        return
                    self._wanted.wait()
                urgent = bool(self._urgent)
            try:
                with self._turn(urgent), self._writing:
                    self._group()
            except ForeignSessions as found:
                self._watch(found.renewals)
            except BaseException as error:
                # Nothing was begun: the turn or the connection could not be had.
                self._refuse(error)

    def _watch(self, found: Renewals) -> None:
        def read() -> Renewals:
            with self._writing:
                return self._connections.foreign()

        try:
            watch(self.location.path, found, read)
        except BaseException as error:
            self._refuse(error)
        else:
            self._watched = found

    @contextlib.contextmanager
    def _turn(self, urgent: bool) -> Iterator[None]:
        if self._turns is None:
            yield
        else:
            with self._turns.take(urgent=urgent):
                yield

    def _take(self) -> list[_Request]:
        taken: list[_Request] = []
        rows = 0
        with self._wanted:
            for line in (self._urgent, self._ordinary):
                while line and len(taken) < _MOST_VERBS_AT_ONCE and rows < CHUNK:
                    request = line.popleft()
                    if request.future.set_running_or_notify_cancel():
                        taken.append(request)
                        rows += request.rows
        return taken

    def _refuse(self, error: BaseException) -> None:
        told = self._connections.explain(error) if isinstance(error, apsw.Error) else error
        for request in self._take():
            request.future.set_exception(told)

    def _group(self) -> None:
        connection = self._connections.writer()
        self._connections.settle_foreign(self._watched)
        self._begin(connection)
        requests = self._take()
        answers: list[tuple[_Request, Any, BaseException | None]] = []
        bells: set[Topic] = set()
        try:
            for request in requests:
                transaction = self._transaction(connection)
                try:
                    answer = self._verb(connection, transaction, request)
                    answers.append((request, answer, None))
                    bells |= transaction.bells
                except LimpetError as error:
                    answers.append((request, None, error))
            connection.execute("COMMIT")
        except BaseException as error:
            told = self._connections.explain(error) if isinstance(error, apsw.Error) else error
            self._connections.undo(connection)
            for request in requests:
                request.future.set_exception(told)
            return
        self.ring(bells)
        for request, answer, refused in answers:
            if refused is None:
                request.future.set_result(answer)
            else:
                request.future.set_exception(refused)
        checkpoint(connection, self._connections)

    def _verb(
        self, connection: apsw.Connection, transaction: Transaction, request: _Request
    ) -> Any:
        connection.execute("SAVEPOINT verb")
        try:
            answer = request.verb(transaction)
            transaction.flush()
        except LimpetError:
            # A verb checks before it writes; undoing makes sure that a refusal leaves no trace.
            connection.execute("ROLLBACK TO verb")
            connection.execute("RELEASE verb")
            raise
        connection.execute("RELEASE verb")
        return answer

    def _begin(self, connection: apsw.Connection) -> None:
        # Whoever has the turn meets only writers that take no turns: another program, or a user's
        # own transaction with `within=`. SQLite's own waiting is unfair; a short dice is not.
        give_up = time.monotonic() + _BEGIN_SECONDS
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except apsw.BusyError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(random.uniform(0.0005, 0.003))

    def _transaction(self, connection: apsw.Connection) -> Transaction:
        return Transaction(connection, self.clock, self.boot, self.location.namespace)

    # -- fork

    def before_fork(self) -> None:
        """Close the connections: SQLite's record of its locks must not reach a child.

        A child that inherits it believes that it holds locks which only the parent has; another
        process can then take away the WAL file under the child's feet, with what it commits.
        """
        self._writing.acquire()
        self._reading.acquire()
        if not self.location.in_memory:  # which a child copies like every variable
            self._connections.close(tidy=False)

    def after_fork_in_parent(self) -> None:
        self._reading.release()
        self._writing.release()

    def after_fork_in_child(self) -> None:
        """Start anew: the threads, and what waited in them, are the parent's."""
        if self._turns is not None:
            self._turns.close()
        self._set_up_threading()


_opened: "weakref.WeakSet[Database]" = weakref.WeakSet()
_forking: list[Database] = []


def _before_fork() -> None:
    _forking[:] = list(_opened)
    for database in _forking:
        database.before_fork()


def _after_fork_in_parent() -> None:
    for database in _forking:
        database.after_fork_in_parent()
    _forking.clear()


def _after_fork_in_child() -> None:
    for database in _forking:
        database.after_fork_in_child()
    _forking.clear()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
