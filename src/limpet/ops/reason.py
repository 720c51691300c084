"""One reason why a job, or a queue, does not run: a struct for each kind that has facts."""

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType, field

from limpet.domain.state import State


class Kind(StrEnum):
    """What keeps a job, or a queue, from running."""

    SCHEDULED = "scheduled"
    KEY = "key"
    CHILDREN = "children"
    TASK = "task"
    MOVING = "moving"
    PAUSED = "paused"
    HELD = "held"
    CONCURRENCY = "concurrency"
    RATE = "rate"
    BREAKER = "breaker"
    NO_WORKER = "no_worker"
    GATE = "gate"
    IN_LINE = "in_line"
    RUNNING = "running"
    STOPPING = "stopping"
    QUARANTINED = "quarantined"
    RELAUNCH = "relaunch"
    FINISHED = "finished"


class Reason(Struct, frozen=True, kw_only=True):
    """A kind and a sentence; `until`: when the reason will be over by itself, if that is known."""

    kind: Kind
    text: str
    until: str | None = None


class TaskReason(Reason, frozen=True, kw_only=True):
    """No live worker knows the task of the job."""

    task: str


class TurnHolder(Struct, frozen=True, kw_only=True):
    """A job that has its turn among those of its key."""

    id: str
    state: State


class KeyReason(Reason, frozen=True, kw_only=True):
    """Other jobs of its key have their turns; `ahead`: how many jobs get a turn before this one."""

    key: str
    limit: int
    rate: str | None
    holders: tuple[TurnHolder, ...]
    ahead: int


class ChildrenReason(Reason, frozen=True, kw_only=True):
    """It waits for `pending` of its `children`; `failed`: the first of those that failed."""

    pending: int
    children: int
    failed: tuple[str, ...]


class MovingReason(Reason, frozen=True, kw_only=True):
    """The store is being moved, or was moved, to another place."""

    place: str


class ConcurrencyReason(Reason, frozen=True, kw_only=True):
    """As many jobs of the queue run as are allowed."""

    running: int
    concurrency: int


class RateReason(Reason, frozen=True, kw_only=True):
    """As many jobs of the queue have begun as its rate allows for now."""

    rate: str


class BreakerReason(Reason, frozen=True, kw_only=True):
    """A breaker is open for the task of the job."""

    breaker: str
    opened_at: str | None


class WeightAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job weighs; a field that is left out is zero, or false."""

    cores: float | None = field(default=None, name="cpu")
    memory_bytes: int | None = field(default=None, name="memory")
    heavy: bool | None = None


class GateReason(Reason, frozen=True, kw_only=True):
    """No host has room for the job: the reason of each, and the host that is reserved for it."""

    weight: WeightAnswer
    hosts: dict[str, str]
    reserved: str | UnsetType = UNSET


class LineReason(Reason, frozen=True, kw_only=True):
    """`ahead`: how many jobs of its queue come before it."""

    ahead: int


class RunningReason(Reason, frozen=True, kw_only=True):
    """It runs, or is being stopped, in a session of a worker."""

    session: str | None
    worker: str
