"""What an executor says is bounded before it is acted on: whatever is within, every store keeps."""

import json
import sys
import time

import pytest
from contract.driver import Holder, add, get, history, state, told

from limpet.domain.cause import Raised
from limpet.domain.event import EventName
from limpet.domain.job import (
    LONGEST_LINE,
    LONGEST_NOTE,
    ClaimedJob,
    Counters,
    LogLine,
    Progress,
    Report,
)
from limpet.domain.lease import Lease
from limpet.domain.raised import LONGEST_MESSAGE, LONGEST_TRACEBACK
from limpet.domain.state import State
from limpet.domain.transition import Complete, Settlement
from limpet.storage.contract.bounds import LINE_KEPT, NOTE_KEPT
from limpet.storage.contract.store import Store
from limpet.worker.wire import frames
from limpet.worker.wire.bounds import (
    LONGEST_DELAY_US,
    LONGEST_WORD,
    MOST_CHILDREN,
    MOST_CHUNKS,
    MOST_LINES_PER_REPORT,
    fit,
)
from limpet.worker.wire.endings import (
    CompleteFrame,
    EndingFrame,
    FailFrame,
    FanOutFrame,
    QuarantineFrame,
    RaisedRecord,
    RetryFrame,
    SnoozeFrame,
    ending_of,
)

ODD = "\0\x1b[2J\u202e\n\U0010ffff'\"\\"
DECODER = frames.from_executor(1_000_000)


def odd(longest: int) -> str:
    return (ODD * longest)[:longest]


def settlement_of(frame: EndingFrame) -> Settlement:
    """As the supervisor comes to it."""
    heard = DECODER.decode(frames.pack(frame)[frames.HEADER_BYTES :])
    assert heard == frame
    rest = (False, False, 1, "{}", "{}", (), None)
    job = ClaimedJob(frame.lease, "task", "default", 1, 1, Counters(), *rest)
    return ending_of(frame, job, None).settlement


def latest() -> int:
    return time.time_ns() // 1000 + LONGEST_DELAY_US


RAISED = RaisedRecord(odd(LONGEST_WORD), odd(LONGEST_MESSAGE), odd(LONGEST_TRACEBACK))


def test_the_latest_retry_with_the_longest_error_is_kept(store: Store) -> None:
    job, holder = add(store), Holder(store)
    at = latest()
    said = RetryFrame(holder.take(begin=True), at, LONGEST_DELAY_US, RAISED)
    assert holder.settle(settlement_of(said)) == ()
    assert (get(store, job).state, get(store, job).ready_at) == (State.SCHEDULED, at)
    assert told(store, job)[-1] == EventName.RETRIED
    cause = history(store, job)[-1].cause
    assert isinstance(cause, Raised)
    assert cause.message.count("\x1b") == RAISED.message.count("\x1b")


@pytest.mark.parametrize("at", [0, -1], ids=["the first moment", "the last"])
def test_a_snooze_that_holds_the_queue_for_as_long_as_may_be_is_kept(store: Store, at: int) -> None:
    job, holder = add(store), Holder(store)
    until = latest() if at else 0
    assert holder.settle(settlement_of(SnoozeFrame(holder.take(), until, 0, holds=True))) == ()
    assert state(store, job) in (State.SCHEDULED, State.READY)


def test_the_longest_failure_with_the_latest_relaunch_is_kept(store: Store) -> None:
    job, holder = add(store), Holder(store)
    assert holder.settle(settlement_of(FailFrame(holder.take(), RAISED, latest()))) == ()
    assert state(store, job) is State.FAILED


def test_the_longest_misfit_is_kept(store: Store) -> None:
    job, holder = add(store), Holder(store)
    assert holder.settle(settlement_of(QuarantineFrame(holder.take(), RAISED))) == ()
    assert state(store, job) is State.QUARANTINED


def test_the_largest_result_with_the_largest_counts_is_kept(store: Store) -> None:
    job, holder = add(store), Holder(store)
    result = json.dumps(odd(100_000), ensure_ascii=False)
    counts = tuple((f"n{n}:" + "x" * 90, 2**53 - 1) for n in range(100))
    said = CompleteFrame(Complete(holder.take(), result, ("a/b", "é" * 1_000), counts))
    assert holder.settle(settlement_of(said)) == ()
    assert get(store, job).result == result


def test_the_largest_flow_that_is_not_there_fails_its_job(store: Store) -> None:
    job, holder = add(store), Holder(store)
    said = FanOutFrame(holder.take(), "7" + "v" * 25, MOST_CHUNKS, MOST_CHILDREN)
    assert holder.settle(settlement_of(said)) == ()
    assert state(store, job) is State.FAILED


def test_the_longest_report_is_kept(store: Store) -> None:
    add(store)
    holder = Holder(store)
    lease: Lease = holder.take(begin=True)
    most = sys.float_info.max
    lines = [(0, odd(500), odd(LINE_KEPT)), (253_402_300_799_000_000, "info", "")]
    lines += [(1, "info", odd(50))] * (MOST_LINES_PER_REPORT - 2)
    said = frames.ReportFrame(lease, (most, most, odd(NOTE_KEPT)), lines)
    assert DECODER.decode(frames.pack(said)[frames.HEADER_BYTES :]) == said
    report = Report(
        lease,
        Progress(most, most, odd(NOTE_KEPT), at=1),
        tuple(LogLine(*line) for line in said.lines),
    )
    assert store.report(holder.id, [report]) == ()
    found = get(store, lease.job).progress
    assert found is not None
    assert (found.done, found.total) == (most, most)
    assert len(store.log(lease.job)) == MOST_LINES_PER_REPORT


def test_what_was_cut_is_kept_with_its_end_and_the_mark_of_what_is_missing(store: Store) -> None:
    add(store)
    holder = Holder(store)
    lease: Lease = holder.take(begin=True)
    line, note = "x" * 100_000 + "end", "y" * 10_000 + "end"
    line, note = fit(line, LONGEST_LINE), fit(note, LONGEST_NOTE)
    report = Report(lease, Progress(1.0, 2.0, note, at=1), (LogLine(1, "info", line),))
    assert store.report(holder.id, [report]) == ()
    found = get(store, lease.job).progress
    assert found is not None
    assert found.note == note
    assert [kept.message for kept in store.log(lease.job)] == [line]
