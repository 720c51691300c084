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
from typing import Any

from limpet.domain.cause import cause_of
from limpet.domain.errors import AttemptStopped
from limpet.domain.job import ClaimedJob
from limpet.domain.transition import Complete
from limpet.host import marks, processes
from limpet.worker import containment
from limpet.worker.attempt import (
    Attempt,
    Result,
    is_forked,
    outcome_of,
    run_async,
    run_sync,
    unknown_task,
)
from limpet.worker.executor import (
    Surroundings,
    keep_job_log,
    run_hooks,
    run_stop_hooks,
    started,
    talk_through,
)
from limpet.worker.frames import (
    DONE,
    END,
    OUTCOME,
    RECALL,
    RECALLED,
    REPORT,
    RUN,
    STOP,
    Channel,
)

_ALL_SIGNALS = signal.valid_signals()


class LaneExecutor:
    """One lane."""

    def __init__(self, given: Surroundings) -> None:
        self._given = given
        self._app = given.registry.app
        self._channel = Channel(given.work)
        self._heard = select.poll()  # `select` cannot wait for a descriptor beyond the 1,023rd
        self._heard.register(self._channel, select.POLLIN)
        self._inbox: deque[tuple[ClaimedJob, dict[str, Any] | None]] = deque()
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
        talk_through(given)

    def run(self) -> int:
        """Until the supervisor says that there is nothing more to do."""
        look = self._look
        signal.signal(processes.STOP_SIGNAL, look)
        asyncio.set_event_loop(self._loop)
        if not started(self._given.work, self._run_start_hooks):
            return 1
        self._children = containment.Children()
        self._folder = os.getcwd()
        kept = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, processes.STOP_SIGNAL)
        self._handlers = [(number, _signal.getsignal(number)) for number in kept]
        while not (self._ending and not self._inbox):
            if not self._run_next():
                self._hear(self._channel.receive())
        run_stop_hooks(self._app.stop_hooks, self._loop, self._base)
        return 0

    def _run_start_hooks(self) -> None:
        run_hooks(self._app.start_hooks, self._loop, self._base)

    # -- what the supervisor says

    def _hear(self, frame: Any) -> None:
        kind = frame[0]
        if kind == RUN:
            self._inbox.extend((job, frame.lost.get(job.lease.job)) for job in frame.jobs)
        elif kind == RECALL:
            self._recalled = True
            self._answer_recall()
        elif kind == STOP:
            self._asked_to_stop(*frame[1:])
        elif kind == END:
            self._ending = True

    def _answer_recall(self) -> None:
        if self._recalled and self._attempt is None:
            self._recalled = False
            self._inbox.clear()
            self._say(RECALLED)

    def _asked_to_stop(self, job: str, token: int, cause: dict[str, Any], interrupt: bool) -> None:
        attempt = self._attempt
        if attempt is None or attempt.claimed.lease[::2] != (job, token):
            return
        attempt.stop = cause_of(cause)
        if self._task is not None:
            attempt.knows = True
            self._loop.call_soon_threadsafe(self._task.cancel)
        elif interrupt:
            self._interrupted = True

    def _look(self, number: int, frame: object) -> None:
        """Handle the signal: look what the supervisor says while a task runs."""
        if self._attempt is None or self._looking:
            return
        self._looking = True
        while self._channel.has_frames or self._heard.poll(0):
            self._hear(self._channel.receive())
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
        if not self._inbox or self._given.page.over:
            return False
        try:
            os.read(self._given.permits, 1)
        except BlockingIOError:
            return False  # it was recalled, or will be; the supervisor says so
        claimed, lost = self._inbox.popleft()
        task = self._given.registry.tasks.get(claimed.task)
        if task is None:
            self._say(OUTCOME, unknown_task(claimed))
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
            self._attempt = None
            self._as_before()
            if task.weighs:
                processes.set_name(marks.LANE)
        self._send(result, doomed)
        self._answer_recall()
        return True

    def _as_before(self) -> None:
        """Take back what a task did to the process: alarms, handlers, the current folder."""
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for number, handler in self._handlers:
            if _signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        try:
            moved = os.getcwd() != self._folder
        except OSError:
            moved = True
        if moved:
            with contextlib.suppress(OSError):
                os.chdir(self._folder)

    def _run_async(self, attempt: Attempt, own: contextvars.Context) -> Result:
        self._task = asyncio.Task(run_async(attempt), loop=self._loop, context=own)
        try:
            result: Result = self._loop.run_until_complete(self._task)
        finally:
            self._task = None
        if attempt.left.living():
            self._loop.run_until_complete(containment.await_end(attempt.left))
        return result

    def _send(self, result: Result, doomed: str) -> None:
        # Before the next one begins: it may take its time, or the process with it.
        if isinstance(result, Complete) and not doomed:
            self._tell(DONE, (result,))
        else:
            self._tell(OUTCOME, outcome_of(result, doomed))

    def _report(self, lease: Any, progress: Any, lines: Any) -> None:
        if is_forked():
            return
        self._say(REPORT, lease.job, lease.token, progress, lines)

    def _tell(self, *frame: Any) -> None:
        """Say something between two jobs, when no handler of a task is left that could raise."""
        with self._sending:
            self._channel.send(*frame)

    def _say(self, *frame: Any) -> None:
        # A task's own signal handler may raise; not in the middle of a frame.
        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, _ALL_SIGNALS)
        try:
            with self._shield(), self._sending:
                self._channel.send(*frame)
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
