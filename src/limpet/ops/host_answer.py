"""A host as an answer tells it: what it carries, has room for and has given away."""

from msgspec import UNSET, Struct, UnsetType, field


class MemoryAnswer(Struct, frozen=True, kw_only=True):
    """The memory of a host; None is unknown."""

    total_bytes: int | None = field(name="total")
    free_bytes: int | None = field(name="free")
    used_percent: float | None


class PressureAnswer(Struct, frozen=True, kw_only=True):
    """The share of time in which some work waited for a resource; None is unknown."""

    cpu_percent: float | None = field(name="cpu")
    memory_percent: float | None = field(name="memory")
    io_percent: float | None = field(name="io")


class ThresholdAnswer(Struct, frozen=True, kw_only=True):
    """From where on no more weighted work begins."""

    cpu_percent: float = field(name="cpu")
    memory_percent: float = field(name="memory")
    pressure_percent: float = field(name="pressure")
    io_percent: float = field(name="io")


class RoomAnswer(Struct, frozen=True, kw_only=True):
    """How much of a host may be taken; memory is None where nobody knows how much there is."""

    cores: float = field(name="cpu")
    memory_bytes: int | None = field(name="memory")


class PermitAnswer(Struct, frozen=True, kw_only=True):
    """Who holds a permit, for what, how much of a host it takes, and since when."""

    holder: str
    session: str
    what: str
    cores: float = field(name="cpu")
    memory_bytes: int = field(name="memory")
    heavy: bool
    at: str


class GateStatus(Struct, frozen=True, kw_only=True):
    """A host that is measured, and whether weighted work may begin there.

    CPU is percent of all that the host has, as its threshold is. `reason` and `warning` are empty
    where there is none. `left`: the most that one more may take, of each by itself.
    """

    server: str
    ready: bool
    reason: str
    warning: str
    cores: float
    cpu_raw_percent: float | None = field(name="cpu_raw")
    cpu_ema_percent: float | None = field(name="cpu_ema")
    cpu_effective_percent: float | None = field(name="cpu_effective")
    cpu_others_percent: float | None = field(name="cpu_others")
    throttled_percent: float | None = field(name="throttled")
    memory: MemoryAnswer
    pressure: PressureAnswer
    load: float | None
    disk_free_bytes: int | None = field(name="disk_free")
    threshold: ThresholdAnswer
    room: RoomAnswer
    left: RoomAnswer
    source: str
    permits: tuple[PermitAnswer, ...]
    reserved_for: str | None
    at: str


class ExecutorAnswer(Struct, frozen=True, kw_only=True):
    """What an executor uses, CPU in percent of one core; `name`: of its worker, or its caller.

    The name is there only where one host is asked for; None: of no session of this store.
    """

    session: str
    pid: int
    cpu_percent: float = field(name="cpu")
    memory_bytes: int = field(name="memory")
    name: str | UnsetType | None = UNSET


class SampleAnswer(Struct, frozen=True, kw_only=True):
    """How a host was doing; None is unknown."""

    at: str
    cpu_percent: float | None = field(name="cpu")
    memory_percent: float | None = field(name="memory")
    pressure_percent: float | None = field(name="pressure")


class HistoryAnswer(Struct, frozen=True, kw_only=True):
    """How a host has been doing: each second of 15 minutes, each minute of 7 days."""

    seconds: tuple[SampleAnswer, ...]
    minutes: tuple[SampleAnswer, ...]


class MeasuredHost(GateStatus, frozen=True, kw_only=True):
    """A host of which a monitor tells; `monitor` and `session`: the worker that measures."""

    monitor: str
    session: str
    age_seconds: float
    executors: tuple[ExecutorAnswer, ...]
    history: HistoryAnswer | UnsetType = UNSET


class UnmeasuredHost(Struct, frozen=True, kw_only=True):
    """A host that has given permits, or has a history, and of which no monitor tells."""

    server: str
    monitor: None = None
    age_seconds: None = None
    ready: None = None
    reason: str
    executors: tuple[ExecutorAnswer, ...] = ()
    permits: tuple[PermitAnswer, ...]
    reserved_for: str | None
    history: HistoryAnswer | UnsetType = UNSET


HostAnswer = MeasuredHost | UnmeasuredHost
