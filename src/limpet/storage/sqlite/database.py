"""The connections to one database, and the thread that writes.

All writing of a process goes through one connection, and a thread that nobody else can hold up.
What waits when it gets its turn is done in one transaction and made durable by one sync (group
commit): renewals first, then the rest in order. Each verb is a savepoint, so that one that is
refused takes nobody along. Renewals have a thread of their own, because the other may stand in line
when one comes. Where nobody writes or waits, a caller writes in its own thread. Reading has its own
connection and waits for no writer.
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
from limpet.storage.contract.refusals import no_text, nobody_writes
from limpet.storage.contract.store import CHUNK, Topic
from limpet.storage.pipe_bell import PipeBell
from limpet.storage.sqlite import forks
from limpet.storage.sqlite.bell import ring
from limpet.storage.sqlite.boot import ForeignSessions, Renewals, watch
from limpet.storage.sqlite.connection import Connections, begin, checkpoint
from limpet.storage.sqlite.location import Location
from limpet.storage.sqlite.transaction import Transaction
from limpet.storage.sqlite.turns import Turns

T = TypeVar("T")

# How long a caller waits for its write before it is withdrawn.
PATIENCE_SECONDS = 30.0
_MOST_VERBS_AT_ONCE = 256


@dataclass(slots=True)
class _Request:
    verb: Callable[[Transaction], Any]
    rows: int
    synced: bool = True
    future: Future[Any] = field(default_factory=Future)


@dataclass(slots=True)
class _Done:
    """What one transaction did: the answer or the error of each request, and bells to ring."""

    answers: list[tuple[_Request, Any, BaseException | None]] = field(default_factory=list)
    bells: set[Topic] = field(default_factory=set)


class Database:
    """One database as one process uses it."""

    def __init__(self, location: Location, clock: Clock, boot: str) -> None:
        self.location = location
        self.clock = clock
        self.boot = boot
        self._connections = Connections(location, clock, boot)
        # One for each thread: a file lock is the descriptor's, whoever uses it.
        self._turns = {urgent: Turns(location.path) for urgent in (False, True)}
        self._turns_here = Turns(location.path)  # for whoever has the writing connection
        self._memory_bells = {topic: weakref.WeakSet[PipeBell]() for topic in Topic}
        self._closed = False
        self._watched: Renewals = {}
        self._set_up_threading()
        forks.add(self)

    def _set_up_threading(self) -> None:
        self._threads: dict[bool, threading.Thread] = {}
        # One lock for both lines, and a condition for each: neither thread wakes for the other's.
        # A signal's handler may write while the main thread, which it interrupts, has the lock.
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
        """Do a verb in a transaction and return when it is durable; if not `synced`, a moment
        before that, where nobody else waits.
        """
        request = _Request(verb, rows, synced or self.location.synchronous != "full")
        if not self._done_here(request, urgent):
            self._hand_over(request, urgent)
        try:
            result: T = request.future.result(PATIENCE_SECONDS)
        except UnicodeEncodeError as error:
            raise no_text(error) from error
        except TimeoutError:
            # Cancelling succeeds only while the verb has not begun: then nothing was written.
            if request.future.cancel():
                raise nobody_writes(self.location.path, PATIENCE_SECONDS) from None
            result = request.future.result()
        return result

    def _hand_over(self, request: _Request, urgent: bool) -> None:
        """Let the writing thread do it."""
        with self._waiting:
            self._must_be_open()
            if urgent not in self._threads:
                # Known before it runs: a signal handler that writes meanwhile needs no second.
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
        """Do it in the caller's own thread, which saves waking two, if nobody writes or waits.

        Never in the main thread: there a signal's handler may raise in the middle of a
        transaction, or write by itself and wait for its own thread.
        """
        if threading.current_thread() is threading.main_thread() or any(self._lines.values()):
            return False
        if not self._writing.acquire(blocking=False):
            return False
        done = _Done()
        try:
            if self._closed:
                return False
            with self._turn_if_free(urgent) as free:
                if not free:
                    return False
                with self._synced(request):
                    self._group(lambda: [request], done)
        except ForeignSessions:
            return False  # whoever watches them waits for a lease
        except BaseException as error:
            if not done.answers:
                done.answers.append((request, None, self._told(error)))
        finally:
            self._writing.release()
        self._tell(done)
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
        """Bring the schema up to date, with the turn in hand and nobody reading."""
        self._must_be_open()
        if self.location.in_memory:
            with self._writing:
                return self._connections.migrate()
        # Its own turn: the writing thread's files hold the lock for every thread that uses them.
        turns = Turns(self.location.path)
        with contextlib.closing(turns), turns.take(urgent=False), self._writing, self._reading:
            return self._connections.migrate()

    def look_for_foreign_again(self) -> None:
        """Before the next write, look whether another boot has begun to use the file."""
        self._connections.look_for_foreign_again()

    def memory_bell(self, topic: Topic) -> PipeBell:
        """A bell for a database in memory."""
        self._memory_bells[topic].add(bell := PipeBell())
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
        with self._waiting:
            self._closed = True
            threads = list(self._threads.values())
            for wanted in self._wanted.values():
                wanted.notify_all()
        for thread in threads:
            # It finishes, unless a stopped process has the turn; then whoever waits is told so.
            thread.join(PATIENCE_SECONDS)
        with self._writing, self._reading:
            self._connections.close()
            self._close_turns()
        forks.discard(self)

    def _close_turns(self) -> None:
        for turns in (*self._turns.values(), self._turns_here):
            turns.close()

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
                with self._turn(urgent), self._writing:
                    self._group(lambda: self._take(urgent), done)
            except ForeignSessions as found:
                self._watch(found.renewals, urgent)
            except BaseException as error:
                if not done.answers:
                    # Nothing was begun: the turn or the connection could not be had.
                    self._refuse(error, urgent)
            self._tell(done)
            if urgent:
                self._leave_checkpoint()
            else:
                self._checkpoint()

    def _tell(self, done: "_Done") -> None:
        """Wake whoever waits for what was done; the turn is free by now for those who wake."""
        for request, answer, error in done.answers:
            if error is None:
                request.future.set_result(answer)
            else:
                request.future.set_exception(error)
        # It is done and said; a bell that cannot be rung refuses nobody.
        with contextlib.suppress(Exception):
            self.ring(done.bells)

    def _checkpoint(self) -> None:
        """Keep the log short, in a turn of its own, because it takes as long as many verbs."""
        if self._connections.checkpoint_is_due():
            # What was committed is safe in the log; whatever is wrong, the next verb says so.
            with contextlib.suppress(Exception), self._turn(urgent=False), self._writing:
                checkpoint(self._connections.writer(), self._connections)

    def _leave_checkpoint(self) -> None:
        """Let the ordinary thread see to the log; neither a caller nor a renewal waits for it."""
        if self._connections.checkpoint_is_due():
            with contextlib.suppress(StoreUnavailable, RuntimeError):  # or no thread to be had
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

    def _turn(self, urgent: bool) -> AbstractContextManager[None]:
        here = self.location.in_memory
        return contextlib.nullcontext() if here else self._turns[urgent].take(urgent=urgent)

    def _turn_if_free(self, urgent: bool) -> AbstractContextManager[bool]:
        if self.location.in_memory:
            return contextlib.nullcontext(True)
        return self._turns_here.take_if_free(urgent=urgent)

    def _take(self, urgent: bool) -> list[_Request]:
        """What is to be done now: renewals first, and in an urgent turn nothing else."""
        taken: list[_Request] = []
        rows = 0
        with self._waiting:
            for line in (self._lines[each] for each in ((True,) if urgent else (True, False))):
                while line and len(taken) < _MOST_VERBS_AT_ONCE and rows < CHUNK:
                    request = line.popleft()
                    if request.future.set_running_or_notify_cancel():
                        taken.append(request)
                        rows += request.rows
        return taken

    def _refuse(self, error: BaseException, urgent: bool) -> None:
        for request in self._take(urgent):
            request.future.set_exception(self._told(error))

    def _told(self, error: BaseException) -> BaseException:
        """An error as one of ours; each caller gets its own, because callers add to it."""
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
                        # Nobody else to protect: its undoing is that of the transaction.
                        answer = request.verb(transaction)
                        transaction.flush()
                    else:
                        answer = self._verb(connection, transaction, request)
                    done.answers.append((request, answer, None))
                    done.bells |= transaction.bells
                except Exception as error:
                    if len(requests) == 1 or not connection.in_transaction:
                        raise  # SQLite has undone it all, as it does on a full disk
                    done.answers.append((request, None, self._told(error)))
            connection.execute("COMMIT")
        except BaseException as error:
            self._connections.undo(connection)
            done.bells.clear()
            done.answers[:] = [(request, None, self._told(error)) for request in requests]

    def _verb(
        self, connection: apsw.Connection, transaction: Transaction, request: _Request
    ) -> Any:
        connection.execute("SAVEPOINT verb")
        try:
            answer = request.verb(transaction)
            transaction.flush()
        except Exception:
            # A verb checks before it writes; undoing makes sure that a refusal leaves no trace.
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
        self._close_turns()
        self._set_up_threading()
