"""The session behind a permit: registers, locks on its host, renews in a thread, ends."""

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
# How often the lease is checked, also after the machine has slept.
_LOOK_SECONDS = 0.2


class PermitSession:
    """One session of the kind `permit`; once it is lost or ended it stays so.

    It counts as held up to a moment: when its last renewal was sent, plus the lease, minus a
    margin, by a clock that goes on while the machine sleeps. So its process knows of the loss
    before the store can give the room to another, whether or not the store answers.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        lease: timedelta,
        clock: Clock,
        on_renewed: Callable[[int], None] = lambda lease_ends_at: None,
    ) -> None:
        """`on_renewed`: called with each new end of the lease, in microseconds of boot time."""
        self.session = IdSource(clock).new()
        self.locks: locks.HeldLocks | None = None
        self._store = store
        self._name = name
        self._lease = lease
        self._clock = clock
        self._on_renewed = on_renewed
        self._lease_ends_at = 0
        self._reason = ""
        self._pid = os.getpid()
        self._registered = False
        self._abandoned = False
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        anew_in_child(self)

    def start_anew(self) -> None:
        """In a child: drop the session, which is the parent's; its lock must not live on here."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = []
        if self.locks is not None:
            with contextlib.suppress(OSError):
                self.locks.let_go()
            self.locks = None

    # -- whether it is held

    @property
    def is_own(self) -> bool:
        """Whether this process began the session, not its parent before a fork."""
        return self._pid == os.getpid()

    @property
    def held(self) -> bool:
        """Whether the lease certainly holds at this moment."""
        return self.is_own and not self._over.is_set() and self._clock.boot() < self._lease_ends_at

    @property
    def reason(self) -> str:
        """Why the session is not held."""
        if not self.is_own:
            return f"it belongs to process {self._pid}, from which this one was forked"
        return self._reason or "its lease could not be renewed in time"

    # -- from beginning to end

    def begin(self) -> None:
        """Register, and renew from now on; after a failure nothing of the session is left here."""
        try:
            self._begin()
        except (StoreUnreachable, StoreBusy, StoreFull):
            # The store may have registered it all the same. It holds no room and ends with its
            # lease; asking the store to end it too would only make the caller wait twice as long.
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
                f"the lock file that shows whether a permit's holder lives cannot be made: "
                f"{error.strerror or error}. Free some space, or grant the right to write: "
                f"{error.filename}."
            ) from error
        lock = SessionLock(held.path, held.inode, held.nonce)
        sent_at = self._clock.boot()
        self._registered = True  # even if the answer is lost, it may be
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
        self._extend(sent_at)
        self._start(self._renew_forever)

    def watch_loss(self, lost: Callable[[], None]) -> None:
        """Call `lost` once, as soon as the session is lost.

        It is called from a thread of its own, because the thread that renews may hang in a store
        that does not answer.
        """
        self._start(lambda: self._watch(lost))

    def end(self) -> None:
        """Give everything back; a repeat does nothing. No error of the store is raised."""
        with self._lock:
            held, self.locks = self.locks, None
            registered, self._registered = self._registered, False
            self._over.set()
        if not self.is_own:
            return
        ended = not registered
        try:
            if registered:
                self._store.end(self.session, Requested("its permit was given back"))
                ended = True
        except LimpetError as error:
            log.emit("permit_unsaid", name=self._name, error=error, session=self.session)
        finally:
            # If the session could not be ended, its free lock files stay: they are the proof of its
            # death, by which a neighbour ends it.
            if held is not None:
                held.let_go()
                if ended:
                    held.remove()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_LOOK_SECONDS)

    def abandon(self) -> None:
        """Let the thread that renews the session end it soon; never blocks."""
        self._abandoned = True

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="limpet-permit", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _extend(self, sent_at: int) -> None:
        """Move the end of the lease; `sent_at`: when the store's answer was requested."""
        margin = max(_LEAST_MARGIN, self._lease / 10)
        self._lease_ends_at = sent_at + microseconds(self._lease - margin)
        self._on_renewed(self._lease_ends_at)

    def _renew_forever(self) -> None:
        pause = self._lease.total_seconds() / _RENEWALS_PER_LEASE
        while not self._over.wait(pause):
            if self._abandoned:
                self.end()
            else:
                pause = self._renew()

    def _renew(self) -> float:
        """Renew once; returns how many seconds to wait before the next time."""
        sent_at = self._clock.boot()
        lease = self._lease.total_seconds()
        try:
            answer = self._store.renew(self.session)
            if answer.standing is Standing.PAST and self.held:
                # By our own clock the lease has not run out, so the store's clock was set.
                answer = self._store.renew(self.session, stepped=True)
        except (SessionLost, StoreRolledBack) as error:
            self._lose(str(error))
        except LimpetError as error:
            if not self.held:
                self._lose(f"its lease could not be renewed in time: {error}")
            return lease / _RENEWALS_PER_LEASE / 10
        else:
            if answer.standing is not Standing.LIVE:
                self._lose(f"its session is {answer.standing} in the store")
            elif not self.held:
                self._lose("the store answered after its lease had run out")
            else:
                self._extend(sent_at)
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
