"""Finds dead sessions and takes back their jobs: by proof first, by the lease as last resort."""

from collections.abc import Callable
from datetime import timedelta

from limpet import log
from limpet.domain.cause import Cause, Unknown, WorkerGone
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.errors import LimpetError, StoreBusy, StoreUnreachable
from limpet.domain.session import Session
from limpet.maintenance.clock_watch import ClockWatch
from limpet.storage.contract.answers import Recovered
from limpet.storage.contract.store import Store

# A store that took this long for one answer may have delayed the renewals of others too. The limit
# grows by _TRIPS round trips, because a verb takes several: a connection may always be slow.
_LONG_US, _TRIPS = 500_000, 12

# Errors of a proof when the session's row, or its files, are not as they should be.
_NO_PROOF = (OSError, ValueError, OverflowError)

Proof = Callable[[Session], bool]
"""Whether every process of a session is certainly dead, as far as this host can tell."""


def recover_all(store: Store, session: str, cause: Cause | None, name: str = "") -> int:
    """Recover all jobs of a dead session; the answer is how many."""
    count = 0
    while True:
        step: Recovered = store.recover(session)
        count += step.jobs
        if not step.more:
            break
    if count:
        whose = f"worker {name}" if name else f"session {session}"
        why = cause or Unknown("unknown", "its worker is gone")
        log.emit("recovered", orphans=count, whose=whose, cause=why, session=session)
    return count


class Sweeper:
    """Looks after the sessions of a store; many sweepers may do so at once.

    Times are microseconds of this machine's own clock.
    """

    def __init__(
        self,
        store: Store,
        own: str | None,
        proof: Proof,
        clock: Clock | None = None,
        forget: Callable[[Session], None] = lambda session: None,
    ) -> None:
        """`forget`: removes the proof of a death, once the store knows of the death."""
        self._forget = forget
        self._store = store
        self._own = own
        self._proof = proof
        self._clock = clock or SystemClock()
        self._proof_failed = False
        self._watch = ClockWatch()
        self._watching_since: int | None = None
        # The shortest time in which the store has answered: one round trip when it is idle.
        self._trip_us = _LONG_US

    def prove(self) -> int:
        """End the sessions that are proven dead here and recover their jobs.

        If the store refuses one of them, the others are ended all the same; the first refusal is
        raised at the end.
        """
        count = 0
        refused: LimpetError | None = None
        for session in self._store.sessions():
            if session.id != self._own and session.lock is not None and self._is_proved(session):
                try:
                    count += self._end(session)
                except (StoreUnreachable, StoreBusy):
                    raise
                except LimpetError as error:
                    refused = refused or error
        if refused is not None:
            raise refused
        return count

    def _is_proved(self, session: Session) -> bool:
        try:
            return self._proof(session)
        except _NO_PROOF:
            return False
        except Exception as error:
            # A defect in the proof proves nothing either, but it must be visible in the log.
            if not self._proof_failed:
                log.emit(
                    "maintenance_failed", service="proofs", error=repr(error), session=self._own
                )
            self._proof_failed = True
            return False

    def _end(self, session: Session) -> int:
        cause = WorkerGone(last_seen=session.renewed_at)
        self._store.end(session.id, cause)
        self._forget(session)
        return recover_all(self._store, session.id, cause, session.name)

    def sweep(self) -> None:
        """Prove, then expire; an error of the first does not keep the second from running."""
        try:
            self.prove()
        finally:
            self.expire()

    def expire(self) -> int:
        """End the sessions whose lease is over and recover the jobs of all dead sessions.

        A session is ended only if the store has answered for one whole lease of that session, by a
        clock that nobody has set meanwhile: after an outage, a clock step or a failover, the
        holders of jobs must have had time to renew, and to get leases by the new clock. A long
        lease of one session does not delay the end of another: the store compares each lease with
        the time for which this sweeper has watched.
        """
        sent_at = self._clock.boot()
        since = sent_at if self._watching_since is None else self._watching_since
        watched = timedelta(microseconds=sent_at - since)
        view = self._store.outlook(longest=watched)
        answered_at = self._clock.boot()
        self._trip_us = min(self._trip_us, answered_at - sent_at)
        if self._watch.is_steady(view, sent_at, answered_at):
            self._watching_since = since
            until = self._watch.at(sent_at)
            overdue = view.next_moment is not None and view.next_moment <= until
            if not overdue and not view.widowed:
                return 0
            dead = self._store.expire(until, longest=watched)
        else:
            if self._watching_since is not None:
                log.emit("clock_stepped")
            self._watching_since = sent_at
            # Ends no session, but shortens leases that the old clock made longer than they may be.
            dead = self._store.expire(0)
        if self._clock.boot() - sent_at > _LONG_US + _TRIPS * self._trip_us:
            self.lost_sight()
        return sum(
            recover_all(self._store, session.id, session.cause, session.name) for session in dead
        )

    def lost_sight(self) -> None:
        """The store did not answer: start watching anew."""
        self._watching_since = None
