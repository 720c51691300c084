"""A job: one durable request to run a task.

Types that the hot path makes by the thousand are named tuples, which are made five times as fast as
frozen dataclasses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from limpet.domain.cause import Cause
from limpet.domain.lease import Lease
from limpet.domain.queue import DEFAULT_QUEUE
from limpet.domain.rules import Rules
from limpet.domain.state import State

# Longest line and note that an attempt reports while it runs, in characters. A longer text loses
# its middle; a mark in its place, of at most LONGEST_MARK characters, says how much was cut. A
# store keeps text and mark.
LONGEST_LINE = 8 * 1024
LONGEST_NOTE = 1_000
LONGEST_MARK = 64


class NewJob(NamedTuple):
    """A job as it is enqueued; times are wall time in microseconds.

    `args` and `options` are JSON texts. `options` travels with the job to the worker that runs it;
    options that this version does not know are kept. `secrets` are the paths in `args` that are
    masked wherever they are shown.
    """

    id: str
    task: str
    args: str
    queue: str = DEFAULT_QUEUE
    options: str = "{}"
    secrets: tuple[str, ...] = ()
    priority: int = 0
    scheduled_for: int | None = None
    expires_at: int | None = None
    deadline_at: int | None = None
    key: str | None = None
    unique: str | None = None
    parent: str | None = None
    root: str | None = None
    weight_class: str | None = None
    payload_version: int = 1
    rules: Rules | None = None  # None: as `NO_RULES`

    def __repr__(self) -> str:
        return f"<NewJob {self.id} {self.task}>"  # the arguments may hold secrets


class Counters(NamedTuple):
    """How many attempts of a job ended badly.

    `failures`: attempts that failed. `orphans`: attempts lost with their holder. `strikes`: losses
    that were the job's own doing.
    """

    failures: int = 0
    orphans: int = 0
    strikes: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job is, as it reported; `at` is wall time in microseconds."""

    done: float
    total: float | None
    note: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the store has it; times are wall time in microseconds."""

    id: str
    task: str
    queue: str
    state: State
    priority: int
    round: int
    token: int
    counters: Counters
    session: str | None
    suspect: bool
    last_run: bool
    begun: bool
    created_at: int
    ready_at: int
    claimed_at: int | None
    finished_at: int | None
    expires_at: int | None
    deadline_at: int | None
    cancel_requested_at: int | None
    blocked_by: str | None
    parent: str | None
    root: str | None
    key: str | None
    unique: str | None
    weight_class: str | None
    payload_version: int
    # How many children it still waits for.
    pending: int
    # When the failed job gets another round by itself.
    relaunch_at: int | None
    rules: Rules
    # Not in the repr, because they may hold secrets.
    args: str = field(repr=False)
    options: str
    secrets: tuple[str, ...]
    progress: Progress | None
    result: str | None = field(repr=False)
    result_secrets: tuple[str, ...]
    error: Cause | None
    # The fields of its row that hold nonsense; here they have the emptiest valid value.
    unreadable: tuple[str, ...] = ()


class ClaimedJob(NamedTuple):
    """What a holder needs to run one attempt.

    `attempt` counts from 1. `last_run`: the job is at a cap, and only its orphan hook may run.
    `reopened`: how many of its rounds a person opened; a store leaves this 0, and the worker looks
    it up when it matters. `unreadable`: the fields that cannot be read; such a job is put aside,
    not run.
    """

    lease: Lease
    task: str
    queue: str
    attempt: int
    round: int
    counters: Counters
    suspect: bool
    last_run: bool
    payload_version: int
    args: str
    options: str
    secrets: tuple[str, ...]
    deadline_at: int | None
    reopened: int = 0
    unreadable: str = ""

    def __repr__(self) -> str:
        return f"<ClaimedJob {self.lease.job} {self.task}>"  # the arguments may hold secrets


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; None means any."""

    state: State | None = None
    queue: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class JobList:
    """Some jobs, newest first, and the cursor that continues the list."""

    jobs: tuple[Job, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a running job wrote; `at` is wall time in microseconds."""

    at: int
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """Progress and log lines that an attempt reports while it runs."""

    lease: Lease
    progress: Progress | None = None
    lines: tuple[LogLine, ...] = field(default=())


# The path of all arguments, used when a job's stored paths cannot be read. No field has this path,
# because a slash in a field's name is escaped.
EVERYTHING = "//"


def masked(args: Any, secrets: tuple[str, ...]) -> Any:
    """The arguments with every secret path replaced by stars."""
    if not secrets:
        return args
    if EVERYTHING in secrets:
        return "***"
    below: dict[str, list[str]] = {}
    for path in secrets:
        head, _, tail = path.partition("/")
        below.setdefault(head, []).append(tail)
    if isinstance(args, Mapping):
        return {name: _mask_one(value, below.get(escaped(name))) for name, value in args.items()}
    if isinstance(args, list):
        return [_mask_one(value, below.get(str(at))) for at, value in enumerate(args)]
    return args


def _mask_one(value: Any, tails: list[str] | None) -> Any:
    if tails is None:
        return value
    if "" in tails:
        return "***"
    return masked(value, tuple(tails))


def escaped(name: str) -> str:
    """A field's name as one part of the path of a secret."""
    return name.replace("~", "~0").replace("/", "~1")
