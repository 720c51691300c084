"""Every error that Limpet raises, as one tree.

LimpetError
├── InvalidOption           an option or a setting is wrong
├── UnknownTask             no task of that name
├── PayloadInvalid          arguments do not fit the signature
│   └── PayloadTooLarge     they fit, but are over the limit
├── QueueFull               the queue is at its cap
├── QueueDraining           the queue takes in no new jobs
├── DuplicateJob            the job was dropped: another job holds its `unique`
├── UnknownParent           a job of a flow names a parent that is not there
├── FlowIncomplete          a flow is committed, but a part of it is not staged
├── JobNotFound             no job of that id (or pruned)
├── ScheduleNotFound        no schedule of that id
├── BreakerNotFound         no circuit breaker of that name
├── HostNotFound            no host of that name
├── MoveRefused             the job's state does not allow it
├── JobFailed               raised by `result()` for a failed job
├── JobCancelled            raised by `result()` for a cancelled job
├── ResultTimeout           raised by `result()` when the time is up
├── LeaseLost               a holder tried to write after its lease was over
├── SessionLost             the session is dead or unknown
├── SequenceError           an exchange out of order
├── GateTimeout             a host had no room for a permit in time
├── NeverFits               a permit weighs more than its host can carry
├── PermitLost              a permit is not held any more
├── TransactionRefused      `within=` cannot be done safely with that connection
├── Unrecoverable           raised by a task: fail without a retry
├── RetryAfter              raised by a task: it failed, try again after this delay
├── Snooze                  raised by a task: come back later, nothing is spent
│   └── RateLimited         the same, and no job of its queue begins until then
├── FanOut                  raised by a task: run again when these jobs are finished
├── StoreError
│   ├── StoreUnavailable    cannot be opened or used
│   │   └── StoreUnreachable    its server does not answer; it may come back
│   ├── StoreReadOnly       can be read, not written
│   ├── StoreFull           no room on the disk, or in memory
│   ├── StoreBusy           another process holds the write lock
│   ├── StoreCorrupt        not a database, or a damaged one
│   ├── StoreRefused        the store is in a place where the promises cannot be kept
│   ├── StoreRolledBack     the store has forgotten what it had acknowledged
│   ├── StoreMoved          the store moves, or has moved, to another place
│   ├── StoreNotMoved       the store cannot be moved there, or not now
│   └── SchemaMismatch      made by a newer or an older version of Limpet
└── Cause                   (domain/cause.py) why an attempt or a session ended

AttemptStopped              (a BaseException) raised in a running task that must stop
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from limpet.domain.plural import number_of

if TYPE_CHECKING:
    from limpet.domain.cause import Cause
    from limpet.domain.duration import Duration


class LimpetError(Exception):
    """Base of every error that Limpet raises.

    `accepted`: handles of the jobs that `enqueue_many` had enqueued before the error.
    """

    accepted: Sequence[Any] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # By default a copy calls the class with the sentence, which most of these do not take.
        return _rebuilt, (type(self), self.args, dict(self.__dict__))


def _rebuilt(kind: type[LimpetError], args: tuple[Any, ...], facts: dict[str, Any]) -> LimpetError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class InvalidOption(LimpetError, ValueError):
    """An option or a setting has a value that cannot be used."""


class UnknownTask(LimpetError, LookupError):
    """No task of that name is registered with the app."""


class PayloadInvalid(LimpetError, ValueError):
    """The arguments do not fit the task; `field` names the argument."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class PayloadTooLarge(PayloadInvalid):
    """The arguments are larger than the limit."""


class QueueFull(LimpetError):
    """The queue is at its cap; nothing was enqueued."""

    def __init__(self, queue: str, waiting: int, cap: int, requested: int = 1) -> None:
        what = "is full" if waiting >= cap else f"has no room for {requested} more"
        verb = "is" if waiting == 1 else "are"
        super().__init__(
            f"queue {queue!r} {what}: {number_of(waiting, 'job')} {verb} waiting and its cap is "
            f"{cap}. Try again later, raise the cap, or use when_full='wait'."
            if requested <= cap
            else f"queue {queue!r} has a cap of {number_of(cap, 'job')} and can never take "
            f"{requested} at once. Raise the cap, or hand them in a few at a time."
        )
        self.queue = queue
        self.waiting = waiting
        self.cap = cap


class QueueDraining(LimpetError):
    """The queue drains and takes in no new jobs; nothing was enqueued."""

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"queue {queue!r} is being drained and takes in no new jobs. Name another queue, or "
            f"open it again with `limpet queues resume {queue}`."
        )
        self.queue = queue


class DuplicateJob(LimpetError):
    """The job was dropped, because another one holds its `unique`; `job` is the other."""

    def __init__(self, unique: str, job: str) -> None:
        super().__init__(
            f"this job was dropped and not enqueued, because job {job} holds unique {unique!r}."
        )
        self.unique = unique
        self.job = job


class UnknownParent(LimpetError, LookupError):
    """A job names a parent that was not enqueued with it and does not wait for children."""

    def __init__(self, job: str, parent: str) -> None:
        super().__init__(
            f"job {job} names the parent {parent}, which does not exist or does not wait for "
            f"children; nothing was enqueued. Hand in both together with app.flow(…)."
        )
        self.job = job
        self.parent = parent


class FlowIncomplete(LimpetError):
    """A flow cannot be committed, because a part of it is missing; nothing was enqueued."""

    def __init__(self, flow: str) -> None:
        super().__init__(
            f"flow {flow} cannot be committed: a part of it is not staged, or was pruned because "
            f"an hour had passed. Hand it in again."
        )
        self.flow = flow


class JobNotFound(LimpetError, LookupError):
    """The store has no job of that id."""

    def __init__(self, job: str) -> None:
        super().__init__(
            f"there is no job {job!r}: it was never enqueued here, or it was pruned after its "
            f"retention time."
        )
        self.job = job


class ScheduleNotFound(LimpetError, LookupError):
    """The store has no schedule of that id."""

    def __init__(self, schedule: str) -> None:
        super().__init__(
            f"there is no schedule {schedule!r}; `limpet schedules` lists all schedules."
        )
        self.schedule = schedule


class BreakerNotFound(LimpetError, LookupError):
    """The store has no breaker of that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(
            f"there is no breaker {name!r}; this store has: {', '.join(known) or 'none'}."
        )
        self.name = name


class HostNotFound(LimpetError, LookupError):
    """The store has no host of that name."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"there is no host {server!r}: no worker has measured a host of that name for 7 days, "
            f"and no permit is held on one. `limpet hosts` lists all hosts."
        )
        self.server = server


class MoveRefused(LimpetError):
    """The job's state does not allow this move."""


class JobFailed(LimpetError):
    """The job reached the state `failed`; `cause` says why."""

    def __init__(self, job: str, cause: "Cause | None") -> None:
        super().__init__(f"job {job} failed: {cause}" if cause else f"job {job} failed")
        self.job = job
        self.cause = cause


class JobCancelled(LimpetError):
    """The job reached the state `cancelled`; `cause` says why."""

    def __init__(self, job: str, cause: "Cause | None") -> None:
        super().__init__(
            f"job {job} was cancelled: {cause}" if cause else f"job {job} was cancelled"
        )
        self.job = job
        self.cause = cause


class ResultTimeout(LimpetError, TimeoutError):
    """The job was not finished in time; it goes on."""


class LeaseLost(LimpetError):
    """The holder's lease on the job is over; its write changed nothing."""

    def __init__(self, job: str, session: str, token: int) -> None:
        super().__init__(
            f"session {session} no longer holds job {job} under token {token}; nothing was written."
        )
        self.job = job
        self.session = session
        self.token = token


class SessionLost(LimpetError):
    """The session is dead or unknown; register a new one."""


class SequenceError(LimpetError):
    """An exchange came with a `seq` that is neither the last nor the next."""


class GateTimeout(LimpetError, TimeoutError):
    """No permit was given in time; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"there was no room in time; {reason}.")
        self.reason = reason


class NeverFits(LimpetError):
    """The requested permit is larger than its host can give with nothing else on it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no permit can be given: {reason}. Request less, or use a larger host.")
        self.reason = reason


class PermitLost(LimpetError):
    """The permit is not held any more; others may use its room by now."""


class TransactionRefused(LimpetError):
    """A job cannot safely be enqueued within that connection's transaction."""


class Unrecoverable(LimpetError):
    """Raised by a task that knows that another attempt would fail too: no retry."""


class _ComesBack(LimpetError):
    """Raised by a task that wants to run again after `delay`."""

    def __init__(self, delay: "Duration", reason: str = "") -> None:
        from limpet.domain.duration import duration, spoken  # which needs InvalidOption

        self.delay = duration(delay, what=f"the delay of {type(self).__name__}")
        self.reason = reason
        super().__init__(reason or f"again in {spoken(self.delay)}")


class RetryAfter(_ComesBack):
    """Raised by a task that failed and knows when to try again; it spends a failure."""


class Snooze(_ComesBack):
    """Raised by a task that wants to come back later; nothing is spent."""


class RateLimited(Snooze):
    """Raised by a task that calls a service too often: it comes back later, nothing is spent.

    Until then no worker begins another job of its queue.
    """


class FanOut(LimpetError):
    """Raised by a task that waits for other jobs.

    Its attempt ends, and it runs again with `ctx.children` when those jobs are finished. Nothing is
    spent.

    `calls`: the jobs, made with `task.call(…)`, or flows of their own. `failed`: what happens when
    one of them fails or is cancelled: "fail" (this job fails too), "skip" (that child is left out)
    or "keep" (that child is among the children, with its error).
    """

    def __init__(
        self, calls: Iterable[Any], *, failed: Literal["fail", "skip", "keep"] = "fail"
    ) -> None:
        from limpet.domain.rules import ChildFailure  # which needs InvalidOption

        # A running task wrote this: another attempt would write the same again.
        if failed not in tuple(ChildFailure):
            raise Unrecoverable(f'FanOut(failed={failed!r}): write "fail", "skip" or "keep".')
        self.calls = tuple(calls)
        self.failed: Literal["fail", "skip", "keep"] = failed
        if not self.calls:
            raise Unrecoverable(
                "the fan-out has no calls, so there is nothing to wait for; leave it out where "
                "there are none."
            )
        super().__init__(f"waits for {len(self.calls)} jobs")


class AttemptStopped(BaseException):
    """Raised in a running task that must stop: timeout, stall, cancellation, drain, deadline.

    Not an `Exception`, so that `except Exception` in a task does not swallow it.
    """

    def __init__(self, cause: "Cause") -> None:
        super().__init__(cause)
        self.cause = cause

    def __str__(self) -> str:
        return str(self.cause)


class StoreError(LimpetError):
    """Base of what goes wrong with the store itself."""


class StoreUnavailable(StoreError):
    """The store cannot be opened or reached."""


class StoreUnreachable(StoreUnavailable):
    """The server of the store does not answer, or not yet; the last write may have taken effect."""


class StoreReadOnly(StoreError):
    """The store can be read but not written."""


class StoreFull(StoreError):
    """The disk or the memory of the store is full; nothing was written."""


class StoreBusy(StoreError):
    """Another process kept the write lock for too long; nothing was written."""


class StoreCorrupt(StoreError):
    """The file is not a database, or is damaged."""


class StoreRefused(StoreError):
    """The store is in a place where the promises could not be kept."""


class StoreRolledBack(StoreError):
    """The store has forgotten something that it had acknowledged."""


class StoreMoved(StoreError):
    """The store is being moved, or was moved, to another place; nothing was written."""


class StoreNotMoved(StoreError):
    """The store cannot be moved to that place, or not now; the message says what to do."""


class SchemaMismatch(StoreError):
    """The store was made by a version of Limpet that this one cannot work with."""
