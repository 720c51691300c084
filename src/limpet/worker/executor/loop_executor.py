"""The loop: runs `async def` tasks, many at a time, on one event loop."""

import asyncio
import contextlib
import contextvars
import os
import signal
import threading
from collections import deque
from typing import Any, assert_never

import uvloop

from limpet.domain.cause import Cause, cause_of
from limpet.domain.job import ClaimedJob
from limpet.domain.transition import Complete
from limpet.host import processes
from limpet.worker.executor import containment
from limpet.worker.executor.attempt import Attempt, Result, is_forked, run_async
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
from limpet.worker.executor.process_state import LOOK_SECONDS
from limpet.worker.wire.bounds import LONGEST_PLACE, NotUnderstood, fit
from limpet.worker.wire.endings import UnknownTaskFrame, frame_of
from limpet.worker.wire.frames import (
    FROM_SUPERVISOR,
    BlockedFrame,
    CauseRecord,
    EndFrame,
    FromSupervisor,
    PingFrame,
    PongFrame,
    RecalledFrame,
    RecallFrame,
    ReportFrame,
    RunFrame,
    Splitter,
    StopFrame,
    pack,
    pack_done,
)


class LoopExecutor(asyncio.Protocol):
    """One event loop and the attempts on it; also the asyncio protocol of the work socket."""

    def __init__(self, given: Surroundings) -> None:
        self._given = given
        self._app = given.registry.app
        self._loop = uvloop.new_event_loop()
        self._base_context = contextvars.Context()
        self._splitter = Splitter(FROM_SUPERVISOR)
        self._inbox: deque[tuple[ClaimedJob, CauseRecord | None]] = deque()
        self._running: dict[str, tuple[Attempt, asyncio.Task[Any]]] = {}
        self._done: list[Complete] = []
        self._over = self._loop.create_future()
        self._starting = False
        self._ending = False
        self._unfit = self._is_look_due = False
        self._last: ClaimedJob | None = None
        self._transport: Any = None
        self._main = threading.get_ident()
        talk_through(given)

    def run(self) -> int:
        """Run jobs until the supervisor ends the executor; return the exit code."""
        asyncio.set_event_loop(self._loop)
        self._loop.set_task_factory(containment.counted_task)  # type: ignore[arg-type]
        signal.signal(processes.REPORT_SIGNAL, self._report_blocker)
        if not run_start_hooks(self._given.work, self._run_start_hooks):
            return 1
        self._children = containment.ChildProcesses()
        if not self._loop.run_until_complete(self._serve()):
            return 1
        run_stop_hooks(self._app.registry.stop_hooks, self._loop, self._base_context)
        return 0

    def _run_start_hooks(self) -> None:
        run_hooks(self._app.registry.start_hooks, self._loop, self._base_context)

    async def _serve(self) -> bool:
        """Serve until there is nothing more to do; return whether it could start."""
        state = ready(self._given)  # read once the loop has installed its signal handlers
        if state is None:
            return False
        self._state = state
        self._given.work.setblocking(False)
        await self._loop.create_connection(lambda: self, sock=self._given.work)
        await self._over
        return True

    # -- frames of the supervisor

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        os._exit(LEFT_ALONE)  # the supervisor is gone, and nothing may run without it

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._splitter.feed(data):
                self._act_on(frame)
        except NotUnderstood:
            os._exit(LEFT_ALONE)  # a task's code has read a part of the supervisor's frames

    def _act_on(self, frame: FromSupervisor) -> None:
        match frame:
            case RunFrame(jobs, losses):
                self._inbox.extend((job, losses.get(job.lease.job)) for job in jobs)
                self._start_more()
            case PingFrame(number):
                self._transport.write(pack(PongFrame(number)))
            case StopFrame():
                self._stop_attempt(frame)
            case RecallFrame():
                self._inbox.clear()
                self._transport.write(pack(RecalledFrame()))
            case EndFrame():
                self._ending = True
                self._finish_if_idle()
            case _:
                assert_never(frame)

    def _stop_attempt(self, frame: StopFrame) -> None:
        found = self._running.get(frame.job)
        if found is not None and found[0].claimed.lease.token == frame.token:
            attempt, task = found
            attempt.stop, attempt.stop_seen = cause_of(frame.cause), True
            # Queued behind the first step of the task: one that never began would report no ending.
            self._loop.call_soon(task.cancel)

    def _finish_if_idle(self) -> None:
        if self._ending and not self._running and not self._inbox and not self._over.done():
            self._flush()
            self._over.set_result(None)

    # -- jobs

    def _start_more(self) -> None:
        self._starting = False
        free = min(self._given.plan.settings.async_jobs - len(self._running), len(self._inbox))
        if free <= 0 or self._unfit or self._given.page.over:
            return
        try:
            started = len(os.read(self._given.start_tokens, free))
        except BlockingIOError:
            return  # the supervisor has taken the tokens back; its frame is on the way
        for _ in range(started):
            self._last, loss = self._inbox.popleft()
            self._start(self._last, loss)
        if started and not self._is_look_due:
            self._is_look_due = True
            self._loop.call_later(LOOK_SECONDS, self._look)

    def _start(self, claimed: ClaimedJob, loss: CauseRecord | None) -> None:
        task = self._given.registry.tasks.get(claimed.task)
        if task is None:
            self._transport.write(pack(UnknownTaskFrame(claimed.lease)))
            return
        keep_job_log()
        attempt = Attempt(claimed, task, loss, self._report, self._given.registry)
        # Not by `create_task`: the loop's factory would count the attempt as its own offspring.
        running = asyncio.Task(
            self._run(attempt),
            loop=self._loop,
            context=self._base_context.copy(),
            name=claimed.task,
        )
        self._running[claimed.lease.job] = (attempt, running)

    def _look(self) -> None:
        """Compare the state of the process while jobs run, and once after the last of them."""
        self._is_look_due = bool(self._running)
        if self._is_look_due:
            self._loop.call_later(LOOK_SECONDS, self._look)
        last = self._last
        if self._unfit or last is None:
            return
        if unfit := self._state.look(idle=not self._running):
            self._unfit = True
            self._transport.write(pack(unfit_frame(last, unfit)))

    async def _run(self, attempt: Attempt) -> None:
        result = await run_async(attempt)
        doomed = ""
        left = attempt.left
        if left.tasks or left.threads or left.futures:
            doomed = await self._end_of(left)
        del self._running[attempt.claimed.lease.job]
        if not self._running and not doomed:
            doomed = self._children.end_others()
        attempt.is_over = True
        self._send_ending(result, attempt.stop, doomed)
        if self._inbox and not self._starting:
            # Once for all attempts that end in this iteration of the loop.
            self._starting = True
            self._loop.call_soon(self._start_more)
        elif self._ending:
            self._finish_if_idle()

    async def _end_of(self, left: containment.Offspring) -> str:
        containment.offspring.set(None)
        while True:
            try:
                return await containment.await_end(left)
            except asyncio.CancelledError:
                continue  # a second request to stop; the attempt is stopping already

    def _send_ending(self, result: Result, stop: Cause | None, doomed: str) -> None:
        if isinstance(result, Complete) and not doomed:
            self._done.append(result)
            if len(self._done) == 1:
                self._loop.call_soon(self._flush)
            return
        self._transport.write(pack(frame_of(result, stop, doomed)))

    def _flush(self) -> None:
        if self._done:
            self._transport.write(pack_done(self._done))
            self._done = []

    def _report(self, frame: ReportFrame) -> None:
        if is_forked():
            return
        data = pack(frame)
        if threading.get_ident() == self._main:
            self._transport.write(data)
        else:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._transport.write, data)

    # -- what blocks the loop

    def _report_blocker(self, number: int, frame: Any) -> None:
        """Handle the signal: report the job and the line that keep the loop from answering.

        Python runs this between two steps of the code that blocks the loop.
        """
        task = asyncio.current_task(self._loop)
        job = next((job for job, (_, its) in self._running.items() if its is task), None)
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
        with contextlib.suppress(OSError):
            note = BlockedFrame(job, fit(where[-LONGEST_PLACE:], LONGEST_PLACE))
            os.write(self._given.notes, pack(note))
