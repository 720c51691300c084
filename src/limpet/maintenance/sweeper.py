"""Finds dead sessions and takes back their jobs: by proof first, by the lease as last resort."""

import time
from collections.abc import Callable

from limpet import log
from limpet.domain.cause import Cause, Unknown, WorkerGone
from limpet.domain.session import Session
from limpet.storage.answers import Recovered
from limpet.storage.base import Store

# A store that took this long for one answer may have kept others from renewing too.
_LONG_SECONDS = 0.5

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
    """Looks after the sessions of a store; many sweepers may do so at once."""

    def __init__(self, store: Store, own: str | None, proof: Proof) -> None:
        self._store = store
        self._own = own
        self._proof = proof
        self._watching_since: float | None = None
        self._longest_lease = 0.0

    def prove(self) -> int:
        """End the sessions that are proven dead here and take back their jobs."""
        count = 0
        for session in self._store.sessions():
            self._longest_lease = max(self._longest_lease, session.lease.total_seconds())
            if session.id != self._own and session.lock is not None and self._proof(session):
                cause = WorkerGone(last_seen=session.renewed_at)
                self._store.end(session.id, cause)
                count += recover_all(self._store, session.id, cause, session.name)
        return count

    def expire(self) -> int:
        """End the sessions whose lease is over and take back the jobs of all that are dead.

        Nothing is expired before the store has answered for one lease: after an outage, those who
        hold jobs must have had the time to say so.
        """
        if self._watching_since is None:
            self._watching_since = time.monotonic()
        begun = time.monotonic()
        if begun - self._watching_since < self._longest_lease:
            return 0
        dead = self._store.expire()
        if time.monotonic() - begun > _LONG_SECONDS:
            self.lost_sight()
        return sum(recover_all(self._store, each.id, each.cause, each.name) for each in dead)

    def lost_sight(self) -> None:
        """The store did not answer: begin to watch anew."""
        self._watching_since = None
