"""A task: a registered function, and how jobs of it are handed in."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from limpet.client.client import Client
from limpet.client.handle import JobHandle
from limpet.client.json_text import from_text
from limpet.client.options import JobOptions, at
from limpet.client.signature import RESERVED, Packed, Signature
from limpet.domain.errors import InvalidOption, PayloadTooLarge, TransactionRefused
from limpet.domain.job import NewJob, masked

P = ParamSpec("P")
R = TypeVar("R")


class Home(Protocol):
    """What a task needs of its app."""

    payload_limit: int

    @property
    def client(self) -> Client: ...


class Call(NamedTuple):
    """One request to run a task, checked and ready to be handed in with `enqueue_many`."""

    task: "Task[Any, Any]"
    packed: Packed

    def __repr__(self) -> str:
        shown = masked(from_text(self.packed.args), self.packed.secrets)
        return f"<Call {self.task.name} {shown}>"


@dataclass(frozen=True, eq=False)
class Task(Generic[P, R]):
    """A registered function. Calling it runs it here and now; `enqueue` hands in a job."""

    name: str
    function: Callable[P, R | Coroutine[Any, Any, R]]
    options: JobOptions
    signature: Signature
    home: Home

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R | Coroutine[Any, Any, R]:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name} on queue {self.options.queue}>"

    def using(self, /, **options: Any) -> "Task[P, R]":
        """The same task with other options: `send.using(delay="10m").enqueue(…)`."""
        return Task(
            self.name, self.function, self.options.changed(options), self.signature, self.home
        )

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Hand in a job; when this returns, it will reach exactly one final state.

        `within=connection` commits the job with the caller's own transaction.
        """
        task, arguments = self._take_within(kwargs)
        job = task.new_job(task.signature.pack(args, arguments))
        client = self.home.client
        if task.options.within is not None:
            receipt = client.enqueue_within(task.options.within, job)
        else:
            receipt = client.enqueue(job)
        return JobHandle(client, job.id, self.name, receipt.state, self.signature)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """As `enqueue`, without blocking the event loop."""
        task, arguments = self._take_within(kwargs)
        if task.options.within is not None:
            raise TransactionRefused(
                "within= works in the thread of the connection's transaction; use enqueue(), which "
                "only writes to that transaction and returns at once."
            )
        client = self.home.client
        job = task.new_job(task.signature.pack(args, arguments))
        receipt = await client.aenqueue(job)
        return JobHandle(client, job.id, self.name, receipt.state, self.signature)

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """A request for `app.enqueue_many`."""
        return Call(self, self.signature.pack(args, dict(kwargs)))

    def _take_within(self, kwargs: Any) -> "tuple[Task[P, R], dict[str, Any]]":
        arguments = dict(kwargs)
        connection = arguments.pop(RESERVED, None)
        return (self if connection is None else self.using(within=connection)), arguments

    @cached_property
    def _record(self) -> str:
        return self.options.record()

    def new_job(self, packed: Packed) -> NewJob:
        """The row of a new job of this task."""
        limit = self.home.payload_limit
        # A character is at most four bytes, so most payloads need not be measured.
        size = len(packed.args) if len(packed.args) * 4 <= limit else len(packed.args.encode())
        if size > limit:
            raise PayloadTooLarge(
                f"{self.name}: the arguments are {size} bytes and the limit is {limit}. Store the "
                f"data elsewhere and pass a reference to it, or raise payload_limit."
            )
        options = self.options
        now = self.home.client.clock.wall()

        def moment(name: str) -> int | None:
            value = getattr(options, name)
            return None if value is None else at(value, now, name)

        expires_at, deadline_at, due = moment("expires"), moment("deadline"), moment("delay")
        for name, end in (("expires", expires_at), ("deadline", deadline_at)):
            if end is not None and end <= max(now, due or now):
                raise InvalidOption(
                    f"{self.name}: {name} comes before the job could start; make it later than "
                    f"the delay."
                )
        return NewJob(
            id=self.home.client.ids.new(),
            task=self.name,
            args=packed.args,
            queue=options.queue,
            options=self._record,
            secrets=packed.secrets,
            priority=options.priority,
            scheduled_for=due,
            expires_at=expires_at,
            deadline_at=deadline_at,
        )
