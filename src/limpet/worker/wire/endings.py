"""How an attempt ended, as it travels: one frame for each ending, and which endings are allowed.

An executor runs the user's code, so its report of an attempt is as trustworthy as that code. An
attempt may never report itself lost. It may end as cancelled or released only after a request to
stop. The cause of that request does not travel, because the supervisor knows it.
"""

import json
import time
from datetime import timedelta
from typing import Annotated, TypeAlias, assert_never

import msgspec
from msgspec import Meta

from limpet.domain.cause import (
    Cause,
    Drained,
    HostPressed,
    Raised,
    Requested,
    TooManyOrphans,
    TooManyStrikes,
)
from limpet.domain.duration import microseconds
from limpet.domain.ending import NO_DELAY, Ending
from limpet.domain.errors import InvalidOption
from limpet.domain.ids import is_id
from limpet.domain.job import ClaimedJob
from limpet.domain.lease import Lease
from limpet.domain.queue import checked_name
from limpet.domain.raised import LONGEST_MESSAGE, LONGEST_TRACEBACK
from limpet.domain.result import MOST_COUNTS
from limpet.domain.transition import (
    MOST_STRIKES,
    AwaitChildren,
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
from limpet.worker.wire.bounds import (
    LONGEST_DELAY_US,
    LONGEST_WORD,
    Children,
    Chunks,
    Delay,
    Message,
    Moment,
    NotUnderstood,
    Traceback,
    Word,
    fit,
)

# Executor and supervisor read the same clock, but it may be set between the two reads.
_STEP_US = microseconds(timedelta(days=1))
_MOST_COUNT = 2**53


class RaisedRecord(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What an attempt raised."""

    type: Word
    message: Message
    traceback: Traceback


Error: TypeAlias = RaisedRecord | None
"""What an attempt raised; None stands for the cause of the request to stop."""


class _EndingFrame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """An ending as it travels.

    `doomed`: what the attempt started and what could not be ended; the executor must die before
    the ending is settled.
    """


class CompleteFrame(_EndingFrame, frozen=True, tag=13):
    """The attempt is done and `doomed`; all other completes travel in a `DoneFrame`."""

    complete: Complete
    doomed: Word = ""

    @property
    def lease(self) -> Lease:
        return self.complete.lease


class RetryFrame(_EndingFrame, frozen=True, tag=41):
    lease: Lease
    at: Moment
    delay: Delay
    error: Error
    doomed: Word = ""


class FailFrame(_EndingFrame, frozen=True, tag=42):
    lease: Lease
    error: Error
    relaunch_at: Moment | None = None
    delay: Delay = 0
    doomed: Word = ""


class SnoozeFrame(_EndingFrame, frozen=True, tag=43):
    lease: Lease
    at: Moment
    delay: Delay
    holds: bool
    doomed: Word = ""


class QuarantineFrame(_EndingFrame, frozen=True, tag=44):
    lease: Lease
    error: RaisedRecord
    doomed: Word = ""


class CancelFrame(_EndingFrame, frozen=True, tag=45):
    """The attempt stopped because the job was cancelled."""

    lease: Lease
    doomed: Word = ""


class ReleaseFrame(_EndingFrame, frozen=True, tag=46):
    """The attempt stopped because the worker drains or its host is short of memory."""

    lease: Lease
    doomed: Word = ""


class FanOutFrame(_EndingFrame, frozen=True, tag=47):
    lease: Lease
    flow: Annotated[str, Meta(max_length=26)]
    chunks: Chunks
    children: Children
    doomed: Word = ""


class LastRunFrame(_EndingFrame, frozen=True, tag=48):
    """The orphan hook has had the job's last run; the job fails."""

    lease: Lease
    doomed: Word = ""


class UnknownTaskFrame(_EndingFrame, frozen=True, tag=49):
    """The executor has no task of this name; the job is handed back."""

    lease: Lease
    doomed: Word = ""


EndingFrame: TypeAlias = (
    CompleteFrame
    | RetryFrame
    | FailFrame
    | SnoozeFrame
    | QuarantineFrame
    | CancelFrame
    | ReleaseFrame
    | FanOutFrame
    | LastRunFrame
    | UnknownTaskFrame
)


# -- in the executor


def frame_of(ending: Ending | Complete, stop: Cause | None, doomed: str) -> EndingFrame:
    """The frame for how an attempt ended; `stop`: the cause of a request to stop, if any."""
    if isinstance(ending, Complete):
        return CompleteFrame(ending, fit(doomed, LONGEST_WORD))
    doomed, delay = fit(doomed, LONGEST_WORD), microseconds(ending.delay)
    settlement: Settlement = ending.settlement
    match settlement:
        case Complete():
            return CompleteFrame(settlement, doomed)
        case RetryAt(lease, at, error):
            return RetryFrame(lease, at, delay, _travelling(error, stop), doomed)
        case Fail(lease, TooManyOrphans() | TooManyStrikes()):
            return LastRunFrame(lease, doomed)
        case Fail(lease, error, relaunch_at):
            return FailFrame(lease, _travelling(error, stop), relaunch_at, delay, doomed)
        case SnoozeUntil(lease, at, holds):
            return SnoozeFrame(lease, at, delay, holds, doomed)
        case Quarantine(lease, error):
            return QuarantineFrame(lease, _record(error), doomed)
        case Cancel(lease):
            return CancelFrame(lease, doomed)
        case Release(lease):
            return ReleaseFrame(lease, doomed)
        case AwaitChildren(lease, flow, chunks, children):
            return FanOutFrame(lease, flow, chunks, children, doomed)
        case Orphan():
            raise TypeError("an attempt cannot report itself lost")
        case _:
            assert_never(settlement)


def _travelling(error: Cause, stop: Cause | None) -> Error:
    if isinstance(error, Raised):
        return _record(error)
    # The task's own code may raise a cause that only a worker can know: it travels as a failure.
    return None if error == stop else _record(Raised(error.kind, str(error)))


def _record(error: Raised) -> RaisedRecord:
    return RaisedRecord(
        fit(error.type, LONGEST_WORD),
        fit(error.message, LONGEST_MESSAGE),
        fit(error.traceback, LONGEST_TRACEBACK),
    )


# -- in the supervisor


def ending_of(frame: EndingFrame, claimed: ClaimedJob, stop: Cause | None) -> Ending:
    """How the attempt ended; raises `NotUnderstood` if it may not end in this way.

    `stop`: the cause of the request to stop, None if there was none.
    """
    match frame:
        case CompleteFrame():
            return Ending(frame.complete)
        case RetryFrame(lease, at, delay, error):
            return Ending(RetryAt(lease, _soon(at), _cause(error, stop)), _wait(delay))
        case FailFrame(lease, error, at, delay):
            again = None if at is None else _soon(at)
            return Ending(Fail(lease, _cause(error, stop), again), _wait(delay))
        case SnoozeFrame(lease, at, delay, holds):
            return Ending(SnoozeUntil(lease, _soon(at), holds), _wait(delay))
        case QuarantineFrame(lease, error):
            return Ending(Quarantine(lease, _raised(error)))
        case FanOutFrame(lease, flow, chunks, children):
            return Ending(AwaitChildren(lease, _flow(flow), chunks, children))
        case CancelFrame() | ReleaseFrame():
            return _after_a_stop(frame, stop)
        case LastRunFrame(lease):
            return Ending(Fail(lease, _why_at_cap(claimed)))
        case UnknownTaskFrame(lease):
            message = f"this worker has no task {claimed.task!r}"
            return Ending(Release(lease, Raised("UnknownTask", message)))
        case _:
            assert_never(frame)


def _after_a_stop(frame: CancelFrame | ReleaseFrame, stop: Cause | None) -> Ending:
    if isinstance(frame, CancelFrame) and isinstance(stop, Requested):
        return Ending(Cancel(frame.lease))
    if isinstance(frame, ReleaseFrame) and isinstance(stop, Drained | HostPressed):
        return Ending(Release(frame.lease, stop))
    raise NotUnderstood("a job was given up without a request to stop")


def _flow(flow: str) -> str:
    if not is_id(flow):
        raise NotUnderstood("the id of a flow is not valid")
    return flow


def _why_at_cap(claimed: ClaimedJob) -> Cause:
    if not claimed.last_run:
        raise NotUnderstood("a last run was reported of a job that has more runs")
    return at_cap(claimed)


def at_cap(claimed: ClaimedJob) -> Cause:
    """Why a job that was lost too often fails."""
    counters = claimed.counters
    if counters.strikes >= MOST_STRIKES:
        return TooManyStrikes(count=counters.strikes)
    return TooManyOrphans(count=counters.orphans)


def _cause(error: Error, stop: Cause | None) -> Cause:
    if error is not None:
        return _raised(error)
    if stop is None:
        raise NotUnderstood("a job stopped without a request to stop")
    return stop


def _raised(error: RaisedRecord) -> Raised:
    return Raised(error.type, error.message, error.traceback)


def _soon(at: int) -> int:
    if at > time.time_ns() // 1000 + LONGEST_DELAY_US + _STEP_US:
        raise NotUnderstood("a moment is further in the future than any delay")
    return at


def _wait(delay_us: int) -> timedelta:
    return timedelta(microseconds=delay_us) if delay_us else NO_DELAY


# -- results

_check_json = msgspec.json.Decoder(msgspec.Raw).decode


def check_complete(complete: Complete) -> None:
    """Raise `NotUnderstood` for a result that is not JSON, or counts that cannot be added up."""
    _, result, secrets, counts = complete
    try:
        _check_json(result)
    except (msgspec.DecodeError, RecursionError):
        _check_odd_json(result)
    if secrets and any("\0" in path for path in secrets):
        raise NotUnderstood("the path of a secret has a zero in it")
    if counts:
        _check_counts(counts)


def _check_odd_json(result: str) -> None:
    """Check it as `payload.json_text` reads it, which accepts NaN."""
    try:
        json.loads(result)
    except (ValueError, RecursionError) as error:
        raise NotUnderstood(f"a result is not JSON: {error}"[:500]) from None


def _check_counts(counts: tuple[tuple[str, int], ...]) -> None:
    if len(counts) > MOST_COUNTS + 1:
        raise NotUnderstood("a result has too many counts")
    for name, number in counts:
        if not 0 <= number < _MOST_COUNT:
            raise NotUnderstood("a count is too large")
        try:
            checked_name(name, "the count")
        except InvalidOption:
            raise NotUnderstood("the name of a count is not valid") from None
