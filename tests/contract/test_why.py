"""ops.why: a job that does not run says why, in one reason, on every store."""

from datetime import timedelta
from typing import Any

import pytest
from contract.driver import BOOM, SECOND, Holder, add, add_many, new_id
from contract.families import KEEP, flow
from contract.reasons import of_queue, why

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.cause import Raised
from limpet.domain.errors import InvalidOption, JobNotFound
from limpet.domain.queue import QueueRules
from limpet.domain.rate import rate_of
from limpet.domain.rules import Rules
from limpet.domain.transition import Complete, Fail, Orphan, Quarantine, RetryAt
from limpet.ops.reason import ChildrenReason, KeyReason, Kind, Reason, RunningReason
from limpet.ops.record import iso, plain
from limpet.ops.why import why_job
from limpet.storage.contract.relocation import MoveStage, Relocation
from limpet.storage.contract.store import Store
from limpet.testing.clock import FakeClock

BREAKER = BreakerRules("stripe", frozenset({"task"}), 0.5, 2, 60 * SECOND, 30 * SECOND)


def of_key(reason: Reason) -> KeyReason:
    assert isinstance(reason, KeyReason)
    assert reason.kind is Kind.KEY
    return reason


def facts(reason: Reason) -> dict[str, Any]:
    """What a reason tells beside its kind, its sentence and its end."""
    told: dict[str, Any] = plain(reason)
    return {name: told[name] for name in told if name not in ("kind", "text", "until")}


# -- scheduled


def test_scheduled_job_says_until_when(store: Store, clock: FakeClock) -> None:
    due = clock.wall() + 90 * SECOND
    reason = why(store, add(store, scheduled_for=due), clock)
    assert (reason.kind, reason.until) == (Kind.SCHEDULED, iso(due))
    assert reason.text == "scheduled until 2030-01-01 00:01:30 UTC (in 1m 30s)"


def test_job_in_backoff_says_after_what(store: Store, holder: Holder, clock: FakeClock) -> None:
    job = add(store)
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND, BOOM))
    text = why(store, job, clock).text
    assert text.endswith("(in 1s), after ValueError: boom")


def test_job_that_is_due_says_so(store: Store, clock: FakeClock) -> None:
    job = add(store, scheduled_for=clock.wall() + SECOND)
    clock.advance(timedelta(seconds=5))
    assert why(store, job, clock).text.startswith("due since 2030-01-01 00:00:01 UTC")


# -- blocked


def test_job_that_waits_for_its_key_names_who_has_the_turn(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    first, second = add(store, key="k"), add(store, key="k")
    reason = why(store, second, clock)
    assert reason.kind is Kind.KEY
    assert reason.text == f"blocked by key k: {first} (ready) has its turn"
    assert facts(reason)["holders"] == ({"id": first, "state": "ready"},)
    holder.take()
    assert f"{first} (running) has its turn" in why(store, second, clock).text


def test_strict_job_in_backoff_is_named_as_the_one_with_the_turn(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    rules = Rules(key_strict=True)
    first, second = add(store, key="k", rules=rules), add(store, key="k", rules=rules)
    holder.settle(RetryAt(holder.take(), clock.wall() + SECOND, BOOM))
    assert f"{first} (scheduled) has its turn" in why(store, second, clock).text


def test_several_with_a_turn_are_all_named(store: Store, clock: FakeClock) -> None:
    jobs = add_many(store, 3, key="k", rules=Rules(key_limit=2))
    text = why(store, jobs[2], clock).text
    assert all(job in text for job in jobs[:2])
    assert text.endswith("have their turns")


def test_job_that_waits_for_the_rate_of_its_key_says_that_nobody_has_the_turn(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    rules = Rules(key_limit=9, key_rate=rate_of("1/h"))
    _, second = add_many(store, 2, key="k", rules=rules)
    holder.settle(Complete(holder.take()))
    reason = why(store, second, clock)
    assert of_key(reason).holders == ()
    assert reason.text == "blocked by key k: the next turn comes with its rate of 1/h"


def test_job_that_waits_for_a_limit_that_was_set_for_its_key_says_so(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    store.limit_key("k", 1)
    first, second, third = add_many(store, 3, key="k", rules=Rules(key_limit=9))
    reason = why(store, third, clock)
    assert reason.text == (
        f"blocked by key k: {first} (ready) has its turn, 1 job ahead; its limit of 1 was set at "
        f"run time, `limpet keys unlimit k` takes it back"
    )
    assert (of_key(reason).limit, of_key(reason).rate) == (1, None)
    store.limit_key("k", 2)
    reason = why(store, third, clock)
    assert {each.id for each in of_key(reason).holders} == {first, second}
    assert "have their turns; its limit of 2 was set at run time" in reason.text


def test_job_that_waits_for_a_rate_that_was_set_for_its_key_says_so(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    store.limit_key("k", None, rate_of("1/h"))
    _, second = add_many(store, 2, key="k", rules=Rules(key_limit=9, key_rate=rate_of("9/s")))
    holder.settle(Complete(holder.take()))
    reason = why(store, second, clock)
    assert reason.text == (
        "blocked by key k: the next turn comes with its rate of 1/h; that rate was set at run "
        "time, `limpet keys unlimit k` takes it back"
    )
    assert (of_key(reason).limit, of_key(reason).rate) == (9, "1/h")


def test_job_that_waits_for_its_key_says_how_many_wait_before_it(
    store: Store, clock: FakeClock
) -> None:
    jobs = add_many(store, 4, key="k")
    add_many(store, 2, key="another")
    reason = why(store, jobs[3], clock)
    assert of_key(reason).ahead == 2
    assert reason.text == f"blocked by key k: {jobs[0]} (ready) has its turn, 2 jobs ahead"


def test_parent_says_how_many_children_are_left_and_which_failed(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    top, below = flow(store, 3, KEEP)
    assert why(store, top, clock).text == "waits for 3 of 3 children"
    holder.settle(Fail(holder.take(), BOOM))
    reason = why(store, top, clock)
    assert reason.text == f"waits for 2 of 3 children; failed: {below[0]}"
    assert isinstance(reason, ChildrenReason)
    assert (reason.kind, reason.pending) == (Kind.CHILDREN, 2)


def test_job_whose_task_no_worker_knows_names_the_task(store: Store, clock: FakeClock) -> None:
    job = add(store, "strange")
    Holder(store).claim()
    reason = why(store, job, clock)
    assert (reason.kind, facts(reason)) == (Kind.TASK, {"task": "strange"})


# -- ready


def test_ready_job_of_a_paused_queue_says_so(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    store.pause("default")
    reason = why(store, job, clock)
    assert (reason.kind, "limpet queues resume default" in reason.text) == (Kind.PAUSED, True)
    assert of_queue(store, clock) == reason


def test_ready_job_of_a_held_queue_says_until_when(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    store.hold_queue("default", clock.wall() + 20 * SECOND)
    reason = why(store, job, clock)
    assert (reason.kind, reason.until) == (Kind.HELD, iso(clock.wall() + 20 * SECOND))
    assert of_queue(store, clock) == reason
    clock.advance(timedelta(seconds=21))
    Holder(store)
    assert why(store, job, clock).kind is Kind.IN_LINE


def test_ready_job_of_a_queue_at_its_concurrency_says_how_many_run(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = add_many(store, 3)
    store.limit_queue("default", QueueRules(concurrency=2))
    assert len(holder.claim()) == 2
    reason = why(store, jobs[2], clock)
    assert reason.kind is Kind.CONCURRENCY
    assert reason.text == "queue default is at its concurrency, 2 of 2"
    assert of_queue(store, clock) == reason


def test_ready_job_of_a_queue_at_its_rate_says_when_the_next_begins(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = add_many(store, 2)
    store.limit_queue("default", QueueRules(rate=rate_of("1/m")))
    assert len(holder.claim()) == 1
    reason = why(store, jobs[1], clock)
    assert (reason.kind, reason.until) == (Kind.RATE, iso(clock.wall() + 60 * SECOND))
    assert "its rate of 1/m" in reason.text
    assert of_queue(store, clock) == reason


def test_ready_job_of_an_open_breaker_says_which_and_when_it_tries(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    store.declare_breakers([BREAKER])
    opened = clock.wall()
    holder.exchange(observed=[Observed("stripe", 0, 2)])
    job = add(store)
    add(store, "other", queue="free")
    clock.advance(timedelta(seconds=10))
    Holder(store, ("task", "other"))
    reason = why(store, job, clock)
    assert (reason.kind, reason.until) == (Kind.BREAKER, iso(opened + 30 * SECOND))
    assert reason.text == (
        "breaker stripe is open since 2030-01-01 00:00:00 UTC; one job is tried at "
        "2030-01-01 00:00:30 UTC (in 20s)"
    )
    assert of_queue(store, clock) == reason
    assert of_queue(store, clock, "free") is None
    store.reset_breaker("stripe")
    assert why(store, job, clock).kind is Kind.IN_LINE


def test_ready_job_says_that_no_worker_is_live(store: Store, clock: FakeClock) -> None:
    job = add(store)
    assert why(store, job, clock).kind is Kind.NO_WORKER
    holder = Holder(store)
    assert why(store, job, clock).kind is Kind.IN_LINE
    holder.renew(draining=True)
    reason = why(store, job, clock)
    assert (reason.kind, "1 draining" in reason.text) == (Kind.NO_WORKER, True)
    holder.die()
    assert why(store, job, clock).text.startswith("no worker is live;")
    assert of_queue(store, clock) == why(store, job, clock)


def test_ready_job_says_how_many_are_ahead_of_it(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    jobs = add_many(store, 3)
    add_many(store, 2, queue="other")
    assert facts(why(store, jobs[0], clock)) == {"ahead": 0}
    assert why(store, jobs[2], clock).text == ("ready, with 2 jobs ahead of it in queue default")
    urgent = add(store, priority=5)
    assert facts(why(store, urgent, clock)) == {"ahead": 0}
    assert facts(why(store, jobs[0], clock)) == {"ahead": 1}
    assert of_queue(store, clock) is None


def test_suspect_says_that_it_runs_alone(store: Store, holder: Holder, clock: FakeClock) -> None:
    job = add(store)
    holder.settle(Orphan(holder.take(begin=True), BOOM, begun=True, alone=False))
    assert "it runs alone" in why(store, job, clock).text


# -- the other states


def test_running_job_names_its_worker_and_that_it_was_asked_to_stop(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    lease = holder.take()
    reason = why(store, job, clock)
    assert isinstance(reason, RunningReason)
    assert (reason.kind, reason.session) == (Kind.RUNNING, holder.id)
    assert reason.text == "it runs on worker since 2030-01-01 00:00:00 UTC"
    store.cancel(job)
    clock.advance(timedelta(seconds=3))
    reason = why(store, job, clock)
    assert (reason.kind, "3s ago" in reason.text) == (Kind.STOPPING, True)
    holder.settle(Complete(lease))


def test_quarantined_job_says_what_does_not_fit(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    holder.settle(Quarantine(holder.take(), Raised("PayloadInvalid", "b is missing")))
    reason = why(store, job, clock)
    assert (reason.kind, "b is missing" in reason.text) == (Kind.QUARANTINED, True)


def test_failed_job_says_when_it_is_relaunched(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    at = clock.wall() + 60 * SECOND
    holder.settle(Fail(holder.take(), BOOM, at))
    reason = why(store, job, clock)
    assert (reason.kind, reason.until) == (Kind.RELAUNCH, iso(at))
    store.cancel(job)
    assert why(store, job, clock).text == "it is failed: ValueError: boom"


def test_finished_job_says_so(store: Store, holder: Holder, clock: FakeClock) -> None:
    job = add(store)
    holder.settle(Complete(holder.take()))
    assert why(store, job, clock).text == "it is succeeded"


def test_job_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(JobNotFound):
        why_job(store, new_id())
    with pytest.raises(InvalidOption):
        why_job(store, "x")


def test_ready_job_of_a_store_that_moves_says_where_to(
    store: Store, holder: Holder, clock: FakeClock
) -> None:
    job = add(store)
    part = Relocation(new_id(), MoveStage.CLOSING, "redis://there", "epoch")
    assert store.relocate(None, part).done
    reason = why(store, job, clock)
    assert (reason.kind, facts(reason)) == (Kind.MOVING, {"place": "redis://there"})
    assert store.relocate(part, None).done


def test_only_the_newest_of_a_long_line_are_looked_at(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("limpet.ops.why.MOST_SEEN", 20)
    monkeypatch.setattr("limpet.ops.selection.CHUNK", 20)
    Holder(store)
    last = add_many(store, 25)[-1]
    reason = why(store, last, clock)
    assert reason.text == "ready, with about 24 jobs ahead of it in queue default"
