"""What a machine carries, as its monitor has measured it."""

from dataclasses import dataclass

from limpet.domain.load import Load


@dataclass(frozen=True, slots=True)
class Pressure:
    """The share of the last ten seconds, in percent, in which some work waited for a resource.

    None: this system does not tell.
    """

    cpu: float | None = None
    memory: float | None = None
    io: float | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """What is used: CPU in percent (100 for a core), and bytes."""

    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class ExecutorUse:
    """What an executor of a worker and everything below it use, or a command with a permit.

    Memory that processes share since a fork is counted for each of them.
    """

    session: str
    pid: int
    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a host; what cannot be known is None, and `source` says why.

    `at` is wall time, `at_boot` boot time, in microseconds: the same machine judges by the second
    how old it is. `cpu_raw` and `cpu_ema` (as measured, and smoothed) are percent, of which each
    of the `cores` has 100. `throttled`: the share, in percent, of the periods since the reading
    before in which the limit of the CPU held work up. Memory and disk are bytes; memory that only
    caches files counts as free. `executor_use`: of all workers of the host that can be seen.

    `cpu_others`: what others than the holders of permits use, as `cpu_effective` is; what a holder
    uses beyond what it has declared is theirs too. `memory_held`: how much of what the holders have
    declared they use by now. Both None where a holder's processes cannot be seen.
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
        """The greater of raw and smoothed."""
        if self.cpu_raw is None or self.cpu_ema is None:
            return None
        return Load(self.cpu_raw, self.cpu_ema).effective

    @property
    def cpu_busy(self) -> float | None:
        """`cpu_effective` in percent of all that the host has."""
        effective = self.cpu_effective
        return None if effective is None else effective / self.cores

    @property
    def memory_used(self) -> int | None:
        """What is not free."""
        if self.memory_total is None or self.memory_free is None:
            return None
        return self.memory_total - self.memory_free
