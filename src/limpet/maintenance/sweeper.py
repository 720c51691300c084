"""Finds dead sessions and takes back their jobs: by proof first, by the lease as last resort."""

from collections.abc import Callable

from limpet import log
from limpet.domain.cause import Cause, Unknown, WorkerGone
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.duration import microseconds
from limpet.domain.session import Session
from limpet.maintenance.clock_watch import ClockWatch
from limpet.storage.answers import Recovered
from limpet.storage.base import Store

# A store that took this long for one answer may have kept others from renewing too.
_LONG = 500_000

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
        log.say("recovered", count=count, whose=whose, cause=why, session=session)
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
        self._watch = ClockWatch()
        self._watching_since: int | None = None
        self._longest_lease = 0

    def prove(self) -> int:
        """End the sessions that are proven dead here and take back their jobs."""
        count = 0
        for session in self._store.sessions():
            self._longest_lease = max(self._longest_lease, microseconds(session.lease))
            if session.id != self._own and session.lock is not None and self._proof(session):
                cause = WorkerGone(last_seen=session.renewed_at)
                self._store.end(session.id, cause)
                self._told(session)
                count += recover_all(self._store, session.id, cause, session.name)
        return count

    def expire(self) -> int:
        """End the sessions whose lease is over and take back the jobs of all that are dead.

        Nothing is expired before the store has answered for one lease, by a clock that nobody has
        set meanwhile: after an outage or a step, those who hold jobs must have had the time to say
        so, and to be given leases by the clock as it is now.
        """
        asked = self._clock.boot()
        view = self._store.outlook()
        if not self._watch.is_steady(view, asked, self._clock.boot()):
            if self._watching_since is not None:
                log.say("clock_stepped", seconds=self._longest_lease / 1e6)
            self.lost_sight()
            # Ends nobody's lease, and sees to it that none which was given before lasts for longer.
            self._store.expire(0)
        if self._watching_since is None:
            self._watching_since = asked
        if asked - self._watching_since < self._longest_lease:
            return 0
        until = self._watch.at(asked)
        overdue = view.next_moment is not None and view.next_moment <= until
        if not overdue and not view.widowed:
            return 0
        dead = self._store.expire(until)
        if self._clock.boot() - asked > _LONG:
            self.lost_sight()
        return sum(recover_all(self._store, each.id, each.cause, each.name) for each in dead)

    def lost_sight(self) -> None:
        """The store did not answer: begin to watch anew."""
        self._watching_since = None
