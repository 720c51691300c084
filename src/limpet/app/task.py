"""A task: a registered function, and how jobs of it are handed in."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from inspect import iscoroutinefunction
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from limpet.app.hooks import OrphanHook, orphan_hook
from limpet.app.options import TRAVELLING, JobOptions, Shape, at
from limpet.app.typed_options import Isolation, UsingOptions
from limpet.client.client import Client
from limpet.client.handle import JobHandle, mark_dropped
from limpet.domain.errors import DuplicateJob, InvalidOption, PayloadTooLarge
from limpet.domain.job import NewJob, masked
from limpet.domain.relaunch import Relaunch
from limpet.domain.retry import Retry
from limpet.domain.weight import Weight
from limpet.payload.context import Context
from limpet.payload.json_text import from_text
from limpet.payload.signature import RESERVED, Packed, Signature
from limpet.payload.upgrades import Upgrades
from limpet.storage.contract.answers import Receipt

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

_Moments = tuple[int | None, int | None, int | None]
_NO_MOMENTS: _Moments = (None, None, None)
# Options that a single job cannot have for itself.
_OF_THE_TASK = ("weight", "heavy", "on_pressure")


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


@dataclass(slots=True)
class _Shared:
    """What is registered after the task was made; all copies of the task share it."""

    orphan_hook: OrphanHook | None = None
    upgrades: Upgrades = field(default_factory=Upgrades)


@dataclass(frozen=True, eq=False)
class Task(Generic[P, R]):
    """A registered function. Calling it runs it here and now; `enqueue` hands in a job.

    A task is a `SyncTask` or an `AsyncTask`, which differ in what a direct call returns.
    `isolation="process"` runs an async task in a process of its own, one attempt at a time.
    `version`: the version of its arguments, which new jobs carry. `weight`: what each of its jobs
    takes of a host. `gives_way`: its attempts are handed back when the host runs short of memory.
    """

    name: str
    function: Callable[P, R | Coroutine[Any, Any, R]]
    options: JobOptions
    signature: Signature
    home: Home
    isolation: Isolation = "auto"
    version: int = 1
    weight: Weight | None = None
    gives_way: bool = False
    _shared: _Shared = field(default_factory=_Shared, repr=False)

    @overload
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R | Coroutine[Any, Any, R]: ...

    @overload
    def __call__(
        self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs
    ) -> R | Coroutine[Any, Any, R]: ...

    def __call__(self, /, *args: Any, **kwargs: Any) -> R | Coroutine[Any, Any, R]:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name} on queue {self.options.queue}>"

    def using(self, /, **options: Unpack[UsingOptions]) -> Self:
        """The same task with other options: `send.using(delay="10m").enqueue(…)`."""
        retry = options.get("retry")
        if isinstance(retry, Retry) and not retry.travels:
            raise InvalidOption(
                f"{self.name}: a Retry with a function, retry_on or give_up_on cannot travel with "
                f"a job; give it to @app.task(retry=…) instead."
            )
        relaunch = options.get("relaunch")
        if isinstance(relaunch, Relaunch) and not relaunch.travels:
            raise InvalidOption(
                f"{self.name}: a Relaunch with unless= cannot travel with a job; give it to "
                f"@app.task(relaunch=…) instead."
            )
        for name in _OF_THE_TASK:
            if name in options:
                raise InvalidOption(
                    f"{self.name}: {name} is of the task, as the code of the worker has it; give "
                    f"it to @app.task({name}=…) instead."
                )
        # Made by hand, because one is made for each job that names its own key: without what was
        # worked out of the options, but for the record where nothing of it has changed.
        kept = {name: self.__dict__[name] for name in _FIELDS}
        kept["options"] = self.options.changed(options)
        if TRAVELLING.isdisjoint(options):
            kept["_hooked" if self._shared.orphan_hook is not None else "_plain"] = self._record
        made = object.__new__(type(self))
        made.__dict__.update(kept)
        return made

    @cached_property
    def is_async(self) -> bool:
        """Whether calling it makes a coroutine."""
        return calls_a_coroutine(self.function)

    @property
    def in_lane(self) -> bool:
        """Whether its attempts run alone in a lane, one at a time, not on a shared loop."""
        return not self.is_async or self.isolation == "process"

    @property
    def orphan_hook(self) -> OrphanHook | None:
        """What was registered with `on_orphaned`."""
        return self._shared.orphan_hook

    def on_orphaned(self, function: F) -> F:
        """Register what gets the last run of a job that was lost too often: `@send.on_orphaned`.

        The function may declare `cause`, a parameter annotated with `Context`, and the task's
        arguments.
        """
        if self._shared.orphan_hook is not None:
            raise InvalidOption(f"task {self.name!r} has an orphan hook already; keep one of them.")
        self._shared.orphan_hook = orphan_hook(self.name, self.signature, function)
        return function

    @property
    def upgrades(self) -> Upgrades:
        """What was registered with `upgrade`."""
        return self._shared.upgrades

    def upgrade(self, *, from_version: int) -> Callable[[F], F]:
        """Register a function from dict to dict that turns arguments of one version into those of
        the next, for jobs that older code has enqueued: `@send.upgrade(from_version=1)`.
        """

        def register(function: F) -> F:
            self._shared.upgrades.add(self.name, self.version, from_version, function)
            return function

        return register

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Hand in a job; when this returns, it will reach exactly one final state.

        `within=connection` commits the job with the caller's own transaction.
        """
        task, arguments = self._take_within(kwargs)
        (job,) = task.new_jobs([task._pack(args, arguments)])
        client = self.home.client
        if task.options.within is not None:
            receipt = client.enqueue_within(task.options.within, job)
        else:
            receipt = client.enqueue(job)
        if receipt.outcome == "new":
            return JobHandle(client, job.id, self.name, receipt.state, self.signature)
        return task.handle(receipt)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """As `enqueue`, without blocking the event loop.

        `within=connection` takes a connection with async calls, such as that of asyncpg.
        """
        task, arguments = self._take_within(kwargs)
        client = self.home.client
        (job,) = task.new_jobs([task._pack(args, arguments)])
        if task.options.within is not None:
            receipt = await client.aenqueue_within(task.options.within, job)
        else:
            receipt = await client.aenqueue(job)
        if receipt.outcome == "new":
            return JobHandle(client, job.id, self.name, receipt.state, self.signature)
        return task.handle(receipt)

    def handle(self, receipt: Receipt) -> JobHandle[R]:
        """The handle on a job of this task, from the receipt of its enqueue."""
        made: JobHandle[R]
        made = JobHandle(self.home.client, receipt.job, self.name, receipt.state, self.signature)
        if receipt.outcome == "duplicate":
            made.accepted = False
            unique = self.options.only_one()
            if unique is not None and unique.on_conflict == "drop":
                mark_dropped(made, DuplicateJob(unique.name, receipt.job))
        return made

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """A request for `app.enqueue_many`."""
        return Call(self, self._pack(args, kwargs))

    def _take_within(self, kwargs: Any) -> "tuple[Self, dict[str, Any]]":
        connection = kwargs.pop(RESERVED, None)  # these kwargs belong to this call only
        return (self if connection is None else self.using(within=connection)), kwargs

    @property
    def _record(self) -> str:
        # Two cached records, because a hook may be registered after the first job was made.
        return self._hooked if self._shared.orphan_hook is not None else self._plain

    @cached_property
    def _plain(self) -> str:
        return self.options.record(weight=self.weight)

    @cached_property
    def _hooked(self) -> str:
        return self.options.record(orphan_hook=True, weight=self.weight)

    def _pack(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
        packed = self.signature.pack(args, kwargs)
        limit = self.home.payload_limit
        # A character has at most four bytes, so most payloads need no exact count.
        size = len(packed.args) if len(packed.args) * 4 <= limit else len(packed.args.encode())
        if size > limit:
            raise PayloadTooLarge(
                f"{self.name}: the arguments are {size} bytes and the limit is {limit}. Store the "
                f"data elsewhere and pass a reference to it, or raise payload_limit."
            )
        return packed

    def new_jobs(self, payloads: Sequence[Packed]) -> list[NewJob]:
        """The rows of new jobs of this task."""
        name, queue, record, priority = (
            self.name,
            self.options.queue,
            self._record,
            self.options.priority,
        )
        moments = self.moments()
        ids = self.home.client.ids.many(len(payloads))
        # Positional arguments, in the order of the fields: faster, and this runs for every job.
        if self.shape is None and self.version == 1:
            return [
                NewJob(id_, name, args, queue, record, secrets, priority, *moments)
                for id_, (args, secrets) in zip(ids, payloads, strict=True)
            ]
        key, unique, rules = self.shape or (None, None, None)
        rest = (*moments, key, unique, None, None, None, self.version, rules)
        return [
            NewJob(id_, name, args, queue, record, secrets, priority, *rest)
            for id_, (args, secrets) in zip(ids, payloads, strict=True)
        ]

    @cached_property
    def shape(self) -> Shape | None:
        """The shape of the task's jobs; raises `InvalidOption` where the options contradict."""
        try:
            return self.options.shape()
        except InvalidOption as error:
            raise InvalidOption(f"{self.name}: {error}") from None

    @cached_property
    def _is_timed(self) -> bool:
        options = self.options
        return not (options.delay is options.expires is options.deadline is None)

    def moments(self) -> _Moments:
        """When a new job is due, and until when it must have started and have ended."""
        if not self._is_timed:
            return _NO_MOMENTS
        now = self.home.client.clock.wall()

        def moment(name: str) -> int | None:
            value = getattr(self.options, name)
            return None if value is None else at(value, now, name)

        due, expires_at, deadline_at = moment("delay"), moment("expires"), moment("deadline")
        for name, end in (("expires", expires_at), ("deadline", deadline_at)):
            if end is not None and end <= max(now, due or now):
                raise InvalidOption(
                    f"{self.name}: {name} comes before the job could start; make it later than "
                    f"the delay."
                )
        return due, expires_at, deadline_at


_FIELDS = tuple(field.name for field in fields(Task))


class SyncTask(Task[P, R]):
    """A task of a plain `def`: a direct call returns what the function does."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R: ...

        @overload
        def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R: ...

        def __call__(self, /, *args: Any, **kwargs: Any) -> R: ...


class AsyncTask(Task[P, R]):
    """A task of an `async def`: a direct call is to be awaited."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...

        @overload
        def __call__(
            self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs
        ) -> Coroutine[Any, Any, R]: ...

        def __call__(self, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, R]: ...


def calls_a_coroutine(function: Any) -> bool:
    """Whether calling it makes a coroutine."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)
