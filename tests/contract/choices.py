"""What the steps against the model are made of: mostly what happens, now and then what must not."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeAlias

from contract.driver import BOOM, KILLED
from hypothesis import strategies as st

from limpet.domain.cause import Drained
from limpet.domain.lease import Lease
from limpet.domain.rules import ChildFailure, Rules
from limpet.domain.transition import (
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.storage.contract.store import ANY_QUEUE

# A number that chooses and which kind of lease; the same with an outcome and a delay in seconds.
Pick: TypeAlias = tuple[int, str]
Outcome: TypeAlias = tuple[int, str, str, int]

QUEUES = ("one", "two")
LEASE = timedelta(seconds=30)

NUMBERS = st.integers(0, 10_000)
DELAYS = st.sampled_from([None, None, None, None, None, -5, 1, 20, 90])
PASSES = st.sampled_from(
    [0.000001, *[1, 3, 5, 10] * 4, 20, 30, 61, 3_600, 90_000, 31 * 86_400],
)
TASKSETS = st.sampled_from([("a",), ("a", "b"), ("a", "b"), ("b",), ("a", "b", "c")])
SLOTS = st.sampled_from(
    [{ANY_QUEUE: 5}, {ANY_QUEUE: 5}, {"one": 2, ANY_QUEUE: 1}, {"two": 3}, {"one": 1, "two": 1}]
)
ROOM = st.sampled_from([0, 1, 2, 3, 5, 5])

KEYS = st.sampled_from([None, None, "x", "x", "x", "y"])
UNIQUES = st.sampled_from([None, None, None, None, "u", "v"])
TURNS = st.sampled_from([Rules(n, key_strict=strict) for n in (1, 2) for strict in (True, False)])
FAMILIES = st.sampled_from([Rules(child_failure=each) for each in ChildFailure])

MAKE: dict[str, Callable[[Lease, int], Settlement]] = {
    "complete": lambda lease, _: Complete(lease, "1"),
    "complete with nothing": lambda lease, _: Complete(lease),
    "retry": lambda lease, at: RetryAt(lease, at, BOOM),
    "retry soon": lambda lease, at: RetryAt(lease, at, BOOM),
    "snooze": SnoozeUntil,
    "fail": lambda lease, _: Fail(lease, BOOM),
    "quarantine": lambda lease, _: Quarantine(lease, BOOM),
    "release": lambda lease, _: Release(lease, Drained()),
    "cancel": lambda lease, _: Cancel(lease),
    "orphan alone": lambda lease, _: Orphan(lease, KILLED, begun=True, alone=True),
    "orphan alone again": lambda lease, _: Orphan(lease, KILLED, begun=True, alone=True),
    "orphan among others": lambda lease, _: Orphan(lease, KILLED, begun=True, alone=False),
    "orphan not begun": lambda lease, _: Orphan(lease, KILLED, begun=False, alone=True),
    "orphan of an outage": lambda lease, _: Orphan(lease, Drained(), begun=True, alone=True),
}
# Which lease: one that is held, mostly; any that was ever given; one with a part made up.
WHICH = st.sampled_from(["held"] * 8 + ["given", "given", "token", "session", "nowhere"])
OUTCOMES = st.lists(
    st.tuples(NUMBERS, WHICH, st.sampled_from(sorted(MAKE)), st.sampled_from([0, 1, 40])),
    min_size=1,
    max_size=4,
)
LEASES = st.lists(st.tuples(NUMBERS, WHICH), max_size=3)
