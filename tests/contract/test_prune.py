"""prune: what finished long ago goes, a small step at a time, and nothing that is needed."""

from dataclasses import replace
from datetime import timedelta

from contract.driver import BOOM, KILLED, LEASE, Holder, add, add_many, counts, get, new_job

from limpet.domain.duration import microseconds
from limpet.domain.job import LogLine, Progress, Report
from limpet.domain.queue import DEFAULT_RETENTION, REPEAT_WINDOW
from limpet.domain.rules import Rules, UniqueUntil
from limpet.domain.state import FINAL, State
from limpet.domain.transition import Complete, Fail, Quarantine
from limpet.storage.contract.answers import Pruned
from limpet.storage.contract.store import CHUNK, Store, Want
from limpet.testing.clock import FakeClock

AT_ONCE = dict.fromkeys(FINAL, timedelta())
INSTANT = timedelta(microseconds=1)


def one_of_each(store: Store) -> dict[State, str]:
    """A job in each final state."""
    jobs = {state: add(store) for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED)}
    holder = Holder(store)
    holder.settle(Complete(holder.take(), "1"))
    holder.settle(Fail(holder.take(), BOOM))
    store.cancel(jobs[State.CANCELLED])
    return jobs


def test_each_state_has_its_own_retention(store: Store, clock: FakeClock) -> None:
    jobs = one_of_each(store)
    clock.advance(timedelta(days=1) + INSTANT)
    assert store.prune(DEFAULT_RETENTION).jobs == 2
    assert store.states(list(jobs.values())) == {jobs[State.FAILED]: State.FAILED}
    clock.advance(timedelta(days=29))
    assert store.prune(DEFAULT_RETENTION).jobs == 1


def test_nothing_is_pruned_before_its_retention(store: Store, clock: FakeClock) -> None:
    one_of_each(store)
    clock.advance(timedelta(days=1))
    assert store.prune(DEFAULT_RETENTION) == Pruned(0, 0, more=False)


def test_retention_counts_from_the_end_of_the_job(store: Store, clock: FakeClock) -> None:
    add(store)
    holder = Holder(store, lease=timedelta(days=9))
    lease = holder.take()
    clock.advance(timedelta(days=5))
    holder.settle(Complete(lease))
    assert store.prune(DEFAULT_RETENTION).jobs == 0
    clock.advance(timedelta(days=1) + INSTANT)
    assert store.prune(DEFAULT_RETENTION).jobs == 1


def test_state_without_a_retention_is_kept(store: Store, clock: FakeClock) -> None:
    jobs = one_of_each(store)
    clock.advance(timedelta(days=99))
    store.prune({State.SUCCEEDED: timedelta(days=1)})
    assert set(store.states(list(jobs.values())).values()) == {State.FAILED, State.CANCELLED}


def test_nothing_younger_than_the_repeat_window_is_pruned(store: Store, clock: FakeClock) -> None:
    job = new_job()
    store.enqueue([job])
    store.cancel(job.id)
    clock.advance(REPEAT_WINDOW)
    assert store.prune(AT_ONCE).jobs == 0
    assert store.enqueue([job])[0].outcome == "already"
    clock.advance(INSTANT)
    assert store.prune(AT_ONCE).jobs == 1


def test_unfinished_jobs_are_never_pruned(store: Store, clock: FakeClock) -> None:
    jobs = [add(store, "strange"), add(store), add(store)]
    holder = Holder(store)
    quarantined, _ = (each.lease for each in holder.claim(5))
    holder.settle(Quarantine(quarantined, BOOM))
    jobs += [add(store), add(store, scheduled_for=2**60)]
    before = store.states(jobs)
    assert set(before.values()) == set(State) - FINAL
    clock.advance(timedelta(days=999))
    assert store.prune(AT_ONCE).jobs == 0
    assert store.states(jobs) == before


def test_everything_that_is_told_of_a_job_goes_with_it(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    said = Report(lease, Progress(1, 2, "", 3), (LogLine(0, "info", "x"),))
    store.report(holder.id, [said])
    holder.settle(Fail(lease, BOOM))
    clock.advance(timedelta(days=31))
    store.prune(DEFAULT_RETENTION)
    assert store.job(job) is None
    assert (store.events(job), store.log(job), counts(store)) == ((), (), {})


def test_prune_goes_in_small_steps(store: Store, clock: FakeClock) -> None:
    for size in (CHUNK, 10):
        for job in add_many(store, size):
            store.cancel(job)
    clock.advance(timedelta(days=2))
    assert store.prune(DEFAULT_RETENTION) == Pruned(CHUNK, 0, more=True)
    assert store.prune(DEFAULT_RETENTION) == Pruned(10, 0, more=False)
    assert store.prune(DEFAULT_RETENTION) == Pruned(0, 0, more=False)


def test_old_jobs_behind_young_ones_are_found(store: Store, clock: FakeClock) -> None:
    old = add_many(store, 5)
    for job in old[::2]:
        store.cancel(job)
    clock.advance(timedelta(days=2))
    for job in add_many(store, 5):
        store.cancel(job)
    assert store.prune(DEFAULT_RETENTION).jobs == 3
    assert set(store.states(old)) == set(old[1::2])


def test_reopened_job_is_not_pruned(store: Store, clock: FakeClock) -> None:
    job = add(store)
    store.cancel(job)
    clock.advance(timedelta(days=2))
    store.retry(job, 1)
    assert store.prune(DEFAULT_RETENTION).jobs == 0
    assert get(store, job).state is State.READY


def test_dead_session_is_forgotten_after_a_day(store: Store, clock: FakeClock) -> None:
    dead, living = Holder(store), Holder(store, lease=timedelta(days=9))
    dead.die()
    clock.advance(timedelta(days=1))
    assert store.prune(DEFAULT_RETENTION).sessions == 0
    clock.advance(INSTANT)
    assert store.prune(DEFAULT_RETENTION) == Pruned(0, 1, more=False)
    assert [each.id for each in store.sessions(with_dead=True)] == [living.id]
    assert len(living.claim()) == 0


def test_dead_session_with_jobs_is_kept_until_they_are_recovered(
    store: Store, clock: FakeClock
) -> None:
    job = add(store)
    holder = Holder(store)
    holder.take()
    holder.die()
    clock.advance(timedelta(days=2))
    assert store.prune(DEFAULT_RETENTION).sessions == 0
    store.recover(holder.id)
    assert store.prune(DEFAULT_RETENTION).sessions == 1
    assert get(store, job).state is State.READY


def test_tasks_that_a_living_session_knows_are_kept(store: Store, clock: FakeClock) -> None:
    dead = Holder(store, ["a", "b"], pools=[["a"]])
    living = Holder(store, ["a", "b"], pools=[["a"]], lease=timedelta(days=9))
    dead.die()
    clock.advance(timedelta(days=2))
    assert store.prune(DEFAULT_RETENTION).sessions == 1
    job = add(store, "a")
    part = replace(living.pool(), tasks=living.registered.pools[0])
    assert [each.lease.job for each in living.exchange(want=Want((part,))).claimed] == [job]


def test_word_of_a_forgotten_session_is_lost(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    clock.advance(LEASE)
    store.expire()
    store.recover(holder.id)
    clock.advance(timedelta(days=2))
    store.prune(DEFAULT_RETENTION)
    (rejected,) = store.release(holder.id, [lease], KILLED)
    assert rejected.answer == "lost"
    assert get(store, job).state is State.READY


def test_queue_may_have_a_retention_of_its_own(store: Store, clock: FakeClock) -> None:
    jobs = {queue: add(store, queue=queue) for queue in ("short", "long", "other")}
    for job in jobs.values():
        store.cancel(job)
    queues = {
        "short": {State.CANCELLED: timedelta(hours=2)},
        "long": {State.CANCELLED: timedelta(days=9)},
        "other": {State.FAILED: timedelta()},
    }
    clock.advance(timedelta(hours=2))
    assert store.prune(DEFAULT_RETENTION, queues).jobs == 0
    clock.advance(INSTANT)
    assert store.prune(DEFAULT_RETENTION, queues).jobs == 1
    assert set(store.states(list(jobs.values()))) == {jobs["long"], jobs["other"]}
    clock.advance(timedelta(days=1))
    assert store.prune(DEFAULT_RETENTION, queues).jobs == 1
    assert set(store.states(list(jobs.values()))) == {jobs["long"]}
    clock.advance(timedelta(days=8))
    assert store.prune(DEFAULT_RETENTION, queues) == Pruned(1, 0, more=False)


def test_queue_with_a_short_retention_is_pruned_to_the_end_behind_one_with_a_long_one(
    store: Store, clock: FakeClock
) -> None:
    for size, queue in ((CHUNK, "long"), (CHUNK, "short"), (10, "short")):
        for job in add_many(store, size, queue=queue):
            store.cancel(job)
    queues = {
        "short": {State.CANCELLED: timedelta(hours=2)},
        "long": {State.CANCELLED: timedelta(days=9)},
    }
    clock.advance(timedelta(days=2))
    removed = 0
    for _ in range(10):
        answer = store.prune(DEFAULT_RETENTION, queues)
        assert answer.jobs <= CHUNK
        removed += answer.jobs
        if not answer.more:
            break
    assert removed == CHUNK + 10
    assert counts(store, "long") == {State.CANCELLED: CHUNK}


def test_what_is_old_is_found_behind_more_that_stay_than_one_call_looks_at(
    store: Store, clock: FakeClock
) -> None:
    holder = Holder(store, lease=timedelta(days=99))
    for queue in ("long",) * 6 + ("short",):
        add_many(store, CHUNK, queue=queue)
        holder.settle(*(Complete(each.lease) for each in holder.claim(CHUNK)))
    queues = {"short": {State.SUCCEEDED: timedelta(hours=2)}}
    clock.advance(timedelta(days=2))
    kept = {State.SUCCEEDED: timedelta(days=9)}
    answers = [store.prune(kept, queues)]
    while answers[-1].more and len(answers) < 20:
        answers.append(store.prune(kept, queues))
    assert (sum(each.jobs for each in answers), answers[-1].more) == (CHUNK, False)
    assert counts(store, "long") == {State.SUCCEEDED: 6 * CHUNK}
    add(store, queue="short")
    holder.settle(Complete(holder.take()))
    clock.advance(timedelta(hours=3))
    assert sum(store.prune(kept, queues).jobs for _ in range(5)) == 1


def test_nothing_younger_than_the_repeat_window_is_pruned_whatever_its_queue_says(
    store: Store, clock: FakeClock
) -> None:
    store.cancel(add(store, queue="short"))
    queues = {"short": AT_ONCE}
    clock.advance(REPEAT_WINDOW)
    assert store.prune({}, queues).jobs == 0
    clock.advance(INSTANT)
    assert store.prune({}, queues).jobs == 1


def test_queue_whose_state_has_no_retention_at_all_is_kept(store: Store, clock: FakeClock) -> None:
    store.cancel(add(store, queue="kept"))
    clock.advance(timedelta(days=99))
    assert store.prune({State.FAILED: timedelta()}, {"kept": {}}).jobs == 0


def test_unique_that_is_held_for_a_time_outlives_the_retention_of_its_job(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    week = timedelta(days=7)
    rules = Rules(unique_until=UniqueUntil.TIME, unique_for=microseconds(week))
    first = add(store, unique="report", rules=rules)
    holder.settle(Complete(holder.take()))
    clock.advance(week - INSTANT)
    assert store.prune(AT_ONCE).jobs == 0
    again = new_job(unique="report", rules=rules)
    assert store.enqueue([again])[0].job == first
    clock.advance(INSTANT)
    assert store.prune(AT_ONCE).jobs == 1
    assert store.enqueue([again])[0].outcome == "new"
