"""Decides whether the death of an executor was its only job's own doing, or perhaps another's.

A job may signal other processes of its worker, and the kernel does not report the sender. Three
rules keep innocent jobs from being charged, and jobs that kill executors from running for ever:

- Executors that died together, by a signal that the worker did not send, got it from outside: no
  strike, whatever the signal.
- A signal that no fault raises (SIGKILL above all) was sent by a process. If another executor had a
  job since this job was given out, that other job may be the sender: no strike. If nothing else
  ran, the death is the job's own doing. A job that dies again and again beside others ends at the
  cap of losses.
- A fault (SIGSEGV, SIGABRT …), an exit and too much memory are the job's own doing.

A job that is not known to be innocent is a suspect, and runs in a process of its own from then on.
"""

import signal
from collections.abc import Iterable

from limpet import log
from limpet.domain.cause import Cause, WorkerKilled
from limpet.worker.supervisor.executor_link import Executor
from limpet.worker.supervisor.executors import Executors
from limpet.worker.supervisor.ledger import Hold
from limpet.worker.wire.page import now

# Signals that the kernel sends to a process for a fault, an exceeded limit or a timer of its own.
_OF_ITS_OWN = frozenset(
    {
        signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS,
        signal.SIGABRT, signal.SIGPIPE, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF,
        signal.SIGXCPU, signal.SIGXFSZ,
    }
)  # fmt: skip
# A job that signals other executors may end, and its end be known, before their deaths are known.
# So a job that ended this long ago still counts as company.
_COMPANY_MICROSECONDS = 1_000_000


class Charges:
    """Remembers which executors had a job a moment ago, and so may have ended others."""

    def __init__(self, executors: Executors) -> None:
        self._executors = executors
        # Number of the executor → when it last had a job, and the jobs that died with it.
        self._worked: dict[int, tuple[int, frozenset[str]]] = {}

    def worked(self, executor: Executor, dead: Iterable[str] = ()) -> None:
        """The executor has had a job until now; `dead`: the jobs that died with it."""
        self._worked[executor.number] = (now(), frozenset(dead))

    def is_own_doing(self, executor: Executor, cause: Cause, begun: list[Hold]) -> bool:
        """Whether the executor's only job caused its death; the jobs count as company from now."""
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
        """Whether another job ran in the worker.

        An earlier attempt of the same job does not count, nor does a job that had ended before
        this one was given out.
        """
        since = now() - _COMPANY_MICROSECONDS
        self._worked = {n: work for n, work in self._worked.items() if work[0] >= since}
        given = min((hold.given_at for hold in begun), default=0)
        for number, (until, dead) in self._worked.items():
            if number != executor.number and dead != jobs and until >= given:
                return True
        others = (other for other in self._executors.by_number.values() if other is not executor)
        return any(other.holds for other in others)
