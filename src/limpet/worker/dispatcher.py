"""Gives claimed jobs to executors and hears how they ended."""

import socket
import time
from collections.abc import Callable
from typing import Any

from limpet import log
from limpet.domain.cause import Cause, ExecutorExited, NotStarted
from limpet.domain.job import LogLine, Progress, Report
from limpet.domain.transition import Cancel, Complete, Release
from limpet.worker.blame import Blame
from limpet.worker.claimer import Claimer
from limpet.worker.crew import Crew
from limpet.worker.desk import Desk
from limpet.worker.executor_link import Executor
from limpet.worker.frames import (
    BLOCKED,
    LANE,
    LOOP,
    OUTCOME,
    READY,
    RECALLED,
    REPORT,
    TaskFacts,
)
from limpet.worker.holds import Hold, Ledger, say_of
from limpet.worker.limits import Limits
from limpet.worker.page import now
from limpet.worker.placement import Placement
from limpet.worker.plan import Plan
from limpet.worker.settler import after_death, settlement_of

# What has not started after this time behind a job that goes on is taken back.
_HELD_UP = 50_000
# How long jobs wait for an executor that starts, and how long it may take at all.
_SLOW_START, _LONGEST_START = 1_000_000, 60_000_000
_LONGEST_PAUSE = 10.0


class Dispatcher:
    """The jobs of a session, from the claim to the outcome."""

    crew: Crew
    claimer: Claimer

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        desk: Desk,
        on_zygote: Callable[[Any], None],
        on_zygote_death: Callable[[str], None],
        later: Callable[[float, Callable[[], None]], Any],
        lease_is_over: Callable[[], bool],
    ) -> None:
        self.lease_is_over = lease_is_over
        self._plan = plan
        self._ledger = ledger
        self._desk = desk
        self.on_zygote = on_zygote
        self.on_zygote_death = on_zygote_death
        self._later = later
        self.tasks: dict[str, TaskFacts] = {}
        self.limits = Limits(plan, lambda name: self.tasks[name].takes_context)
        self._blame = Blame(later)
        self.placement = Placement()
        self.reports: list[Report] = []
        self._waiting_since = {LOOP: 0, LANE: 0}
        self._failed_starts = 0

    # -- giving

    def give(self, holds: list[Hold]) -> None:
        """Hand jobs to executors."""
        for hold in holds:
            facts = self.tasks.get(hold.claimed.task)
            if facts is None:
                self._ledger.settle(hold, Release(hold.lease, NotStarted("its task is not known")))
                continue
            if hold.is_limited:
                self.limits.watch(hold)
            kind = LANE if facts.in_lane else LOOP
            self.claimer.used[kind] += 1
            if hold.claimed.suspect and kind == LOOP:
                self.placement.give_alone(hold)
            else:
                self.placement.waiting[kind].append(hold)
        self.placement.place()

    # -- hearing

    def on_frame(self, executor: Executor, frame: Any) -> None:
        kind = frame[0]
        if kind == OUTCOME:
            self._ended(executor, frame.outcome)
        elif kind == REPORT:
            self._reported(*frame[1:])
        elif kind == READY:
            self._started(executor, *frame[1:])
        elif kind == RECALLED:
            executor.recalling = False
            self.placement.place()
        elif kind == BLOCKED:
            self._blame.heard(executor, *frame[1:])

    def _started(self, executor: Executor, error: str = "") -> None:
        executor.start_error = error
        if not error:
            executor.ready, executor.slow = True, False
            self._failed_starts = 0
            self.claimer.rang()

    def on_done(self, executor: Executor, completes: list[Complete]) -> None:
        ledger, count = self._ledger, 0
        for complete in completes:
            hold = ledger.find(complete.lease.job, complete.lease.token)
            if hold is None or hold.executor is not executor:
                continue
            count += 1
            del executor.holds[complete.lease.job]
            if hold.is_limited or hold.stop is not None:
                self.limits.forget(hold)
            ledger.settle(hold, complete)
        self._finished(executor, count)

    def _ended(self, executor: Executor, outcome: Any) -> None:
        hold = self._ledger.find(outcome.lease.job, outcome.lease.token)
        if hold is None or hold.executor is not executor:
            return
        if outcome.doomed:
            hold.outcome = outcome
            self.limits.forget(hold)
            about = {"kind": executor.kind, "executor": executor.number}
            say_of(hold, "executor_doomed", **about, what=outcome.doomed)
            self._take_back(executor)
            self.limits.doom(executor)
            self.limits.tick()
            return
        del executor.holds[hold.lease.job]
        self.limits.forget(hold)
        self._ledger.settle(hold, settlement_of(hold, outcome))
        self._finished(executor, 1)

    def _finished(self, executor: Executor, count: int) -> None:
        executor.jobs += count
        pool = executor.pool
        self.claimer.used[pool] -= count
        self.claimer.rates[pool].finished(count)
        most = self._plan.max_jobs
        if most is not None and executor.jobs >= most and not executor.retiring:
            log.say(
                "executor_recycled", kind=executor.kind, executor=executor.number,
                jobs=executor.jobs,
            )  # fmt: skip
            self._take_back(executor)
            executor.end()
        elif executor.for_suspect and not executor.holds and not executor.retiring:
            executor.end()
        self.claimer.wake()

    def _reported(self, job: str, token: int, progress: Any, lines: Any) -> None:
        hold = self._ledger.find(job, token)
        if hold is None:
            return
        said = None
        if progress is not None:
            hold.progress_at = now()
            done, total, note = progress
            said = Progress(done, total, note, at=time.time_ns() // 1000)
        self.reports.append(Report(hold.lease, said, tuple(LogLine(*line) for line in lines)))

    def on_request(self, executor: Executor, sock: socket.socket) -> None:
        self._desk.open(sock, executor.not_understood)

    # -- death

    def on_death(self, executor: Executor, cause: Cause | None) -> None:
        """Settle what an executor left; nothing of it lives any more."""
        self.limits.buried(executor)
        if self.lease_is_over():
            return  # it was ended for that, as was everything; nobody is to be charged
        intended = executor.doomed
        why = cause or ExecutorExited(code=0)
        begun = [hold for hold in executor.holds.values() if hold.begun]
        if executor.holds and not intended and not executor.start_error:
            log.say(
                "executor_died", kind=executor.kind, executor=executor.number, cause=why,
                jobs=len(begun),
            )  # fmt: skip
        count = len(executor.holds)
        for hold in list(executor.holds.values()):
            self.limits.forget(hold)
            alone = len(begun) == 1
            self._ledger.settle(hold, after_death(hold, why, alone=alone, intended=intended))
        executor.holds.clear()
        self._finished_by_death(executor, count)
        failed = not intended or executor.start_error
        if not executor.ready and failed and not executor.retiring:
            self._hold_off(executor.start_error or "it ended before it was ready")
        self.placement.place()

    def _finished_by_death(self, executor: Executor, count: int) -> None:
        self.claimer.used[executor.pool] -= count
        self.claimer.wake()

    def _hold_off(self, error: str) -> None:
        """An executor could not start: no other is started for a while; those that run go on."""
        if not self.placement.may_start:
            return  # it was started together with one that has said so
        self._failed_starts += 1
        pause = min(0.1 * 2**self._failed_starts, _LONGEST_PAUSE)
        log.say("executor_failed", error=error, seconds=pause)
        self.placement.may_start = False
        self._later(pause, self._go_on)

    def _go_on(self) -> None:
        self.placement.may_start = True
        self.placement.place()
        self.claimer.rang()

    # -- every tick

    def tick(self) -> None:
        """Look who has begun, who is held up, who exceeds a limit, who does not answer."""
        moment = now()
        self.crew.ask_zygote(moment, round(self._plan.deaf * 1e6))
        fresh = False
        for executor in list(self.crew.executors.values()):
            fresh = bool(executor.look()) or fresh
            self._look_for_held_up(executor, moment)
            if executor.lingers(moment, round(self._plan.grace * 1e6)):
                self.limits.doom(executor)  # its stop hooks do not end
            if executor.kind == LOOP and executor.ready and executor.holds:
                self._blame.look(executor, moment)
        for kind in (LOOP, LANE):
            self._look_for_waiting(kind, moment)
        self.limits.tick()
        if fresh:
            self.on_begun()

    def _look_for_waiting(self, kind: str, moment: int) -> None:
        """Hand back what nobody here has taken for a while."""
        waiting = self.placement.waiting[kind]
        if not waiting:
            self._waiting_since[kind] = moment
        elif any(not each.ready and not each.slow for each in self.crew.of_kind(kind)):
            self._waiting_since[kind] = moment  # one is coming
        elif moment - self._waiting_since[kind] > _HELD_UP:
            self._hand_back(list(waiting), kind, "no executor had room for it")
            waiting.clear()

    def _hand_back(self, holds: list[Hold], kind: str, why: str) -> None:
        for hold in holds:
            self.limits.forget(hold)
            self.claimer.used[kind] -= 1
            self._ledger.settle(hold, Release(hold.lease, NotStarted(why)))
        if holds:
            self.claimer.wake()

    on_begun: Callable[[], None]

    def _look_for_held_up(self, executor: Executor, moment: int) -> None:
        if not executor.ready:
            self._look_for_slow_start(executor, moment)
            return
        waiting = len(executor.unstarted)
        if not waiting or executor.last_waiting != waiting or self._reads_yet(executor):
            executor.last_waiting = waiting
            executor.stuck_since = moment
        elif moment - executor.stuck_since > _HELD_UP:
            executor.stuck_since = moment
            self._take_back(executor)

    @staticmethod
    def _reads_yet(executor: Executor) -> bool:
        """Whether it has not been able to begin, because its frames are still on their way."""
        return executor.has_unread and not any(each.goes_on for each in executor.holds.values())

    def _look_for_slow_start(self, executor: Executor, moment: int) -> None:
        waited = moment - executor.started_at
        if waited > _SLOW_START and not executor.slow:
            executor.slow = True
            self._take_back(executor)
        if waited > _LONGEST_START and not executor.doomed:
            executor.start_error = "its on_start hooks did not end"
            self.limits.doom(executor)

    def _take_back(self, executor: Executor) -> None:
        """Take what has not started away from an executor: for another, or back to the store."""
        back = executor.take_back()
        kind = executor.pool
        others = [
            each
            for each in self.crew.of_kind(kind)
            if each is not executor and each.takes_more and not each.holds
        ]
        room = len(others) if kind == LANE else (len(back) if others else 0)
        if executor.for_suspect:
            room = 0  # it must be alone where it runs
        self.placement.waiting[kind].extend(back[:room])
        self._hand_back(back[room:], kind, "a job that goes on was ahead of it")
        if back:
            self.placement.place()

    def hand_back_unstarted(self) -> None:
        """The worker is to stop: others can have what has not started."""
        why = "the worker was asked to stop"
        for executor in self.crew.executors.values():
            kind = executor.pool
            self._hand_back(executor.take_back(), kind, why)
        for kind, waiting in self.placement.waiting.items():
            self._hand_back(list(waiting), kind, why)
            waiting.clear()

    # -- cancellation

    def cancel(self, hold: Hold, cause: Cause) -> None:
        """Stop a job that somebody does not want any more."""
        executor = hold.executor
        if executor is not None:
            executor.look()
        if hold.begun:
            self.limits.stop(hold, cause)
            return
        if executor is not None:
            for each in executor.take_back():
                kind = executor.pool
                self.placement.waiting[kind].append(each)
        for kind, waiting in self.placement.waiting.items():
            if hold in waiting:
                waiting.remove(hold)
                self.limits.forget(hold)
                self.claimer.used[kind] -= 1
                self._ledger.settle(hold, Cancel(hold.lease))
        self.placement.place()
        self.claimer.wake()
