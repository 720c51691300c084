"""One database as one process uses it: its connections, and the threads that write.

All writes of a process go through one connection and a thread that no caller can hold up. When the
thread gets the writer lock, it does all waiting verbs in one transaction and makes them durable by
one sync (group commit): renewals first, then the rest in order. Each verb is a savepoint, so that a
refused verb undoes no other. Renewals have a thread of their own, as the other may be waiting for
the writer lock. If nobody writes or waits, a caller writes in its own thread. Reads have their own
connection, and wait for no writer.
"""

import contextlib
import copy
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import apsw

from limpet.domain.clock import Clock
from limpet.domain.errors import LimpetError, StoreUnavailable
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.refusals import no_text, nobody_writes
from limpet.storage.contract.store import CHUNK
from limpet.storage.pipe_bell import PipeBell
from limpet.storage.sqlite import forks
from limpet.storage.sqlite.bell import ring
from limpet.storage.sqlite.boot import ForeignSessions, Renewals, watch
from limpet.storage.sqlite.connection import Connections, begin, checkpoint
from limpet.storage.sqlite.location import Location
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.sqlite.writer_lock import WriterLock

T = TypeVar("T")

# How long a caller waits for its write before it withdraws the write.
WRITE_TIMEOUT_SECONDS = 30.0
_MOST_VERBS_AT_ONCE = 256


@dataclass(slots=True)
class _Request:
    verb: Callable[[Transaction], Any]
    rows: int
    synced: bool = True
    future: Future[Any] = field(default_factory=Future)


@dataclass(slots=True)
class _Done:
    """The outcome of one transaction: the answer or error of each request, and bells to ring."""

    answers: list[tuple[_Request, Any, BaseException | None]] = field(default_factory=list)
    bells: set[Topic] = field(default_factory=set)


class Database:
    """One database as one process uses it."""

    def __init__(self, location: Location, clock: Clock, boot: str) -> None:
        self.location = location
        self.clock = clock
        self.boot = boot
        self._connections = Connections(location, clock, boot)
        # One writer lock for each thread: a file lock belongs to the descriptor, not to a thread.
        self._writer_locks = {urgent: WriterLock(location.path) for urgent in (False, True)}
        self._writer_lock_here = WriterLock(location.path)  # for whoever has the writing connection
        self._memory_bells = {topic: weakref.WeakSet[PipeBell]() for topic in Topic}
        self._closed = False
        self._watched: Renewals = {}
        self._set_up_threading()
        forks.add(self)

    def _set_up_threading(self) -> None:
        self._threads: dict[bool, threading.Thread] = {}
        # One lock for both lines, and a condition for each: neither thread wakes for the other's.
        # The lock is reentrant: a signal handler may write while its main thread has the lock.
        self._waiting = threading.RLock()
        self._wanted = {urgent: threading.Condition(self._waiting) for urgent in (False, True)}
        self._lines: dict[bool, deque[_Request]] = {False: deque(), True: deque()}
        # Held while the writing connection is in use; a fork waits for it.
        self._writing = threading.Lock()
        self._reading = threading.Lock()

    # -- what the store calls

    def write(
        self,
        verb: Callable[[Transaction], T],
        *,
        rows: int = 1,
        urgent: bool = False,
        synced: bool = True,
    ) -> T:
        """Do a verb in a transaction, and return when it is durable. If not `synced`, return a
        moment before that, provided that nobody else writes or waits.
        """
        request = _Request(verb, rows, synced or self.location.synchronous != "full")
        if not self._done_here(request, urgent):
            self._hand_over(request, urgent)
        try:
            result: T = request.future.result(WRITE_TIMEOUT_SECONDS)
        except UnicodeEncodeError as error:
            raise no_text(error) from error
        except TimeoutError:
            # Cancelling succeeds only while the verb has not begun: then nothing was written.
            if request.future.cancel():
                raise nobody_writes(self.location.path, WRITE_TIMEOUT_SECONDS) from None
            result = request.future.result()
        return result

    def _hand_over(self, request: _Request, urgent: bool) -> None:
        """Let the writing thread do the request."""
        with self._waiting:
            self._must_be_open()
            if urgent not in self._threads:
                # Stored before it starts: a signal handler that writes must not start a second one.
                self._threads[urgent] = threading.Thread(
                    None, self._serve, f"limpet-sqlite{'-urgent' * urgent}", (urgent,), daemon=True
                )
                try:
                    self._threads[urgent].start()
                except RuntimeError:
                    del self._threads[urgent]  # the next verb tries again
                    raise
            self._lines[urgent].append(request)
            self._wanted[urgent].notify()

    def _done_here(self, request: _Request, urgent: bool) -> bool:
        """Do the request in the caller's thread if nobody writes or waits; that saves two wake-ups.

        Never in the main thread, where a signal handler may raise in mid-transaction, or write.
        """
        if threading.current_thread() is threading.main_thread() or any(self._lines.values()):
            return False
        if not self._writing.acquire(blocking=False):
            return False
        done = _Done()
        try:
            if self._closed:
                return False
            with self._lock_if_free(urgent) as free:
                if not free:
                    return False
                with self._synced(request):
                    self._group(lambda: [request], done)
        except ForeignSessions:
            return False  # the writing thread watches them for one lease
        except BaseException as error:
            if not done.answers:
                done.answers.append((request, None, self._error_of_caller(error)))
        finally:
            self._writing.release()
        self._deliver(done)
        self._leave_checkpoint()
        return True

    def _synced(self, request: _Request) -> AbstractContextManager[None]:
        at_once = request.synced or self.location.in_memory
        return contextlib.nullcontext() if at_once else self._connections.synced_later()

    def _must_be_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{self.location.path} was closed by this program.")

    def read(self, verb: Callable[[Transaction], T]) -> T:
        """Do a reading verb on one consistent moment of the database."""
        if self.location.in_memory:
            return self.write(verb)
        with self._reading:
            self._must_be_open()
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
        """Bring the schema up to date, while holding the writer lock and with nobody reading."""
        self._must_be_open()
        if self.location.in_memory:
            with self._writing:
                return self._connections.migrate()
        # A lock of its own: the writing thread's files hold it for every thread that uses them.
        lock = WriterLock(self.location.path)
        with contextlib.closing(lock), lock.take(urgent=False), self._writing, self._reading:
            return self._connections.migrate()

    def look_for_foreign_again(self) -> None:
        """Let the next write look whether another boot has begun to use the file."""
        self._connections.look_for_foreign_again()

    def memory_bell(self, topic: Topic) -> PipeBell:
        """A bell for a database in memory."""
        self._memory_bells[topic].add(bell := PipeBell())
        return bell

    def ring(self, topics: set[Topic]) -> None:
        """Wake those who listen for changes that have just become durable."""
        for topic in topics:
            if self.location.in_memory:
                for bell in list(self._memory_bells[topic]):
                    bell.ring()
            else:
                ring(self.location.path, topic)

    def close(self) -> None:
        """Finish the waiting requests, then close; the last process to close removes the WAL."""
        with self._waiting:
            self._closed = True
            threads = list(self._threads.values())
            for wanted in self._wanted.values():
                wanted.notify_all()
        for thread in threads:
            # The thread finishes, unless a stopped process holds the writer lock; then the waiting
            # callers get `StoreBusy`.
            thread.join(WRITE_TIMEOUT_SECONDS)
        with self._writing, self._reading:
            self._connections.close()
            self._close_locks()
        forks.discard(self)

    def _close_locks(self) -> None:
        for lock in (*self._writer_locks.values(), self._writer_lock_here):
            lock.close()

    # -- the writing threads

    def _serve(self, urgent: bool) -> None:
        line, wanted = self._lines[urgent], self._wanted[urgent]
        while True:
            with wanted:
                while not line:
                    if self._closed:
                        return
                    wanted.wait()
            done = _Done()
            try:
                with self._lock(urgent), self._writing:
                    self._group(lambda: self._take(urgent), done)
            except ForeignSessions as found:
                self._watch(found.renewals, urgent)
            except BaseException as error:
                if not done.answers:
                    # Nothing was begun: the writer lock or the connection could not be had.
                    self._refuse(error, urgent)
            self._deliver(done)
            if urgent:
                self._leave_checkpoint()
            else:
                self._checkpoint()

    def _deliver(self, done: "_Done") -> None:
        """Give the waiting callers their answers; by now the writer lock is free for them."""
        for request, answer, error in done.answers:
            if error is None:
                request.future.set_result(answer)
            else:
                request.future.set_exception(error)
        # The callers have their answers; a bell that cannot be rung must fail none of them.
        with contextlib.suppress(Exception):
            self.ring(done.bells)

    def _checkpoint(self) -> None:
        """Keep the log short, under the writer lock anew: it takes as long as many verbs."""
        if self._connections.checkpoint_is_due():
            # Commits are safe in the log; if something is wrong, the next verb reports it.
            with contextlib.suppress(Exception), self._lock(urgent=False), self._writing:
                checkpoint(self._connections.writer(), self._connections)

    def _leave_checkpoint(self) -> None:
        """Let the ordinary thread check the log; neither a caller nor a renewal waits for it."""
        if self._connections.checkpoint_is_due():
            with contextlib.suppress(StoreUnavailable, RuntimeError):  # closed; no new thread
                self._hand_over(_Request(lambda _: None, 0), urgent=False)

    def _watch(self, found: Renewals, urgent: bool) -> None:
        def read() -> Renewals:
            with self._writing:
                return self._connections.foreign()

        try:
            watch(self.location.path, found, read)
        except BaseException as error:
            self._refuse(error, urgent)
        else:
            self._watched = found

    def _lock(self, urgent: bool) -> AbstractContextManager[None]:
        here = self.location.in_memory
        return contextlib.nullcontext() if here else self._writer_locks[urgent].take(urgent=urgent)

    def _lock_if_free(self, urgent: bool) -> AbstractContextManager[bool]:
        if self.location.in_memory:
            return contextlib.nullcontext(True)
        return self._writer_lock_here.take_if_free(urgent=urgent)

    def _take(self, urgent: bool) -> list[_Request]:
        """The requests to do now: renewals first; only renewals if `urgent`."""
        taken: list[_Request] = []
        rows = 0
        with self._waiting:
            for line in (
                self._lines[urgency] for urgency in ((True,) if urgent else (True, False))
            ):
                while line and len(taken) < _MOST_VERBS_AT_ONCE and rows < CHUNK:
                    request = line.popleft()
                    if request.future.set_running_or_notify_cancel():
                        taken.append(request)
                        rows += request.rows
        return taken

    def _refuse(self, error: BaseException, urgent: bool) -> None:
        for request in self._take(urgent):
            request.future.set_exception(self._error_of_caller(error))

    def _error_of_caller(self, error: BaseException) -> BaseException:
        """The error as one of ours, copied for each caller, because callers add to it."""
        if isinstance(error, apsw.Error):
            error = self._connections.explain(error)
        if not isinstance(error, LimpetError):
            return error
        own = copy.copy(error)
        own.__cause__ = error
        return own

    def _group(self, take: Callable[[], list[_Request]], done: "_Done") -> None:
        connection = self._connections.writer()
        self._connections.settle_foreign(self._watched)
        begin(connection)
        requests = take()
        try:
            for request in requests:
                transaction = self._transaction(connection)
                try:
                    if len(requests) == 1:
                        # No other verb to protect: if it fails, the transaction is rolled back.
                        answer = request.verb(transaction)
                        transaction.flush()
                    else:
                        answer = self._verb(connection, transaction, request)
                    done.answers.append((request, answer, None))
                    done.bells |= transaction.bells
                except Exception as error:
                    if len(requests) == 1 or not connection.in_transaction:
                        raise  # SQLite has undone everything, as it does on a full disk
                    done.answers.append((request, None, self._error_of_caller(error)))
            connection.execute("COMMIT")
        except BaseException as error:
            self._connections.undo(connection)
            done.bells.clear()
            own = self._error_of_caller
            done.answers[:] = [(request, None, own(error)) for request in requests]

    def _verb(self, connection: apsw.Connection, tx: Transaction, request: _Request) -> Any:
        connection.execute("SAVEPOINT verb")
        try:
            answer = request.verb(tx)
            tx.flush()
        except Exception:
            # A verb checks before it writes; the rollback ensures that a refusal leaves no trace.
            if connection.in_transaction:
                connection.execute("ROLLBACK TO verb")
                connection.execute("RELEASE verb")
            raise
        connection.execute("RELEASE verb")
        return answer

    def _transaction(self, connection: apsw.Connection) -> Transaction:
        return Transaction(connection, self.clock, self.boot, self.location.namespace)

    # -- fork

    def before_fork(self) -> None:
        """Close the connections: SQLite's record of its locks must not reach a child.

        The child would believe that it holds locks which only the parent has, and another process
        could remove the WAL file with the child's commits.
        """
        self._writing.acquire()
        self._reading.acquire()
        if not self.location.in_memory:  # a child gets a copy of memory like every variable
            self._connections.close(tidy=False)

    def after_fork_in_parent(self) -> None:
        self._reading.release()
        self._writing.release()

    def after_fork_in_child(self) -> None:
        """Start anew: the threads, and the requests that wait for them, are the parent's."""
        self._close_locks()
        self._set_up_threading()
