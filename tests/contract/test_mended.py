"""What once went wrong in a store, and must not again; each test failed before its fix."""

import threading

import pytest
from contract.driver import BOOM, KILLED, LEASE, Holder, add, get, new_id

from limpet.domain.cause import Raised
from limpet.domain.job import LogLine, Progress, Report
from limpet.domain.session import NewSession, SessionKind, Standing
from limpet.domain.state import State
from limpet.domain.transition import Fail, Orphan, Rejected, RetryAt
from limpet.storage.contract.store import ANY_QUEUE, Pool, Store, Want
from limpet.testing.clock import FakeClock


def test_text_that_is_no_text_is_kept_as_far_as_it_is(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    (claimed,) = holder.claim()
    odd = "no such file: \udcff"
    report = Report(claimed.lease, Progress(2**70, None, odd, 1), (LogLine(1, "INFO", odd),))
    assert store.report(holder.id, [report]) == ()
    assert store.log(job)[0].message == "no such file: ?"
    assert holder.settle(Fail(claimed.lease, Raised("OSError", odd))) == ()
    assert str(get(store, job).error) == "OSError: no such file: ?"


def test_one_bad_verb_takes_nobody_along(store: Store) -> None:
    gate = threading.Barrier(8)
    good: list[str] = []

    def enqueue() -> None:
        gate.wait()
        good.append(add(store))

    def bad() -> None:
        gate.wait()
        with pytest.raises(Exception, match="type object"):  # not a text
            store.cancel(object())  # type: ignore[arg-type]

    threads = [threading.Thread(target=enqueue) for _ in range(4)]
    threads += [threading.Thread(target=bad) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(good) == 4


def test_repeat_of_a_dead_session_is_handed_no_job(store: Store) -> None:
    add(store)
    holder = Holder(store)
    holder.claim()
    store.end(holder.id, KILLED)
    answer = store.exchange(holder.id, 1)
    assert (answer.standing, answer.claimed) == (Standing.DEAD, ())


def test_pool_for_any_queue_is_not_charged_with_what_another_pool_took(store: Store) -> None:
    for _ in range(6):
        add(store, "slow")
        add(store, "quick")
    session = NewSession(
        new_id(),
        SessionKind.WORKER,
        "worker",
        "host",
        1,
        tasks=frozenset({"slow", "quick"}),
        pools=(frozenset({"quick"}), frozenset({"slow"})),
    )
    loop, lanes = store.register(session).pools
    want = Want((Pool(loop, {ANY_QUEUE: 5}, 5), Pool(lanes, {ANY_QUEUE: 2}, 2)))
    claimed = store.exchange(session.id, 1, (), want).claimed
    assert sorted(job.task for job in claimed) == ["quick"] * 5 + ["slow"] * 2


def test_suspect_stays_one_until_it_has_been_seen_to_run_alone(
    store: Store, clock: FakeClock
) -> None:
    job = add(store)
    holder = Holder(store)
    (claimed,) = holder.claim()
    holder.settle(Orphan(claimed.lease, KILLED, begun=True, alone=False))
    (alone,) = holder.claim(suspects=1)
    store.renew(holder.id, [alone.lease])
    clock.advance(LEASE)
    store.expire()
    store.recover(holder.id)
    assert get(store, job).suspect
    other = Holder(store)
    (again,) = other.claim(suspects=1)
    other.settle(RetryAt(again.lease, clock.wall() + 1, BOOM))
    assert not get(store, job).suspect


def test_another_outcome_after_an_accepted_one_is_late(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    (claimed,) = holder.claim()
    retry = RetryAt(claimed.lease, 1, BOOM)
    assert holder.settle(retry) == ()
    assert holder.settle(Fail(claimed.lease, BOOM)) == (Rejected(claimed.lease, "lost"),)
    assert holder.settle(retry) == (Rejected(claimed.lease, "already"),)
    assert get(store, job).state is State.SCHEDULED
