"""rate of a queue: so many jobs begin in a time, counted exactly, whoever claims them."""

from datetime import timedelta

from contract.driver import (
    BOOM,
    SECOND,
    Holder,
    add_many,
    counts,
    view,
)

from limpet.domain.cause import Drained
from limpet.domain.queue import QueueRules
from limpet.domain.rate import Rate, rate_of
from limpet.domain.state import State
from limpet.domain.transition import Complete, Release, RetryAt
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

LONG = timedelta(hours=1)


def limited(store: Store, rate: Rate | None, queue: str = "default") -> None:
    store.limit_queue(queue, QueueRules(rate=rate))


def test_four_holders_keep_a_rate_over_ten_seconds(store: Store, clock: FakeClock) -> None:
    add_many(store, 600)
    limited(store, rate_of("50/s"))
    holders = [Holder(store, lease=LONG) for _ in range(4)]
    starts: list[int] = []
    for turn in range(10 * 20):
        claimed = holders[turn % 4].claim(10)
        starts += [clock.wall()] * len(claimed)
        holders[turn % 4].settle(*(Complete(each.lease) for each in claimed))
        clock.advance(timedelta(milliseconds=50))
    burst = rate_of("50/s").burst
    assert 495 <= len(starts) <= 500 + burst
    for at in range(len(starts)):
        within = [each for each in starts[at:] if each < starts[at] + SECOND]
        assert len(within) <= 50 + burst


def test_claim_takes_what_the_rate_lets_begin_and_says_when_there_is_more(
    store: Store, clock: FakeClock
) -> None:
    jobs = add_many(store, 10)
    rate = Rate(2, SECOND, 1)
    limited(store, rate)
    holder = Holder(store, lease=LONG)
    now = clock.wall()
    answer = holder.exchange(want=holder.want())
    assert [each.lease.job for each in answer.claimed] == jobs[:1]
    assert answer.next_at == now + SECOND // 2
    assert view(store).next_at == now + SECOND // 2
    assert counts(store) == {State.RUNNING: 1, State.READY: 9}
    clock.advance(timedelta(microseconds=SECOND // 2 - 1))
    answer = holder.exchange(want=holder.want())
    assert (answer.claimed, answer.next_at) == ((), now + SECOND // 2)
    clock.advance(timedelta(microseconds=1))
    assert view(store).next_at is None
    assert holder.claim_ids() == jobs[1:2]


def test_bursty_rate_lets_all_begin_at_once_and_come_back_evenly(
    store: Store, clock: FakeClock
) -> None:
    jobs = add_many(store, 20)
    limited(store, Rate(5, SECOND, 5))
    holder = Holder(store, lease=LONG)
    assert holder.claim_ids() == jobs[:5]
    assert holder.claim_ids() == []
    clock.advance(timedelta(milliseconds=200))
    assert holder.claim_ids() == jobs[5:6]
    clock.advance(timedelta(milliseconds=600))
    assert holder.claim_ids() == jobs[6:9]
    clock.advance(timedelta(minutes=1))
    assert holder.claim_ids(2) == jobs[9:11]
    assert holder.claim_ids() == jobs[11:14]


def test_nothing_is_said_of_a_rate_that_kept_nothing_back(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    add_many(store, 2)
    limited(store, Rate(2, SECOND, 2))
    answer = holder.exchange(want=holder.want())
    assert (len(answer.claimed), answer.next_at) == (2, None)


def test_soonest_of_several_queues_is_told(store: Store, clock: FakeClock) -> None:
    for queue, seconds in (("slow", 9), ("fast", 2)):
        add_many(store, 3, queue=queue)
        limited(store, Rate(1, seconds * SECOND, 1), queue)
    holder = Holder(store, lease=LONG)
    answer = holder.exchange(want=holder.want())
    assert sorted(each.queue for each in answer.claimed) == ["fast", "slow"]
    assert answer.next_at == clock.wall() + 2 * SECOND
    clock.advance(timedelta(seconds=2))
    assert [each.queue for each in holder.claim()] == ["fast"]


def test_rate_counts_every_start_also_of_a_job_that_comes_back(
    store: Store, clock: FakeClock
) -> None:
    add_many(store, 1)
    limited(store, Rate(1, SECOND, 1))
    holder = Holder(store, lease=LONG)
    holder.settle(RetryAt(holder.take(), clock.wall(), BOOM))
    store.promote()
    assert holder.claim() == ()
    clock.advance(timedelta(seconds=1))
    holder.settle(Release(holder.take(), Drained()))
    assert holder.claim() == ()
    clock.advance(timedelta(seconds=1))
    assert len(holder.claim()) == 1


def test_end_of_a_job_gives_no_start_back(store: Store, clock: FakeClock) -> None:
    add_many(store, 3)
    limited(store, Rate(1, SECOND, 1))
    holder = Holder(store, lease=LONG)
    answer = holder.exchange(Complete(holder.take()), want=holder.want())
    assert answer.claimed == ()


def test_rate_and_concurrency_both_count(store: Store, clock: FakeClock) -> None:
    add_many(store, 20)
    store.limit_queue("default", QueueRules(3, Rate(5, SECOND, 5)))
    holder = Holder(store, lease=LONG)
    leases = [each.lease for each in holder.claim()]
    assert len(leases) == 3
    answer = holder.exchange(*map(Complete, leases), want=holder.want())
    assert len(answer.claimed) == 2
    assert answer.next_at == clock.wall() + SECOND // 5


def test_claim_that_takes_less_than_the_rate_uses_up_what_it_took(
    store: Store, clock: FakeClock
) -> None:
    add_many(store, 20)
    limited(store, Rate(4, SECOND, 4))
    holder = Holder(store, lease=LONG)
    assert len(holder.claim(1)) == 1
    assert len(holder.claim(10, {"default": 2})) == 2
    assert len(holder.claim()) == 1
    assert holder.claim() == ()


def test_repeat_of_an_exchange_begins_nothing_more(store: Store, clock: FakeClock) -> None:
    add_many(store, 3)
    limited(store, Rate(1, SECOND, 1))
    holder = Holder(store, lease=LONG)
    first = holder.exchange(want=holder.want())
    again = store.exchange(holder.id, holder.seq, (), holder.want())
    assert again.claimed == first.claimed
    clock.advance(timedelta(seconds=1))
    assert len(holder.claim()) == 1


def test_rate_can_be_changed_at_run_time(store: Store, clock: FakeClock) -> None:
    add_many(store, 9)
    limited(store, Rate(1, 60 * SECOND, 1))
    holder = Holder(store, lease=LONG)
    assert len(holder.claim()) == 1
    limited(store, Rate(10, SECOND, 1))
    clock.advance(timedelta(minutes=1))
    assert len(holder.claim()) == 1
    clock.advance(timedelta(milliseconds=100))
    assert len(holder.claim()) == 1
    store.limit_queue("default", None)
    assert len(holder.claim()) == 6


def test_set_rate_starts_where_nothing_was_given_out(store: Store, clock: FakeClock) -> None:
    add_many(store, 9)
    holder = Holder(store, lease=LONG)
    assert len(holder.claim(3)) == 3
    limited(store, Rate(2, SECOND, 2))
    assert len(holder.claim()) == 2
    assert holder.claim() == ()


def test_empty_queue_saves_up_no_more_than_its_burst(store: Store, clock: FakeClock) -> None:
    limited(store, Rate(10, SECOND, 2))
    holder = Holder(store, lease=LONG)
    clock.advance(timedelta(minutes=10))
    assert holder.claim() == ()
    add_many(store, 9)
    assert len(holder.claim()) == 2
