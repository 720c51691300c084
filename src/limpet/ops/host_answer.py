"""A host as answers show it: what it carries, has room for and has given away."""

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
    """The percentages at which no more weighted work begins."""

    cpu_percent: float = field(name="cpu")
    memory_percent: float = field(name="memory")
    pressure_percent: float = field(name="pressure")
    io_percent: float = field(name="io")


class RoomAnswer(Struct, frozen=True, kw_only=True):
    """How much of a host may be taken; memory is None where it is not known how much there is."""

    cores: float = field(name="cpu")
    memory_bytes: int | None = field(name="memory")


class PermitAnswer(Struct, frozen=True, kw_only=True):
    """A permit: who holds it, for what, how much of a host it takes, and since when."""

    holder: str
    session: str
    what: str
    cores: float = field(name="cpu")
    memory_bytes: int = field(name="memory")
    heavy: bool
    at: str


class GateStatus(Struct, frozen=True, kw_only=True):
    """A host that is measured, and whether weighted work may begin there.

    CPU is percent of all that the host has, like its threshold. `reason` and `warning` are empty
    where there is none. `left`: the most CPU, and the most memory, that one more permit may take.
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
    """What an executor uses, CPU in percent of one core; `name`: that of its worker or caller.

    The name is set only in the answer for one host; None: the session is not in this store.
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
    """A host that a monitor reports on; `monitor` and `session`: the worker that measures."""

    monitor: str
    session: str
    age_seconds: float
    executors: tuple[ExecutorAnswer, ...]
    history: HistoryAnswer | UnsetType = UNSET


class UnmeasuredHost(Struct, frozen=True, kw_only=True):
    """A host that has given permits, or has a history, and that no monitor reports on."""

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
