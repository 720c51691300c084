"""Removes jobs and sessions that ended long ago, a small step at a time."""

import threading
from collections.abc import Mapping
from datetime import timedelta

from limpet.domain.state import State
from limpet.storage.contract.answers import Pruned
from limpet.storage.contract.store import SweepVerbs

# Pause between two steps, in which others can write.
_BREATH = timedelta(milliseconds=20)


class Pruner:
    """Prunes by retention; `run` is called from time to time."""

    def __init__(
        self,
        store: SweepVerbs,
        retention: Mapping[State, timedelta],
        queues: Mapping[str, Mapping[State, timedelta]] | None = None,
    ) -> None:
        """`queues`: queue → the retention of its jobs, for queues with their own."""
        self._store = store
        self._retention = retention
        self._queues = queues or None

    def run(self, stop: threading.Event | None = None) -> Pruned:
        """Prune until nothing is left to prune, or `stop` is set; the answer is the sum."""
        halt = stop or threading.Event()
        jobs = sessions = 0
        while True:
            step = self._store.prune(self._retention, self._queues)
            jobs += step.jobs
            sessions += step.sessions
            if not step.more or halt.wait(_BREATH.total_seconds()):
                return Pruned(jobs, sessions, more=step.more)
