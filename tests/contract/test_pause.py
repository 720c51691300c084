"""pause: a paused queue is not claimed from, and goes on where it was."""

from contract.driver import Holder, add, add_many, counts, get

from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.store import Store


def paused(store: Store) -> dict[str, bool]:
    return {view.name: view.paused for view in store.queues()}


def test_paused_queue_is_told(store: Store) -> None:
    add(store, queue="a")
    add(store, queue="b")
    store.pause("a")
    assert paused(store) == {"a": True, "b": False}


def test_repeat_changes_nothing(store: Store) -> None:
    add(store)
    for wanted in (True, True, False, False):
        store.pause("default", paused=wanted)
        assert paused(store) == {"default": wanted}


def test_paused_queue_still_takes_jobs_in(store: Store) -> None:
    store.pause("default")
    job = add(store)
    assert get(store, job).state is State.READY


def test_running_job_of_a_paused_queue_finishes(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.pause("default")
    assert holder.settle(Complete(lease)) == ()
    assert get(store, job).state is State.SUCCEEDED


def test_resumed_queue_is_claimed_in_its_old_order(store: Store) -> None:
    jobs = add_many(store, 3)
    holder = Holder(store)
    store.pause("default")
    assert holder.claim() == ()
    store.pause("default", paused=False)
    assert holder.claim_ids() == jobs


def test_strangers_of_a_paused_queue_are_not_blocked(store: Store) -> None:
    add(store, "strange")
    store.pause("default")
    Holder(store).claim()
    assert counts(store) == {State.READY: 1}
