"""The context of an attempt: what a running task can learn and report about itself."""

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, NoReturn, Protocol

from limpet.domain.cause import Cause
from limpet.domain.checks import amount, instance
from limpet.domain.child import ChildResult
from limpet.domain.duration import Duration
from limpet.domain.errors import AttemptStopped, FanOut, RateLimited
from limpet.domain.job import LONGEST_LINE, LONGEST_NOTE
from limpet.domain.raised import sendable

# Lines of `ctx.log` go through the user's own logging under this name.
LOGGER = "limpet.job"

_formatter = logging.Formatter()
_complaints = logging.Handler()


class AttemptLink(Protocol):
    """The link of a context to the worker; any thread of the attempt may use it."""

    def progress(self, done: float, total: float | None, note: str) -> None: ...

    def line(self, level: str, message: str) -> None: ...

    @property
    def stopping(self) -> Cause | None: ...

    def children(self) -> Sequence[ChildResult]: ...


class JobView(NamedTuple):
    """The job of an attempt; its counters are those of the moment when the attempt began."""

    id: str
    task: str
    queue: str
    round: int
    failures: int
    orphans: int
    strikes: int


class Context:
    """The attempt in which a task runs; the worker passes it as the parameter annotated with it.

    `attempt` counts from 1. `token` grows with every attempt of a job, so that other systems can
    recognise a late one.
    """

    __slots__ = ("_children", "_link", "_log", "attempt", "job", "token")

    def __init__(self, job: JobView, attempt: int, token: int, link: AttemptLink) -> None:
        self.job = job
        self.attempt = attempt
        self.token = token
        self._link = link
        self._log: _JobLogger | None = None
        self._children: Sequence[ChildResult] | None = None

    def __repr__(self) -> str:
        return f"<Context {self.job.id} {self.job.task} attempt {self.attempt}>"

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report how far the job is, in its own unit; a report also shows that it is not stuck."""
        amount(done, "progress: done")
        if total is not None:
            amount(total, "progress: total")
        instance(note, "progress: note", str, "a text")
        self._link.progress(done, total, sendable(note, LONGEST_NOTE))

    @property
    def log(self) -> logging.Logger:
        """A logger whose lines, of every level, are kept with the job."""
        if self._log is None:
            self._log = _JobLogger(self.job, self._link)
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the attempt must stop, whatever the cause."""
        return self._link.stopping is not None

    def check_cancelled(self) -> None:
        """Raise `AttemptStopped` if the attempt must stop."""
        cause = self._link.stopping
        if cause is not None:
            raise AttemptStopped(cause)

    # -- other jobs

    @property
    def children(self) -> Sequence[ChildResult]:
        """The children of this job, oldest first; empty before it has any.

        Children that failed are left out where the flow has failed="skip". Read from the store
        once, at the first use; if there are many, an async task awaits `achildren()` instead.
        """
        if self._children is None:
            self._children = self._link.children()
        return self._children

    async def achildren(self) -> Sequence[ChildResult]:
        """Like `children`, without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.children)

    def fan_out(
        self, calls: Iterable[Any], *, failed: Literal["fail", "skip", "keep"] = "fail"
    ) -> NoReturn:
        """End this attempt, run the calls as children, and then this job again.

        `failed`: what a child that fails does to this job; "fail", "skip" or "keep".
        """
        raise FanOut(calls, failed=failed)

    def rate_limited(self, retry_after: Duration) -> NoReturn:
        """End this attempt, at no cost; no job of its queue begins before `retry_after` is over.

        `retry_after` may be the header `Retry-After` of an HTTP server, if it is a number.
        """
        if isinstance(retry_after, str) and retry_after.strip().isdecimal():
            retry_after = int(retry_after)
        raise RateLimited(retry_after)


running: ContextVar[Context | None] = ContextVar("limpet_running", default=None)


def current() -> Context | None:
    """The context of the attempt in which this code runs, or None outside of one."""
    return running.get()


class _JobLogger(logging.Logger):
    """Sends each line to the job's log, and then to the user's own logging, if its level allows."""

    def __init__(self, job: JobView, link: AttemptLink) -> None:
        super().__init__(LOGGER, logging.DEBUG)
        self._job = job
        self._link = link

    def handle(self, record: logging.LogRecord) -> None:
        """Keep the line with the job, then pass it on; like any logger, it raises nothing."""
        _send(self._link, record)
        outer = logging.getLogger(LOGGER)
        if outer.isEnabledFor(record.levelno):
            job = self._job
            record.__dict__.update(job=job.id, task=job.task, queue=job.queue)
            outer.handle(record)


class JobLogHandler(logging.Handler):
    """A handler for the root logger of an executor: sends what an attempt logs to its job."""

    def __init__(self, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._inside = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record to the attempt in which it was made; never raises, never recurses."""
        context = running.get()
        # Limpet's own lines are not the job's, and those of `ctx.log` are there already.
        if context is None or record.name.partition(".")[0] == "limpet":
            return
        # Records that the link itself logs must not come back to it.
        if getattr(self._inside, "busy", False):
            return
        self._inside.busy = True
        try:
            _send(context._link, record)
        finally:
            self._inside.busy = False


def _send(link: AttemptLink, record: logging.LogRecord) -> None:
    # Catches only `Exception`: an `AttemptStopped` that arrives meanwhile must get through.
    try:
        link.line(record.levelname.lower(), _text(record))
    except Exception:
        _complaints.handleError(record)


def _text(record: logging.LogRecord) -> str:
    try:
        text = _formatter.format(record)
    except Exception as error:  # the arguments do not fit the message
        text = f"{record.msg!r} with {record.args!r} ({type(error).__name__}: {error})"
    return sendable(text, LONGEST_LINE)
