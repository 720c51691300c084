"""exchange, its claiming half: ready → running, as far as there is room."""

from dataclasses import replace
from datetime import timedelta

from contract.driver import (
    BOOM,
    KILLED,
    SECOND,
    Holder,
    add,
    add_many,
    counts,
    get,
    history,
    new_id,
    new_job,
    told,
)

from limpet.domain.cause import Drained, Needs
from limpet.domain.event import EventName
from limpet.domain.job import Counters
from limpet.domain.lease import Lease
from limpet.domain.session import NewSession, SessionKind
from limpet.domain.state import State
from limpet.domain.transition import Complete, Orphan, Release, RetryAt
from limpet.storage.contract.store import ANY_QUEUE, CHUNK, Pool, Store, Want
from limpet.testing.clock import FakeClock


def test_claimed_job_runs_under_session_and_token(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    (claimed,) = holder.claim()
    assert claimed.lease == Lease(job, holder.id, 1)
    kept = get(store, job)
    assert (kept.state, kept.session, kept.token) == (State.RUNNING, holder.id, 1)
    assert (kept.claimed_at, kept.begun) == (clock.wall(), False)


def test_holder_gets_all_that_it_needs_to_run(store: Store, clock: FakeClock) -> None:
    job = new_job(
        queue="email",
        args='{"a": 1}',
        options='{"timeout": 5}',
        secrets=("a",),
        payload_version=2,
        deadline_at=clock.wall() + SECOND,
    )
    store.enqueue([job])
    (claimed,) = Holder(store).claim()
    assert (claimed.task, claimed.queue, claimed.attempt, claimed.round) == ("task", "email", 1, 1)
    assert (claimed.args, claimed.options, claimed.secrets) == (
        '{"a": 1}',
        '{"timeout": 5}',
        ("a",),
    )
    assert (claimed.payload_version, claimed.deadline_at) == (2, job.deadline_at)
    assert (claimed.counters, claimed.suspect, claimed.last_run) == (Counters(), False, False)


def test_token_grows_with_every_claim(store: Store, clock: FakeClock) -> None:
    add(store)
    holder = Holder(store)
    for token in (1, 2, 3):
        (claimed,) = holder.claim()
        assert claimed.lease.token == token
        holder.settle(RetryAt(claimed.lease, clock.wall(), BOOM))
        store.promote()


def test_attempt_counts_what_was_tried_before(store: Store, clock: FakeClock) -> None:
    add(store)
    holder = Holder(store)
    holder.settle(RetryAt(holder.take(), clock.wall(), BOOM))
    store.promote()
    holder.take(begin=True)
    holder.vanish()
    (claimed,) = Holder(store).claim()
    assert claimed.attempt == 3
    assert claimed.counters == Counters(failures=1, orphans=1)


def test_no_more_are_claimed_than_there_is_room(store: Store) -> None:
    jobs = add_many(store, 5)
    holder = Holder(store)
    assert holder.claim_ids(2) == jobs[:2]
    assert holder.claim_ids(2) == jobs[2:4]
    assert counts(store) == {State.RUNNING: 4, State.READY: 1}


def test_claim_of_nothing_takes_nothing(store: Store) -> None:
    add(store)
    holder = Holder(store)
    assert holder.claim(0) == ()
    assert holder.exchange(want=Want()).claimed == ()
    assert holder.exchange().claimed == ()


def test_running_job_is_not_claimed_again(store: Store) -> None:
    add(store)
    holder, other = Holder(store), Holder(store)
    assert len(holder.claim()) == 1
    assert holder.claim() == ()
    assert other.claim() == ()


def test_slots_bound_each_queue(store: Store) -> None:
    email = add_many(store, 3, queue="email")
    video = add_many(store, 3, queue="video")
    claimed = Holder(store).claim_ids(10, {"email": 2, "video": 1})
    assert sorted(claimed) == sorted([*email[:2], video[0]])


def test_queue_without_slots_is_left_alone(store: Store) -> None:
    add(store, queue="email")
    (job,) = add_many(store, 1, queue="video")
    assert Holder(store).claim_ids(10, {"video": 5}) == [job]


def test_any_queue_means_every_queue_that_is_not_named(store: Store) -> None:
    email = add_many(store, 3, queue="email")
    audio = add_many(store, 3, queue="audio")
    video = add_many(store, 3, queue="video")
    claimed = Holder(store).claim_ids(10, {"email": 1, ANY_QUEUE: 2})
    assert sorted(claimed) == sorted([email[0], *audio[:2], *video[:2]])


def test_queue_named_with_no_slots_gives_nothing_beside_any_other(store: Store) -> None:
    add_many(store, 2, queue="slow")
    other = add(store, queue="other")
    assert Holder(store).claim_ids(10, {"slow": 0, ANY_QUEUE: 5}) == [other]


def test_total_bounds_all_queues_together(store: Store) -> None:
    jobs = [add(store, queue=queue) for queue in ("a", "b", "c")]
    assert Holder(store).claim_ids(2, {ANY_QUEUE: 2}) == jobs[:2]


def test_pools_share_the_slots_of_a_queue(store: Store) -> None:
    jobs = add_many(store, 5)
    holder = Holder(store)
    want = Want((holder.pool(1, {"default": 3}), holder.pool(9, {"default": 3})))
    claimed = holder.exchange(want=want).claimed
    assert [each.lease.job for each in claimed] == jobs[:3]


def test_each_pool_takes_the_tasks_it_can_run(store: Store) -> None:
    one, two = add(store, "one"), add(store, "two")
    holder = Holder(store, ["one", "two"], pools=[["one"], ["two"]])
    first, second = (replace(holder.pool(5), tasks=each) for each in holder.registered.pools)
    claimed = holder.exchange(want=Want((second,))).claimed
    assert [each.lease.job for each in claimed] == [two]
    claimed = holder.exchange(want=Want((second, first))).claimed
    assert [each.lease.job for each in claimed] == [one]


def test_at_most_a_chunk_is_claimed_at_once(store: Store) -> None:
    for _ in range(2):
        add_many(store, CHUNK)
    assert len(Holder(store).claim(2 * CHUNK)) == CHUNK


def test_job_that_another_session_knows_is_left_for_it(store: Store) -> None:
    job = add(store, "theirs")
    other = Holder(store, ["theirs"])
    assert Holder(store).claim() == ()
    assert get(store, job).state is State.READY
    assert other.claim_ids() == [job]


def test_job_whose_task_nobody_knows_is_blocked(store: Store) -> None:
    job = add(store, "strange")
    assert Holder(store).claim() == ()
    kept = get(store, job)
    assert (kept.state, kept.blocked_by) == (State.BLOCKED, "needs task strange")
    assert told(store, job) == [EventName.ENQUEUED, EventName.BLOCKED]
    assert history(store, job)[-1].cause == Needs("task", "strange")


def test_blocked_job_does_not_hold_up_the_line(store: Store) -> None:
    add_many(store, 3, task="strange")
    job = add(store)
    assert Holder(store).claim_ids(1) == [job]


def test_job_that_only_a_dead_session_knew_is_blocked(store: Store) -> None:
    job = add(store, "theirs")
    Holder(store, ["theirs"]).die()
    Holder(store).claim()
    assert get(store, job).state is State.BLOCKED


def test_paused_queue_is_not_claimed_from(store: Store) -> None:
    add(store, queue="email")
    job = add(store, queue="video")
    store.pause("email")
    assert Holder(store).claim_ids() == [job]


def test_job_whose_expiry_has_passed_is_not_claimed(store: Store, clock: FakeClock) -> None:
    add(store, expires_at=clock.wall() + SECOND)
    other = add(store)
    clock.advance(timedelta(seconds=1))
    assert Holder(store).claim_ids() == [other]


def test_job_whose_deadline_has_passed_is_not_claimed(store: Store, clock: FakeClock) -> None:
    add(store, deadline_at=clock.wall() + SECOND)
    clock.advance(timedelta(seconds=1))
    assert Holder(store).claim() == ()


def test_job_that_has_not_expired_yet_is_claimed(store: Store, clock: FakeClock) -> None:
    job = add(store, expires_at=clock.wall() + SECOND, deadline_at=clock.wall() + SECOND)
    clock.advance(timedelta(microseconds=SECOND - 1))
    assert Holder(store).claim_ids() == [job]


def test_scheduled_job_is_not_claimed_before_it_is_promoted(store: Store, clock: FakeClock) -> None:
    add(store, scheduled_for=clock.wall() + SECOND)
    assert Holder(store).claim() == ()


def _suspect(store: Store, holder: Holder, **fields: str) -> str:
    """A job whose executor died while others ran in it."""
    job = add(store, priority=1_000, **fields)
    holder.settle(Orphan(holder.take(), KILLED, begun=True, alone=False))
    return job


def test_suspect_is_claimed_only_where_it_can_run_alone(store: Store) -> None:
    holder = Holder(store)
    job = _suspect(store, holder)
    assert get(store, job).suspect
    assert holder.claim_ids(5, suspects=0) == []
    (claimed,) = holder.claim(5, suspects=1)
    assert (claimed.lease.job, claimed.suspect) == (job, True)


def test_no_more_suspects_are_claimed_than_can_run_alone(store: Store) -> None:
    holder = Holder(store)
    suspects = [_suspect(store, holder, queue=queue) for queue in ("a", "a", "b")]
    plain = add(store, queue="b")
    assert holder.claim_ids(5, suspects=2) == [*suspects[:2], plain]


def test_suspect_that_must_wait_does_not_hold_up_its_queue(store: Store) -> None:
    holder = Holder(store)
    suspects = [_suspect(store, holder, queue=queue) for queue in ("a", "b")]
    plain = add(store, queue="b")
    assert holder.claim_ids(5, {"a": 1, "b": 1}, suspects=1) == [suspects[0], plain]


def test_settling_makes_room_in_the_same_step(store: Store) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    lease = holder.take()
    answer = holder.exchange(Complete(lease), want=holder.want(1))
    assert [each.lease.job for each in answer.claimed] == [second]
    assert get(store, first).state is State.SUCCEEDED


def test_job_handed_back_can_be_claimed_in_the_same_step(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    answer = holder.exchange(Release(holder.take(), Drained()), want=holder.want())
    assert [each.lease for each in answer.claimed] == [Lease(job, holder.id, 2)]


def test_pool_takes_only_the_part_of_the_tasks_that_it_can_run(store: Store) -> None:
    slow, quick = add(store, "slow"), add(store, "quick")
    session = NewSession(
        new_id(),
        SessionKind.WORKER,
        "worker",
        "host",
        1,
        tasks=frozenset({"slow", "quick"}),
        pools=(frozenset({"slow"}), frozenset({"quick"})),
    )
    lanes, loop = store.register(session).pools
    assert store.register(session).pools == (lanes, loop)
    room = Want((Pool(lanes, {ANY_QUEUE: 5}, 0), Pool(loop, {ANY_QUEUE: 5}, 5)))
    claimed = store.exchange(session.id, 1, (), room).claimed
    assert [job.lease.job for job in claimed] == [quick]
    assert get(store, slow).state is State.READY
