"""Checks the store's invariants from time to time, and repairs what is safe to repair.

In each period one worker does this for all: the one that fires the tick of a reserved schedule. It
needs no job, because the check is about the store, not about the app.
"""

from limpet import log
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.job import NewJob
from limpet.domain.schedule import RESERVED, Schedule, Timing
from limpet.maintenance.cron import next_after
from limpet.storage.contract.answers import Broken, Repaired
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store

FSCK = f"{RESERVED}fsck"
_PERIOD_US = 3_600_000_000


def repair_store(store: Store) -> tuple[tuple[Repaired, ...], tuple[Broken, ...]]:
    """Repair what can be; the answer is what was repaired, and what is still broken."""
    broken = store.invariants()
    if not broken:
        return (), ()
    repaired = store.repair_store()
    return repaired, store.invariants() if repaired else broken


class Scanner:
    """Repairs the store when its tick is due; `run` is called from time to time.

    The scanner opens the store a second time: reading everything must not delay a renewal.
    """

    def __init__(self, store: Store, url: str, clock: Clock | None = None) -> None:
        self._store = store
        self._url = url
        self._clock = clock or SystemClock()

    def run(self) -> bool:
        """Check and repair the store if this worker fires the due tick; whether it did."""
        if not self._is_ours():
            return False
        store = open_store(self._url)
        try:
            repaired, left = repair_store(store)
        finally:
            store.close()
        for done in repaired:
            log.emit("mended", rule=done.invariant, times=done.count)
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
        timing=Timing(every=_PERIOD_US),
        next_at=now + _PERIOD_US,
        overlap=False,
    )
