"""ops.queues and ops.inspect: a queue is shaped, and shown as it is."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from contract.driver import BOOM, SECOND, Holder, add, add_many, view
from contract.families import KEEP, flow

from limpet.domain.errors import InvalidOption
from limpet.domain.queue import NO_QUEUE_RULES, QueueRules, queue_rules
from limpet.domain.rate import rate_of
from limpet.domain.rules import Rules, UniqueUntil
from limpet.domain.state import State
from limpet.domain.transition import Complete, Fail
from limpet.ops import queues as ops
from limpet.ops.inspect import list_queues, show_job
from limpet.ops.overview import overview
from limpet.ops.reason import Kind
from limpet.ops.record import plain
from limpet.storage.contract.store import Store
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

RATE = rate_of("100/m")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> Iterator[Store]:
    opened = open_store("sqlite://", clock)
    opened.migrate()
    yield opened
    opened.close()


def test_limits_are_set_beside_those_that_were_set_before(store: Store) -> None:
    add(store)
    assert ops.limit_queue(store, "default", queue_rules(5)) == QueueRules(concurrency=5)
    both = ops.limit_queue(store, "default", QueueRules(rate=RATE))
    assert both == QueueRules(5, RATE) == view(store).adjusted == view(store).rules
    assert ops.limit_queue(store, "default", QueueRules(7)) == QueueRules(7, RATE)


def test_limits_are_taken_back_one_by_one_or_all(store: Store) -> None:
    add(store)
    store.declare_queues({"default": QueueRules(9)})
    ops.limit_queue(store, "default", QueueRules(5, RATE, 3))
    assert ops.unlimit_queue(store, "default", frozenset({"rate"})) == QueueRules(5, None, 3)
    assert ops.unlimit_queue(store, "default") == NO_QUEUE_RULES
    assert view(store).rules == QueueRules(9)


def test_limit_that_says_nothing_is_refused(store: Store) -> None:
    with pytest.raises(InvalidOption, match="say what to limit"):
        ops.limit_queue(store, "default", NO_QUEUE_RULES)
    with pytest.raises(InvalidOption, match="the limit of a key is 0"):
        ops.limit_key(store, "k", 0)
    with pytest.raises(InvalidOption, match="key is ''"):
        ops.limit_key(store, "", 1)


def test_resume_opens_a_queue_that_was_paused_and_drained_but_ends_no_hold(
    store: Store, clock: FakeClock
) -> None:
    add(store)
    ops.pause_queue(store, "default")
    ops.drain_queue(store, "default")
    until = ops.hold_queue(store, "default", "30s", clock)
    seen = view(store)
    assert (seen.paused, seen.draining, seen.held_until) == (True, True, until)
    ops.resume_queue(store, "default")
    seen = view(store)
    assert (seen.paused, seen.draining, seen.held_until) == (False, False, until)
    assert ops.hold_queue(store, "default", 0, clock) == 0
    assert not view(store).held_until


def test_wait_until_empty_tells_what_is_left_and_ends_when_nothing_is(store: Store) -> None:
    add_many(store, 2)
    holder = Holder(store)
    holder.take()
    seen: list[ops.Left] = []

    def work(left: ops.Left) -> None:
        seen.append(left)
        holder.settle(*(Complete(lease) for lease in store.held(holder.id)))
        holder.claim(1)

    assert ops.wait_until_empty(store, "default", on_progress=work) == ops.Left(0, 0, paused=False)
    assert [(left.waiting, left.running) for left in seen] == [(1, 1), (0, 1)]


def test_wait_until_empty_gives_up_when_the_time_is_up(store: Store) -> None:
    add(store)
    store.pause("default")
    left = ops.wait_until_empty(store, "default", timedelta())
    assert left == ops.Left(1, 0, paused=True)


def test_queue_record_shows_rules_hold_and_drain(store: Store, clock: FakeClock) -> None:
    add(store)
    store.declare_queues({"default": QueueRules(9, weight=2)})
    ops.limit_queue(store, "default", QueueRules(5, rate_of("10/s", bursty=True)))
    ops.drain_queue(store, "default")
    ops.hold_queue(store, "default", "1h", clock)
    (queue,) = list_queues(store)
    assert plain(queue.rules) == {"concurrency": 5, "rate": "10/s bursty", "weight": 2}
    assert plain(queue.adjusted) == {"concurrency": 5, "rate": "10/s bursty"}
    assert (queue.draining, queue.held_until) == (True, "2030-01-01T01:00:00.000+00:00")
    assert queue.why is not None
    assert queue.why.kind is Kind.HELD
    assert [(state, queue.in_state(state)) for state in State if queue.in_state(state)] == [
        (State.READY, 1)
    ]


def test_job_record_shows_what_shapes_it(store: Store) -> None:
    rules = Rules(3, RATE, unique_until=UniqueUntil.TIME, unique_for=3600 * SECOND)
    job = add(store, key="k", unique="u", root="r" * 26, rules=rules)
    shown = show_job(store, job)
    assert (shown.key, shown.unique, shown.root) == ("k", "u", "r" * 26)
    assert plain(shown.rules) == {
        "key_limit": 3,
        "key_rate": "100/m",
        "unique_until": "time",
        "unique_for": "1h",
    }
    assert (shown.parent, shown.pending, shown.relaunch_at) == (None, 0, None)
    assert shown.children is None
    assert shown.why.kind is Kind.NO_WORKER


def test_job_record_counts_children_by_state_and_lists_failed_ones(store: Store) -> None:
    top, below = flow(store, 25, KEEP)
    holder = Holder(store)
    claimed = holder.claim(22)
    holder.settle(*(Fail(each.lease, BOOM) for each in claimed))
    shown = show_job(store, top)
    assert shown.children is not None
    assert shown.children.counts == {State.READY: 3, State.FAILED: 22}
    assert [each.id for each in shown.children.failed] == below[:20]
    error = shown.children.failed[0].error
    assert error is not None
    assert error.text == "ValueError: boom"
    assert shown.pending == 3
    assert shown.state is State.BLOCKED


def test_overview_tells_what_was_counted_and_parents_that_failed_with_a_child(store: Store) -> None:
    flow(store, 2)
    holder = Holder(store)
    first, second = holder.claim(2)
    holder.settle(Complete(first.lease, counts=(("emails", 40), ("warnings", 1))))
    holder.settle(Fail(second.lease, BOOM))
    told = {each.queue: each for each in overview(store).queues}
    assert told["default"].counts == {"emails": 40, "warnings": 1}
    assert (told["default"].finished, told["parents"].finished) == (2, 1)
