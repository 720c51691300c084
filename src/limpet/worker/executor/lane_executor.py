"""The lane: runs `def` tasks one at a time in its main thread, and needs no other thread.

While a task runs, nobody reads the supervisor's frames. A signal makes the main thread read them
between two steps of the task, and interrupts a call that sleeps. So a job can be stopped without a
second thread, and a task may fork at any time.
"""

# Five times as fast as `signal`, which turns each answer into an enumeration.
import _signal  # type: ignore[import-not-found]
import asyncio
import contextlib
import contextvars
import os
import select
import signal
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, assert_never

from limpet.domain.cause import Cause, cause_of
from limpet.domain.errors import AttemptStopped
from limpet.domain.job import ClaimedJob
from limpet.domain.transition import Complete
from limpet.host import marks, processes
from limpet.worker.executor import containment
from limpet.worker.executor.attempt import Attempt, Result, is_forked, run_async, run_sync
from limpet.worker.executor.executor import (
    LEFT_ALONE,
    Surroundings,
    keep_job_log,
    ready,
    run_hooks,
    run_start_hooks,
    run_stop_hooks,
    talk_through,
    unfit_frame,
)
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.endings import UnknownTaskFrame, frame_of
from limpet.worker.wire.frames import (
    FROM_SUPERVISOR,
    START_TOKEN,
    AnyFrame,
    CauseRecord,
    Channel,
    DoneFrame,
    EndFrame,
    FromSupervisor,
    PingFrame,
    RecalledFrame,
    RecallFrame,
    ReportFrame,
    RunFrame,
    StopFrame,
)

_ALL_SIGNALS = signal.valid_signals()
_RECALL_MILLISECONDS = 5_000


class LaneExecutor:
    """One lane."""

    def __init__(self, given: Surroundings) -> None:
        self._given = given
        self._app = given.registry.app
        self._channel = Channel(given.work, FROM_SUPERVISOR)
        self._poll = select.poll()  # `select` cannot wait for a descriptor beyond the 1,023rd
        self._poll.register(self._channel, select.POLLIN)
        self._inbox: deque[tuple[ClaimedJob, CauseRecord | None]] = deque()
        self._attempt: Attempt | None = None
        self._task: asyncio.Task[Any] | None = None
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(containment.counted_task)  # type: ignore[arg-type]
        self._base_context = contextvars.Context()
        # While this is not zero, an interruption waits: a frame must be sent as a whole.
        self._shields = 1
        self._main = threading.get_ident()
        self._sending = threading.Lock()
        self._interrupted = False
        self._recalled = False
        self._looking = False
        self._ending = False
        self._last: ClaimedJob | None = None
        self._unfit = False  # a task has changed the process for good: no job may start here
        talk_through(given)

    def run(self) -> int:
        """Run jobs until the supervisor ends the executor; return the exit code."""
        look = self._look
        signal.signal(processes.STOP_SIGNAL, look)
        asyncio.set_event_loop(self._loop)
        if not run_start_hooks(self._given.work, self._run_start_hooks):
            return 1
        self._children = containment.ChildProcesses()
        if (state := ready(self._given)) is None:
            return 1
        self._state = state
        while not (self._ending and not self._inbox):
            if not self._run_next():
                self._act_on(self._receive())
        run_stop_hooks(self._app.registry.stop_hooks, self._loop, self._base_context)
        return 0

    def _run_start_hooks(self) -> None:
        run_hooks(self._app.registry.start_hooks, self._loop, self._base_context)

    # -- frames of the supervisor

    def _receive(self) -> FromSupervisor:
        try:
            return self._channel.receive()
        except NotUnderstood:
            os._exit(LEFT_ALONE)  # the task's code has read a part of the supervisor's frames

    def _act_on(self, frame: FromSupervisor) -> None:
        match frame:
            case RunFrame(jobs, losses):
                self._inbox.extend((job, losses.get(job.lease.job)) for job in jobs)
            case RecallFrame():
                self._recalled = True
                self._answer_recall()
            case StopFrame():
                self._stop_attempt(frame)
            case EndFrame():
                self._ending = True
            case PingFrame():
                pass  # the supervisor pings only the loop
            case _:
                assert_never(frame)

    def _answer_recall(self) -> None:
        if self._recalled and self._attempt is None:
            self._recalled = False
            self._inbox.clear()
            self._send(RecalledFrame())

    def _stop_attempt(self, frame: StopFrame) -> None:
        attempt = self._attempt
        if attempt is None or attempt.claimed.lease[::2] != (frame.job, frame.token):
            return
        attempt.stop = cause_of(frame.cause)
        if self._task is not None:
            attempt.stop_seen = True
            self._loop.call_soon_threadsafe(self._task.cancel)
        elif frame.interrupt:
            self._interrupted = True

    def _look(self, number: int, frame: object) -> None:
        """Handle the signal: read the supervisor's frames while a task runs."""
        if self._attempt is None or self._looking:
            return
        self._looking = True
        while self._channel.has_frames or self._poll.poll(0):
            self._act_on(self._receive())
        self._looking = False
        self._interrupt_if_due()

    def _interrupt_if_due(self) -> None:
        if self._interrupted and self._shields == 0:
            self._interrupted = False
            attempt = self._attempt
            if attempt is not None and attempt.stop is not None:
                attempt.stop_seen = True
                raise AttemptStopped(attempt.stop)

    @contextlib.contextmanager
    def _shield(self) -> Iterator[None]:
        if threading.get_ident() != self._main:
            yield  # only the main thread is ever interrupted
            return
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        self._interrupt_if_due()

    def __enter__(self) -> None:
        """Begin code that may be interrupted: the task's own."""
        self._shields -= 1
        self._interrupt_if_due()

    def __exit__(self, *error: object) -> None:
        self._shields += 1

    # -- jobs

    def _run_next(self) -> bool:
        """Run one job; return False if there is none, or none that may start."""
        if not self._inbox or self._unfit or self._given.page.over:
            return False
        if self._state.is_overdue and (unfit := self._state.look(idle=True)):
            self._become_unfit(unfit)
            return False
        try:
            start_token = os.read(self._given.start_tokens, 1)
        except BlockingIOError:
            # Either the supervisor has taken the tokens back, and its frame is on the way, or a
            # job has read them.
            if not self._channel.has_frames and not self._poll.poll(_RECALL_MILLISECONDS):
                os._exit(LEFT_ALONE)
            return False
        if start_token != START_TOKEN:
            raise EOFError  # something else was written into the pipe
        claimed, loss = self._inbox.popleft()
        task = self._given.registry.tasks.get(claimed.task)
        if task is None:
            self._send(UnknownTaskFrame(claimed.lease))
            return True
        keep_job_log()
        attempt = Attempt(claimed, task, loss, self._report, self._given.registry)
        self._attempt = attempt
        self._interrupted = False
        containment.belongs_to(attempt.left)
        if task.weighs:
            processes.set_name(marks.lane_with(claimed.lease.job))
        try:
            own_context = self._base_context.copy()
            if task.is_async:
                result = self._run_async(attempt, own_context)
            else:
                result = own_context.run(run_sync, attempt, self)
            left = attempt.left
            clean = not (left.threads or left.futures or left.tasks)
            doomed = "" if clean else containment.wait_for_end(left)
            doomed = doomed or self._children.end_others()
        finally:
            containment.belongs_to(None)
            attempt.is_over = True
            self._attempt = None
            unfit = self._state.restore()
            if task.weighs:
                processes.set_name(marks.LANE)
        self._send_ending(result, attempt.stop, doomed)
        self._last = claimed
        if unfit:
            self._become_unfit(unfit)
        self._answer_recall()
        return True

    def _become_unfit(self, unfit: str) -> None:
        """Start nothing more: this process is no longer in the state that jobs expect."""
        self._unfit = True
        if self._last is not None:
            self._send(unfit_frame(self._last, unfit))

    def _run_async(self, attempt: Attempt, own_context: contextvars.Context) -> Result:
        self._task = asyncio.Task(run_async(attempt), loop=self._loop, context=own_context)
        try:
            result: Result = self._loop.run_until_complete(self._task)
        finally:
            self._task = None
        if attempt.left.living():
            self._loop.run_until_complete(containment.await_end(attempt.left))
        return result

    def _send_ending(self, result: Result, stop: Cause | None, doomed: str) -> None:
        # Sent before the next job begins: that may take long, or end the process.
        if isinstance(result, Complete) and not doomed:
            self._send_between_jobs(DoneFrame([result]))
        else:
            self._send_between_jobs(frame_of(result, stop, doomed))

    def _report(self, frame: ReportFrame) -> None:
        if not is_forked():
            self._send(frame)

    def _send_between_jobs(self, frame: AnyFrame) -> None:
        """Send a frame between two jobs, when no signal handler of a task is left to raise."""
        with self._sending:
            self._channel.send(frame)

    def _send(self, frame: AnyFrame) -> None:
        # Signals are blocked: a task's own signal handler must not raise in the middle of a frame.
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _ALL_SIGNALS)
        try:
            with self._shield(), self._sending:
                self._channel.send(frame)
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
