"""A store in which everything that shapes the work has something to say."""

from datetime import timedelta

from contract.driver import BOOM, MINUTE, SECOND, Holder, new_id, new_job, promote_all
from contract.families import KEEP, child, parent

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.cause import Drained
from limpet.domain.job import NewJob
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate
from limpet.domain.rules import Rules, UniqueUntil
from limpet.domain.transition import Complete, Fail, RetryAt
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

FOR_A_DAY = Rules(unique_until=UniqueUntil.TIME, unique_for=24 * 60 * MINUTE)


class Shaped:
    """Ids of the jobs, by what they wait for; nothing runs, and every session is dead."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.store = store
        self.clock = clock
        self._keys()
        self._uniques()
        self._families()
        self._queues()
        self._breakers()
        clock.advance(timedelta(milliseconds=7))

    def _add(self, *jobs: NewJob) -> None:
        assert {each.outcome for each in self.store.enqueue(jobs)} == {"new"}

    def _keys(self) -> None:
        """One with a turn and two behind it; a strict one in backoff and one behind it."""
        store = self.store
        keyed = [new_job(queue="keyed", key="busy", priority=n) for n in range(3)]
        strict = [
            new_job(queue="strict", key="strict", rules=Rules(key_strict=True)) for _ in range(2)
        ]
        wide = [new_job(queue="keyed", key="wide", rules=Rules(key_limit=2)) for _ in range(3)]
        slow = [
            new_job(queue="keyed", key="slow", rules=Rules(key_rate=Rate(1, 60 * MINUTE, 1)))
            for _ in range(2)
        ]
        for job in keyed:
            self._add(job)
        self._add(*strict, *wide, *slow)
        holder = Holder(store)
        backoff = self.clock.wall() + 9 * MINUTE
        holder.settle(RetryAt(holder.take_of("strict"), backoff, BOOM))
        store.limit_key("wide", 1)
        store.limit_key("other", 7, Rate(3, SECOND, 2))
        holder.die(Drained())
        self.keyed, self.strict = ([job.id for job in jobs] for jobs in (keyed, strict))
        self.wide, self.slow = ([job.id for job in jobs] for jobs in (wide, slow))

    def _uniques(self) -> None:
        """One that waits, one that is done and holds on for a day, one that is done with it."""
        waits = new_job(queue="unique", unique="waits", scheduled_for=self.clock.wall() + MINUTE)
        done = new_job(queue="done", unique="done", rules=FOR_A_DAY)
        free = new_job(queue="done", unique="free")
        self._add(waits, done, free)
        holder = Holder(self.store)
        for _ in range(2):
            holder.settle(Complete(holder.take_of("done"), "1", (), (("emails", 21),)))
        holder.die(Drained())
        self.waits, self.done = waits.id, done.id

    def _families(self) -> None:
        """A parent of four, one of which is done, one failed and one not there yet; one that has
        failed itself.
        """
        top = parent(4)
        below = [child(top, KEEP, queue="below") for _ in range(3)]
        gone = parent(2, queue="gone")
        failed = child(gone, queue="gone")
        nested = parent(1, gone, queue="gone")
        deep = child(nested, queue="deep")
        self._add(top, *below, gone, failed, nested, deep)
        holder = Holder(self.store)
        holder.settle(Complete(holder.take_of("below"), '"one"'))
        again = self.clock.wall() + 5 * MINUTE
        holder.settle(Fail(holder.take_of("below"), BOOM, again))
        holder.settle(Fail(holder.take_of("gone"), BOOM))
        promote_all(self.store)
        holder.die(Drained())
        self.parent, self.below = top.id, [job.id for job in below]
        self.gone, self.deep = gone.id, deep.id

    def _queues(self) -> None:
        """Rules declared and set, a rate that has given some out, one held and one drained."""
        store = self.store
        store.declare_queues({
            "limited": QueueRules(concurrency=3, weight=4),
            "rated": QueueRules(rate=Rate(2, 60 * MINUTE, 2)),
        })  # fmt: skip
        store.limit_queue("limited", QueueRules(concurrency=1))
        self._add(*(new_job(queue=queue) for queue in ("limited", "rated") for _ in range(4)))
        holder = Holder(store)
        holder.settle(Complete(holder.take_of("rated")))
        holder.die(Drained())
        store.hold_queue("held", self.clock.wall() + 30 * MINUTE)
        store.drain_queue("drained")
        store.stage(new_id(), 0, [new_job()])

    def _breakers(self) -> None:
        self.store.declare_breakers(
            [
                BreakerRules(name, frozenset({name, "x"}), 0.5, 2, MINUTE, 20 * MINUTE)
                for name in ("crm", "api")
            ]
        )
        holder = Holder(self.store)
        holder.exchange(observed=[Observed("crm", 0, 2), Observed("api", 1, 0)])
        holder.die(Drained())
