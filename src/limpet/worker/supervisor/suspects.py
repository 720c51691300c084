"""Whose doing the death of an executor is: that of its only job, or perhaps somebody else's.

A job may signal other processes of its worker, and the kernel does not tell who did. Three rules
keep innocents from paying for it, and poison from going on for ever:

- Executors that died together of a signal that the worker did not send got it from outside: no
  strike, whatever the signal.
- A signal that no fault raises (SIGKILL above all) was sent by somebody. If another executor had a
  job since this one was given out it may have been that one, so there is no strike; where nothing
  else ran it is the job's own doing. What dies so beside others again and again ends at the cap of
  losses.
- A fault (SIGSEGV, SIGABRT …), an exit and too much memory are the job's own doing.

Whoever is not known to be innocent is a suspect, and runs in a process of its own from then on.
"""

import signal
from collections.abc import Iterable

from limpet import log
from limpet.domain.cause import Cause, WorkerKilled
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.ledger import Hold
from limpet.worker.wire.page import now

# What the kernel sends to whoever computes nonsense, exceeds a limit of its own, or set a timer.
_OF_ITS_OWN = frozenset(
    {
        signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
        signal.SIGABRT, signal.SIGPIPE, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
        signal.SIGXCPU, signal.SIGXFSZ,
    }
)  # fmt: skip
# A job that signals others may be over, and its end be known, before their deaths are.
_A_MOMENT_MICROSECONDS = 1_000_000


class Suspicion:
    """Who had a job a moment ago, and so may have ended others."""

    def __init__(self, crew: Executors) -> None:
        self._crew = crew
        # Executor → when it last had a job, and which jobs died with it if it is dead.
        self._worked: dict[int, tuple[int, frozenset[str]]] = {}

    def worked(self, executor: Executor, dead: Iterable[str] = ()) -> None:
        """It has had a job until now."""
        self._worked[executor.number] = (now(), frozenset(dead))

    def is_own_doing(self, executor: Executor, cause: Cause, begun: list[Hold]) -> bool:
        """Whether the death is the doing of the one job that ran there; it counts as company."""
        jobs = frozenset(hold.lease.job for hold in begun)
        company = self._had_company(executor, begun, jobs)
        if begun:
            self.worked(executor, jobs)
        if len(begun) != 1:
            return False
        sent = isinstance(cause, WorkerKilled) and cause.signal not in _OF_ITS_OWN
        if executor.died_with > 1 or (sent and company):
            log.emit("executor_signalled", kind=executor.kind, executor=executor.number)
            return False
        return True

    def _had_company(self, executor: Executor, begun: list[Hold], jobs: frozenset[str]) -> bool:
        """Whether another job ran in the worker; an earlier attempt of the same is none, nor is
        what had ended before this one was given out.
        """
        since = now() - _A_MOMENT_MICROSECONDS
        self._worked = {n: each for n, each in self._worked.items() if each[0] >= since}
        given = min((hold.given_at for hold in begun), default=0)
        for number, (until, dead) in self._worked.items():
            if number != executor.number and dead != jobs and until >= given:
                return True
        others = (each for each in self._crew.executors.values() if each is not executor)
        return any(each.holds for each in others)
