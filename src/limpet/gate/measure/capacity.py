"""What a host has: the machine, or the tightest control group around this process."""

import os
from dataclasses import dataclass

from limpet.domain.assessment import Capacity
from limpet.domain.size import spoken_size
from limpet.gate.measure.cgroup import ControlGroup, CpuGroup, Groups, MemoryGroup, groups_of_self
from limpet.gate.measure.proc import HostMemory


@dataclass(frozen=True, slots=True)
class Bounds:
    """What holds at this moment: cores, bytes, and the groups that bound them, nearest first."""

    cores: float
    memory: int | None
    cpu_groups: tuple[tuple[CpuGroup, float], ...]
    memory_groups: tuple[tuple[MemoryGroup, int], ...]
    cpuset: ControlGroup | None
    memory_available: int | None

    @property
    def capacity(self) -> Capacity:
        """In plain numbers."""
        return Capacity(self.cores, self.memory)

    @property
    def limiting(self) -> ControlGroup | None:
        """The nearest group that bounds anything: capacity and the monitor's lock are its own."""
        found = [
            group.group
            for groups in (self.memory_groups, self.cpu_groups)
            for group, _ in groups[:1]
        ]
        found += [self.cpuset] if self.cpuset else []
        # In version 1 the two are in trees of their own; then the one of the memory speaks.
        return max(found, key=lambda group: group.name.count("/"), default=None)

    def spoken(self) -> str:
        """The limits as a person would say them, or "host"."""
        said: dict[str, list[str]] = {}
        if self.cpu_groups:
            tightest, cores = min(self.cpu_groups, key=lambda each: each[1])
            said.setdefault(_named(tightest.group), []).append(f"cpu {cores:g}")
        if self.memory_groups:
            smallest, memory = min(self.memory_groups, key=lambda each: each[1])
            said.setdefault(_named(smallest.group), []).append(f"memory {spoken_size(memory)}")
        if self.cpuset:
            said.setdefault(_named(self.cpuset), []).append("some CPUs only")
        return ", ".join(f"{name}: {', '.join(what)}" for name, what in said.items()) or "host"


def bounds(groups: Groups, memory: HostMemory, machine_cpus: int) -> Bounds:
    """Look up what bounds this process now; a limit above what the machine has bounds nothing."""
    total, available = memory.read()
    few = few_cpus(groups, machine_cpus)
    cpus = len(few) if few else machine_cpus
    cpu_groups = [
        (group, limit)
        for group in groups.cpu
        if (limit := group.limit()) is not None and limit < cpus
    ]
    memory_groups = [
        (group, most)
        for group in groups.memory
        if (most := group.limit()) is not None and (total is None or most < total)
    ]
    return Bounds(
        cores=min([float(cpus), *(limit for _, limit in cpu_groups)]),
        memory=min((most for _, most in memory_groups), default=total),
        cpu_groups=tuple(cpu_groups),
        memory_groups=tuple(memory_groups),
        cpuset=groups.cpuset if few else None,
        memory_available=available,
    )


def bounds_of_self(root: str = "/", machine_cpus: int | None = None) -> Bounds:
    """As `bounds`, for one look."""
    groups, memory = groups_of_self(root), HostMemory(root)
    try:
        return bounds(groups, memory, machine_cpus or os.cpu_count() or 1)
    finally:
        groups.close()
        memory.close()


def few_cpus(groups: Groups, machine_cpus: int) -> frozenset[int] | None:
    """The CPUs that this process may run on, unless it may on all."""
    return groups.cpus if groups.cpus and len(groups.cpus) < machine_cpus else None


def _named(group: ControlGroup) -> str:
    return f"cgroup v{group.version} {group.name}"
