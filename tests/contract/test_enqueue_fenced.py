"""enqueue with a fence: an attempt that no longer holds its lease hands nothing in."""

from collections.abc import Callable

import pytest
from contract.driver import BOOM, LEASE, Holder, add, counts, get, new_id, new_job, told
from contract.outcomes import INTO, Stage

from limpet.domain.cause import LateHolder
from limpet.domain.errors import LeaseLost
from limpet.domain.event import EventName
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.queue import DEFAULT_RETENTION
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


def refused(store: Store, fence: Lease, *jobs: NewJob) -> None:
    """Enqueueing raises and writes nothing."""
    before = store.states([job.id for job in jobs])
    with pytest.raises(LeaseLost) as caught:
        store.enqueue(jobs, fence=fence)
    assert (caught.value.job, caught.value.session, caught.value.token) == fence
    assert store.states([job.id for job in jobs]) == before


def test_holder_enqueues_while_its_lease_holds(store: Store) -> None:
    parent, holder = add(store), Holder(store)
    fence = holder.take()
    job = new_job()
    assert store.enqueue([job], fence=fence) == [Receipt(job.id, "new", State.READY)]
    assert store.enqueue([job], fence=fence) == [Receipt(job.id, "already", State.READY)]
    assert EventName.LEASE_LOST not in told(store, parent)


def test_caps_and_all_or_none_count_under_a_fence_too(store: Store) -> None:
    add(store)
    fence = Holder(store).take()
    jobs = [new_job(), new_job()]
    receipts = store.enqueue(jobs, caps={"default": 1}, all_or_none=True, fence=fence)
    assert [receipt.outcome for receipt in receipts] == ["full", "full"]
    receipts = store.enqueue(jobs, caps={"default": 1}, fence=fence)
    assert [receipt.outcome for receipt in receipts] == ["new", "full"]


def test_draining_session_may_still_enqueue(store: Store) -> None:
    add(store)
    holder = Holder(store)
    fence = holder.take()
    holder.renew(draining=True)
    (receipt,) = store.enqueue([new_job()], fence=fence)
    assert receipt.outcome == "new"


def test_session_past_its_moment_may_not_enqueue(store: Store, clock: FakeClock) -> None:
    parent, holder = add(store), Holder(store)
    fence = holder.take()
    clock.advance(LEASE)
    refused(store, fence, new_job())
    assert told(store, parent)[-1] is EventName.LEASE_LOST
    # It may still settle: that changes only its own job, which nobody else has yet.
    assert holder.settle(Complete(fence)) == ()


def test_dead_session_may_not_enqueue_though_its_job_waits_for_recovery(store: Store) -> None:
    add(store)
    holder = Holder(store)
    fence = holder.take()
    holder.die()
    refused(store, fence, new_job())
    assert store.recover(holder.id).ready == 1


LATE: dict[str, Callable[[Stage], Lease]] = {
    "dead holder": lambda stage: stage.old,
    "older token": lambda stage: stage.current._replace(token=1),
    "token never given": lambda stage: stage.current._replace(token=3),
    "foreign session": lambda stage: stage.current._replace(session=Holder(stage.store).id),
    "session that never was": lambda stage: stage.current._replace(session=new_id()),
}


@pytest.mark.parametrize("state", INTO)
@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_late_holder_enqueues_nothing_and_the_timeline_tells(
    store: Store, state: State, late: Callable[[Stage], Lease]
) -> None:
    stage = Stage(store, state)
    fence = late(stage)
    before, events = get(store, stage.job), store.events(stage.job)
    refused(store, fence, new_job(), new_job())
    assert get(store, stage.job) == before
    *earlier, event = store.events(stage.job)
    assert tuple(earlier) == events
    assert (event.event, event.session, event.token) == (
        EventName.LEASE_LOST,
        fence.session,
        fence.token,
    )
    assert isinstance(event.cause, LateHolder)
    assert str(event.cause) == (
        "a worker that no longer held the job tried to enqueue jobs from it; refused"
    )


@pytest.mark.parametrize("state", [each for each in INTO if each is not State.RUNNING])
def test_attempt_that_has_ended_enqueues_nothing(store: Store, state: State) -> None:
    stage = Stage(store, state)
    refused(store, stage.current, new_job())


def test_repeat_of_what_was_written_is_refused_once_the_fence_is_lost(store: Store) -> None:
    parent, holder = add(store), Holder(store)
    fence = holder.take()
    job = new_job()
    store.enqueue([job], fence=fence)
    holder.settle(Fail(fence, BOOM))
    before = get(store, job.id)
    refused(store, fence, job, new_job())
    refused(store, fence, job)
    assert get(store, job.id) == before
    assert counts(store) == {State.READY: 1, State.FAILED: 1}
    # Told once for each lost lease, however often its holder asks.
    assert told(store, parent).count(EventName.LEASE_LOST) == 1


def test_fence_of_a_job_that_is_gone_is_lost(store: Store, clock: FakeClock) -> None:
    job, holder = add(store), Holder(store)
    fence = holder.take()
    holder.settle(Complete(fence))
    clock.advance(2 * DEFAULT_RETENTION[State.SUCCEEDED])
    assert store.prune(DEFAULT_RETENTION).jobs == 1
    assert store.job(job) is None
    refused(store, fence, new_job())


def test_nothing_to_enqueue_is_refused_too(store: Store) -> None:
    refused(store, Lease(new_id(), new_id(), 1))
