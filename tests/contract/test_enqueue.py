"""enqueue: (nothing) → ready or scheduled; one id is one job."""

from datetime import timedelta

import pytest
from contract.driver import MINUTE, SECOND, Holder, add, add_many, counts, get, new_id, new_job

from limpet.domain.job import NewJob
from limpet.domain.rate import Rate
from limpet.domain.rules import NO_RULES, ChildFailure, Rules, UniqueUntil
from limpet.domain.state import State
from limpet.domain.transition import Complete
from limpet.storage.contract.answers import Receipt
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

EVERY_RULE = Rules(
    key_limit=3,
    key_rate=Rate(5, MINUTE, 2),
    key_strict=True,
    unique_until=UniqueUntil.TIME,
    unique_for=MINUTE,
    replaces=True,
    child_failure=ChildFailure.KEEP,
)


def test_enqueued_job_reads_back_as_it_was_given(store: Store, clock: FakeClock) -> None:
    now = clock.wall()
    job = NewJob(
        id=new_id(),
        task="send",
        args='{"to": "a@b.c", "password": "x"}',
        queue="email",
        options='{"timeout": 60, "of_a_newer_version": [1]}',
        secrets=("password",),
        priority=5,
        expires_at=now + MINUTE,
        deadline_at=now + 2 * MINUTE,
        key="customer:42",
        unique="welcome:42",
        parent=add(store, rules=Rules(children=1)),
        root=new_id(),
        weight_class="heavy",
        payload_version=3,
        rules=EVERY_RULE,
    )
    assert store.enqueue([job]) == [Receipt(job.id, "new", State.READY)]
    kept = get(store, job.id)
    for name in job._fields:
        if name != "scheduled_for":
            assert getattr(kept, name) == getattr(job, name), name
    assert (kept.state, kept.created_at, kept.ready_at) == (State.READY, now, now)
    assert (kept.round, kept.token, kept.counters) == (1, 0, (0, 0, 0))
    assert (kept.session, kept.claimed_at, kept.finished_at) == (None, None, None)
    assert (kept.pending, kept.relaunch_at, kept.blocked_by) == (0, None, None)


def test_job_without_rules_reads_back_with_none_that_say_anything(store: Store) -> None:
    assert get(store, add(store)).rules == NO_RULES
    assert get(store, add(store, rules=NO_RULES)).rules == NO_RULES
    assert get(store, add(store, rules=Rules(children=2))).rules == Rules(children=2)


def test_job_for_later_is_scheduled(store: Store, clock: FakeClock) -> None:
    at = clock.wall() + 1
    job = new_job(scheduled_for=at)
    assert store.enqueue([job]) == [Receipt(job.id, "new", State.SCHEDULED)]
    assert (get(store, job.id).state, get(store, job.id).ready_at) == (State.SCHEDULED, at)


def test_job_scheduled_for_the_past_is_ready_now(store: Store, clock: FakeClock) -> None:
    job = add(store, scheduled_for=clock.wall() - MINUTE)
    assert (get(store, job).state, get(store, job).ready_at) == (State.READY, clock.wall())


def test_many_are_answered_in_their_order(store: Store, clock: FakeClock) -> None:
    jobs = [new_job(queue="a"), new_job(scheduled_for=clock.wall() + SECOND), new_job(queue="b")]
    receipts = store.enqueue(jobs)
    assert [receipt.job for receipt in receipts] == [job.id for job in jobs]
    assert [receipt.state for receipt in receipts] == [State.READY, State.SCHEDULED, State.READY]


def test_nothing_to_enqueue_is_no_error(store: Store) -> None:
    assert store.enqueue([]) == []


def test_more_than_a_chunk_is_refused_whole(store: Store) -> None:
    jobs = [new_job() for _ in range(CHUNK + 1)]
    with pytest.raises(ValueError, match="at most 1000"):
        store.enqueue(jobs)
    assert store.states([job.id for job in jobs]) == {}
    with pytest.raises(ValueError, match="at most 1000"):
        store.stage(new_id(), 0, jobs)
    with pytest.raises(ValueError, match="at most 1000"):
        store.requeue([job.id for job in jobs], "other")


def test_repeat_is_one_job_and_changes_nothing(store: Store, clock: FakeClock) -> None:
    job = new_job(args='{"first": 1}')
    store.enqueue([job])
    before = get(store, job.id)
    clock.advance(timedelta(minutes=59))
    again = job._replace(args='{"second": 2}', queue="other", priority=9)
    assert store.enqueue([again]) == [Receipt(job.id, "already", State.READY)]
    assert get(store, job.id) == before
    assert counts(store) == {State.READY: 1}
    assert counts(store, "other") == {}


def test_repeat_among_new_ones_is_told_apart(store: Store) -> None:
    jobs = [new_job() for _ in range(5)]
    store.enqueue([jobs[1], jobs[3]])
    outcomes = [receipt.outcome for receipt in store.enqueue(jobs)]
    assert outcomes == ["new", "already", "new", "already", "new"]
    assert counts(store) == {State.READY: 5}


def test_repeat_is_told_the_state_that_the_job_has_reached(store: Store) -> None:
    job = new_job()
    store.enqueue([job])
    holder = Holder(store)
    lease = holder.take()
    assert store.enqueue([job]) == [Receipt(job.id, "already", State.RUNNING)]
    holder.settle(Complete(lease))
    assert store.enqueue([job]) == [Receipt(job.id, "already", State.SUCCEEDED)]


def test_id_that_comes_twice_in_one_call_is_one_job(store: Store) -> None:
    job = new_job(args='{"n": 1}')
    store.enqueue([job, new_job(), job._replace(args='{"n": 2}')])
    assert counts(store) == {State.READY: 2}
    assert get(store, job.id).args == '{"n": 1}'


def test_job_over_the_cap_is_refused_and_the_others_are_written(store: Store) -> None:
    jobs = [new_job() for _ in range(3)]
    receipts = store.enqueue(jobs, caps={"default": 2})
    assert [receipt.outcome for receipt in receipts] == ["new", "new", "full"]
    assert receipts[2] == Receipt(jobs[2].id, "full", None, 2)
    assert store.job(jobs[2].id) is None


def test_cap_of_one_queue_leaves_the_others_alone(store: Store) -> None:
    add_many(store, 2)
    jobs = [new_job(queue="other"), new_job(), new_job(queue="third")]
    receipts = store.enqueue(jobs, caps={"default": 2, "other": 1})
    assert [receipt.outcome for receipt in receipts] == ["new", "full", "new"]


def test_cap_counts_every_job_that_waits(store: Store, clock: FakeClock) -> None:
    add(store, scheduled_for=clock.wall() + SECOND)
    add(store, "nobody-knows")
    Holder(store).claim()
    assert counts(store) == {State.SCHEDULED: 1, State.BLOCKED: 1}
    (receipt,) = store.enqueue([new_job()], caps={"default": 2})
    assert (receipt.outcome, receipt.waiting) == ("full", 2)


def test_running_and_finished_jobs_take_no_room(store: Store) -> None:
    add_many(store, 2)
    holder = Holder(store)
    holder.settle(Complete(holder.take()))
    holder.take()
    (receipt,) = store.enqueue([new_job()], caps={"default": 1})
    assert receipt.outcome == "new"


def test_repeat_needs_no_room(store: Store) -> None:
    job = new_job()
    store.enqueue([job], caps={"default": 1})
    (receipt,) = store.enqueue([job], caps={"default": 1})
    assert receipt.outcome == "already"


def test_all_or_none_writes_none_when_one_is_full(store: Store) -> None:
    jobs = [new_job(queue="other"), new_job(), new_job()]
    receipts = store.enqueue(jobs, caps={"default": 1}, all_or_none=True)
    assert [receipt.outcome for receipt in receipts] == ["full", "full", "full"]
    assert store.states([job.id for job in jobs]) == {}


def test_all_or_none_writes_all_when_there_is_room(store: Store) -> None:
    receipts = store.enqueue([new_job(), new_job()], caps={"default": 2}, all_or_none=True)
    assert [receipt.outcome for receipt in receipts] == ["new", "new"]


def test_all_or_none_does_not_deny_a_job_that_is_there(store: Store) -> None:
    known = new_job()
    store.enqueue([known])
    receipts = store.enqueue([known, new_job()], caps={"default": 1}, all_or_none=True)
    assert receipts[0] == Receipt(known.id, "already", State.READY)
    assert receipts[1].outcome == "full"


def test_nothing_is_written_before_its_turn(store: Store) -> None:
    job, seen = new_job(), []
    store.enqueue([job], before_write=lambda: seen.append(store.job(job.id)))
    assert seen == [None]
    assert get(store, job.id).state is State.READY


@pytest.mark.parametrize("caps", [None, {"default": 5}])
def test_nothing_is_written_where_its_turn_does_not_come(
    store: Store, caps: dict[str, int] | None
) -> None:
    job = new_job()

    def before_write() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        store.enqueue([job], caps=caps, before_write=before_write)
    assert store.job(job.id) is None
    assert store.enqueue([job], caps=caps)[0].outcome == "new"
