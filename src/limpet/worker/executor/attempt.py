"""One run of a job, as a pipeline: prepare, run, judge, conclude.

The executor decides here what becomes of the job, because a retry policy may need the user's code.
The supervisor only checks that an attempt may end in this way.
"""

import asyncio
import contextlib
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from limpet.domain import transition
from limpet.domain.cause import Cause, Raised, cause_of
from limpet.domain.child import ChildResult
from limpet.domain.ending import Ending
from limpet.domain.errors import (
    AttemptStopped,
    FanOut,
    InvalidOption,
    PayloadInvalid,
    Unrecoverable,
)
from limpet.domain.job import LONGEST_LINE, LONGEST_NOTE, ClaimedJob
from limpet.domain.masking import Mask, hiding
from limpet.domain.raised import LONGEST_MESSAGE, raised, sendable
from limpet.domain.result import Result as CountedResult
from limpet.domain.transition import Complete
from limpet.payload import context
from limpet.payload.context import Context, JobView
from limpet.worker.executor import fan_out
from limpet.worker.executor.containment import Offspring, offspring
from limpet.worker.executor.registry import Registry, Runnable, Wrapper
from limpet.worker.wire.bounds import LONGEST_WORD, fit
from limpet.worker.wire.endings import at_cap
from limpet.worker.wire.frames import CauseRecord, ReportFrame
from limpet.worker.wire.policy import judged, stopped

SendReport = Callable[[ReportFrame], None]
"""Sends a report to the supervisor."""

# How long a job of a newer version than this code waits for a worker with that version.
NEWER_SECONDS = 10


class Attempt:
    """One run of a job; its context uses it as its link to the worker."""

    __slots__ = (
        "claimed", "is_over", "left", "loss", "mask", "registry", "send_report", "stop",
        "stop_seen", "task",
    )  # fmt: skip

    def __init__(
        self,
        claimed: ClaimedJob,
        task: Runnable,
        loss: CauseRecord | None,
        send_report: SendReport,
        registry: Registry,
    ) -> None:
        self.claimed = claimed
        self.task = task
        self.registry = registry
        self.loss = loss
        self.send_report = send_report
        self.stop: Cause | None = None  # why the attempt must stop
        self.stop_seen = False  # the task's code knows that it must stop
        self.is_over = False  # threads that outlive the attempt report nothing more
        self.left = Offspring()
        self.mask = Mask((claimed.args, claimed.secrets)) if claimed.secrets else None

    # -- what the context needs

    def progress(self, done: float, total: float | None, note: str) -> None:
        if not self.is_over:
            most = None if total is None else float(total)
            progress = (float(done), most, fit(self._masked(note), LONGEST_NOTE))
            self.send_report(ReportFrame(self.claimed.lease, progress, []))

    def line(self, level: str, message: str) -> None:
        if not self.is_over:
            text = fit(self._masked(message), LONGEST_LINE)
            line = (time.time_ns() // 1000, fit(level, LONGEST_WORD), text)
            self.send_report(ReportFrame(self.claimed.lease, None, [line]))

    def _masked(self, text: str) -> str:
        # Masked again here, for a thread that does not know to which attempt it belongs.
        return text if self.mask is None else self.mask(text)

    @property
    def stopping(self) -> Cause | None:
        """Why the attempt must stop. Once the code has read it, its result may be incomplete."""
        self.stop_seen = self.stop is not None
        return self.stop

    def children(self) -> Sequence[ChildResult]:
        return fan_out.read(self.registry.app, self.claimed.lease.job)

    def make_context(self) -> Context:
        claimed = self.claimed
        lease, counters = claimed.lease, claimed.counters
        view = JobView(lease.job, claimed.task, claimed.queue, claimed.round, *counters)
        return Context(view, claimed.attempt, lease.token, self)


Result = Complete | Ending

# Set by a hook of the fork: `getpid` after every job would cost more than most of what we do.
_forked = False


def mark_as_executor() -> None:
    """Remember that this process runs attempts; a child that a task forks does not."""
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
    """End a forked child that returns from the task's code: it must not report for the job."""
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
    """Run an `async def` task; return how it ended."""
    ctx = _enter(attempt)
    try:
        arguments = _arguments(attempt)
    except Exception as misfit:
        return _quarantine(attempt, misfit)
    try:
        if attempt.loss is not None:
            await _run_hook_async(attempt, ctx, arguments)
        if attempt.claimed.last_run:
            return _lost_too_often(attempt)
        given, function = _with_context(attempt, ctx, arguments), attempt.task.function
        if wrappers := attempt.registry.wrappers:
            value = await _wrapped_async(wrappers, ctx, partial(function, **given))
        else:
            value = await function(**given)
        leave_if_forked()
        return _completed(attempt, value)
    except BaseException as error:
        ended = _ended(attempt, error)
    if isinstance(ended, Ending):
        return ended
    try:
        return _fanned_out(attempt, await asyncio.to_thread(_stage, attempt, ended))
    except BaseException as error:
        return concluded(attempt, error)


def run_sync(attempt: Attempt, interruptible: AbstractContextManager[None]) -> Result:
    """Run a `def` task; return how it ended. It is interrupted only inside `interruptible`."""
    ctx = _enter(attempt)
    try:
        arguments = _arguments(attempt)
    except Exception as misfit:
        return _quarantine(attempt, misfit)
    try:
        with interruptible:
            if attempt.loss is not None:
                _run_hook(attempt, ctx, arguments)
            if attempt.claimed.last_run:
                return _lost_too_often(attempt)
            given, function = _with_context(attempt, ctx, arguments), attempt.task.function
            if wrappers := attempt.registry.wrappers:
                value = _wrapped(wrappers, ctx, partial(function, **given))
            else:
                value = function(**given)
            leave_if_forked()
        return _completed(attempt, value)
    except BaseException as error:
        ended = _ended(attempt, error)
    if isinstance(ended, Ending):
        return ended
    try:
        return _fanned_out(attempt, _stage(attempt, ended))
    except BaseException as error:
        return concluded(attempt, error)


def _enter(attempt: Attempt) -> Context:
    """Enter the attempt: all that runs in this context from now on belongs to it."""
    offspring.set(attempt.left)
    if attempt.mask is not None:
        hiding.set(attempt.mask)
    ctx = attempt.make_context()
    context.running.set(ctx)
    return ctx


class _Newer(Exception):
    """The job was enqueued by code newer than this worker's."""


def _arguments(attempt: Attempt) -> dict[str, Any]:
    """The arguments as the task takes them, upgraded from the version in which they were stored."""
    task, claimed = attempt.task, attempt.claimed
    if claimed.payload_version == task.version:
        return task.signature.unpack(claimed.args)
    if claimed.payload_version > task.version:
        raise _Newer
    return task.upgrades.unpack(
        task.signature, task.name, claimed.payload_version, task.version, claimed.args
    )


def _with_context(attempt: Attempt, ctx: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the context, where the task's function takes one."""
    name = attempt.task.context_name
    return arguments if name is None else {**arguments, name: ctx}


def _stage(attempt: Attempt, fan: FanOut) -> tuple[str, int, int]:
    try:
        return fan_out.stage(attempt.registry.app, attempt.claimed.lease.job, fan)
    except InvalidOption as error:
        raise Unrecoverable(str(error)) from None  # the next attempt would fail in the same way


def _fanned_out(attempt: Attempt, staged: tuple[str, int, int]) -> Ending:
    return Ending(transition.AwaitChildren(attempt.claimed.lease, *staged))


def _completed(attempt: Attempt, value: Any) -> Result:
    if attempt.stop is not None and attempt.stop_seen:
        return _stopped(attempt, attempt.stop)  # it returned early because it was told to stop
    try:
        packed = attempt.task.signature.pack_result(value)
    except PayloadInvalid as error:
        # Another attempt would only repeat its effects and fail in the same way.
        raise Unrecoverable(str(error)) from None
    limit = attempt.registry.payload_limit
    if len(packed.args) * 4 > limit and len(packed.args.encode()) > limit:
        raise Unrecoverable(
            f"the result of {attempt.task.name} is larger than {limit} bytes; store it elsewhere "
            f"and return a reference to it, or raise payload_limit."
        )
    if packed.secrets and (sum(map(len, packed.secrets)) + len(packed.secrets)) * 4 > limit:
        raise Unrecoverable(
            f"the result of {attempt.task.name} has too many secrets; return fewer, or raise "
            f"payload_limit."
        )
    counts = value.totals() if isinstance(value, CountedResult) else ()
    return Complete(attempt.claimed.lease, packed.args, packed.secrets, counts)


def _quarantine(attempt: Attempt, misfit: Exception) -> Ending:
    if isinstance(misfit, _Newer):
        return _snooze_for_newer(attempt)
    # A model's own validator may raise anything; then its traceback helps more than the message.
    cause = raised(misfit)
    if isinstance(misfit, PayloadInvalid):
        # Only an upgrade step that raised has a useful traceback; a misfit has none.
        where = "" if misfit.__cause__ is None else raised(misfit.__cause__).traceback
        message = sendable(str(misfit), LONGEST_MESSAGE)
        cause = Raised(type="PayloadInvalid", message=message, traceback=where)
    return Ending(transition.Quarantine(attempt.claimed.lease, cause))


def _snooze_for_newer(attempt: Attempt) -> Ending:
    claimed = attempt.claimed
    attempt.line(
        "warning",
        f"the job was enqueued for version {claimed.payload_version} of {claimed.task}, and this "
        f"worker has version {attempt.task.version}; the job waits {NEWER_SECONDS} s for a newer "
        f"worker",
    )
    at = (time.time_ns() // 1000) + NEWER_SECONDS * 1_000_000
    return Ending(transition.SnoozeUntil(claimed.lease, at))


# -- around the body


def _run_hook(attempt: Attempt, ctx: Context, arguments: dict[str, Any]) -> Any:
    hook, loss = attempt.task.hook, attempt.loss
    if hook is not None and loss is not None:
        return hook.call(ctx, cause_of(loss), arguments)
    return None


async def _run_hook_async(attempt: Attempt, ctx: Context, arguments: dict[str, Any]) -> None:
    answer = _run_hook(attempt, ctx, arguments)
    if isinstance(answer, Awaitable):
        await answer


def _lost_too_often(attempt: Attempt) -> Ending:
    return Ending(transition.Fail(attempt.claimed.lease, at_cap(attempt.claimed)))


def _wrapped(wrappers: Iterable[Wrapper], ctx: Context, body: Callable[[], Any]) -> Any:
    with contextlib.ExitStack() as stack:
        for wrapper in wrappers:
            if not wrapper.is_async:
                stack.enter_context(wrapper.enter(ctx))
        return body()


async def _wrapped_async(
    wrappers: Iterable[Wrapper], ctx: Context, body: Callable[[], Awaitable[Any]]
) -> Any:
    async with contextlib.AsyncExitStack() as stack:
        for wrapper in wrappers:
            if wrapper.is_async:
                await stack.enter_async_context(wrapper.enter(ctx))
            else:
                stack.enter_context(wrapper.enter(ctx))
        return await body()


# -- how it ended


def _ended(attempt: Attempt, error: BaseException) -> Ending | FanOut:
    """How an attempt that raised ended; a `FanOut` still needs its children staged."""
    leave_if_forked(error)
    fan = fan_out.fan_out_of(error)
    if fan is None or attempt.stop is not None:
        return concluded(attempt, error)
    return fan


def concluded(attempt: Attempt, error: BaseException) -> Ending:
    """What becomes of a job whose attempt raised."""
    if attempt.stop is not None:
        return _stopped(attempt, attempt.stop)
    if not isinstance(error, Exception | AttemptStopped):
        # An exit, an interruption or a cancellation that the worker did not cause is an ordinary
        # failure of the job.
        description = raised(error).sentence()
        error = RuntimeError(f"the task raised {description}").with_traceback(error.__traceback__)
    task = attempt.task
    return _with_note_logged(attempt, judged(attempt.claimed, error, task.retry, task.relaunch))


def _stopped(attempt: Attempt, cause: Cause) -> Ending:
    task = attempt.task
    return _with_note_logged(attempt, stopped(attempt.claimed, cause, task.retry, task.relaunch))


def _with_note_logged(attempt: Attempt, ending: Ending) -> Ending:
    if ending.note:
        attempt.line("warning", ending.note)
    return ending
