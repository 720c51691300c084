"""What an executor may say, and that nothing else of it is acted on."""

import asyncio
import json
import math
import os
from collections.abc import Callable
from typing import Any

import pytest
from unit.bare_executor import (
    OTHER,
    PAST,
    RUNNING,
    SESSION,
    STOPPING,
    STRANGER,
    WAITING,
    Bare,
    bare,
    claimed,
)
from worker.forgeries import NOTES, WORK, frame

from limpet.domain.cause import Raised, Stalled
from limpet.domain.ending import Ending
from limpet.domain.lease import Lease
from limpet.domain.transition import (
    AwaitChildren,
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.worker.supervisor.given import Arrival
from limpet.worker.wire import frames
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.endings import CancelFrame, ending_of, frame_of
from limpet.worker.wire.frames import LANE, LOOP
from limpet.worker.wire.page import now

NOW = 1_790_000_000_000_000
ODD: list[Any] = [
    None, True, -1, 2**63, 2**64 - 1, math.nan, math.inf, -math.inf, 1e15, 1e300, 0.5, "", "x",
    "x" * 100_000, "\0", b"\xff", [], {}, ["x"], [[[[[[[]]]]]]], {"kind": "Raised"}, [0] * 5_000,
    [RUNNING], ["a", "b", "c"], {"a": [1]},
]  # fmt: skip


def tried(what: Callable[[Bare], None], payload_limit: int = 10_000) -> tuple[bool, list[Any]]:
    """Whether the executor was ended for it, and what was settled."""

    async def attempt() -> tuple[bool, list[Any]]:
        with bare(payload_limit) as one:
            what(one)
            return one.is_ended, one.settled

    return asyncio.run(attempt())


def heard(*said: Any, payload_limit: int = 10_000) -> tuple[bool, list[Any]]:
    """The same, of frames: their parts, or as they are packed."""
    data = b"".join(one if isinstance(one, bytes) else frame(one) for one in said)
    return tried(lambda one: one.hear(data), payload_limit)


@pytest.mark.parametrize("name", WORK)
def test_a_forged_frame_ends_its_executor_and_nothing_is_settled(name: str) -> None:
    assert heard(WORK[name](RUNNING)) == (True, [])


@pytest.mark.parametrize("name", NOTES)
def test_a_forged_note_ends_its_executor(name: str) -> None:
    assert tried(lambda one: one.hear_note(frame(NOTES[name](RUNNING)))) == (True, [])


def valid_of_each_kind() -> dict[str, list[Any]]:
    error = ["ValueError", "no", ""]
    return {
        "done": [12, [[RUNNING, "1", [], [["emails", 1]]]]],
        "complete": [13, [RUNNING, "1"], "a thread"],
        "pong": [15, 7],
        "report": [16, RUNNING, [1.0, None, "note"], [[NOW, "info", "line"]]],
        "retry": [41, RUNNING, NOW, 1_000_000, error, ""],
        "fail": [42, RUNNING, error, NOW, 5, ""],
        "snooze": [43, RUNNING, NOW, 0, False, ""],
        "quarantine": [44, RUNNING, error, ""],
        "cancel": [45, STOPPING, ""],
        "fan out": [47, RUNNING, "0" * 26, 1, 2, ""],
    }


def places(tree: Any, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Every place in nested lists."""
    found = [path]
    if isinstance(tree, list | tuple):
        for at, item in enumerate(tree):
            found += places(item, (*path, at))
    return found


def replaced(tree: Any, path: tuple[int, ...], value: Any) -> Any:
    if not path:
        return value
    parts = list(tree)
    parts[path[0]] = replaced(parts[path[0]], path[1:], value)
    return parts


@pytest.mark.parametrize("kind", valid_of_each_kind())
def test_no_value_in_any_place_of_any_frame_does_more_than_end_its_executor(kind: str) -> None:
    valid = valid_of_each_kind()[kind]

    async def walk() -> None:
        for path in places(valid):
            for value in ODD:
                with bare() as one:
                    one.executor.pings.sent(7)
                    one.hear(frame(replaced(valid, path, value)))
                    assert one.is_ended or path, value
                    for settlement in one.settled:
                        assert_honest(settlement)

    asyncio.run(walk())


def assert_honest(settlement: Settlement) -> None:
    """It is of the executor's own, and nothing in it is out of bounds."""
    assert settlement.lease in (RUNNING, OTHER, STOPPING)
    assert not isinstance(settlement, Orphan)
    if isinstance(settlement, RetryAt | SnoozeUntil):
        assert 0 <= settlement.at <= 10 * NOW
    if isinstance(settlement, Complete):
        json.loads(settlement.result)
        assert all(0 <= number < 2**53 for _, number in settlement.counts)
    if isinstance(settlement, RetryAt | Fail | Quarantine):
        assert isinstance(settlement.error, Raised)
        assert len(str(settlement.error)) < 10_000
    if isinstance(settlement, Cancel):
        assert settlement.lease == STOPPING


# -- what it speaks of


@pytest.mark.parametrize(
    "said",
    [
        [12, [[STRANGER]]],
        [12, [[WAITING]]],
        [12, [[RUNNING._replace(token=9)]]],
        [12, [[RUNNING._replace(session="other")]]],
        [13, [STRANGER]],
        [16, STRANGER, None, []],
        [16, WAITING, None, []],
        [41, WAITING, NOW, 0, ["E", "", ""]],
        [45, STRANGER],
    ],
    ids=str,
)
def test_what_it_says_of_a_job_that_is_not_its_own_ends_it(said: list[Any]) -> None:
    assert heard(said) == (True, [])


@pytest.mark.parametrize(
    "said",
    [
        [12, [[PAST]]],
        [13, [PAST], "a thread"],
        [16, PAST, [1, None, ""], [[NOW, "info", "a thread's last words"]]],
        [41, PAST, NOW, 0, ["E", "", ""]],
        [45, PAST],
    ],
    ids=str,
)
def test_what_it_says_of_a_job_that_is_over_is_ignored(said: list[Any]) -> None:
    assert heard(said, [12, [[RUNNING]]]) == (False, [Complete(RUNNING)])


def test_a_job_that_was_taken_back_may_be_spoken_of_and_is_not_settled() -> None:
    def say(one: Bare) -> None:
        assert [hold.lease for hold in one.executor.take_back()] == [WAITING]
        one.hear(frame([12, [[WAITING]]]))

    assert tried(say) == (False, [])


def test_one_job_ends_once() -> None:
    assert heard([12, [[RUNNING]]], [12, [[RUNNING]]]) == (False, [Complete(RUNNING)])
    ended, settled = heard([13, [RUNNING], "a thread"], [12, [[RUNNING]]])
    assert (ended, settled) == (True, [])


def test_what_came_before_the_nonsense_counts_and_what_comes_after_does_not() -> None:
    assert heard([12, [[RUNNING]]], [16], [12, [[OTHER]]]) == (True, [Complete(RUNNING)])


def test_only_who_was_asked_to_stop_may_give_itself_up() -> None:
    assert heard([45, STOPPING]) == (False, [Cancel(STOPPING)])
    assert heard([46, STOPPING]) == (True, []), "it was cancelled, not handed back"
    assert heard([45, RUNNING]) == (True, [])


def test_a_cause_that_only_a_worker_can_know_does_not_travel() -> None:
    lease, stop = Lease("j", "s", 1), Stalled(3.0)
    made_up = Ending(RetryAt(lease, NOW, Stalled(5.0)))
    said = frame_of(made_up, None, "")
    job = claimed(lease)
    found = ending_of(said, job, None).settlement
    assert isinstance(found, RetryAt)
    assert found.error == Raised("Stalled", str(Stalled(5.0)))
    true = frame_of(Ending(RetryAt(lease, NOW, stop)), stop, "")
    assert ending_of(true, job, stop).settlement == RetryAt(lease, NOW, stop)
    with pytest.raises(NotUnderstood):
        ending_of(true, job, None)
    with pytest.raises(NotUnderstood):
        ending_of(CancelFrame(lease), job, stop)


def test_a_flow_travels_whole() -> None:
    assert heard([47, RUNNING, "0" * 26, 2, 1_500]) == (
        False, [AwaitChildren(RUNNING, "0" * 26, 2, 1_500)],
    )  # fmt: skip


# -- out of turn


def test_an_executor_is_ready_once_and_forgets_and_answers_only_what_it_was_asked() -> None:
    assert heard([11]) == (True, [])
    assert heard([14]) == (True, [])
    assert heard([15, 3]) == (True, [])

    def in_turn(one: Bare) -> None:
        one.executor.take_back()
        one.executor.ping()
        one.hear(frame([14]) + frame([15, one.executor.pinged_at]))

    assert tried(in_turn) == (False, [])

    def answers_twice(one: Bare) -> None:
        one.executor.ping()
        one.hear(frame([15, one.executor.pinged_at]) * 2)

    assert tried(answers_twice) == (True, [])


def test_nobody_hears_what_blocks_a_loop_unless_it_was_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unasked(one: Bare) -> None:
        for _ in range(50):
            one.hear_note(frame([17, RUNNING.job, "a.py:1"]))
        one.executor.blame_requested = True
        for _ in range(50):
            one.hear_note(frame([17, RUNNING.job, "a.py:1"]))
        assert not one.is_ended
        one.hear_note(frame([17, STRANGER.job, "a.py:1"]))

    assert tried(unasked) == (True, [])
    assert sum("a.py:1" in each.getMessage() for each in caplog.records) == 1


# -- frames that do not end

S = 1_000_000


def test_half_a_frame_ends_a_loop_that_goes_on_writing_and_a_lane_that_does_not() -> None:
    loop, lane = Arrival(LOOP), Arrival(LANE)
    for second in range(12):
        loop.received(second * S, has_part=True)  # a pong each second, taken for the rest of it
    lane.received(0, has_part=True)
    assert loop.takes_too_long(11 * S)
    assert not lane.takes_too_long(29 * S)
    assert lane.takes_too_long(31 * S)


def test_a_frame_that_is_held_up_with_its_loop_or_has_ended_ends_nobody() -> None:
    loop = Arrival(LOOP)
    loop.received(0, has_part=True)
    assert not loop.takes_too_long(600 * S)  # the loop is blocked, as is its frame
    loop.received(600 * S, has_part=True)
    assert not loop.takes_too_long(601 * S)
    loop.received(601 * S, has_part=False)
    assert not loop.takes_too_long(900 * S)


def test_an_executor_of_which_a_job_has_begun_a_frame_is_ended() -> None:
    async def half() -> None:
        with bare() as one:
            one.hear(frames.header(200_000) + b"\x92")
            moment = now()
            for second in range(12):
                one.executor._arrival.received(moment + second * S, has_part=True)
            one.executor.look_for_tampering(moment + 12 * S)
            assert one.is_ended

    asyncio.run(half())


# -- sizes


def test_a_frame_that_is_too_large_is_refused_by_its_header() -> None:
    decoder = frames.from_executor(1_000)
    splitter = frames.Splitter(decoder)
    with pytest.raises(NotUnderstood, match="larger than any"):
        list(splitter.feed(frames.header(decoder.largest + 1) + b"\x92"))


def test_what_is_done_together_travels_in_frames_that_are_not_too_large() -> None:
    limit = 1_000_000
    decoder = frames.from_executor(limit)
    large = [Complete(Lease(f"{n}", "s", 1), json.dumps("é" * (limit // 2 - 1))) for n in range(9)]
    data = frames.pack_done(large)
    found: list[Complete] = []
    for said in frames.Splitter(decoder).feed(data):
        assert isinstance(said, frames.DoneFrame)
        found += said.completes
    assert found == large
    assert len(data) > decoder.largest


def test_a_pipe_of_start_tokens_that_another_process_wrote_into_ends_the_executor() -> None:
    def fill(one: Bare) -> None:
        os.write(one.executor._tokens._writer, b"." * 10)
        one.executor.take_back()

    assert tried(fill) == (True, [])


def test_an_executor_that_does_not_read_is_given_nothing_more_until_it_does() -> None:
    async def give_much() -> None:
        with bare() as one:
            executor = one.executor
            theirs = executor.theirs_work.dup()
            theirs.setblocking(False)
            rooms: list[int] = []
            one.dispatcher._demand.rang = lambda: rooms.append(1)  # type: ignore[method-assign]
            await executor.connect()
            given = 0
            while executor.takes_more and given < 100:
                lease = Lease(f"{given:026x}", SESSION, 9)
                job = claimed(lease)._replace(args="x" * 1_000_000)
                executor.give(one.ledger.take([job]))
                given += 1
            assert 8 <= given < 20
            loop = asyncio.get_running_loop()
            while not executor.takes_more:
                await asyncio.wait_for(loop.sock_recv(theirs, 1 << 20), 5)
            assert rooms == [1], "the claimer heard of it"
            theirs.close()

    asyncio.run(give_much())
