"""The session behind a permit: registered, locked on its host, renewed by a thread, ended."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from datetime import timedelta

from limpet import log
from limpet.domain.cause import Requested
from limpet.domain.clock import Clock
from limpet.domain.duration import microseconds
from limpet.domain.errors import (
    LimpetError,
    SessionLost,
    StoreBusy,
    StoreFull,
    StoreRefused,
    StoreRolledBack,
    StoreUnreachable,
)
from limpet.domain.fork import anew_in_child
from limpet.domain.ids import IdSource
from limpet.domain.session import NewSession, SessionKind, SessionLock, Standing
from limpet.host import locks
from limpet.storage.contract.store import Store

_RENEWALS_PER_LEASE = 5
_LEAST_MARGIN = timedelta(seconds=1)
# How soon a lease that ran out is noticed, also after the machine has slept.
_LOOK_SECONDS = 0.2


class PermitSession:
    """One session of the kind `permit`; once it is lost or ended it stays so.

    It is lost at its moment, by the clock that goes on while the machine sleeps: read before the
    renewal was sent, plus the lease, minus a margin. So whoever looks knows it before the store can
    give its room to another, whether or not the store answers.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        lease: timedelta,
        clock: Clock,
        renewed: Callable[[int], None] = lambda moment: None,
    ) -> None:
        """`renewed`: hears each new moment, in microseconds of boot time."""
        self.session = IdSource(clock).new()
        self.locks: locks.HeldLocks | None = None
        self._store = store
        self._name = name
        self._lease = lease
        self._clock = clock
        self._tell_renewed = renewed
        self._moment = 0
        self._reason = ""
        self._pid = os.getpid()
        self._registered = False
        self._abandoned = False
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: the session is the parent's, whose lock must not outlive it here."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = []
        if self.locks is not None:
            with contextlib.suppress(OSError):
                self.locks.let_go()
            self.locks = None

    # -- what holds

    @property
    def is_own(self) -> bool:
        """Whether this process began it, not one that was forked into this one."""
        return self._pid == os.getpid()

    @property
    def held(self) -> bool:
        """Whether the lease certainly holds at this moment."""
        return self.is_own and not self._over.is_set() and self._clock.boot() < self._moment

    @property
    def reason(self) -> str:
        """Why it is not held."""
        if not self.is_own:
            return f"it belongs to process {self._pid}, from which this one was forked"
        return self._reason or "its lease could not be renewed in time"

    # -- its life

    def begin(self) -> None:
        """Register, and renew from now on; where that fails, nothing of it is left here."""
        try:
            self._begin()
        except (StoreUnreachable, StoreBusy, StoreFull):
            # Perhaps it is registered all the same. It holds no room, and ends with its lease; to
            # ask the store for that, too, would only make whoever waits wait twice as long.
            self._registered = False
            self.end()
            raise
        except BaseException:
            self.end()
            raise

    def _begin(self) -> None:
        try:
            held = self.locks = locks.take(self.session)
        except OSError as error:
            raise StoreRefused(
                f"the lock by which this host would know that a permit's holder is dead cannot be "
                f"made: {error.strerror or error}. Make room there, or rights: {error.filename}."
            ) from error
        lock = SessionLock(held.path, held.inode, held.nonce)
        asked = self._clock.boot()
        self._registered = True  # perhaps, if the answer is lost
        self._store.register(
            NewSession(
                self.session,
                SessionKind.PERMIT,
                self._name,
                socket.gethostname(),
                os.getpid(),
                lease=self._lease,
                lock=lock,
            )
        )
        self._holds_from(asked)
        self._start(self._renew_forever)

    def tell_loss(self, lost: Callable[[], None]) -> None:
        """Call this once, as soon as it is lost.

        From a thread of its own, because the one that renews may hang in a store that does not
        answer.
        """
        self._start(lambda: self._watch(lost))

    def end(self) -> None:
        """Give everything back; a repeat does nothing. Never raises for a store that is away."""
        with self._lock:
            held, self.locks = self.locks, None
            registered, self._registered = self._registered, False
            self._over.set()
        if not self.is_own:
            return
        told = not registered
        try:
            if registered:
                self._store.end(self.session, Requested("its permit was given back"))
                told = True
        except LimpetError as error:
            log.emit("permit_unsaid", name=self._name, error=error, session=self.session)
        finally:
            # Free locks whose session is not ended are the proof by which a neighbour ends it.
            if held is not None:
                held.let_go()
                if told:
                    held.remove()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_LOOK_SECONDS)

    def abandon(self) -> None:
        """Have it ended soon, by the thread that renews it; does nothing that could block."""
        self._abandoned = True

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="limpet-permit", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _holds_from(self, asked: int) -> None:
        margin = max(_LEAST_MARGIN, self._lease / 10)
        self._moment = asked + microseconds(self._lease - margin)
        self._tell_renewed(self._moment)

    def _renew_forever(self) -> None:
        pause = self._lease.total_seconds() / _RENEWALS_PER_LEASE
        while not self._over.wait(pause):
            if self._abandoned:
                self.end()
            else:
                pause = self._renew()

    def _renew(self) -> float:
        """Renew once; the answer is for how many seconds to wait before the next time."""
        asked = self._clock.boot()
        lease = self._lease.total_seconds()
        try:
            answer = self._store.renew(self.session)
            if answer.standing is Standing.PAST and self.held:
                # By our own clock the lease has not run out: that of the store was set.
                answer = self._store.renew(self.session, stepped=True)
        except (SessionLost, StoreRolledBack) as error:
            self._lose(str(error))
        except LimpetError as error:
            if not self.held:
                self._lose(f"its lease could not be renewed in time: {error}")
            return lease / _RENEWALS_PER_LEASE / 10
        else:
            if answer.standing is not Standing.LIVE:
                self._lose(f"the store says that its session is {answer.standing}")
            elif not self.held:
                self._lose("the store answered after its lease had run out")
            else:
                self._holds_from(asked)
        return lease / _RENEWALS_PER_LEASE

    def _watch(self, lost: Callable[[], None]) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            if not self.held:
                self._lose("its lease could not be renewed in time")
        if self._reason:
            lost()

    def _lose(self, reason: str) -> None:
        with self._lock:
            if not self._over.is_set():
                self._reason = reason
                self._over.set()
