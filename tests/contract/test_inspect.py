"""inspect: what a person sees, at one consistent moment."""

from datetime import timedelta

import pytest
from contract.driver import BOOM, Holder, add, add_many, counts, get, history, new_id, told

from limpet.domain.errors import InvalidOption
from limpet.domain.event import EventName
from limpet.domain.job import JobFilter
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, RetryAt
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

ALL = JobFilter()


def listed(store: Store, which: JobFilter = ALL, limit: int = 50) -> list[str]:
    """Every page, one after the other."""
    found: list[str] = []
    cursor = None
    while True:
        page = store.jobs(which, cursor, limit)
        assert len(page.jobs) <= limit
        assert not {job.id for job in page.jobs} & set(found)
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return found


def test_unknown_job_is_none(store: Store) -> None:
    job = new_id()
    assert store.job(job) is None
    assert (store.events(job), store.log(job), store.states([job])) == ((), (), {})


def test_states_are_told_of_the_jobs_that_exist(store: Store) -> None:
    ready, cancelled = add_many(store, 2)
    store.cancel(cancelled)
    assert store.states([ready, new_id(), cancelled]) == {
        ready: State.READY,
        cancelled: State.CANCELLED,
    }
    assert store.states([]) == {}


def test_jobs_are_listed_newest_first(store: Store) -> None:
    jobs = add_many(store, 7)
    assert listed(store) == jobs[::-1]


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7])
def test_pages_add_up_to_the_whole(store: Store, limit: int) -> None:
    jobs = add_many(store, 6)
    assert listed(store, limit=limit) == jobs[::-1]


def test_listed_job_is_told_in_full(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    holder.settle(Fail(holder.take(), BOOM))
    assert store.jobs(ALL).jobs == (get(store, job),)


def test_no_jobs_are_one_empty_page(store: Store) -> None:
    page = store.jobs(ALL)
    assert (page.jobs, page.cursor) == ((), None)


def test_filters_narrow_the_list(store: Store) -> None:
    a, b = add(store, "a", queue="one"), add(store, "b", queue="one")
    c, d = add(store, "a", queue="two"), add(store, "b", queue="two")
    store.cancel(a)
    store.cancel(d)
    assert listed(store, JobFilter(queue="one")) == [b, a]
    assert listed(store, JobFilter(task="a")) == [c, a]
    assert listed(store, JobFilter(state=State.CANCELLED)) == [d, a]
    assert listed(store, JobFilter(State.CANCELLED, "two", "b")) == [d]
    assert listed(store, JobFilter(State.RUNNING)) == []
    assert listed(store, JobFilter(queue="three")) == []


def test_filtered_pages_add_up(store: Store) -> None:
    jobs = add_many(store, 9)
    for job in jobs[::2]:
        store.cancel(job)
    assert listed(store, JobFilter(state=State.CANCELLED), limit=2) == jobs[::2][::-1]


def test_running_jobs_are_listed_newest_first_over_all_holders(store: Store) -> None:
    for queue in ("one", "two", "one", "two", "one"):
        add(store, queue=queue)
    first, second = Holder(store), Holder(store)
    running = [*first.claim_ids(2), *second.claim_ids(2)]
    assert listed(store, JobFilter(State.RUNNING)) == running[::-1]
    assert listed(store, JobFilter(State.RUNNING), limit=3) == running[::-1]
    ones = [job for job in running if get(store, job).queue == "one"]
    assert listed(store, JobFilter(State.RUNNING, queue="one"), limit=1) == ones[::-1]
    assert listed(store, JobFilter(State.RUNNING, task="none")) == []


def test_pages_never_repeat_a_job_whatever_moves(store: Store, clock: FakeClock) -> None:
    jobs = add_many(store, 6)
    holder = Holder(store)
    first = store.jobs(ALL, limit=3)
    add_many(store, 2)
    for lease in [each.lease for each in holder.claim(6)]:
        clock.advance(timedelta(seconds=1))
        holder.settle(RetryAt(lease, clock.wall(), BOOM))
    second = store.jobs(ALL, first.cursor, limit=3)
    assert [job.id for job in (*first.jobs, *second.jobs)] == jobs[::-1]
    assert second.cursor is None


def test_cursor_that_no_page_gave_is_refused(store: Store) -> None:
    with pytest.raises(InvalidOption):
        store.jobs(ALL, "nonsense")


def test_timeline_tells_a_whole_life_in_order(store: Store, clock: FakeClock) -> None:
    tick = timedelta(seconds=1)
    job = add(store)
    holder = Holder(store, lease=timedelta(minutes=1))
    for step in ("retry", "recover", "complete"):
        clock.advance(tick)
        lease = holder.take(begin=True)
        clock.advance(tick)
        if step == "retry":
            holder.settle(RetryAt(lease, clock.wall(), BOOM))
            store.promote()
        elif step == "recover":
            holder.vanish()
            holder = Holder(store)
        else:
            holder.settle(Complete(lease))
    assert told(store, job) == [
        EventName.ENQUEUED,
        EventName.CLAIMED,
        EventName.RETRIED,
        EventName.CLAIMED,
        EventName.RECOVERED,
        EventName.CLAIMED,
        EventName.SUCCEEDED,
    ]
    times = [event.at for event in history(store, job)]
    assert [at - times[0] for at in times] == [n * 1_000_000 for n in range(7)]
    assert [event.token for event in history(store, job)] == [None, 1, 1, 2, 2, 3, 3]


def test_latest_events_are_told_newest_first_beside_their_jobs(store: Store) -> None:
    assert store.latest_events() == ()
    first, second = add(store, queue="one"), add(store, queue="two", task="other")
    store.cancel(second, "typo")
    store.cancel(first)
    newest, older = store.latest_events()
    assert (newest.job, newest.task, newest.queue) == (first, "task", "one")
    assert (older.job, older.task, older.queue) == (second, "other", "two")
    assert older.event == store.events(second)[0]
    assert store.latest_events(limit=1) == (newest,)


def test_queues_tell_how_many_jobs_are_in_each_state(store: Store, clock: FakeClock) -> None:
    add_many(store, 3)
    add(store, scheduled_for=clock.wall() + 1)
    add(store, queue="other")
    holder = Holder(store)
    holder.settle(Complete(holder.take()))
    holder.take()
    assert counts(store) == {
        State.SUCCEEDED: 1,
        State.RUNNING: 1,
        State.READY: 1,
        State.SCHEDULED: 1,
    }
    assert counts(store, "other") == {State.READY: 1}
    assert [view.name for view in store.queues()] == ["default", "other"]


def test_queue_that_had_jobs_is_still_told(store: Store, clock: FakeClock) -> None:
    store.cancel(add(store))
    clock.advance(timedelta(days=9))
    store.prune({State.CANCELLED: timedelta(days=1)})
    (view,) = store.queues()
    assert (view.name, view.counts, view.head_ready_at) == ("default", {}, None)


def test_queue_tells_since_when_its_first_job_waits(store: Store, clock: FakeClock) -> None:
    since = clock.wall()
    add(store)
    clock.advance(timedelta(seconds=1))
    add(store)
    (view,) = store.queues()
    assert view.head_ready_at == since


def test_totals_count_every_move(store: Store, clock: FakeClock) -> None:
    add_many(store, 3)
    holder = Holder(store)
    holder.settle(Complete(holder.take()))
    holder.settle(RetryAt(holder.take(), clock.wall(), BOOM))
    store.promote()
    store.cancel(add(store, queue="other"))
    told_totals = {(each.queue, each.move): each.count for each in store.totals()}
    assert told_totals == {
        ("default", "enqueue"): 3,
        ("default", "claim"): 2,
        ("default", "complete"): 1,
        ("default", "retry"): 1,
        ("default", "promote"): 1,
        ("other", "enqueue"): 1,
        ("other", "cancel"): 1,
    }


def test_totals_are_kept_when_jobs_are_pruned(store: Store, clock: FakeClock) -> None:
    store.cancel(add(store))
    clock.advance(timedelta(days=9))
    store.prune({State.CANCELLED: timedelta(days=1)})
    totals = {each.move: each.count for each in store.totals()}
    assert totals == {"enqueue": 1, "cancel": 1, "prune": 1}
