"""A permit for a caller outside of any worker: `with app.permit(cpu=1.0) as permit:`."""

import asyncio
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType

from limpet.domain.clock import Clock, SystemClock
from limpet.domain.duration import Duration, duration
from limpet.domain.errors import InvalidOption, PermitLost
from limpet.domain.queue import checked_name
from limpet.domain.session import DEFAULT_LEASE
from limpet.domain.weight import Weight
from limpet.gate.permits.holding import PermitSession
from limpet.gate.permits.stop import Stop
from limpet.gate.permits.uninterrupted import Uninterrupted
from limpet.gate.permits.waiting import RoomWaiter
from limpet.gate.this_host import ThisHost
from limpet.host.locks import HeldLocks
from limpet.storage.contract.store import Store

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._:-]+")


class Permit:
    """A reservation of some of this host's room, for as long as a `with` lasts.

    Entering waits for the room, and leaving gives it back, whatever is raised; a process that dies
    loses it too. While the permit is held, a thread renews its lease. Where that fails, `held`
    turns false before the room can be given to another: stop the work that uses it then. `check`
    raises `PermitLost`, `on_lost` is called from another thread, and leaving the `with` raises
    `PermitLost` if nothing else was raised. A permit can be entered again after it was left.
    """

    def __init__(
        self,
        store: Store,
        here: Callable[[], ThisHost],
        weight: Weight,
        *,
        name: str | None = None,
        timeout: Duration | None = None,
        on_lost: Callable[[], None] | None = None,
        on_wait: Callable[[str], None] = lambda reason: None,
        on_renewed: Callable[[int], None] = lambda lease_ends_at: None,
        lease: timedelta = DEFAULT_LEASE,
        clock: Clock | None = None,
        stop: Stop | None = None,
    ) -> None:
        """`on_wait`: called with the reason for the wait when that changes. `on_renewed`: called
        with the time until which the permit is certainly held, in microseconds of boot time. Both
        are called from another thread. `stop`: set it to end the waiting; for a permit that is
        entered once.
        """
        self._store = store
        self._here = here
        self._weight = weight
        self._name = _own_name() if name is None else checked_name(name, "permit")
        self._timeout = None if timeout is None else duration(timeout, what="timeout")
        self._on_lost = on_lost
        self._on_wait = on_wait
        self._on_renewed = on_renewed
        self._lease = lease
        self._clock = clock or SystemClock()
        self._stop = stop
        self._lock = threading.Lock()
        self._entered = False
        self._holding: PermitSession | None = None

    def __repr__(self) -> str:
        return f"<Permit {self._name} {'held' if self.held else 'not held'}>"

    @property
    def held(self) -> bool:
        """Whether the room is certainly still ours."""
        holding = self._holding
        return holding is not None and holding.held

    def check(self) -> None:
        """Raise `PermitLost` unless the permit is held."""
        holding = self._holding
        if holding is None:
            raise PermitLost(f"permit {self._name} is not held; call this inside of its `with`.")
        if not holding.held:
            raise self._lost(holding)

    @property
    def session(self) -> str | None:
        """The session of the permit in the store, while it is held."""
        return None if self._holding is None else self._holding.session

    @property
    def locks(self) -> HeldLocks | None:
        """The session's locks on this host, for processes that share the permit."""
        return None if self._holding is None else self._holding.locks

    # -- with

    def __enter__(self) -> "Permit":
        entering = self._entering()
        try:
            entering.do()
        except BaseException:
            if entering.answer is not None:  # the permit was taken just before the interrupt
                self._leaving().do(interrupted=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            lost = self._leaving().do(interrupted=_is_interrupt(error))
        except BaseException:
            if self._holding is not None:  # the interrupt struck before anything was done
                self._leaving().do(interrupted=True)
            raise
        if lost is not None and error is None:
            raise lost

    # -- async with

    async def __aenter__(self) -> "Permit":
        entering = self._entering()
        try:
            await entering.ado()
        except asyncio.CancelledError:
            if entering.answer is not None:  # the permit was taken just before the cancellation
                await self._leaving().ado(interrupted=True)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lost = await self._leaving().ado(interrupted=_is_interrupt(error))
        if lost is not None and error is None:
            raise lost

    # -- for both kinds of with

    def _entering(self) -> Uninterrupted[PermitSession]:
        stop = self._stop or Stop()
        return Uninterrupted(lambda: self._enter(stop), stop)

    def _leaving(self) -> Uninterrupted[PermitLost | None]:
        return Uninterrupted(self._leave)

    def _enter(self, stop: Stop) -> PermitSession:
        with self._lock:
            if self._entered:
                raise InvalidOption(
                    "this permit is in use already; make one with app.permit(…) for each `with`."
                )
            self._entered = True
        made: list[PermitSession] = []

        def begin() -> PermitSession:
            holding = PermitSession(
                self._store, self._name, self._lease, self._clock, self._on_renewed
            )
            made[:] = [holding]  # the session before it has been ended
            holding.begin()
            return holding

        try:
            waiter = RoomWaiter(
                self._store, self._here(), self._weight, self._clock, self._on_wait, begin
            )
            holding = waiter.wait(self._timeout, stop)
            if self._on_lost is not None:
                holding.watch_loss(self._on_lost)
        except BaseException:
            for session in made:
                session.end()
            self._entered = False
            raise
        # An interrupt may strike after the body of the `with` has ended and before leaving begins.
        # Then nothing leaves, so the permit is given back when this object is collected.
        self._abandoned = weakref.finalize(self, holding.abandon)
        self._abandoned.atexit = False
        self._holding = holding
        return holding

    def _leave(self) -> PermitLost | None:
        """Give the permit back; returns the error to raise if it was lost before."""
        with self._lock:
            holding, self._holding = self._holding, None
        if holding is None:
            return None
        self._abandoned.detach()
        lost = self._lost(holding) if holding.is_own and not holding.held else None
        try:
            holding.end()
        finally:
            self._entered = False
        return lost

    def _lost(self, holding: PermitSession) -> PermitLost:
        return PermitLost(
            f"permit {self._name} is not held any more: {holding.reason.rstrip('.')}. Others may "
            f"use its room by now."
        )


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether the error must not be held up: Ctrl-C, a cancellation."""
    return error is not None and not isinstance(error, Exception)


def _own_name() -> str:
    return as_name(os.path.basename(sys.argv[0] if sys.argv else ""))


def as_name(text: str) -> str:
    """Turn a text, such as a program's path, into the name of a permit."""
    return _NOT_IN_A_NAME.sub("-", text).lstrip("._:-")[:100] or "permit"
