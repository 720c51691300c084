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

# A store that took this long for one answer may have kept others from renewing too; on a line that
# is always slow, so many times as long as its usual answer, because a verb is several of them.
_LONG, _TRIPS = 500_000, 12

# What a proof raises at a session whose row, or whose files, are not what they should be.
_NO_PROOF = (OSError, ValueError, OverflowError)

Proof = Callable[[Session], bool]
"""Whether every process of a session is certainly dead, as far as this host can tell."""


def recover_all(store: Store, session: str, cause: Cause | None, name: str = "") -> int:
    """Take back all jobs of a dead session; the answer says how many."""
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
        told: Callable[[Session], None] = lambda session: None,
    ) -> None:
        """`told`: hears when the store knows of a death that was proved."""
        self._told = told
        self._store = store
        self._own = own
        self._proof = proof
        self._clock = clock or SystemClock()
        self._proof_failed = False
        self._watch = ClockWatch()
        self._watching_since: int | None = None
        # The shortest time in which the store has answered: that of the line, were it at rest.
        self._trip = _LONG

    def prove(self) -> int:
        """End the sessions that are proven dead here and take back their jobs.

        One of which the store will not hear keeps none of the others; it is raised at the end.
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
            # An error of our own proves nothing either, but nobody is to look for it in vain.
            if not self._proof_failed:
                log.emit(
                    "maintenance_failed", service="proofs", error=repr(error), session=self._own
                )
            self._proof_failed = True
            return False

    def _end(self, session: Session) -> int:
        cause = WorkerGone(last_seen=session.renewed_at)
        self._store.end(session.id, cause)
        self._told(session)
        return recover_all(self._store, session.id, cause, session.name)

    def sweep(self) -> None:
        """Do both, one after the other; what keeps the first from its work keeps not the second."""
        try:
            self.prove()
        finally:
            self.expire()

    def expire(self) -> int:
        """End the sessions whose lease is over and take back the jobs of all that are dead.

        A session is ended only if the store has answered for one lease of that session, by a clock
        that nobody has set meanwhile: after an outage, a step or a failover, those who hold jobs
        must have had the time to renew, and to be given leases by the clock as it is now. The
        length of one lease delays the end of no other session: the store compares each with how
        long it has been watched.
        """
        asked = self._clock.boot()
        since = asked if self._watching_since is None else self._watching_since
        watched = timedelta(microseconds=asked - since)
        view = self._store.outlook(longest=watched)
        answered = self._clock.boot()
        self._trip = min(self._trip, answered - asked)
        if self._watch.is_steady(view, asked, answered):
            self._watching_since = since
            until = self._watch.at(asked)
            overdue = view.next_moment is not None and view.next_moment <= until
            if not overdue and not view.widowed:
                return 0
            dead = self._store.expire(until, longest=watched)
        else:
            if self._watching_since is not None:
                log.emit("clock_stepped")
            self._watching_since = asked
            # Ends nobody's lease, and sees to it that none which was given before lasts for longer.
            dead = self._store.expire(0)
        if self._clock.boot() - asked > _LONG + _TRIPS * self._trip:
            self.lost_sight()
        return sum(recover_all(self._store, each.id, each.cause, each.name) for each in dead)

    def lost_sight(self) -> None:
        """The store did not answer: begin to watch anew."""
        self._watching_since = None
