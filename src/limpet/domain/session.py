"""A session: one incarnation of a worker; the lease belongs to it."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from limpet.domain.cause import Cause

DEFAULT_LEASE = timedelta(seconds=10)


class SessionKind(StrEnum):
    """What holds the lease: a worker, a permit of the gate, or a once-key."""

    WORKER = "worker"
    PERMIT = "permit"
    ONCE = "once"


class SessionState(StrEnum):
    """The state of a session in the store; dead is for ever."""

    LIVE = "live"
    DRAINING = "draining"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class SessionLock:
    """The lock files that prove on this host whether a session's processes live.

    A file that is missing, or has another inode or nonce, proves nothing.
    """

    path: str
    inode: int
    nonce: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session as a worker registers it; the worker makes the id.

    `tasks`: all tasks of the worker. `pools`: the tasks that each kind of executor can run; empty
    if every kind can run all. `lock`: the files by which its host can prove that it is dead.
    `schedules`: the ids of the schedules that its code declares.
    """

    id: str
    kind: SessionKind
    name: str
    host: str
    pid: int
    lease: timedelta = DEFAULT_LEASE
    tasks: frozenset[str] = frozenset()
    pools: tuple[frozenset[str], ...] = ()
    lock: SessionLock | None = None
    schedules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Session:
    """A session as the store has it; `moment` is when its lease ends, on the store's lease clock.

    `registered_at`, `renewed_at` and `ended_at` are wall time in microseconds. `boot` is the boot
    id of the machine on which it registered; `lock` means something only on that machine, until it
    restarts. `unreadable`: the fields of its row that hold nonsense; here they have the emptiest
    valid value.
    """

    id: str
    kind: SessionKind
    name: str
    host: str
    pid: int
    lease: timedelta
    state: SessionState
    moment: int
    overdue: bool
    seq: int
    holds: int
    registered_at: int
    renewed_at: int
    ended_at: int | None
    cause: Cause | None
    boot: str
    lock: SessionLock | None
    schedules: frozenset[str] = frozenset()
    unreadable: tuple[str, ...] = ()


class Standing(StrEnum):
    """What a session may still do.

    `live`: everything. `draining`: everything but claim. `past`: its lease is over; it may settle
    and release, but neither claim nor renew. `dead`: nothing, for ever.
    """

    LIVE = "live"
    DRAINING = "draining"
    PAST = "past"
    DEAD = "dead"
