"""Looks from time to time whether the store is as it must be, and mends what is safe to mend.

Once for all workers in each period: who fires the tick of a schedule of its own does it, without a
job, because it is about the store, not about the app.
"""

from limpet import log
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.job import NewJob
from limpet.domain.schedule import RESERVED, Schedule, Timing
from limpet.maintenance.cron import next_after
from limpet.storage.contract.answers import Broken, Mended
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

FSCK = f"{RESERVED}fsck"
_PERIOD = 3_600_000_000


def mend(store: Store) -> tuple[tuple[Mended, ...], tuple[Broken, ...]]:
    """Mend what can be; the answer is what was, and what still does not hold."""
    broken = store.invariants()
    if not broken:
        return (), ()
    mended = store.mend()
    return mended, store.invariants() if mended else broken


class Scanner:
    """Mends the store when it is its turn; `run` is called from time to time.

    The store is opened once more for it: what reads everything must keep no renewal waiting.
    """

    def __init__(self, store: Store, url: str, clock: Clock | None = None) -> None:
        self._store = store
        self._url = url
        self._clock = clock or SystemClock()

    def run(self) -> bool:
        """Look after the store if the time has come and nobody else does; True if it was done."""
        if not self._is_ours():
            return False
        store = open_store(self._url)
        try:
            mended, left = mend(store)
        finally:
            store.close()
        for each in mended:
            log.emit("mended", rule=each.invariant, times=each.count)
        for rule in left:
            log.emit("unmended", rule=rule.invariant, times=rule.count, example=rule.example)
        return True

    def _is_ours(self) -> bool:
        now = self._clock.wall()
        schedule = self._store.schedule(FSCK)
        if schedule is None:
            self._store.put_schedule(_schedule(now))
            return False
        if schedule.paused or schedule.next_at > now:
            return False
        following = next_after(schedule.timing, now, since=schedule.next_at)
        assert following is not None  # it ticks by the time that passes
        return self._store.tick(schedule, (), following).outcome == "fired"


def _schedule(now: int) -> Schedule:
    job = NewJob("", FSCK, "{}", FSCK)
    return Schedule(
        id=FSCK,
        job=job,
        timing=Timing(every=_PERIOD),
        next_at=now + _PERIOD,
        overlap=False,
    )
