"""One run of a job, as a pipeline: prepare, run, judge, conclude.

Retry decisions that need the user's code are taken here, in the executor; the supervisor only
turns the outcome into a settlement.
"""

import asyncio
import contextlib
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from limpet import context
from limpet.context import Context, JobView
from limpet.domain.cause import (
    Cause,
    Raised,
    TooManyOrphans,
    TooManyStrikes,
    cause_of,
)
from limpet.domain.child import ChildResult
from limpet.domain.errors import (
    AttemptStopped,
    FanOut,
    InvalidOption,
    PayloadInvalid,
    Unrecoverable,
)
from limpet.domain.job import ClaimedJob
from limpet.domain.raised import raised
from limpet.domain.result import Result as CountedResult
from limpet.domain.transition import MOST_STRIKES, Complete
from limpet.worker import children
from limpet.worker.containment import Offspring, offspring
from limpet.worker.frames import Outcome
from limpet.worker.policy import judged, stopped
from limpet.worker.registry import Registry, Runnable

Say = Callable[..., None]
"""Sends a report to the supervisor: lease, progress or None, lines."""

# How long a job of a newer version than this code waits for a worker that knows it.
NEWER_SECONDS = 10.0


class Attempt:
    """One run of a job; also what its context is linked to."""

    __slots__ = ("claimed", "knows", "left", "lost", "registry", "say", "stop", "task")

    def __init__(
        self,
        claimed: ClaimedJob,
        task: Runnable,
        lost: dict[str, Any] | None,
        say: Say,
        registry: Registry,
    ) -> None:
        self.claimed = claimed
        self.task = task
        self.registry = registry
        self.lost = lost
        self.say = say
        self.stop: Cause | None = None  # why it must stop
        self.knows = False  # and its code has been told so
        self.left = Offspring()

    # -- what the context needs

    def progress(self, done: float, total: float | None, note: str) -> None:
        self.say(self.claimed.lease, (done, total, note), ())

    def line(self, level: str, message: str) -> None:
        self.say(self.claimed.lease, None, ((time.time_ns() // 1000, level, message),))

    @property
    def stopping(self) -> Cause | None:
        """Why the attempt must stop, as its code asks; what it returns after that is not whole."""
        self.knows = self.stop is not None
        return self.stop

    def children(self) -> Sequence[ChildResult]:
        return children.read(self.registry.app, self.claimed.lease.job)

    def make_context(self) -> Context:
        claimed = self.claimed
        lease, counters = claimed.lease, claimed.counters
        view = JobView(lease.job, claimed.task, claimed.queue, claimed.round, *counters)
        return Context(view, claimed.attempt, lease.token, self)


Result = Complete | Outcome

# Kept by the fork itself: to ask the kernel after every job costs more than most of what we do.
_forked = False


def this_is_the_executor() -> None:
    """Remember which process runs attempts; a child that a task forks does not."""
    global _forked
    _forked = False


def _after_fork_in_child() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork_in_child)


def is_forked() -> bool:
    """Whether this process was forked by a task."""
    return _forked


def leave_if_forked(error: BaseException | None = None) -> None:
    """End a child that comes back from the task's code: it must not speak for the job."""
    if not is_forked():
        return
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    else:
        code = int(error is not None)
        if error is not None:
            traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def run_async(attempt: Attempt) -> Result:
    """Run an `async def` task and say how it ended."""
    task, ctx, registry = attempt.task, _entered(attempt), attempt.registry
    try:
        arguments = _arguments(attempt)
    except Exception as misfit:
        return _put_aside(attempt, misfit)
    try:
        if attempt.lost is not None:
            await _hear_async(attempt, ctx, arguments)
        if attempt.claimed.last_run:
            return _last_word(attempt)
        if task.context_name is not None:
            arguments = {**arguments, task.context_name: ctx}
        if registry.wrappers:
            value = await _wrapped_async(registry, ctx, lambda: task.function(**arguments))
        else:
            value = await task.function(**arguments)
        leave_if_forked()
        return _completed(attempt, value, registry.payload_limit)
    except BaseException as error:
        leave_if_forked(error)
        fan = children.fan_out_of(error)
        if fan is None or attempt.stop is not None:
            return concluded(attempt, error)
    try:
        return _fanned_out(attempt, await asyncio.to_thread(_stage, attempt, fan))
    except BaseException as error:
        return concluded(attempt, error)


def run_sync(attempt: Attempt, interruptible: AbstractContextManager[None]) -> Result:
    """Run a `def` task and say how it ended; only within `interruptible` may it be interrupted."""
    task, ctx, registry = attempt.task, _entered(attempt), attempt.registry
    try:
        arguments = _arguments(attempt)
    except Exception as misfit:
        return _put_aside(attempt, misfit)
    try:
        with interruptible:
            if attempt.lost is not None:
                _hear(attempt, ctx, arguments)
            if attempt.claimed.last_run:
                return _last_word(attempt)
            if task.context_name is not None:
                arguments = {**arguments, task.context_name: ctx}
            if registry.wrappers:
                value = _wrapped(registry, ctx, lambda: task.function(**arguments))
            else:
                value = task.function(**arguments)
            leave_if_forked()
        return _completed(attempt, value, registry.payload_limit)
    except BaseException as error:
        leave_if_forked(error)
        fan = children.fan_out_of(error)
        if fan is None or attempt.stop is not None:
            return concluded(attempt, error)
    try:
        return _fanned_out(attempt, _stage(attempt, fan))
    except BaseException as error:
        return concluded(attempt, error)


def _entered(attempt: Attempt) -> Context:
    """From here on all that runs in this context belongs to the attempt."""
    offspring.set(attempt.left)
    ctx = attempt.make_context()
    context.running.set(ctx)
    return ctx


class _Newer(Exception):
    """The job was enqueued by newer code than this."""


def _arguments(attempt: Attempt) -> dict[str, Any]:
    """The arguments as the task takes them, of whatever version they were stored."""
    task, claimed = attempt.task, attempt.claimed
    if claimed.payload_version == task.version:
        return task.signature.unpack(claimed.args)
    if claimed.payload_version > task.version:
        raise _Newer
    return task.upgrades.unpack(
        task.signature, task.name, claimed.payload_version, task.version, claimed.args
    )


def _stage(attempt: Attempt, fan: FanOut) -> tuple[str, int, int]:
    try:
        return children.stage(attempt.registry.app, attempt.claimed.lease.job, fan)
    except InvalidOption as error:
        raise Unrecoverable(str(error)) from None  # it would be the same the next time


def _fanned_out(attempt: Attempt, staged: tuple[str, int, int]) -> Outcome:
    return Outcome(attempt.claimed.lease, "fan_out", fan=staged)


def _completed(attempt: Attempt, value: Any, limit: int) -> Result:
    if attempt.stop is not None and attempt.knows:
        return _stopped(attempt, attempt.stop)  # it left early, as it was asked to
    try:
        packed = attempt.task.signature.pack_result(value)
    except PayloadInvalid as error:
        # To run it again would not help, and would do again what it did.
        raise Unrecoverable(str(error)) from None
    if len(packed.args) * 4 > limit and len(packed.args.encode()) > limit:
        raise Unrecoverable(
            f"the result of {attempt.task.name} is larger than {limit} bytes; store it elsewhere "
            f"and return a reference to it, or raise payload_limit."
        )
    counts = value.totals() if isinstance(value, CountedResult) else ()
    return Complete(attempt.claimed.lease, packed.args, packed.secrets, counts)


def _put_aside(attempt: Attempt, misfit: Exception) -> Outcome:
    if isinstance(misfit, _Newer):
        return _left_to_newer(attempt)
    # A model's own validator may raise anything; then its traceback says more than the sentence.
    cause = raised(misfit)
    if isinstance(misfit, PayloadInvalid):
        # Of a step that raised, where; of arguments that do not fit there is nothing to tell.
        where = "" if misfit.__cause__ is None else raised(misfit.__cause__).traceback
        cause = Raised(type="PayloadInvalid", message=str(misfit), traceback=where)
    return Outcome(attempt.claimed.lease, "quarantine", cause=cause.record())


def _left_to_newer(attempt: Attempt) -> Outcome:
    claimed = attempt.claimed
    attempt.line(
        "warning",
        f"enqueued for version {claimed.payload_version} of {claimed.task}, and this worker has "
        f"version {attempt.task.version}; it waits {NEWER_SECONDS:g} s for a newer one",
    )
    return Outcome(claimed.lease, "snooze", NEWER_SECONDS)


# -- around the body


def _hear(attempt: Attempt, ctx: Context, arguments: dict[str, Any]) -> Any:
    hook, lost = attempt.task.hook, attempt.lost
    if hook is not None and lost is not None:
        return hook.call(ctx, cause_of(lost), arguments)
    return None


async def _hear_async(attempt: Attempt, ctx: Context, arguments: dict[str, Any]) -> None:
    answer = _hear(attempt, ctx, arguments)
    if isinstance(answer, Awaitable):
        await answer


def _last_word(attempt: Attempt) -> Outcome:
    counters = attempt.claimed.counters
    cause: Cause = TooManyOrphans(count=counters.orphans)
    if counters.strikes >= MOST_STRIKES:
        cause = TooManyStrikes(count=counters.strikes)
    return Outcome(attempt.claimed.lease, "fail", cause=cause.record())


def _wrapped(registry: Registry, ctx: Context, body: Callable[[], Any]) -> Any:
    with contextlib.ExitStack() as stack:
        for wrapper in registry.wrappers:
            if not wrapper.is_async:
                stack.enter_context(wrapper.enter(ctx))
        return body()


async def _wrapped_async(
    registry: Registry, ctx: Context, body: Callable[[], Awaitable[Any]]
) -> Any:
    async with contextlib.AsyncExitStack() as stack:
        for wrapper in registry.wrappers:
            if wrapper.is_async:
                await stack.enter_async_context(wrapper.enter(ctx))
            else:
                stack.enter_context(wrapper.enter(ctx))
        return await body()


# -- how it ended


def concluded(attempt: Attempt, error: BaseException) -> Outcome:
    """What becomes of a job whose attempt raised."""
    if attempt.stop is not None:
        return _stopped(attempt, attempt.stop)
    if not isinstance(error, Exception | AttemptStopped):
        # An exit, an interruption, a cancellation that nobody here asked for: a failure of the
        # job like another.
        said = raised(error).sentence()
        error = RuntimeError(f"the task raised {said}").with_traceback(error.__traceback__)
    task = attempt.task
    return _noted(attempt, *judged(attempt.claimed, error, task.retry, task.relaunch))


def _stopped(attempt: Attempt, cause: Cause) -> Outcome:
    task = attempt.task
    return _noted(attempt, *stopped(attempt.claimed, cause, task.retry, task.relaunch))


def _noted(attempt: Attempt, outcome: Outcome, note: str) -> Outcome:
    if note:
        attempt.line("warning", note)
    return outcome


def unknown_task(claimed: ClaimedJob) -> Outcome:
    """A job of a task that this executor does not have: handed back, not failed."""
    error = Raised(type="UnknownTask", message=f"this worker has no task {claimed.task!r}")
    return Outcome(claimed.lease, "release", cause=error.record())


def outcome_of(result: Result, doomed: str) -> Outcome:
    """How an attempt ended, where more is to be said than that it is done."""
    if isinstance(result, Complete):
        lease, text, secrets, counts = result
        result = Outcome(lease, "complete", result=text, secrets=secrets, counts=counts)
    return result._replace(doomed=doomed)
