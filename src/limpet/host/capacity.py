"""What a host has: the machine, or the tightest control group around this process."""

from dataclasses import dataclass

from limpet.domain.size import spoken_size
from limpet.host.cgroup import CpuGroup, Group, Groups, MemoryGroup
from limpet.host.proc import HostMemory


@dataclass(frozen=True, slots=True)
class Bounds:
    """What holds at this moment: cores, bytes, and the groups that bound them, nearest first."""

    cores: float
    memory: int | None
    cpu_groups: tuple[tuple[CpuGroup, float], ...]
    memory_groups: tuple[tuple[MemoryGroup, int], ...]
    memory_available: int | None

    @property
    def limiting(self) -> Group | None:
        """The nearest group that bounds anything: capacity and the monitor's lock are its own."""
        found = [
            group.group
            for groups in (self.memory_groups, self.cpu_groups)
            for group, _ in groups[:1]
        ]
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
        return ", ".join(f"{name}: {', '.join(what)}" for name, what in said.items()) or "host"


def bounds(groups: Groups, memory: HostMemory, cpus: int) -> Bounds:
    """Look up what bounds this process now; a limit above what the machine has bounds nothing.

    `cpus`: those that it may run on.
    """
    total, available = memory.read()
    cpu_groups = [
        (group, limit)
        for group in groups.cpu
        if (limit := group.limit()) is not None and limit < cpus
    ]
    memory_groups = [
        (group, bytes_)
        for group in groups.memory
        if (bytes_ := group.limit()) is not None and (total is None or bytes_ < total)
    ]
    return Bounds(
        cores=min([float(cpus), *(limit for _, limit in cpu_groups)]),
        memory=min((bytes_ for _, bytes_ in memory_groups), default=total),
        cpu_groups=tuple(cpu_groups),
        memory_groups=tuple(memory_groups),
        memory_available=available,
    )


def _named(group: Group) -> str:
    return f"cgroup v{group.version} {group.name}"
