"""exchange of many at once: what a batch does to each job is what the job alone would get."""

from collections.abc import Callable

import pytest
from contract.driver import BOOM, KILLED, Holder, add, add_many, counts, get, new_id, new_job

from limpet.domain.job import Counters
from limpet.domain.lease import Lease, digest
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Rejected, RetryAt, Settlement
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

LONG = "x" * 100_000


def leases(holder: Holder, total: int = 100) -> list[Lease]:
    return [each.lease for each in holder.claim(total)]


def test_batch_over_several_queues_is_completed_and_counted(store: Store, clock: FakeClock) -> None:
    jobs = [*add_many(store, 3, queue="a"), *add_many(store, 2, queue="b"), add(store)]
    holder = Holder(store)
    held = leases(holder)
    assert holder.settle(*(Complete(lease) for lease in held)) == ()
    for job in jobs:
        kept = get(store, job)
        assert (kept.state, kept.finished_at, kept.result) == (
            State.SUCCEEDED,
            clock.wall(),
            "null",
        )
    assert [counts(store, queue)[State.SUCCEEDED] for queue in ("a", "b", "default")] == [3, 2, 1]
    assert holder.renew().digest == digest(())


def test_each_job_of_a_batch_gets_its_own_result(store: Store) -> None:
    jobs = add_many(store, 5)
    holder = Holder(store)
    held = leases(holder)
    long = f'"{LONG}"'
    results = ["null", '"\\u0000 \\"quoted\\" é 🐚"', long, '{"password": "x"}', "[1]"]
    holder.settle(
        *(
            Complete(lease, result, ("password",) if "password" in result else ())
            for lease, result in zip(held, results, strict=True)
        )
    )
    assert [get(store, job).result for job in jobs] == results
    assert [get(store, job).result_secrets for job in jobs] == [(), (), (), ("password",), ()]


def test_success_in_a_batch_forgets_earlier_errors_and_results(
    store: Store, clock: FakeClock
) -> None:
    jobs = add_many(store, 3)
    holder = Holder(store)
    held = leases(holder)
    holder.settle(*(RetryAt(lease, clock.wall(), BOOM) for lease in held[:2]), Complete(held[2]))
    store.promote()
    first, second = leases(holder)
    holder.settle(Complete(first), Complete(second, "2"))
    assert [get(store, job).error for job in jobs] == [None, None, None]
    assert [get(store, job).result for job in jobs] == ["null", "2", "null"]
    assert get(store, jobs[0]).counters == Counters(failures=1)


def _another_token(lease: Lease) -> Lease:
    return lease._replace(token=lease.token + 1)


def _another_session(lease: Lease) -> Lease:
    return lease._replace(session=new_id())


@pytest.mark.parametrize("spoil", [_another_token, _another_session])
def test_late_word_among_good_ones_spoils_nobody_else(
    store: Store, spoil: Callable[[Lease], Lease]
) -> None:
    jobs = add_many(store, 4)
    holder = Holder(store)
    held = leases(holder)
    bad = spoil(held[1])
    words: list[Settlement] = [
        Complete(held[0], "0"),
        Complete(bad),
        Fail(held[2], BOOM),
        Complete(held[3]),
    ]
    assert holder.settle(*words) == (Rejected(bad, "lost"),)
    assert [get(store, job).state for job in jobs] == [
        State.SUCCEEDED,
        State.RUNNING,
        State.FAILED,
        State.SUCCEEDED,
    ]
    assert get(store, jobs[0]).result == "0"
    assert store.held(holder.id) == (held[1],)
    assert holder.renew().digest == digest([(held[1].job, held[1].token)])


def test_batch_of_a_job_that_was_taken_away_completes_the_others(store: Store) -> None:
    jobs = add_many(store, 3)
    holder = Holder(store)
    held = leases(holder)
    holder.release(held[0], cause=KILLED)
    other = Holder(store)
    (taken,) = leases(other)
    assert holder.settle(*map(Complete, held)) == (Rejected(held[0], "lost"),)
    assert [get(store, job).state for job in jobs] == [
        State.RUNNING,
        State.SUCCEEDED,
        State.SUCCEEDED,
    ]
    assert store.held(other.id) == (taken,)


def test_large_payloads_are_claimed_among_small_ones_in_order(store: Store) -> None:
    args = ['{"n": 1}', f'{{"n": "{LONG}"}}', '{"n": 3}', f'{{"n": "{LONG}é"}}']
    options = ["{}", "{}", f'{{"note": "{LONG}"}}', "{}"]
    jobs = [new_job(args=a, options=o) for a, o in zip(args, options, strict=True)]
    jobs[3] = jobs[3]._replace(secrets=("n",))
    store.enqueue(jobs)
    holder = Holder(store)
    claimed = holder.claim()
    assert [each.lease.job for each in claimed] == [job.id for job in jobs]
    assert [each.args for each in claimed] == args
    assert [each.options for each in claimed] == options
    assert [each.secrets for each in claimed] == [(), (), (), ("n",)]
    assert store.exchange(holder.id, 1).claimed == claimed


def test_begun_counts_whatever_else_is_said_of_the_same_job(store: Store) -> None:
    job, other = add_many(store, 2)
    holder = Holder(store)
    held = leases(holder)
    stale = [_another_token(lease) for lease in held]
    holder.renew(begun=[stale[0], held[0], held[1], stale[1], held[0]])
    assert get(store, job).begun
    assert get(store, other).begun
