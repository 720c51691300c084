"""A handle on a job: its id, its state as last seen, and its methods."""

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, NoReturn, TypeVar, cast

from limpet.client.client import Client
from limpet.domain.duration import Duration, duration
from limpet.domain.errors import DuplicateJob, JobCancelled, JobFailed
from limpet.domain.job import Job
from limpet.domain.state import State
from limpet.payload.json_text import from_text
from limpet.payload.signature import Signature

R = TypeVar("R")


class JobHandle(Generic[R]):
    """A job that was handed in; `state` is as last seen, `refresh()` reads it again.

    `accepted` is False where another job has the same unique name: the handle is on that other
    job. With `on_conflict="drop"` every method of the handle raises `DuplicateJob` then.
    """

    accepted: bool = True
    _children: "tuple[JobHandle[Any], ...] | None" = None

    def __init__(
        self,
        client: Client,
        id: str,  # noqa: A002 - the word users know
        task: str | None = None,
        state: State | None = None,
        signature: Signature | None = None,
    ) -> None:
        self.id = id
        self.task = task
        self._client = client
        self._state = state
        self._signature = signature
        self._details: Job | None = None

    def __repr__(self) -> str:
        return f"<JobHandle {self.id} {self.task or '?'} {self._state or '?'}>"

    @property
    def state(self) -> State:
        """The state as last seen; read from the store where none was seen yet."""
        return self._state if self._state is not None else self.refresh().state

    async def astate(self) -> State:
        """As `state`, without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.state)

    @property
    def details(self) -> Job:
        """All that the store has of the job, as last seen; read from the store the first time."""
        return self._details if self._details is not None else self._seen(self._client.job(self.id))

    async def adetails(self) -> Job:
        """As `details`, without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.details)

    def refresh(self) -> "JobHandle[R]":
        """Read the job again; raises `JobNotFound` for a job that was pruned."""
        self._seen(self._client.job(self.id))
        self._children = None  # a job that fanned out has more children than it was enqueued with
        return self

    async def arefresh(self) -> "JobHandle[R]":
        """As `refresh`, without blocking the event loop."""
        return await asyncio.to_thread(self.refresh)

    def result(self, timeout: Duration | None = None) -> R:
        """Wait for what the task returns.

        Raises `JobFailed`, `JobCancelled`, or `ResultTimeout` when the time is up first.
        """
        limit = None if timeout is None else duration(timeout, what="timeout")
        return self._outcome(self._client.wait(self.id, limit))

    async def aresult(self, timeout: Duration | None = None) -> R:
        """As `result`, without blocking the event loop."""
        limit = None if timeout is None else duration(timeout, what="timeout")
        return self._outcome(await self._client.await_(self.id, limit))

    def cancel(self, reason: str = "") -> State:
        """Cancel the job, or request that its running attempt stops; returns the state then."""
        self._state = self._client.cancel(self.id, reason)
        return self._state

    async def acancel(self, reason: str = "") -> State:
        """As `cancel`, without blocking the event loop."""
        return await asyncio.to_thread(self.cancel, reason)

    def retry(self) -> State:
        """Run a finished job again, in a new round of the same id."""
        self._state = self._client.retry(self.id)
        return self._state

    async def aretry(self) -> State:
        """As `retry`, without blocking the event loop."""
        return await asyncio.to_thread(self.retry)

    @property
    def parent(self) -> "JobHandle[Any] | None":
        """The job that waits for this one, or None."""
        parent = self.details.parent
        return None if parent is None else JobHandle(self._client, parent)

    async def aparent(self) -> "JobHandle[Any] | None":
        """As `parent`, without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.parent)

    @property
    def children(self) -> "tuple[JobHandle[Any], ...]":
        """The jobs that this one waits for, or waited for, oldest first."""
        if self._children is not None:
            return self._children
        return tuple(
            JobHandle._of(self._client, child) for child in self._client.children_of(self.id)
        )

    async def achildren(self) -> "tuple[JobHandle[Any], ...]":
        """As `children`, without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.children)

    @classmethod
    def _of(cls, client: Client, job: Job) -> "JobHandle[Any]":
        handle: JobHandle[Any] = JobHandle(client, job.id)
        handle._seen(job)
        return handle

    def _seen(self, job: Job) -> Job:
        self._details, self._state, self.task = job, job.state, job.task
        return job

    def _outcome(self, job: Job) -> R:
        self._seen(job)
        if job.state is State.FAILED:
            raise JobFailed(job.id, job.error) from job.error
        if job.state is State.CANCELLED:
            raise JobCancelled(job.id, job.error) from job.error
        signature = self._signature or self._client.signature_of(job.task)
        if signature is None:
            return cast("R", from_text(job.result or "null"))
        return cast("R", signature.unpack_result(job.result or "null"))


def mark_dropped(handle: JobHandle[Any], error: DuplicateJob) -> None:
    """Make every method of a handle raise `error`, because its job was not taken in."""
    handle._client, handle._state = cast("Client", _Nobody(error)), None


def remember_children(handle: JobHandle[Any], children: Sequence[JobHandle[Any]]) -> None:
    """Keep the children that a job was handed in with, so that `children` does not read the store
    before the next `refresh`.
    """
    handle._children = tuple(children)


class _Nobody:
    """Stands in for the client of a job that was not taken in: every use raises `DuplicateJob`."""

    def __init__(self, error: DuplicateJob) -> None:
        self._error = error

    def __getattr__(self, name: str) -> NoReturn:
        raise DuplicateJob(self._error.unique, self._error.job)
