"""The control groups that bound this process: what they allow, and how much of that is used.

Version 2 is read where it has the controller, else version 1. A limit may be set on any group
above: every group that can be seen is read, and the tightest limit counts.
"""

import os
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from limpet.gate.measure.files import KernelFile, number

# Version 1 writes "no limit" as the largest number of pages that fits.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """One control group, seen from this process; its name is its path in the hierarchy."""

    version: int
    controller: str
    name: str
    directory: str

    def file(self, name: str) -> KernelFile:
        """One of its files."""
        return KernelFile(os.path.join(self.directory, name))

    @property
    def inode(self) -> int | None:
        """The number by which the kernel knows the group, the same in every container."""
        try:
            return os.stat(self.directory).st_ino
        except OSError:
            return None


class Throttling(NamedTuple):
    """How many periods of a CPU limit there were, and in how many it held work up."""

    periods: int
    throttled: int


class CpuGroup2:
    """CPU of a group of version 2."""

    def __init__(self, group: ControlGroup) -> None:
        self.group = group
        self._limit = group.file("cpu.max")
        self._stat = group.file("cpu.stat")

    def limit(self) -> float | None:
        """How many cores it may use, or None."""
        quota, _, period = (self._limit.read() or b"").partition(b" ")
        return _cores(number(quota), number(period))

    def used(self) -> tuple[int | None, Throttling]:
        """The CPU time used since it was made, in microseconds, and how it was throttled."""
        stat = self._stat.fields()
        return stat.get(b"usage_usec"), _throttling(stat)

    def close(self) -> None:
        """Close the files."""
        self._limit.close()
        self._stat.close()


class CpuGroup1:
    """CPU of a group of version 1: the limit is in one hierarchy, what is used in another."""

    def __init__(self, group: ControlGroup, accounting: ControlGroup | None) -> None:
        self.group = group
        self._quota = group.file("cpu.cfs_quota_us")
        self._period = group.file("cpu.cfs_period_us")
        self._stat = group.file("cpu.stat")
        self._usage = (accounting or group).file("cpuacct.usage")

    def limit(self) -> float | None:
        """How many cores it may use, or None."""
        return _cores(self._quota.number(), self._period.number())

    def used(self) -> tuple[int | None, Throttling]:
        """The CPU time used since it was made, in microseconds, and how it was throttled."""
        nanoseconds = self._usage.number()
        used = None if nanoseconds is None else nanoseconds // 1000
        return used, _throttling(self._stat.fields())

    def close(self) -> None:
        """Close the files."""
        for file in (self._quota, self._period, self._stat, self._usage):
            file.close()


class MemoryGroup:
    """Memory of a group of either version."""

    def __init__(self, group: ControlGroup) -> None:
        self.group = group
        two = group.version == 2
        self._limits = tuple(
            group.file(name)
            for name in (("memory.max", "memory.high") if two else ("memory.limit_in_bytes",))
        )
        self._current = group.file("memory.current" if two else "memory.usage_in_bytes")
        self._stat = group.file("memory.stat")
        self._of_files = (
            (b"inactive_file", b"active_file")
            if two
            else (b"total_inactive_file", b"total_active_file")
        )

    def limit(self) -> int | None:
        """How many bytes the group may hold, or None; `memory.high` counts as a limit, since the
        kernel slows work down above it.
        """
        found = [file.number() for file in self._limits]
        if self.group.version == 1:
            # Includes the limits of groups above that a container cannot see.
            found.append(self._stat.fields().get(b"hierarchical_memory_limit"))
        return min((most for most in found if most is not None and most < _NO_LIMIT), default=None)

    def used(self) -> tuple[int | None, bool]:
        """How many bytes the group holds, and whether cached files could be left out of that.

        The kernel takes the cache back before it refuses memory, recently used pages last. When
        that begins to hurt, the memory pressure shows it.
        """
        current = self._current.number()
        stat = self._stat.fields()
        of_files = [stat.get(name) for name in self._of_files]
        if current is None:
            return None, False
        known = [size for size in of_files if size is not None]
        return max(0, current - sum(known)), bool(known)

    def close(self) -> None:
        """Close the files."""
        for file in (*self._limits, self._current, self._stat):
            file.close()


CpuGroup: TypeAlias = CpuGroup1 | CpuGroup2


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups this process is in, the nearest first, and the CPUs it may run on.

    `cpuset`: the highest group that may run on exactly these CPUs.
    """

    cpu: tuple[CpuGroup, ...]
    memory: tuple[MemoryGroup, ...]
    cpuset: ControlGroup | None
    cpus: frozenset[int] | None

    def close(self) -> None:
        """Close all files."""
        for group in (*self.cpu, *self.memory):
            group.close()


def groups_of_self(root: str = "/") -> Groups:
    """Find the groups of this process; none where the system has none or does not show them."""
    own = _own_paths(root)
    mounts = _mounts(root)
    accounting = {
        group.name: group for group in _chain(root, own, mounts, "cpuacct", "cpuacct.usage")
    }
    cpuset, cpus = _cpus(_chain(root, own, mounts, "cpuset", "cpuset.cpus.effective"))
    return Groups(
        cpu=tuple(
            CpuGroup2(group) if group.version == 2 else CpuGroup1(group, accounting.get(group.name))
            for group in _chain(root, own, mounts, "cpu", "cpu.max")
        ),
        memory=tuple(
            MemoryGroup(group) for group in _chain(root, own, mounts, "memory", "memory.max")
        ),
        cpuset=cpuset,
        cpus=cpus,
    )


class _Mount(NamedTuple):
    """A directory that shows a hierarchy; `top`: the group at its root."""

    top: str
    point: str
    controllers: frozenset[str]


def _own_paths(root: str) -> dict[str, str]:
    """Controller → the path of this process's group; version 2 is under ""."""
    found: dict[str, str] = {}
    text = KernelFile(os.path.join(root, "proc/self/cgroup")).read_once() or b""
    for line in text.decode(errors="replace").splitlines():
        _, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if separator:
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _mounts(root: str) -> list[_Mount]:
    found = []
    text = KernelFile(os.path.join(root, "proc/self/mountinfo")).read_once() or b""
    for line in text.decode(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) > 4 and len(kind) > 2 and kind[0] in ("cgroup", "cgroup2"):
            controllers = kind[2].split(",") if kind[0] == "cgroup" else [""]
            point = fields[4].replace("\\040", " ")
            found.append(_Mount(fields[3], point, frozenset(controllers)))
    return found


def _chain(
    root: str, own: dict[str, str], mounts: list[_Mount], controller: str, mark: str
) -> list[ControlGroup]:
    """The groups of a controller from this process's own up to the highest that can be seen.

    `mark`: the file by which a group of version 2 shows that it has the controller.
    """
    if "" in own:
        chain = _up(root, own[""], mounts, "", "sys/fs/cgroup")
        groups = [ControlGroup(2, controller, name, directory) for name, directory in chain]
        if any(os.path.exists(os.path.join(group.directory, mark)) for group in groups):
            return groups
    if controller in own:
        usual = f"sys/fs/cgroup/{controller}"
        chain = _up(root, own[controller], mounts, controller, usual)
        return [ControlGroup(1, controller, name, directory) for name, directory in chain]
    return []


def _up(
    root: str, own: str, mounts: list[_Mount], controller: str, usual: str
) -> list[tuple[str, str]]:
    """Names and directories of a group and all above it, nearest first."""
    mount = next((mount for mount in mounts if controller in mount.controllers), None)
    top, point = (mount.top, mount.point) if mount else ("/", usual)
    base = os.path.join(root, point.lstrip("/"))
    top = top.rstrip("/")
    # In a container, version 1 shows only the container's own group and below, while the path in
    # /proc is the host's. Of a path outside of what is shown, only the top group is left.
    inside = own == (top or "/") or own.startswith(top + "/")
    below = own[len(top) :].strip("/") if inside and ".." not in own else ""
    steps = below.split("/") if below else []
    if not os.path.isdir(os.path.join(base, *steps)):
        steps = []
    found = []
    for count in range(len(steps), -1, -1):
        path = os.path.join(base, *steps[:count])
        found.append((f"{top}/" + "/".join(steps[:count]), path))
    return [(name.rstrip("/") or "/", path) for name, path in found]


def _cpus(chain: list[ControlGroup]) -> tuple[ControlGroup | None, frozenset[int] | None]:
    found: tuple[ControlGroup | None, frozenset[int] | None] = None, None
    for group in chain:
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            cpus = cpu_list(group.file(name).read_once() or b"")
            if cpus and found[1] in (None, cpus):
                found = group, cpus
                break
    return found


def cpu_list(text: bytes) -> frozenset[int] | None:
    """Read "0-3,8"; None for what is not such a list."""
    found: set[int] = set()
    for part in text.strip().split(b","):
        first, _, last = part.partition(b"-")
        low, high = number(first), number(last or first)
        if low is None or high is None or not low <= high < 100_000:
            return None
        found.update(range(low, high + 1))
    return frozenset(found)


def _cores(quota_us: int | None, period_us: int | None) -> float | None:
    return quota_us / period_us if quota_us and period_us else None


def _throttling(stat: dict[bytes, int]) -> Throttling:
    return Throttling(stat.get(b"nr_periods", 0), stat.get(b"nr_throttled", 0))
