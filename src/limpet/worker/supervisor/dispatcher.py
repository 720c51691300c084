"""Gives claimed jobs to executors and settles them when they end."""

import time
from collections.abc import Mapping
from typing import NoReturn

from limpet import log
from limpet.domain.cause import Cause, ExecutorExited, NotStarted
from limpet.domain.job import LogLine, Progress, Report
from limpet.domain.lease import Lease
from limpet.domain.transition import Cancel, Complete, Release
from limpet.worker.supervisor.attempt_limits import Limits
from limpet.worker.supervisor.blocked_loop import BlockedLoop
from limpet.worker.supervisor.charges import Charges
from limpet.worker.supervisor.demand import Demand
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.ledger import Hold, emit_for
from limpet.worker.supervisor.placement import Placement
from limpet.worker.supervisor.read_history import read_history
from limpet.worker.supervisor.request_server import RequestServer
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.settling import after_death, logged, put_aside
from limpet.worker.supervisor.unstarted import Unstarted
from limpet.worker.wire.bounds import NotUnderstood
from limpet.worker.wire.catalog import TaskFacts
from limpet.worker.wire.endings import EndingFrame, ending_of
from limpet.worker.wire.frames import (
    LANE,
    LOOP,
    BlockedFrame,
    PongFrame,
    ReadyFrame,
    RecalledFrame,
    ReportFrame,
    SingleFrame,
    UnfitFrame,
)
from limpet.worker.wire.page import now


class Dispatcher:
    """Follows the jobs of a session from the claim to the outcome."""

    def __init__(
        self,
        scope: SessionScope,
        tasks: Mapping[str, TaskFacts],
        executors: Executors,
        placement: Placement,
        demand: Demand,
        request_server: RequestServer,
    ) -> None:
        self._plan = scope.plan
        self._page = scope.page
        self._line = scope.line
        self._ledger = scope.ledger
        self._tasks = tasks
        self._executors = executors
        self._placement = placement
        self._demand = demand
        self._request_server = request_server
        self._limits = Limits(scope.plan, tasks)
        self._blocked_loop = BlockedLoop()
        self._charges = Charges(executors)
        self.unstarted = Unstarted(scope.ledger, executors, placement, self._limits, demand)

    # -- giving

    async def give(self, holds: list[Hold]) -> None:
        """Hand jobs to executors, with what their attempts need to know from their timelines."""
        await read_history(self._line, holds, self._tasks)
        for hold in holds:
            facts = self._tasks.get(hold.claimed.task)
            if facts is None:
                self._ledger.settle(hold, Release(hold.lease, NotStarted("its task is not known")))
                continue
            if hold.unreadable:
                self._ledger.settle(hold, put_aside(hold))
                continue
            if hold.is_limited:
                self._limits.watch(hold)
            if not self._placement.queues.enter(hold):
                self._place(hold)
        self.unstarted.hand_back_late()
        self._fill_free_places()
        self._placement.place()

    def _place(self, hold: Hold) -> None:
        kind = LANE if self._tasks[hold.claimed.task].in_lane else LOOP
        if hold.claimed.suspect and kind == LOOP:
            self._placement.give_alone(hold)
        else:
            self._placement.waiting[kind].append(hold)

    def _fill_free_places(self) -> None:
        """Start the jobs that waited for a place of their queue and have one now."""
        started = False
        for hold in self._placement.queues.started():
            self._place(hold)
            started = True
        if started:
            self._placement.place()

    # -- frames

    def on_start(self, executor: Executor) -> None:
        self._request_server.open(executor)

    def on_frame(self, executor: Executor, frame: SingleFrame) -> None:
        """Act on an executor's frame; raises `NotUnderstood`, before any effect, if it is wrong."""
        match frame:
            case ReportFrame():
                self._reported(executor, frame)
            case ReadyFrame(error):
                self._started(executor, error)
            case RecalledFrame():
                if not executor.recalling:
                    raise NotUnderstood("it dropped jobs that were not taken back")
                executor.recalling = False
                self._placement.place()
            case PongFrame(number):
                if not executor.pings.answered(number):
                    raise NotUnderstood("it answered a ping that was never sent")
            case UnfitFrame():
                self._replace(executor, frame)
            case _:
                self._ended(executor, frame)

    def on_blocked(self, executor: Executor, frame: BlockedFrame) -> None:
        """The executor reports what blocks its loop; ignored unless that was requested."""
        if frame.job is not None and not executor.had_job(frame.job):
            raise NotUnderstood("it is blocked by a job that it was never given")
        if executor.blame_requested:
            executor.blame_requested = False
            self._blocked_loop.answered(executor, frame.job, frame.where)

    def on_writable(self) -> None:
        """An executor has read what was sent to it, and can be given more."""
        self._placement.place()
        self._demand.rang()

    def _started(self, executor: Executor, error: str) -> None:
        if executor.ready or executor.start_error:
            raise NotUnderstood("it reported twice that it was ready")
        executor.start_error = error
        if not error:
            executor.ready, executor.slow = True, False
            self._placement.has_started()
            self._demand.rang()

    def on_done(self, executor: Executor, completes: list[Complete]) -> int:
        """Settle jobs that succeeded; returns how many outcomes came for jobs that were over.

        Raises `NotUnderstood` for a job that the executor was not given, or has not begun.
        """
        held, begun_before = executor.holds, executor.begun_before
        done: list[Complete] = []
        holds: list[Hold] = []
        jobs: list[str] = []
        late = 0
        try:
            for complete in completes:
                lease = complete[0]
                job = lease[0]
                hold = held.get(job)
                if hold is None or hold.lease != lease:
                    executor.given.let_go(jobs)  # this job may be one of them
                    jobs.clear()
                    executor.must_know(lease)
                    late += 1
                    continue
                if hold.place >= begun_before or hold.outcome is not None:
                    _refuse_ending(hold)
                del held[job]
                if hold.is_limited or hold.stop is not None:
                    self._limits.forget(hold)
                jobs.append(job)
                holds.append(hold)
                done.append(complete)
        finally:
            executor.given.let_go(jobs)
            self._ledger.complete(holds, done)
            self._finished(executor, len(done))
        return late

    def _ended(self, executor: Executor, frame: EndingFrame) -> None:
        hold = self._running(executor, frame.lease)
        if hold is None:
            return
        if hold.outcome is not None:
            _refuse_ending(hold)
        ending = ending_of(frame, hold.claimed, hold.stop)
        self._limits.forget(hold)
        if frame.doomed:
            hold.outcome = ending
            about = {"kind": executor.kind, "executor": executor.number}
            emit_for(hold, "executor_doomed", **about, what=frame.doomed)
            self.unstarted.take_back(executor)
            self._limits.doom(executor)
            self._limits.tick()
            return
        del executor.holds[hold.lease.job]
        executor.given.let_go([hold.lease.job])
        self._ledger.settle(hold, logged(hold, ending))
        self._finished(executor, 1)

    def _running(self, executor: Executor, lease: Lease) -> Hold | None:
        """The job that a frame is about; None if the job is over, so that the frame is too late.

        Raises `NotUnderstood` for a job that the executor was never given, or has not begun.
        """
        hold = self._ledger.holds.get(lease.job)
        if hold is None or hold.executor is not executor or hold.lease != lease:
            executor.must_know(lease)
            return None
        if hold.place >= executor.begun_before:
            _refuse_ending(hold)
        return hold

    def _finished(self, executor: Executor, count: int) -> None:
        if not count:
            return
        executor.jobs += count
        self._charges.worked(executor)
        self._demand.finished(executor.pool, count)
        most = self._plan.settings.max_jobs
        if most is not None and executor.jobs >= most and not executor.retiring:
            log.emit(
                "executor_recycled", kind=executor.kind, executor=executor.number,
                jobs=executor.jobs,
            )  # fmt: skip
            self.unstarted.take_back(executor)
            executor.end()
        elif executor.for_suspect and not executor.holds and not executor.retiring:
            executor.end()
        self._fill_free_places()

    def _replace(self, executor: Executor, frame: UnfitFrame) -> None:
        """A job has changed the executor's process for good: other jobs run in a new one."""
        if executor.unfit or not executor.had_job(frame.job):
            raise NotUnderstood("it was changed twice, or by a job that it was never given")
        executor.unfit = True
        log.emit(
            "executor_changed", kind=executor.kind, executor=executor.number, job=frame.job,
            task=frame.task, what=frame.what,
        )  # fmt: skip
        if not (executor.retiring or executor.doomed):
            back = executor.take_back()
            executor.end()
            self._placement.waiting[executor.pool].extendleft(reversed(back))
            self._placement.place()

    def _reported(self, executor: Executor, frame: ReportFrame) -> None:
        hold = self._running(executor, frame.lease)
        if hold is None:
            return
        progress = None
        if frame.progress is not None:
            hold.progress_at = now()
            done, total, note = frame.progress
            progress = Progress(done, total, note, at=time.time_ns() // 1000)
        lines = tuple(LogLine(*line) for line in frame.lines)
        self._ledger.report(Report(hold.lease, progress, lines))

    # -- death

    def on_death(self, executor: Executor, cause: Cause | None) -> None:
        """Settle the jobs of an executor that is dead, with all its processes."""
        self._limits.buried(executor)
        if self._page.over or self._executors.is_ended:
            return  # it was killed because the session ends; no job is charged for that
        intended = executor.doomed
        why = cause or ExecutorExited(code=0)
        begun = [hold for hold in executor.holds.values() if hold.begun]
        if executor.holds and not intended and not executor.start_error:
            log.emit(
                "executor_died", kind=executor.kind, executor=executor.number, cause=why,
                jobs=len(begun),
            )  # fmt: skip
        alone = not intended and self._charges.is_own_doing(executor, why, begun)
        for hold in executor.holds.values():
            self._limits.forget(hold)
            self._ledger.settle(hold, after_death(hold, why, alone=alone, intended=intended))
        self.unstarted.hand_back_behind(executor.holds.values())
        executor.holds.clear()
        self._demand.wake()
        failed = not intended or executor.start_error
        if not executor.ready and failed and not executor.retiring:
            error = executor.start_error or "it ended before it was ready"
            self._placement.pause_starts(error, self._demand.rang)
        self._placement.place()

    # -- every tick

    def tick(self) -> bool:
        """Look for jobs that wait too long or exceed a limit, and executors that do not answer.

        Returns whether jobs have begun since the last tick.
        """
        moment = now()
        fresh = False
        for executor in list(self._executors.by_number.values()):
            fresh = bool(executor.look()) or fresh
            executor.look_for_tampering(moment)
            self.unstarted.look(executor, moment)
            if executor.lingers(moment, round(self._plan.settings.grace * 1e6)):
                self._limits.doom(executor)  # its stop hooks do not end
            if executor.kind == LOOP and executor.ready and executor.holds:
                self._blocked_loop.look(executor, moment)
        self.unstarted.look_at_waiting(moment)
        self._fill_free_places()
        self._limits.tick()
        return fresh

    # -- stopping

    def stop_all(self, cause: Cause, grace_seconds: float) -> None:
        """Request that every job stops; jobs that go on are killed after the grace."""
        for hold in self._ledger.holds.values():
            self._limits.stop(hold, cause, grace_seconds)

    def give_way(self, job: str, cause: Cause) -> None:
        """Stop a job to hand it back; a job that has not begun stays, as it uses no memory."""
        hold = self._ledger.holds.get(job)
        if hold is not None and hold.begun:
            self._limits.stop(hold, cause)

    def cancel(self, hold: Hold, cause: Cause) -> None:
        """Stop a job that nobody wants any more."""
        executor = hold.executor
        if executor is not None:
            executor.look()
        if hold.begun:
            self._limits.stop(hold, cause)
            return
        if executor is not None:
            self._placement.waiting[executor.pool].extend(executor.take_back())
        waits = self._placement.queues.remove(hold)
        for waiting in self._placement.waiting.values():
            if hold in waiting:
                waiting.remove(hold)
                waits = True
        if waits:
            self._limits.forget(hold)
            self._ledger.settle(hold, Cancel(hold.lease))
        self._placement.place()
        self._demand.wake()


def _refuse_ending(hold: Hold) -> NoReturn:
    when = "had ended before" if hold.outcome is not None else "had not begun"
    raise NotUnderstood(f"it reported on job {hold.lease.job}, which {when}")
