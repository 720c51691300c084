"""Waits until a host has room: asks the store, sweeps dead neighbours, listens for the bell."""

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
from limpet.storage.contract.store import Bell, Store, Topic

# The longest that is waited for a ring, and the shortest: a busy store rings for every job.
_ASK_SECONDS, _BREATH_SECONDS = 0.5, 0.05
_SWEEP_SECONDS = 0.3
# For so long the CPU is measured before the first answer where no monitor tells of the host.
_MEASURE_SECONDS = 0.5
# What may be over after a while, so that waiting goes on.
_FOR_A_WHILE = (StoreUnreachable, StoreBusy, StoreFull)


class RoomWaiter:
    """One who waits for room on a host."""

    def __init__(
        self,
        store: Store,
        here: ThisHost,
        weight: Weight,
        clock: Clock,
        tell: Callable[[str], None],
        begin: Callable[[], PermitSession],
    ) -> None:
        """`tell`: hears why it waits, when that changes. `begin`: begins a session to ask with."""
        self._store = store
        self._here = here
        self._weight = weight
        self._clock = clock
        self._tell = tell
        self._begin = begin
        self._told = ""
        self._sweeper = Sweeper(store, None, proof, clock, told=forget)
        self._swept = 0.0

    def wait(self, timeout: timedelta | None, stop: Stop) -> PermitSession:
        """Wait for room; the answer is the session that holds it.

        Raises `GateTimeout` with the reason when the time is up, `NeverFits`, or `Stopped`.
        """
        until = None if timeout is None else time.monotonic() + timeout.total_seconds()
        with contextlib.ExitStack() as stack:
            gauge = Gauge(self._store, self._here, self._clock, _MEASURE_SECONDS)
            stack.callback(gauge.close)
            # Before the first question, so that nothing is given back unnoticed after it.
            bell = self._bell(stack)
            holding = self._begin()
            while not stop.is_set():
                try:
                    if not holding.held:  # the store was away for longer than the lease
                        holding.end()
                        holding = self._begin()
                    reason = self._ask(gauge, holding)
                except (*_FOR_A_WHILE, StoreRefused) as error:  # its lock was to be made before
                    reason = str(error)
                if reason is None and stop.is_set():
                    break
                if reason is None:
                    return holding
                self._say(reason)
                left = _ASK_SECONDS if until is None else until - time.monotonic()
                if left <= 0:
                    raise GateTimeout(reason)
                self._sweep()
                self._rest(bell, min(left, _ASK_SECONDS), stop)
        raise Stopped

    def _bell(self, stack: contextlib.ExitStack) -> Bell | None:
        try:
            return stack.enter_context(contextlib.closing(self._store.listen(Topic.READY)))
        except StoreError:
            return None

    def _ask(self, gauge: Gauge, holding: PermitSession) -> str | None:
        """Ask the store once; None if the permit is held, else what keeps it."""
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
        except _FOR_A_WHILE as error:
            return str(error)
        if waiting is None:
            return self._told or f"waiting: {self._here.server} was full a moment ago"
        if waiting.never:
            raise NeverFits(waiting.reason.removeprefix("waiting: "))
        return waiting.reason

    def _say(self, reason: str) -> None:
        if reason != self._told:
            self._told = reason
            self._tell(reason)

    def _sweep(self) -> None:
        """End neighbours that are dead: perhaps no worker runs here that would."""
        if time.monotonic() - self._swept < _SWEEP_SECONDS:
            return
        with contextlib.suppress(LimpetError):  # whatever keeps a proof keeps no lease from its end
            self._sweeper.prove()
        try:
            self._sweeper.expire()
        except LimpetError:
            self._sweeper.lost_sight()
        self._swept = time.monotonic()

    @staticmethod
    def _rest(bell: Bell | None, seconds: float, stop: Stop) -> None:
        stop.wait(min(_BREATH_SECONDS, seconds))
        if bell is not None:
            bell.wait(timedelta(seconds=max(0.0, seconds - _BREATH_SECONDS)))
        else:
            stop.wait(max(0.0, seconds - _BREATH_SECONDS))
