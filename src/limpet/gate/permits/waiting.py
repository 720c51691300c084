"""Waits until a host has room: tries the store, sweeps dead neighbours, listens for the bell."""

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta

from limpet.domain.clock import Clock
from limpet.domain.errors import (
    GateTimeout,
    LimpetError,
    NeverFits,
    SessionLost,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreRolledBack,
    StoreUnreachable,
)
from limpet.domain.weight import Weight
from limpet.gate.gauge import Gauge, given_by, waits_for
from limpet.gate.permits.holding import PermitSession
from limpet.gate.permits.stop import Stop, Stopped
from limpet.gate.this_host import ThisHost
from limpet.host.proofs import forget, proof
from limpet.maintenance.sweeper import Sweeper
from limpet.storage.contract.bell import Bell, Topic
from limpet.storage.contract.store import Store

# Longest wait for a ring of the bell before the next try, and the shortest pause between two tries:
# a busy store rings for every job.
_TRY_SECONDS, _PAUSE_SECONDS = 0.5, 0.05
_SWEEP_SECONDS = 0.3
# How long the CPU is measured before the first answer where no monitor reports on the host.
_MEASURE_SECONDS = 0.5
# Errors that may be over after a while, so that waiting goes on.
_TEMPORARY = (StoreUnreachable, StoreBusy, StoreFull)


class RoomWaiter:
    """Waits for room on a host for one permit."""

    def __init__(
        self,
        store: Store,
        here: ThisHost,
        weight: Weight,
        clock: Clock,
        on_wait: Callable[[str], None],
        begin: Callable[[], PermitSession],
    ) -> None:
        """`on_wait`: called with the reason for the wait when that changes. `begin`: begins the
        session that will hold the permit.
        """
        self._store = store
        self._here = here
        self._weight = weight
        self._clock = clock
        self._on_wait = on_wait
        self._begin = begin
        self._last_reason = ""
        self._sweeper = Sweeper(store, None, proof, clock, forget=forget)
        self._swept = 0.0

    def wait(self, timeout: timedelta | None, stop: Stop) -> PermitSession:
        """Wait for room; returns the session that holds it.

        Raises `GateTimeout` with the reason when the time is up, `NeverFits`, or `Stopped`.
        """
        until = None if timeout is None else time.monotonic() + timeout.total_seconds()
        with contextlib.ExitStack() as stack:
            gauge = Gauge(self._store, self._here, self._clock, _MEASURE_SECONDS)
            stack.callback(gauge.close)
            # Listen before the first try, so that no room given back after it goes unnoticed.
            bell = self._bell(stack)
            holding = self._begin()
            while not stop.is_set():
                try:
                    if not holding.held:  # the store was away for longer than the lease
                        holding.end()
                        holding = self._begin()
                    reason = self._try(gauge, holding)
                # `StoreRefused`: a new session's lock cannot be made now, though the first one was.
                except (*_TEMPORARY, StoreRefused) as error:
                    reason = str(error)
                if reason is None and stop.is_set():
                    break
                if reason is None:
                    return holding
                self._report(reason)
                left = _TRY_SECONDS if until is None else until - time.monotonic()
                if left <= 0:
                    raise GateTimeout(reason)
                self._sweep()
                self._rest(bell, min(left, _TRY_SECONDS), stop)
        raise Stopped

    def _bell(self, stack: contextlib.ExitStack) -> Bell | None:
        try:
            return stack.enter_context(contextlib.closing(self._store.listen(Topic.READY)))
        except StoreError:
            return None

    def _try(self, gauge: Gauge, holding: PermitSession) -> str | None:
        """Try once to take the permit; None if it is held, else the reason why not."""
        try:
            assessment = gauge.look().assessment
            if self._store.take_permit(holding.session, self._weight, assessment.room):
                return None if holding.held else "the lease ran out while it waited"
            given = given_by(self._store, assessment.room.server)
            wall = self._clock.wall()
            waiting = waits_for(assessment, given, self._weight, wall, holding.session)
        except (SessionLost, StoreRolledBack) as error:
            holding.end()
            return str(error)
        except _TEMPORARY as error:
            return str(error)
        if waiting is None:
            return self._last_reason or f"waiting: {self._here.server} was full a moment ago"
        if waiting.never:
            raise NeverFits(waiting.reason.removeprefix("waiting: "))
        return waiting.reason

    def _report(self, reason: str) -> None:
        if reason != self._last_reason:
            self._last_reason = reason
            self._on_wait(reason)

    def _sweep(self) -> None:
        """End the sessions of dead neighbours, as no worker may run here that would."""
        if time.monotonic() - self._swept < _SWEEP_SECONDS:
            return
        with contextlib.suppress(LimpetError):  # leases run out even if no death can be proved
            self._sweeper.prove()
        try:
            self._sweeper.expire()
        except LimpetError:
            self._sweeper.lost_sight()
        self._swept = time.monotonic()

    @staticmethod
    def _rest(bell: Bell | None, seconds: float, stop: Stop) -> None:
        stop.wait(min(_PAUSE_SECONDS, seconds))
        if bell is not None:
            bell.wait(timedelta(seconds=max(0.0, seconds - _PAUSE_SECONDS)))
        else:
            stop.wait(max(0.0, seconds - _PAUSE_SECONDS))
