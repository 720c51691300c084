"""Everything that whoever uses a store does with it, to see which rights that needs."""

from contextlib import closing
from datetime import timedelta

from contract.driver import Holder, add_many

from limpet.domain.cause import Drained
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.bell import Topic
from limpet.storage.contract.store import Store


def live(store: Store) -> None:
    """Enqueue, claim, settle, release, cancel, retry, pause, sweep, look, and hear of it."""
    with closing(store.listen(Topic.READY)) as bell:
        jobs = add_many(store, 3)
        assert bell.wait(timedelta(seconds=10))
    holder = Holder(store)
    first, second, _ = (each.lease for each in holder.claim())
    holder.settle(Complete(first, "1"))
    holder.release(second, cause=Drained())
    store.cancel(jobs[2])
    store.cancel(jobs[1])
    store.retry(jobs[0], 1)
    store.pause("default")
    store.promote()
    store.prune({State.SUCCEEDED: timedelta()})
    holder.vanish()
    store.expire()
    store.queues()
    assert store.invariants() == ()
    assert store.info().epoch
