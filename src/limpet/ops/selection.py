"""Chooses jobs by their properties: the filters of every list and of every bulk operation.

The store filters by state, queue and task. All else is compared here, a page at a time, so that the
memory needed does not grow with the store.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

from limpet.domain.cause import Cause, Raised
from limpet.domain.job import Job, JobFilter, JobList
from limpet.domain.state import State
from limpet.storage.contract.shaping import FlowVerbs
from limpet.storage.contract.store import CHUNK, InspectVerbs


class Readable(InspectVerbs, FlowVerbs, Protocol):
    """The verbs of a store that choosing jobs needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which jobs are meant; None means any. Times are wall time in microseconds.

    `error`: the kind of the error, or the class of the exception, or a part of its text; upper and
    lower case are the same. The moment of a `since` is included, that of an `until` is not.
    `parent`: the children of that job. `root`: everything below that job.
    """

    state: State | None = None
    queue: str | None = None
    task: str | None = None
    error: str | None = None
    created_since: int | None = None
    created_until: int | None = None
    finished_since: int | None = None
    finished_until: int | None = None
    key: str | None = None
    parent: str | None = None
    root: str | None = None

    @property
    def is_everything(self) -> bool:
        """Whether there is no filter at all."""
        return self == Selection()

    @property
    def _is_plain(self) -> bool:
        return self == Selection(state=self.state, queue=self.queue, task=self.task)

    def within(self, state: State) -> "Selection":
        """The same selection, of jobs in that state only."""
        return replace(self, state=state)

    def fits(self, job: Job) -> bool:
        """Whether a job is selected."""
        return (
            (self.state is None or job.state is self.state)
            and (self.queue is None or job.queue == self.queue)
            and (self.task is None or job.task == self.task)
            and (self.key is None or job.key == self.key)
            and (self.parent is None or job.parent == self.parent)
            and (self.root is None or job.root == self.root)
            and (self.error is None or _error_matches(job.error, self.error))
            and _between(job.created_at, self.created_since, self.created_until)
            and _between(job.finished_at, self.finished_since, self.finished_until)
        )

    def pages(self, store: Readable, most: int | None = None) -> Iterator[list[Job]]:
        """The selected jobs, newest first (children: oldest first), at most 1,000 at a time.

        Each page is read from the store when the iteration reaches it. `most`: how many jobs are
        read at most, whether they fit or not, rounded up to whole pages. No job comes twice,
        whatever changes meanwhile. A job that begins to fit after the iteration has passed it is
        found by the next iteration.
        """
        cursor: str | None = None
        for seen in count(0, CHUNK):
            if most is not None and seen >= most:
                return
            page = self._read(store, cursor, CHUNK)
            if fitting := [job for job in page.jobs if self.fits(job)]:
                yield fitting
            cursor = page.cursor
            if cursor is None:
                return

    def page(
        self, store: Readable, cursor: str | None = None, limit: int = 50
    ) -> tuple[list[Job], str | None]:
        """At most `limit` of the selected jobs, and the cursor that continues after them."""
        found: list[Job] = []
        size = limit if self._is_plain else CHUNK
        while True:
            page = self._read(store, cursor, size)
            fitting = [index for index, job in enumerate(page.jobs) if self.fits(job)]
            places_left = limit - len(found)
            if len(fitting) > places_left:
                # Read again, only up to the first job that is too many: a cursor continues after a
                # whole page only.
                size = fitting[places_left]
                continue
            found += [page.jobs[index] for index in fitting]
            cursor = page.cursor
            if cursor is None or len(found) == limit:
                return found, cursor
            size = CHUNK

    def _read(self, store: Readable, cursor: str | None, size: int) -> JobList:
        if self.parent is not None:
            return store.children(self.parent, cursor, size)
        return store.jobs(JobFilter(self.state, self.queue, self.task), cursor, size)


def _between(moment: int | None, since: int | None, until: int | None) -> bool:
    if since is None and until is None:
        return True
    if moment is None:
        return False
    return (since is None or moment >= since) and (until is None or moment < until)


def _error_matches(cause: Cause | None, text: str) -> bool:
    if cause is None:
        return False
    wanted = text.casefold()
    names = [cause.kind] + ([cause.type] if isinstance(cause, Raised) else [])
    return any(wanted == name.casefold() for name in names) or wanted in str(cause).casefold()
