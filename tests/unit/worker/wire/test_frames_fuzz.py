"""Whatever bytes come, in either direction: one error comes out, and nothing made up is settled.

Short here; `make prove` takes it further.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from unit.bare_executor import OTHER, PAST, RUNNING, STOPPING, STRANGER, WAITING, Bare
from unit.worker.wire.test_frames import assert_honest, replaced, valid_of_each_kind
from worker.forgeries import frame

from limpet.worker.wire import frames
from limpet.worker.wire.bounds import NotUnderstood

pytestmark = pytest.mark.timeout(3_000)  # at length, on a machine that others use too

EXAMPLES = 5_000 if "LIMPET_TEST_LONG" in os.environ else 150
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

LEASES = st.sampled_from([RUNNING, OTHER, STOPPING, WAITING, PAST, STRANGER])
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1), st.floats(), st.sampled_from([0, 1, 7, 2**53, 10**15])
)
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(["null", "1", "x" * 20_000, RUNNING.job]))
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.binary(max_size=20), LEASES)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=6), st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
KINDS = st.integers(0, 50)


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A frame that is right, with another value in one place of it."""
    valid = draw(st.sampled_from(list(valid_of_each_kind().values())))
    value = draw(TREES)
    path: list[int] = []
    here: Any = valid
    while isinstance(here, list | tuple) and here and draw(st.booleans()):
        path.append(draw(st.integers(0, len(here) - 1)))
        here = here[path[-1]]
    return replaced(valid, tuple(path), value)


@st.composite
def flipped(draw: st.DrawFn) -> bytes:
    """A frame that is right but for some of its bytes."""
    data = bytearray(frame(draw(st.sampled_from(list(valid_of_each_kind().values())))))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


BODIES = st.one_of(
    mutated(),
    TREES,
    st.builds(lambda kind, rest: [kind, *rest], KINDS, st.lists(TREES, max_size=6)),
)
STREAMS = st.lists(
    st.one_of(BODIES.map(frame), BODIES.map(frame), flipped(), st.binary(max_size=40)),
    max_size=4,
).map(b"".join)

_loop = asyncio.new_event_loop()


def inside(test: Callable[[Bare], None]) -> None:
    """Run a test of an executor inside a loop, with one of its own."""

    async def run() -> None:
        one = Bare()
        try:
            test(one)
        finally:
            one.close()

    coroutine: Coroutine[Any, Any, None] = run()
    _loop.run_until_complete(coroutine)


@fuzzed
@given(STREAMS, st.integers(1, 5_000))
@example(frame([12, [[RUNNING, "[" * 100_000]]]), 5_000)
@example(frame([16, RUNNING, None, [[[[[[[]]]]]]]]), 1)
def test_whatever_an_executor_says_it_is_acted_on_rightly_or_the_executor_ends(
    data: bytes, size: int
) -> None:
    def hear(one: Bare) -> None:
        one.executor.pings.sent(7)
        for at in range(0, len(data), size):
            if not one.is_ended:
                one.hear(data[at : at + size])
        for settlement in one.settled:
            assert_honest(settlement)
        leases = [settlement.lease for settlement in one.settled]
        assert len(set(leases)) == len(leases)
        assert one.ledger.leases() == {RUNNING, OTHER, STOPPING, WAITING}

    inside(hear)


@fuzzed
@given(STREAMS)
def test_whatever_comes_over_the_pipe_for_notes_settles_nothing(data: bytes) -> None:
    def hear(one: Bare) -> None:
        one.hear_note(data)
        assert not one.settled

    inside(hear)


FACTS = ["task", False, False, False, False, None, False]
CATALOG = ["sqlite:///x", [FACTS], {"failed": 5.0}, 1, False, {"q": [1, [5, 10**6, 1], 3]}, {},
           [["b", ["task"], 0.5, 10, 5, 5]], {"s": "{}"}, False, 1_000]  # fmt: skip
OF_ZYGOTE = [[30, 77], [31, CATALOG], [32, "no"], [33, 1, 9, 0, 0.0, False], [34, "a.py"],
             [35, 1, "no memory"], [15]]  # fmt: skip


@st.composite
def of_zygote(draw: st.DrawFn) -> Any:
    valid: Any = draw(st.sampled_from(OF_ZYGOTE))
    path: list[int] = []
    here: Any = valid
    while isinstance(here, list) and here and draw(st.booleans()):
        path.append(draw(st.integers(0, len(here) - 1)))
        here = here[path[-1]]
    return replaced(valid, tuple(path), draw(TREES))


@fuzzed
@given(st.one_of(of_zygote(), BODIES).map(frame))
def test_whatever_a_zygote_says_one_error_comes_out(data: bytes) -> None:
    def hear(one: Bare) -> None:
        try:
            for said in frames.Splitter(frames.FROM_ZYGOTE).feed(data):
                one.executors.by_number.clear()  # one that is buried has nothing to lose
                one.executors._act_on(said)
        except NotUnderstood:
            pass

    inside(hear)


@fuzzed
@given(st.one_of(STREAMS, st.binary(max_size=200)))
def test_whatever_a_supervisor_says_one_error_comes_out(data: bytes) -> None:
    splitters: list[frames.Splitter[Any]] = [
        frames.Splitter(frames.FROM_SUPERVISOR), frames.Splitter(frames.TO_ZYGOTE),
    ]  # fmt: skip
    for splitter in splitters:
        try:
            for said in splitter.feed(data):
                assert isinstance(said, msgspec.Struct)
        except NotUnderstood:
            pass
