"""The lane: runs `def` tasks one at a time in its main thread, and needs no other thread.

While a task runs nobody reads the supervisor's frames; a signal makes the main thread look, between
two of the task's own steps, and interrupts a call that sleeps. So the lane can be stopped without a
second thread, and a task may fork as it likes.
"""

# Five times as fast as `signal`, which makes an enumeration of each answer.
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
    PERMIT,
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
        self._heard = select.poll()  # `select` cannot wait for a descriptor beyond the 1,023rd
        self._heard.register(self._channel, select.POLLIN)
        self._inbox: deque[tuple[ClaimedJob, CauseRecord | None]] = deque()
        self._attempt: Attempt | None = None
        self._task: asyncio.Task[Any] | None = None
        self._loop = asyncio.new_event_loop()
        self._loop.set_task_factory(containment.counted_task)  # type: ignore[arg-type]
        self._base = contextvars.Context()
        # While this is not zero, an interruption waits: a frame must not be sent by half.
        self._shields = 1
        self._main = threading.get_ident()
        self._sending = threading.Lock()
        self._interrupted = False
        self._recalled = False
        self._looking = False
        self._ending = False
        self._last: ClaimedJob | None = None
        self._unfit = False  # a task has changed the process for ever: it runs nothing more
        talk_through(given)

    def run(self) -> int:
        """Until the supervisor says that there is nothing more to do."""
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
                self._hear(self._receive())
        run_stop_hooks(self._app.registry.stop_hooks, self._loop, self._base)
        return 0

    def _run_start_hooks(self) -> None:
        run_hooks(self._app.registry.start_hooks, self._loop, self._base)

    # -- what the supervisor says

    def _receive(self) -> FromSupervisor:
        try:
            return self._channel.receive()
        except NotUnderstood:
            os._exit(LEFT_ALONE)  # somebody here has read what was meant for us

    def _hear(self, frame: FromSupervisor) -> None:
        match frame:
            case RunFrame(jobs, lost):
                self._inbox.extend((job, lost.get(job.lease.job)) for job in jobs)
            case RecallFrame():
                self._recalled = True
                self._answer_recall()
            case StopFrame():
                self._asked_to_stop(frame)
            case EndFrame():
                self._ending = True
            case PingFrame():
                pass  # only a loop is asked
            case _:
                assert_never(frame)

    def _answer_recall(self) -> None:
        if self._recalled and self._attempt is None:
            self._recalled = False
            self._inbox.clear()
            self._say(RecalledFrame())

    def _asked_to_stop(self, frame: StopFrame) -> None:
        attempt = self._attempt
        if attempt is None or attempt.claimed.lease[::2] != (frame.job, frame.token):
            return
        attempt.stop = cause_of(frame.cause)
        if self._task is not None:
            attempt.knows = True
            self._loop.call_soon_threadsafe(self._task.cancel)
        elif frame.interrupt:
            self._interrupted = True

    def _look(self, number: int, frame: object) -> None:
        """Handle the signal: look what the supervisor says while a task runs."""
        if self._attempt is None or self._looking:
            return
        self._looking = True
        while self._channel.has_frames or self._heard.poll(0):
            self._hear(self._receive())
        self._looking = False
        self._give_way()

    def _give_way(self) -> None:
        if self._interrupted and self._shields == 0:
            self._interrupted = False
            attempt = self._attempt
            if attempt is not None and attempt.stop is not None:
                attempt.knows = True
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
        self._give_way()

    def __enter__(self) -> None:
        """Begin a piece of code that may be interrupted: the task's own."""
        self._shields -= 1
        self._give_way()

    def __exit__(self, *error: object) -> None:
        self._shields += 1

    # -- jobs

    def _run_next(self) -> bool:
        """Run one job; False if there is none, or none that may start."""
        if not self._inbox or self._unfit or self._given.page.over:
            return False
        if self._state.is_overdue and (unfit := self._state.look(idle=True)):
            self._leave_to_another(unfit)
            return False
        try:
            permit = os.read(self._given.permits, 1)
        except BlockingIOError:
            # The supervisor has taken them back, and says so at once; or a job has read them.
            if not self._channel.has_frames and not self._heard.poll(_RECALL_MILLISECONDS):
                os._exit(LEFT_ALONE)
            return False
        if permit != PERMIT:
            raise EOFError  # something else is where the permits were
        claimed, lost = self._inbox.popleft()
        task = self._given.registry.tasks.get(claimed.task)
        if task is None:
            self._say(UnknownTaskFrame(claimed.lease))
            return True
        keep_job_log()
        attempt = Attempt(claimed, task, lost, self._report, self._given.registry)
        self._attempt = attempt
        self._interrupted = False
        containment.belongs_to(attempt.left)
        if task.weighs:
            processes.set_name(marks.lane_with(claimed.lease.job))
        try:
            own = self._base.copy()
            if task.is_async:
                result = self._run_async(attempt, own)
            else:
                result = own.run(run_sync, attempt, self)
            left = attempt.left
            alone = not (left.threads or left.futures or left.tasks)
            doomed = "" if alone else containment.wait_for_end(left)
            doomed = doomed or self._children.end_others()
        finally:
            containment.belongs_to(None)
            attempt.is_over = True
            self._attempt = None
            unfit = self._state.restore()
            if task.weighs:
                processes.set_name(marks.LANE)
        self._send(result, attempt.stop, doomed)
        self._last = claimed
        if unfit:
            self._leave_to_another(unfit)
        self._answer_recall()
        return True

    def _leave_to_another(self, unfit: str) -> None:
        """Start nothing more: what this process is now is not what jobs may expect."""
        self._unfit = True
        if self._last is not None:
            self._say(unfit_frame(self._last, unfit))

    def _run_async(self, attempt: Attempt, own: contextvars.Context) -> Result:
        self._task = asyncio.Task(run_async(attempt), loop=self._loop, context=own)
        try:
            result: Result = self._loop.run_until_complete(self._task)
        finally:
            self._task = None
        if attempt.left.living():
            self._loop.run_until_complete(containment.await_end(attempt.left))
        return result

    def _send(self, result: Result, stop: Cause | None, doomed: str) -> None:
        # Before the next one begins: it may take its time, or the process with it.
        if isinstance(result, Complete) and not doomed:
            self._tell(DoneFrame([result]))
        else:
            self._tell(frame_of(result, stop, doomed))

    def _report(self, frame: ReportFrame) -> None:
        if not is_forked():
            self._say(frame)

    def _tell(self, frame: AnyFrame) -> None:
        """Say something between two jobs, when no handler of a task is left that could raise."""
        with self._sending:
            self._channel.send(frame)

    def _say(self, frame: AnyFrame) -> None:
        # A task's own signal handler may raise; not in the middle of a frame.
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _ALL_SIGNALS)
        try:
            with self._shield(), self._sending:
                self._channel.send(frame)
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
