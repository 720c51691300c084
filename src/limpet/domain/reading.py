"""A reading: what the monitor of a host has measured."""

from dataclasses import dataclass

from limpet.domain.load import Load


@dataclass(frozen=True, slots=True)
class Pressure:
    """The share of the last ten seconds, in percent, in which some work waited for a resource.

    None: this system does not report it.
    """

    cpu: float | None = None
    memory: float | None = None
    io: float | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What is used: CPU in percent (100 is one core), memory in bytes."""

    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class ExecutorUse:
    """The use of a worker's executor, or of a command with a permit, and all processes below it.

    Memory that processes share since a fork is counted for each of them.
    """

    session: str
    pid: int
    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One measurement of a host; a value that cannot be known is None, and `source` says why.

    `at` is wall time, `at_boot` boot time, in microseconds; on the same machine `at_boot` decides
    how old the reading is. `cpu_raw` (as measured) and `cpu_ema` (smoothed) are percent; each of
    the `cores` has 100. `throttled`: the share, in percent, of the periods since the last reading
    in which the CPU limit held work up. Memory and disk are bytes; memory that only caches files
    counts as free. `executor_use`: the use by all workers of the host that can be seen.

    `cpu_others`: what is used by others than the holders of permits, in the measure of
    `cpu_effective`; what a holder uses beyond its declared weight counts here too. `memory_held`:
    how much of their declared memory the holders use by now. Both are None if the processes of a
    holder cannot be seen.
    """

    host: str
    at: int
    at_boot: int
    cores: float
    source: str
    cpu_raw: float | None = None
    cpu_ema: float | None = None
    throttled: float | None = None
    memory_total: int | None = None
    memory_free: int | None = None
    disk_free: int | None = None
    pressure: Pressure = Pressure()
    load: float | None = None
    executor_use: tuple[ExecutorUse, ...] = ()
    cpu_others: float | None = None
    memory_held: int | None = None

    @property
    def cpu_effective(self) -> float | None:
        """The greater of `cpu_raw` and `cpu_ema`."""
        if self.cpu_raw is None or self.cpu_ema is None:
            return None
        return Load(self.cpu_raw, self.cpu_ema).effective

    @property
    def cpu_busy(self) -> float | None:
        """`cpu_effective` in percent of all cores together."""
        effective = self.cpu_effective
        return None if effective is None else effective / self.cores

    @property
    def memory_used(self) -> int | None:
        """The bytes that are not free."""
        if self.memory_total is None or self.memory_free is None:
            return None
        return self.memory_total - self.memory_free
