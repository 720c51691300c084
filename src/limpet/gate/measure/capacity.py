"""What a host has: the machine, or the tightest control group around this process."""

import os
from dataclasses import dataclass

from limpet.domain.assessment import Capacity
from limpet.domain.size import spoken_size
from limpet.gate.measure.cgroup import ControlGroup, CpuGroup, Groups, MemoryGroup, groups_of_self
from limpet.gate.measure.proc import HostMemory


@dataclass(frozen=True, slots=True)
class Bounds:
    """What this process may use now: cores, bytes, and the groups that bound it, nearest first."""

    cores: float
    memory: int | None
    cpu_groups: tuple[tuple[CpuGroup, float], ...]
    memory_groups: tuple[tuple[MemoryGroup, int], ...]
    cpuset: ControlGroup | None
    memory_available: int | None

    @property
    def capacity(self) -> Capacity:
        """The same as plain numbers."""
        return Capacity(self.cores, self.memory)

    @property
    def limiting(self) -> ControlGroup | None:
        """The nearest group that bounds anything; capacity and monitor lock belong to it."""
        found = [
            group.group
            for groups in (self.memory_groups, self.cpu_groups)
            for group, _ in groups[:1]
        ]
        found += [self.cpuset] if self.cpuset else []
        # In version 1 CPU and memory have trees of their own: the deepest group counts, and of
        # equally deep ones that of the memory.
        return max(found, key=lambda group: group.name.count("/"), default=None)

    def spoken(self) -> str:
        """The limits by group, in words for people; "host" if there are none."""
        limits: dict[str, list[str]] = {}
        if self.cpu_groups:
            tightest, cores = min(self.cpu_groups, key=lambda pair: pair[1])
            limits.setdefault(_named(tightest.group), []).append(f"cpu {cores:g}")
        if self.memory_groups:
            smallest, memory = min(self.memory_groups, key=lambda pair: pair[1])
            limits.setdefault(_named(smallest.group), []).append(f"memory {spoken_size(memory)}")
        if self.cpuset:
            limits.setdefault(_named(self.cpuset), []).append("some CPUs only")
        return ", ".join(f"{name}: {', '.join(what)}" for name, what in limits.items()) or "host"


def bounds(groups: Groups, memory: HostMemory, machine_cpus: int) -> Bounds:
    """Read what bounds this process now; a limit above what the machine has bounds nothing."""
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
    """The same as `bounds`, for one look: opens the files and closes them."""
    groups, memory = groups_of_self(root), HostMemory(root)
    try:
        return bounds(groups, memory, machine_cpus or os.cpu_count() or 1)
    finally:
        groups.close()
        memory.close()


def few_cpus(groups: Groups, machine_cpus: int) -> frozenset[int] | None:
    """The CPUs that this process may run on; None if it may run on all."""
    return groups.cpus if groups.cpus and len(groups.cpus) < machine_cpus else None


def _named(group: ControlGroup) -> str:
    return f"cgroup v{group.version} {group.name}"
