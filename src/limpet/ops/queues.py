"""What a person does to a whole queue: pause, drain, limit, hold, and open it again."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, Protocol

from msgspec import Struct

from limpet.domain.checks import MOST, whole
from limpet.domain.clock import Clock, SystemClock
from limpet.domain.duration import Duration, duration, microseconds
from limpet.domain.errors import InvalidOption
from limpet.domain.queue import NO_QUEUE_RULES, QueueRules, QueueView, checked_name
from limpet.domain.rate import Rate
from limpet.domain.rules import checked_key
from limpet.domain.state import State
from limpet.storage.contract.shaping import LimitVerbs
from limpet.storage.contract.store import ControlVerbs, InspectVerbs

_LOOK_SECONDS = 0.2


class Adjustable(ControlVerbs, InspectVerbs, LimitVerbs, Protocol):
    """The verbs of a store that shaping a queue needs."""


class Left(NamedTuple):
    """The jobs that a draining queue still has; `paused`: they will not get fewer."""

    waiting: int
    running: int
    paused: bool

    @property
    def jobs(self) -> int:
        return self.waiting + self.running


class KeyLimits(Struct, frozen=True, kw_only=True):
    """The limits set for all jobs of a key; None: the limits that the jobs carry hold."""

    key: str
    concurrency: int | None
    rate: str | None


def find_queue(store: InspectVerbs, queue: str) -> QueueView | None:
    """A queue as the store has it; None where it has had no jobs."""
    return next((view for view in store.queues() if view.name == queue), None)


def pause_queue(store: Adjustable, queue: str) -> None:
    """Claim nothing from the queue until it is resumed; it takes in jobs as before."""
    store.pause(checked_name(queue))


def resume_queue(store: Adjustable, queue: str) -> None:
    """Claim from the queue again, and let it take in jobs again. A hold for a time stays."""
    store.drain_queue(checked_name(queue), draining=False)
    store.pause(queue, paused=False)


def drain_queue(store: Adjustable, queue: str) -> None:
    """Take in no new jobs; those that the queue has go on."""
    store.drain_queue(checked_name(queue))


def limit_queue(store: Adjustable, queue: str, rules: QueueRules) -> QueueRules:
    """Set limits (see `queue_rules`) for all workers, in addition to those that were set before.
    Returns all that are set.
    """
    if rules == NO_QUEUE_RULES:
        raise InvalidOption("say what to limit: the concurrency, the rate or the weight.")
    view = find_queue(store, checked_name(queue))
    adjusted = rules.over(view.adjusted if view is not None else NO_QUEUE_RULES)
    store.limit_queue(queue, adjusted)
    return adjusted


def unlimit_queue(store: Adjustable, queue: str, only: frozenset[str] = frozenset()) -> QueueRules:
    """Take back limits that were set at run time, all of them or `only` those; what the app
    declares holds again. Returns the limits that are still set.
    """
    view = find_queue(store, checked_name(queue))
    adjusted = NO_QUEUE_RULES
    if only and view is not None:
        adjusted = view.adjusted._replace(**dict.fromkeys(only))
    store.limit_queue(queue, None if adjusted == NO_QUEUE_RULES else adjusted)
    return adjusted


def hold_queue(store: Adjustable, queue: str, time_: Duration, clock: Clock | None = None) -> int:
    """Claim nothing from the queue for that time; 0 ends a hold. Returns until when it is held."""
    gap = microseconds(duration(time_, what="the time to hold the queue"))
    until = (clock or SystemClock()).wall() + gap if gap else 0
    store.hold_queue(checked_name(queue), until)
    return until


def limit_key(
    store: LimitVerbs, key: str, limit: int | None = None, rate: Rate | None = None
) -> KeyLimits:
    """Set for all jobs of a key how many may be under way and how often one begins; with neither,
    the limits that the jobs carry hold again.
    """
    if limit is not None:
        whole(limit, "the limit of a key", most=MOST)
    store.limit_key(checked_key(key), limit, rate)
    return KeyLimits(key=key, concurrency=limit, rate=None if rate is None else str(rate))


def left_in(store: InspectVerbs, queue: str) -> Left:
    """The jobs of a queue that are not finished; quarantined jobs do not count."""
    view = find_queue(store, queue)
    if view is None:
        return Left(0, 0, paused=False)
    waiting = sum(
        view.counts.get(state, 0) for state in (State.SCHEDULED, State.READY, State.BLOCKED)
    )
    return Left(waiting, view.counts.get(State.RUNNING, 0), view.paused)


def wait_until_empty(
    store: InspectVerbs,
    queue: str,
    at_most: timedelta | None = None,
    on_progress: Callable[[Left], None] = lambda _: None,
) -> Left:
    """Wait until a queue has nothing left to do; returns what it has then, or when time is up."""
    until = None if at_most is None else time.monotonic() + at_most.total_seconds()
    while (left := left_in(store, queue)).jobs:
        if until is not None and time.monotonic() >= until:
            break
        on_progress(left)
        time.sleep(_LOOK_SECONDS)
    return left
