"""Measures the host: what it has, how much of that is used, and where the numbers come from."""

import os

from limpet.domain.clock import Clock
from limpet.domain.load import USUAL_SMOOTHING, Load, Smoothing, loaded
from limpet.domain.reading import Pressure, Reading
from limpet.gate.measure.capacity import Bounds, bounds, few_cpus
from limpet.gate.measure.cgroup import groups_of_self
from limpet.gate.measure.cpu import CpuMeter
from limpet.gate.measure.disk import Disk
from limpet.gate.measure.proc import (
    HostCpu,
    HostMemory,
    LoadAverage,
    PressureFile,
    pressure_of_group,
    pressure_of_machine,
)

# The kernel counts hundredths of a second: over a shorter time its counters show too little.
_SHORTEST_MICROSECONDS = 50_000
# How many polls without a CPU reading keep the last one that was read.
_BELIEVED_POLLS = 5


class Monitor:
    """Makes a reading at each `poll`, which its owner calls once a second; it has no thread.

    It never fails: what cannot be read is None in the reading, and `source` has the reason.
    """

    def __init__(
        self,
        host: str,
        clock: Clock,
        *,
        root: str = "/",
        disk: str = ".",
        cpus: int | None = None,
        smoothing: Smoothing = USUAL_SMOOTHING,
    ) -> None:
        """`root`: where /proc and /sys are. `disk`: a path on the disk whose free space is read.
        `cpus`: how many the machine has; None: as many as the system counts.
        """
        self._host = host
        self._clock = clock
        self._disk = Disk(disk)
        self._smoothing = smoothing
        self._groups = groups_of_self(root)
        self._cpus = cpus or os.cpu_count() or 1
        self._meter = CpuMeter(HostCpu(root, few_cpus(self._groups, self._cpus)))
        self._memory = HostMemory(root)
        self._load = LoadAverage(root)
        self._pressure_of_machine = pressure_of_machine(root)
        self._pressure_of_group: dict[str, dict[str, PressureFile]] = {}
        self._cpu: Load | None = None
        self._unseen = 0
        self._throttled: float | None = None
        self._cpu_note = "CPU not known yet"
        # The first poll needs counters to compare with.
        self._at = clock.boot()
        self._meter.measure(self.bounds(), self._at)

    def bounds(self) -> Bounds:
        """What the host has now, and the groups that bound it."""
        return bounds(self._groups, self._memory, self._cpus)

    def poll(self) -> Reading:
        """Measure now."""
        now = self._clock.boot()
        within = self.bounds()
        if now - self._at >= _SHORTEST_MICROSECONDS:
            self._measure(within, now)
        disk_free, disk_note = self._disk.free()
        notes = [within.spoken(), self._cpu_note, disk_note]
        most = within.cores * 100
        cpu = self._cpu
        return Reading(
            host=self._host,
            at=self._clock.wall(),
            at_boot=now,
            cores=within.cores,
            cpu_raw=None if cpu is None else min(round(cpu.raw, 2), most),
            cpu_ema=None if cpu is None else min(round(cpu.smoothed, 2), most),
            throttled=self._throttled,
            memory_total=within.memory,
            memory_free=_free_memory(within, notes),
            disk_free=disk_free,
            pressure=self._pressure(within, notes),
            load=self._load.read(),
            source="; ".join(note for note in notes if note),
        )

    def _measure(self, within: Bounds, now: int) -> None:
        raw, self._throttled, self._cpu_note = self._meter.measure(within, now)
        self._at = now
        if raw is not None:
            self._cpu = loaded(self._cpu, raw, within.cores, self._smoothing)
            self._unseen = 0
        elif self._unseen < _BELIEVED_POLLS:
            self._unseen += 1  # one failed read must not look like a free CPU
        else:
            self._cpu = None

    def _pressure(self, within: Bounds, notes: list[str]) -> Pressure:
        """The pressure of the limiting group where that shows it, else of the machine."""
        group = within.limiting
        files: dict[str, PressureFile] = {}
        if group is not None and group.version == 2:
            files = self._pressure_of_group.setdefault(
                group.directory, pressure_of_group(group.directory)
            )
        found: dict[str, float | None] = {}
        of_machine = False
        for resource, file in self._pressure_of_machine.items():
            own = files[resource].read() if resource in files else None
            found[resource] = file.read() if own is None else own
            of_machine |= own is None and group is not None and found[resource] is not None
        unknown = [resource for resource, value in found.items() if value is None]
        if of_machine:
            notes.append("pressure of the machine")
        if unknown:
            resources = ", ".join(unknown)
            notes.append(f"pressure not known: the kernel does not report it for {resources}")
        return Pressure(**found)

    def close(self) -> None:
        """Close the files; a poll opens them again."""
        self._groups.close()
        self._meter.close()
        self._memory.close()
        self._load.close()
        for files in (self._pressure_of_machine, *self._pressure_of_group.values()):
            for file in files.values():
                file.close()


def _free_memory(within: Bounds, notes: list[str]) -> int | None:
    """The memory that is free below all bounds, in bytes: the least that any of them leaves."""
    left: list[int] = []
    for group, limit in within.memory_groups:
        used, without_cache = group.used()
        if used is None:
            notes.append(f"memory not known: {group.group.name} does not show what it uses")
            continue
        if not without_cache:
            notes.append(f"cached files counted as used memory in {group.group.name}")
        left.append(max(0, limit - used))
    available = within.memory_available
    if within.memory_groups:
        if not left:
            return None
        if available is not None and available < min(left):
            notes.append("memory of the machine is tighter than the limit")
    elif available is None:
        notes.append("memory not known: /proc/meminfo does not show it")
    return min((*left, *(() if available is None else (available,))), default=None)
