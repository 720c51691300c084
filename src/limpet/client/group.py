"""A group: jobs that were handed in together and are followed with one handle."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from limpet.client.handle import JobHandle
from limpet.domain.duration import Duration, duration
from limpet.domain.plural import number_of
from limpet.domain.state import State


class GroupHandle:
    """The jobs of a group, in their given order."""

    def __init__(self, jobs: Sequence[JobHandle[Any]]) -> None:
        self.jobs = tuple(jobs)

    def __repr__(self) -> str:
        return f"<GroupHandle of {number_of(len(self.jobs), 'job')}>"

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[JobHandle[Any]]:
        return iter(self.jobs)

    def results(self, timeout: Duration | None = None) -> list[Any]:
        """The result of each job, once all have one; `timeout` is for all jobs together.

        Raises what `JobHandle.result` raises, for the first job that did not succeed.
        """
        left = _Countdown(timeout)
        return [job.result(left.now()) for job in self.jobs]

    async def aresults(self, timeout: Duration | None = None) -> list[Any]:
        """As `results`, without blocking the event loop."""
        left = _Countdown(timeout)
        return [await job.aresult(left.now()) for job in self.jobs]

    def cancel(self, reason: str = "") -> list[State]:
        """Cancel every job; returns the state of each job afterwards."""
        return [job.cancel(reason) for job in self.jobs]

    async def acancel(self, reason: str = "") -> list[State]:
        """As `cancel`, without blocking the event loop."""
        return await asyncio.to_thread(self.cancel, reason)


class _Countdown:
    """The time that is left of a timeout that several waits share."""

    def __init__(self, timeout: Duration | None) -> None:
        limit = None if timeout is None else duration(timeout, what="timeout")
        self._until = None if limit is None else time.monotonic() + limit.total_seconds()

    def now(self) -> timedelta | None:
        if self._until is None:
            return None
        return timedelta(seconds=max(self._until - time.monotonic(), 0))
