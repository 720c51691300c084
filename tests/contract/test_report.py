"""report: progress and log lines of held jobs."""

from contract.driver import BOOM, LEASE, Holder, add, add_many, get, new_id

from limpet.domain.job import LogLine, Progress, Report
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.domain.transition import Complete, Rejected, RetryAt
from limpet.storage.contract.store import CHUNK, Store
from limpet.testing.clock import FakeClock

HALF = Progress(done=5, total=10, note="half", at=7)


def lines(*messages: str) -> tuple[LogLine, ...]:
    return tuple(LogLine(at, "info", message) for at, message in enumerate(messages))


def test_progress_is_kept(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    assert store.report(holder.id, [Report(holder.take(), HALF)]) == ()
    assert (get(store, job).state, get(store, job).progress) == (State.RUNNING, HALF)


def test_last_progress_counts(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    done = Progress(done=1, total=None, note="", at=9)
    store.report(holder.id, [Report(lease, HALF)])
    store.report(holder.id, [Report(lease, done)])
    assert get(store, job).progress == done


def test_repeat_of_progress_changes_nothing(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.report(holder.id, [Report(lease, HALF)])
    before = get(store, job)
    assert store.report(holder.id, [Report(lease, HALF)]) == ()
    assert get(store, job) == before


def test_progress_belongs_to_the_attempt(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.report(holder.id, [Report(lease, HALF)])
    holder.settle(RetryAt(lease, clock.wall(), BOOM))
    store.promote()
    holder.take()
    assert get(store, job).progress is None


def test_progress_is_still_told_when_the_job_has_succeeded(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.report(holder.id, [Report(lease, HALF)])
    holder.settle(Complete(lease))
    assert get(store, job).progress == HALF


def test_lines_are_kept_in_order_over_all_attempts(store: Store, clock: FakeClock) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.report(holder.id, [Report(lease, lines=lines("a", "b"))])
    store.report(holder.id, [Report(lease, lines=lines("c"))])
    holder.settle(RetryAt(lease, clock.wall(), BOOM))
    store.promote()
    store.report(holder.id, [Report(holder.take(), lines=lines("d"))])
    assert [line.message for line in store.log(job)] == ["a", "b", "c", "d"]
    assert store.log(job)[0] == LogLine(0, "info", "a")


def test_oldest_lines_give_way_at_the_cap(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    store.report(holder.id, [Report(lease, lines=lines(*map(str, range(CHUNK))))])
    store.report(holder.id, [Report(lease, lines=lines("last"))])
    kept = [line.message for line in store.log(job)]
    assert (len(kept), kept[0], kept[-1]) == (CHUNK, "1", "last")


def test_two_reports_on_one_lease_are_both_kept(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    both = [Report(lease, lines=lines("a")), Report(lease, HALF, lines("b"))]
    assert store.report(holder.id, both) == ()
    assert [line.message for line in store.log(job)] == ["a", "b"]
    assert get(store, job).progress == HALF


def test_what_holds_is_kept_and_what_does_not_is_rejected(store: Store) -> None:
    first, second = add_many(store, 2)
    holder = Holder(store)
    leases = [each.lease for each in holder.claim()]
    stale = leases[1]._replace(token=0)
    rejected = store.report(holder.id, [Report(leases[0], HALF), Report(stale, HALF)])
    assert rejected == (Rejected(stale, "lost"),)
    assert (get(store, first).progress, get(store, second).progress) == (HALF, None)


def test_session_past_its_moment_may_still_report(store: Store, clock: FakeClock) -> None:
    add(store)
    holder = Holder(store)
    lease = holder.take()
    clock.advance(LEASE)
    assert store.report(holder.id, [Report(lease, HALF)]) == ()


def test_dead_session_may_not_report(store: Store) -> None:
    job = add(store)
    holder = Holder(store)
    lease = holder.take()
    holder.die()
    rejected = store.report(holder.id, [Report(lease, HALF, lines("late"))])
    assert rejected == (Rejected(lease, "lost"),)
    assert (get(store, job).progress, store.log(job)) == (None, ())


def test_report_on_a_job_that_is_not_there_is_answered_gone(store: Store) -> None:
    holder = Holder(store)
    lease = Lease(new_id(), holder.id, 1)
    assert store.report(holder.id, [Report(lease, HALF)]) == (Rejected(lease, "gone"),)
