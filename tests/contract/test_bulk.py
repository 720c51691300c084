"""ops.bulk and ops.selection: what is done to many jobs, on every store, while they move."""

import threading
from datetime import timedelta

import pytest
from contract.driver import BOOM, SECOND, Holder, add, add_many, get, state, states, told
from contract.families import flow

from limpet.domain.cause import Raised, TimedOut
from limpet.domain.errors import InvalidOption, QueueDraining
from limpet.domain.event import EventName
from limpet.domain.rules import Rules
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail, Quarantine, RetryAt
from limpet.ops.bulk import MOST_REFUSALS, discard_many, requeue_many, retry_many
from limpet.ops.record import plain
from limpet.ops.selection import Selection
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

ANY = Selection()
CANCELLED, FAILED, READY = State.CANCELLED, State.FAILED, State.READY
RUNNING, SUCCEEDED = State.RUNNING, State.SUCCEEDED


def chosen(store: Store, which: Selection) -> list[str]:
    return [job.id for page in which.pages(store) for job in page]


def fail_all(store: Store, number: int, **fields: object) -> list[str]:
    """That many failed jobs."""
    jobs = add_many(store, number, **fields)
    holder = Holder(store, tasks=("task", "other"))
    while claimed := holder.claim(1000):
        holder.settle(*(Fail(each.lease, BOOM) for each in claimed))
    return jobs


# -- choosing


def test_jobs_are_chosen_by_what_the_store_and_the_reader_know(store: Store) -> None:
    plain = add(store)
    other = add(store, "other", queue="q")
    keyed = add(store, key="k")
    later = add(store, scheduled_for=2**60)
    assert chosen(store, ANY) == [later, keyed, other, plain]
    assert chosen(store, Selection(queue="q")) == [other]
    assert chosen(store, Selection(task="task", state=READY)) == [keyed, plain]
    assert chosen(store, Selection(key="k")) == [keyed]
    assert chosen(store, Selection(state=State.SCHEDULED, queue="q")) == []


def test_jobs_are_chosen_by_kind_class_or_text_of_their_error(store: Store, holder: Holder) -> None:
    raised, late, fine = add(store), add(store), add(store)
    leases = {each.lease.job: each.lease for each in holder.claim()}
    holder.settle(
        Fail(leases[raised], Raised("AuthError", "the token of 42 is over")),
        Fail(leases[late], TimedOut(60.0)),
        Complete(leases[fine]),
    )
    for text, job in (
        ("AuthError", raised), ("autherror", raised), ("TOKEN OF", raised), ("Raised", raised),
        ("TimedOut", late), ("timeout of 1m", late),
    ):  # fmt: skip
        assert chosen(store, Selection(error=text)) == [job]
    assert chosen(store, Selection(error="nothing like it")) == []


def test_jobs_are_chosen_by_when_they_came_and_ended(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    times, jobs = [], []
    for _ in range(3):
        times.append(clock.wall())
        jobs.append(add(store))
        clock.advance(timedelta(seconds=1))
    assert chosen(store, Selection(created_since=times[1])) == [jobs[2], jobs[1]]
    assert chosen(store, Selection(created_until=times[1])) == [jobs[0]]
    assert chosen(store, Selection(created_since=times[1], created_until=times[2])) == [jobs[1]]
    ended = clock.wall()
    holder.settle(Complete(holder.take()))
    assert chosen(store, Selection(finished_since=ended)) == [jobs[0]]
    assert chosen(store, Selection(finished_until=ended)) == []


def test_children_are_chosen_by_their_parent_and_what_is_below_by_the_root(store: Store) -> None:
    top, below = flow(store, 3)
    add(store)
    assert chosen(store, Selection(parent=top)) == below
    assert chosen(store, Selection(parent=top, state=State.BLOCKED)) == []
    rooted = add(store, root=top)
    assert chosen(store, Selection(root=top)) == [rooted]


def test_pages_of_what_only_the_reader_knows_neither_repeat_nor_leave_out(store: Store) -> None:
    wanted = [
        job for job in add_many(store, 30, key="k", rules=Rules(key_limit=99))
        for _ in add_many(store, 3)
    ][::3]  # fmt: skip
    which, found, cursor = Selection(key="k"), [], None
    while True:
        page, cursor = which.page(store, cursor, 7)
        assert len(page) <= 7
        found += [job.id for job in page]
        if cursor is None:
            break
    assert found == sorted(set(wanted), reverse=True)


# -- retry


def test_failed_jobs_are_retried_in_a_new_round(store: Store) -> None:
    jobs = fail_all(store, 3)
    fine = add(store)
    tally = retry_many(store, ANY)
    assert (tally.done, tally.refused, tally.skipped) == (3, 0, {})
    assert states(store, jobs) == [READY] * 3
    assert {get(store, job).round for job in jobs} == {2}
    assert get(store, fine).round == 1
    assert retry_many(store, ANY).matched == 0


def test_more_than_a_page_is_retried(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limpet.ops.selection.CHUNK", 20)
    jobs = fail_all(store, 25)
    seen: list[int] = []
    tally = retry_many(store, ANY, on_progress=lambda tally: seen.append(tally.matched))
    assert tally.done == 25
    assert seen == [20, 25]
    assert states(store, jobs) == [READY] * 25


def test_dry_run_counts_and_changes_nothing(store: Store) -> None:
    jobs = fail_all(store, 2)
    waiting = add(store)
    assert retry_many(store, ANY, dry_run=True).done == 2
    assert plain(discard_many(store, ANY, dry_run=True)) == {
        "dry_run": True, "matched": 3, "done": 1, "asked": 0,
        "skipped": {"already failed": 2}, "refused": 0, "refusals": (),
    }  # fmt: skip
    assert requeue_many(store, ANY, "q", dry_run=True).done == 1
    assert states(store, [*jobs, waiting]) == [FAILED, FAILED, READY]
    assert get(store, waiting).queue == "default"


def test_only_jobs_that_fit_are_retried(store: Store) -> None:
    mine = fail_all(store, 2, queue="mine")
    others = fail_all(store, 2, queue="others")
    assert retry_many(store, Selection(queue="mine", error="boom")).done == 2
    assert states(store, mine + others) == [READY, READY, FAILED, FAILED]


def test_what_is_not_finished_is_skipped_by_retry(store: Store) -> None:
    add_many(store, 2)
    tally = retry_many(store, Selection(state=READY))
    assert dict(tally.skipped) == {"ready, not finished": 2}


def test_retry_that_the_store_refuses_is_told_and_the_others_go_on(
    store: Store, holder: Holder
) -> None:
    """Another job holds the unique of one of them by now."""
    first = add(store, unique="u")
    lease = holder.take()
    holder.settle(Fail(lease, BOOM))
    add(store, unique="u")
    plain = failed_apart(store)
    tally = retry_many(store, Selection(state=FAILED))
    assert (tally.done, tally.refused) == (1, 1)
    assert tally.refusals[0].id == first
    assert "unique" in tally.refusals[0].why
    assert (state(store, first), state(store, plain)) == (FAILED, READY)


def failed_apart(store: Store) -> str:
    job = add(store, queue="apart")
    holder = Holder(store)
    (claimed,) = holder.claim(1, {"apart": 1})
    holder.settle(Fail(claimed.lease, BOOM))
    return job


def test_refusals_are_counted_and_only_the_first_are_told(store: Store, holder: Holder) -> None:
    for number in range(MOST_REFUSALS + 5):
        add(store, unique=str(number))
    holder.settle(*(Fail(each.lease, BOOM) for each in holder.claim(100)))
    for number in range(MOST_REFUSALS + 5):
        add(store, unique=str(number))
    tally = retry_many(store, ANY)
    assert tally.refused == MOST_REFUSALS + 5
    assert len(tally.refusals) == MOST_REFUSALS


# -- discard


def test_discard_cancels_what_waits_and_asks_what_runs_to_stop(
    store: Store, holder: Holder
) -> None:
    runs = add(store)
    lease = holder.take()
    ready, later = add(store), add(store, scheduled_for=2**60)
    blocked = [add(store, key="k"), add(store, key="k")]
    tally = discard_many(store, ANY, "not needed")
    assert (tally.done, tally.asked) == (4, 1)
    assert states(store, [ready, later, *blocked]) == [CANCELLED] * 4
    assert get(store, runs).cancel_requested_at is not None
    assert str(get(store, ready).error) == "not needed"
    again = discard_many(store, ANY)
    assert (again.done, again.asked) == (0, 0)
    assert dict(again.skipped) == {"already asked to stop": 1}
    holder.settle(Complete(lease))


def test_discard_cancels_quarantined_jobs_and_keeps_their_history(
    store: Store, holder: Holder
) -> None:
    job = add(store)
    holder.settle(Quarantine(holder.take(), BOOM))
    assert discard_many(store, Selection(state=State.QUARANTINED)).done == 1
    assert state(store, job) is CANCELLED
    assert told(store, job)[-2:] == [EventName.QUARANTINED, EventName.CANCELLED]


def test_discard_takes_the_relaunch_of_failed_jobs_away(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    holder.settle(Fail(holder.take(), BOOM, clock.wall() + SECOND))
    tally = discard_many(store, ANY)
    assert (tally.done, tally.skipped) == (1, {})
    clock.advance(timedelta(seconds=2))
    store.promote()
    assert state(store, job) is FAILED
    assert get(store, job).relaunch_at is None
    assert dict(discard_many(store, ANY).skipped) == {"already failed": 1}


def test_discard_leaves_what_is_finished(store: Store, holder: Holder) -> None:
    job = add(store)
    holder.settle(Complete(holder.take()))
    assert discard_many(store, ANY).matched == 0
    assert dict(discard_many(store, Selection(state=SUCCEEDED)).skipped) == {"already succeeded": 1}
    assert state(store, job) is SUCCEEDED


# -- move


def test_waiting_jobs_are_moved_to_another_queue_in_their_order(
    store: Store, holder: Holder
) -> None:
    jobs = add_many(store, 3, queue="old")
    later = add(store, queue="old", scheduled_for=2**60)
    tally = requeue_many(store, Selection(queue="old"), "new")
    assert tally.done == 4
    assert holder.claim_ids(10, {"new": 10}) == jobs
    assert get(store, later).queue == "new"
    assert holder.claim_ids(10, {"old": 10}) == []


def test_jobs_that_run_or_are_there_already_are_not_moved(store: Store, holder: Holder) -> None:
    runs = add(store)
    holder.take()
    add(store, queue="new")
    assert dict(requeue_many(store, Selection(state=READY), "new").skipped) == {"already in new": 1}
    assert dict(requeue_many(store, Selection(state=RUNNING), "new").skipped) == {
        "running, not waiting": 1
    }
    assert get(store, runs).queue == "default"


def test_nothing_is_moved_to_a_queue_that_is_drained_or_has_no_name(store: Store) -> None:
    job = add(store)
    add(store, queue="new")
    store.drain_queue("new")
    with pytest.raises(QueueDraining):
        requeue_many(store, ANY, "new")
    with pytest.raises(InvalidOption):
        requeue_many(store, ANY, "no name")
    assert get(store, job).queue == "default"


# -- while jobs move


def test_job_that_moves_on_after_it_was_chosen_is_not_touched(
    store: Store, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is chosen while it is ready, and runs to its end before its turn comes."""
    job = add(store)
    before = [get(store, job)]
    monkeypatch.setattr(Selection, "pages", lambda *_: iter([before]))
    holder.settle(Complete(holder.take()))
    tally = discard_many(store, Selection(state=READY))
    assert (tally.done, dict(tally.skipped)) == (0, {"succeeded meanwhile": 1})
    assert dict(requeue_many(store, Selection(state=READY), "new").skipped) == {
        "moved on meanwhile": 1
    }


def test_job_that_was_retried_by_another_is_not_retried_twice(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = fail_all(store, 1)
    before = [get(store, job)]
    monkeypatch.setattr(Selection, "pages", lambda *_: iter([before]))
    assert retry_many(store, ANY).done == 1
    assert retry_many(store, ANY).done == 1
    assert get(store, job).round == 2


def test_job_that_runs_again_after_it_was_chosen_is_refused(
    store: Store, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = fail_all(store, 1)
    before = [get(store, job)]
    monkeypatch.setattr(Selection, "pages", lambda *_: iter([before]))
    for _ in range(2):
        store.retry(job, get(store, job).round)
        lease = holder.take()
        holder.settle(Fail(lease, BOOM))
    tally = retry_many(store, ANY)
    assert (tally.done, tally.refused) == (0, 1)
    assert get(store, job).round == 3


def test_job_that_moves_on_while_many_are_discarded_is_met_again(
    store: Store, clock: FakeClock
) -> None:
    """One that is not scheduled yet when those are read is ready when they are."""
    add(store, scheduled_for=2**60)
    late: list[str] = []

    def hand_in(_: object) -> None:
        if not late:
            late.append(add(store))

    assert discard_many(store, ANY, on_progress=hand_in).done == 2
    assert states(store, late) == [CANCELLED]


def test_retrying_job_in_backoff_is_discarded(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND, BOOM))
    assert discard_many(store, Selection(error="boom")).done == 1
    assert state(store, job) is CANCELLED


def test_pruned_job_is_skipped(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = fail_all(store, 1)
    before = [get(store, job)]
    monkeypatch.setattr(Selection, "pages", lambda *_: iter([before]))
    clock.advance(timedelta(hours=2))
    store.prune({FAILED: timedelta(minutes=1)})
    assert store.job(job) is None
    assert dict(retry_many(store, ANY).skipped) == {"pruned meanwhile": 1}


def test_many_are_discarded_while_a_worker_runs_them(store: Store) -> None:
    """Whoever is first has the job: each is done once, and counted as what it became."""
    jobs = [job for _ in range(3) for job in add_many(store, 40)]
    over = threading.Event()

    def work() -> None:
        holder = Holder(store)
        while claimed := holder.claim(5):
            holder.settle(*(Complete(each.lease) for each in claimed))
            over.wait(0.001)

    worker = threading.Thread(target=work)
    worker.start()
    tally = discard_many(store, ANY)
    over.set()
    worker.join()
    ended = list(store.states(jobs).values())
    assert set(ended) <= {CANCELLED, SUCCEEDED}
    # What was asked to stop while it ran was finished nonetheless, or cancelled.
    assert tally.done <= ended.count(CANCELLED) <= tally.done + tally.asked
    assert tally.refused == 0
