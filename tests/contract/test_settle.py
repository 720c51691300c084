"""exchange, its settling half: running → what the outcome says, while the lease holds."""

from dataclasses import replace
from datetime import timedelta

import pytest
from contract.driver import (
    BOOM,
    HOOK,
    KILLED,
    MINUTE,
    SECOND,
    Holder,
    add,
    add_many,
    counts,
    get,
    history,
    told,
    total,
)

from limpet.domain.cause import DeadlinePassed, Drained, NotStarted, TooManyStrikes
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.queue import DEFAULT_RETENTION
from limpet.domain.state import FINAL, State
from limpet.domain.transition import (
    MOST_STRIKES,
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Rejected,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock


@pytest.fixture
def holder(store: Store) -> Holder:
    return Holder(store)


@pytest.fixture
def lease(store: Store, holder: Holder) -> Lease:
    """Of a running job that has begun."""
    add(store)
    return holder.take(begin=True)


def test_completed_attempt_succeeds_with_its_result(
    store: Store, clock: FakeClock, holder: Holder, lease: Lease
) -> None:
    clock.advance(timedelta(seconds=2))
    assert holder.settle(Complete(lease, '{"sent": 1}')) == ()
    job = get(store, lease.job)
    assert (job.state, job.result, job.error) == (State.SUCCEEDED, '{"sent": 1}', None)
    assert (job.finished_at, job.counters) == (clock.wall(), Counters())
    assert (job.session, job.token) == (holder.id, lease.token)
    assert told(store, job.id) == [EventName.ENQUEUED, EventName.CLAIMED, EventName.SUCCEEDED]


def test_result_of_nothing_is_null(store: Store, holder: Holder, lease: Lease) -> None:
    holder.settle(Complete(lease))
    assert get(store, lease.job).result == "null"


def test_happy_life_writes_no_event(store: Store, holder: Holder, lease: Lease) -> None:
    holder.settle(Complete(lease))
    assert store.events(lease.job) == ()


@pytest.mark.parametrize("result", ["null", "7"])
def test_success_forgets_the_error_of_an_earlier_attempt(
    store: Store, clock: FakeClock, holder: Holder, lease: Lease, result: str
) -> None:
    holder.settle(RetryAt(lease, clock.wall(), BOOM))
    assert get(store, lease.job).error == BOOM
    store.promote()
    holder.settle(Complete(holder.take(), result))
    job = get(store, lease.job)
    assert (job.state, job.result, job.error) == (State.SUCCEEDED, result, None)


def test_retry_waits_and_spends_a_failure(
    store: Store, clock: FakeClock, holder: Holder, lease: Lease
) -> None:
    at = clock.wall() + SECOND
    assert holder.settle(RetryAt(lease, at, BOOM)) == ()
    job = get(store, lease.job)
    assert (job.state, job.ready_at, job.error) == (State.SCHEDULED, at, BOOM)
    assert (job.counters, job.begun) == (Counters(failures=1), False)
    assert history(store, job.id)[-1].event is EventName.RETRIED
    assert history(store, job.id)[-1].cause == BOOM


def test_snooze_waits_and_spends_nothing(
    store: Store, clock: FakeClock, holder: Holder, lease: Lease
) -> None:
    at = clock.wall() + SECOND
    assert holder.settle(SnoozeUntil(lease, at)) == ()
    job = get(store, lease.job)
    assert (job.state, job.ready_at, job.error) == (State.SCHEDULED, at, None)
    assert job.counters == Counters()
    assert told(store, job.id)[-1] is EventName.SNOOZED


def test_failure_is_final_and_spends_a_failure(
    store: Store, clock: FakeClock, holder: Holder, lease: Lease
) -> None:
    assert holder.settle(Fail(lease, BOOM)) == ()
    job = get(store, lease.job)
    assert (job.state, job.error, job.finished_at) == (State.FAILED, BOOM, clock.wall())
    assert (job.counters, job.result) == (Counters(failures=1), None)
    assert told(store, job.id)[-1] is EventName.FAILED


def test_quarantine_keeps_the_reason_and_spends_nothing(
    store: Store, holder: Holder, lease: Lease
) -> None:
    assert holder.settle(Quarantine(lease, BOOM)) == ()
    job = get(store, lease.job)
    assert (job.state, job.error, job.finished_at) == (State.QUARANTINED, BOOM, None)
    assert job.counters == Counters()
    assert told(store, job.id)[-1] is EventName.QUARANTINED
    assert holder.claim() == ()


def test_release_hands_back_and_spends_nothing(store: Store, holder: Holder, lease: Lease) -> None:
    assert holder.settle(Release(lease, Drained())) == ()
    job = get(store, lease.job)
    assert (job.state, job.counters, job.error) == (State.READY, Counters(), None)
    assert history(store, job.id)[-1].event is EventName.RELEASED
    assert history(store, job.id)[-1].cause == Drained()


def test_confirmed_cancel_ends_the_job(
    store: Store, clock: FakeClock, holder: Holder, lease: Lease
) -> None:
    store.cancel(lease.job)
    assert holder.settle(Cancel(lease)) == ()
    job = get(store, lease.job)
    assert (job.state, job.finished_at) == (State.CANCELLED, clock.wall())
    assert told(store, job.id)[-2:] == [EventName.CANCEL_REQUESTED, EventName.CANCELLED]


def test_orphan_that_ran_alone_gets_a_strike(store: Store, holder: Holder, lease: Lease) -> None:
    assert holder.settle(Orphan(lease, KILLED, begun=True, alone=True)) == ()
    job = get(store, lease.job)
    assert (job.state, job.counters) == (State.READY, Counters(orphans=1, strikes=1))
    assert history(store, job.id)[-1].event is EventName.ORPHANED
    assert history(store, job.id)[-1].cause == KILLED


def test_orphan_that_ran_among_others_is_a_suspect(
    store: Store, holder: Holder, lease: Lease
) -> None:
    holder.settle(Orphan(lease, KILLED, begun=True, alone=False))
    job = get(store, lease.job)
    assert (job.state, job.counters, job.suspect) == (State.READY, Counters(orphans=1), True)


def test_orphan_that_had_not_begun_pays_nothing(store: Store, holder: Holder, lease: Lease) -> None:
    holder.settle(Orphan(lease, KILLED, begun=False, alone=True))
    job = get(store, lease.job)
    assert (job.state, job.counters, job.suspect) == (State.READY, Counters(), False)


def test_suspect_stays_one_until_it_has_run(store: Store, holder: Holder, lease: Lease) -> None:
    holder.settle(Orphan(lease, KILLED, begun=True, alone=False))
    holder.settle(Orphan(holder.take(suspects=1), KILLED, begun=False, alone=True))
    assert get(store, lease.job).suspect


def test_third_strike_fails_the_job_with_every_cause(store: Store, holder: Holder) -> None:
    job = add(store)
    for _ in range(MOST_STRIKES):
        assert get(store, job).state is State.READY
        lease = holder.take(suspects=1)
        holder.settle(Orphan(lease, KILLED, begun=True, alone=True))
    kept = get(store, job)
    assert (kept.state, kept.error) == (State.FAILED, TooManyStrikes(MOST_STRIKES))
    assert kept.counters == Counters(orphans=MOST_STRIKES, strikes=MOST_STRIKES)
    causes = [event.cause for event in history(store, job) if event.cause]
    assert causes == [KILLED] * MOST_STRIKES + [TooManyStrikes(MOST_STRIKES)]


def test_job_at_a_cap_gets_one_last_run_for_its_hook(store: Store, holder: Holder) -> None:
    job = add(store, options=HOOK)
    for _ in range(MOST_STRIKES):
        lease = holder.take(suspects=1)
        holder.settle(Orphan(lease, KILLED, begun=True, alone=True))
    assert (get(store, job).state, get(store, job).last_run) == (State.READY, True)
    (last,) = holder.claim(suspects=1)
    assert last.last_run
    holder.settle(Orphan(last.lease, KILLED, begun=True, alone=True))
    assert get(store, job).state is State.FAILED


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Complete, State.SUCCEEDED),
        (lambda lease: Fail(lease, BOOM), State.FAILED),
        (lambda lease: RetryAt(lease, 2**60, BOOM), State.CANCELLED),
        (lambda lease: SnoozeUntil(lease, 2**60), State.CANCELLED),
        (lambda lease: Quarantine(lease, BOOM), State.CANCELLED),
        (lambda lease: Release(lease, Drained()), State.CANCELLED),
        (Cancel, State.CANCELLED),
        (lambda lease: Orphan(lease, KILLED, begun=True, alone=True), State.CANCELLED),
    ],
    ids=["complete", "fail", "retry", "snooze", "quarantine", "release", "cancel", "orphan"],
)
def test_attempt_whose_cancel_was_requested_does_not_come_back(
    store: Store, holder: Holder, lease: Lease, outcome: type[Cancel], state: State
) -> None:
    store.cancel(lease.job, "enough")
    assert holder.settle(outcome(lease)) == ()
    job = get(store, lease.job)
    assert job.state is state
    assert job.finished_at is not None


@pytest.mark.parametrize("snooze", [True, False])
def test_next_attempt_after_the_deadline_fails_the_job_now(
    store: Store, clock: FakeClock, holder: Holder, snooze: bool
) -> None:
    deadline = clock.wall() + MINUTE
    job = add(store, deadline_at=deadline)
    lease = holder.take()
    again: Settlement = SnoozeUntil(lease, deadline) if snooze else RetryAt(lease, deadline, BOOM)
    holder.settle(again)
    kept = get(store, job)
    assert kept.state is State.FAILED
    assert kept.error == (DeadlinePassed(deadline) if snooze else BOOM)


def test_next_attempt_before_the_deadline_is_tried(
    store: Store, clock: FakeClock, holder: Holder
) -> None:
    job = add(store, deadline_at=clock.wall() + MINUTE)
    holder.settle(RetryAt(holder.take(), clock.wall() + MINUTE - 1, BOOM))
    assert get(store, job).state is State.SCHEDULED


def test_expiry_counts_only_until_the_first_start(
    store: Store, clock: FakeClock, holder: Holder
) -> None:
    job = add(store, expires_at=clock.wall() + SECOND)
    holder.settle(RetryAt(holder.take(begin=True), clock.wall() + MINUTE, BOOM))
    clock.advance(timedelta(minutes=1))
    store.promote()
    assert get(store, job).state is State.READY


def test_expiry_still_counts_for_a_job_handed_back_before_it_began(
    store: Store, clock: FakeClock, holder: Holder
) -> None:
    job = add(store, expires_at=clock.wall() + SECOND)
    holder.settle(Release(holder.take(), NotStarted()))
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert get(store, job).state is State.CANCELLED


def test_expiry_no_longer_counts_for_a_job_handed_back_after_it_began(
    store: Store, clock: FakeClock, holder: Holder
) -> None:
    job = add(store, expires_at=clock.wall() + SECOND)
    holder.settle(Release(holder.take(begin=True), Drained()))
    clock.advance(timedelta(seconds=1))
    store.promote()
    assert get(store, job).state is State.READY


def test_many_outcomes_are_settled_in_one_step(store: Store, holder: Holder) -> None:
    add_many(store, 4)
    leases = [each.lease for each in holder.claim()]
    stale = leases[2]._replace(token=7)
    rejected = holder.settle(
        Complete(leases[0]), Complete(stale), Fail(leases[1], BOOM), Complete(leases[3])
    )
    assert rejected == (Rejected(stale, "lost"),)
    assert counts(store) == {State.SUCCEEDED: 2, State.FAILED: 1, State.RUNNING: 1}


def test_first_of_two_words_on_one_lease_counts(store: Store, holder: Holder, lease: Lease) -> None:
    said = holder.settle(Complete(lease), Fail(lease, BOOM), Complete(lease))
    assert said == (Rejected(lease, "lost"), Rejected(lease, "already"))
    assert said[0].error is not None
    assert said[1].error is None
    assert get(store, lease.job).state is State.SUCCEEDED


_EVERY_OUTCOME: list[Settlement] = [
    Complete(Lease("", "", 0)),
    Fail(Lease("", "", 0), BOOM),
    RetryAt(Lease("", "", 0), 0, BOOM),
    SnoozeUntil(Lease("", "", 0), 0),
    Quarantine(Lease("", "", 0), BOOM),
    Release(Lease("", "", 0), Drained()),
    Cancel(Lease("", "", 0)),
    Orphan(Lease("", "", 0), KILLED, begun=True, alone=True),
]


def _of(outcome: Settlement, lease: Lease) -> Settlement:
    if isinstance(outcome, Complete):
        return outcome._replace(lease=lease)
    return replace(outcome, lease=lease)


@pytest.mark.parametrize("outcome", _EVERY_OUTCOME, ids=lambda each: type(each).__name__)
def test_repeat_of_an_accepted_outcome_is_answered_already(
    store: Store, holder: Holder, lease: Lease, outcome: Settlement
) -> None:
    holder.settle(_of(outcome, lease))
    before = get(store, lease.job), store.events(lease.job)
    assert holder.settle(_of(outcome, lease)) == (Rejected(lease, "already"),)
    assert (get(store, lease.job), store.events(lease.job)) == before


@pytest.mark.parametrize("outcome", _EVERY_OUTCOME[1:], ids=lambda each: type(each).__name__)
def test_repeat_is_known_after_the_job_went_on(
    store: Store, holder: Holder, lease: Lease, outcome: Settlement
) -> None:
    holder.settle(_of(outcome, lease))
    store.promote()
    if get(store, lease.job).state in FINAL:
        store.retry(lease.job, 1)
    Holder(store).claim(suspects=1)
    assert holder.settle(_of(outcome, lease)) == (Rejected(lease, "already"),)


def test_repeat_of_a_success_is_known_after_a_new_round(
    store: Store, holder: Holder, lease: Lease
) -> None:
    holder.settle(Complete(lease))
    store.retry(lease.job, 1)
    Holder(store).take()
    assert holder.settle(Complete(lease)) == (Rejected(lease, "already"),)
    assert get(store, lease.job).state is State.RUNNING


def test_outcome_of_a_pruned_job_is_answered_gone(
    store: Store, clock: FakeClock, holder: Holder, lease: Lease
) -> None:
    holder.settle(Complete(lease))
    clock.advance(timedelta(days=2))
    store.prune(DEFAULT_RETENTION)
    assert holder.settle(Complete(lease)) == (Rejected(lease, "gone"),)


def test_late_holder_is_recorded_once_however_often_it_asks(
    store: Store, holder: Holder, lease: Lease
) -> None:
    holder.vanish()
    for _ in range(3):
        assert holder.settle(Complete(lease), Complete(lease))[0].answer == "lost"
    assert told(store, lease.job).count(EventName.LEASE_LOST) == 1


def test_what_a_job_counted_is_added_to_the_totals_of_its_queue(
    store: Store, holder: Holder
) -> None:
    for queue in ("email", "email", "other"):
        add(store, queue=queue)
    first, second, third = (each.lease for each in holder.claim())
    assert holder.settle(Complete(first, "1", (), (("emails", 40), ("bounced", 2)))) == ()
    holder.settle(
        Complete(second, "1", (), (("emails", 2), ("nothing", 0))),
        Complete(third, "1", (), (("emails", 1_000_000_000_000),)),
    )
    assert total(store, "count:emails", "email") == 42
    assert total(store, "count:bounced", "email") == 2
    assert total(store, "count:emails", "other") == 1_000_000_000_000
    assert total(store, "complete", "email") == 2


def test_what_a_job_counted_is_added_once(store: Store, holder: Holder, lease: Lease) -> None:
    said = Complete(lease, "1", (), (("emails", 5),))
    holder.settle(said)
    assert [each.answer for each in holder.settle(said)] == ["already"]
    store.exchange(holder.id, holder.seq, [said])
    assert total(store, "count:emails") == 5


def test_late_holder_counts_nothing(store: Store, holder: Holder, lease: Lease) -> None:
    holder.vanish()
    holder.settle(Complete(lease, "1", (), (("emails", 5),)))
    assert total(store, "count:emails") == 0
