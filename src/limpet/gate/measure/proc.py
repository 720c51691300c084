"""Reads what the kernel counts for the whole machine."""

import os

from limpet.gate.measure.files import KernelFile, number

_RESOURCES = ("cpu", "memory", "io")


class HostCpu:
    """How busy the machine's CPUs are: only those in `cpus`, or all if that is None."""

    def __init__(self, root: str, cpus: frozenset[int] | None) -> None:
        self._file = KernelFile(os.path.join(root, "proc/stat"))
        self._wanted = None if cpus is None else {b"cpu%d" % cpu for cpu in cpus}
        self._before: tuple[int, int] | None = None

    def busy_share(self) -> float | None:
        """The share of the time since the last call in which the CPUs were busy, from 0 to 1.

        Time that a hypervisor gave to other machines counts as busy: nothing could run in it.
        """
        now = self._ticks()
        before, self._before = self._before, now
        if now is None or before is None or now[1] <= before[1]:
            return None
        return min(1.0, max(0.0, (now[0] - before[0]) / (now[1] - before[1])))

    def _ticks(self) -> tuple[int, int] | None:
        """Busy ticks, and all ticks."""
        text = self._file.read() or b""
        busy = every = 0
        for line in text.splitlines():
            name, _, rest = line.partition(b" ")
            if not name.startswith(b"cpu"):
                break
            if name != b"cpu" if self._wanted is None else name not in self._wanted:
                continue
            # user nice system idle iowait irq softirq steal; a guest's time is in user already.
            ticks = [number(field) or 0 for field in rest.split()[:8]]
            every += sum(ticks)
            busy += sum(ticks) - sum(ticks[3:5])
            if self._wanted is None:
                break
        return (busy, every) if every else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class HostMemory:
    """The machine's memory."""

    def __init__(self, root: str) -> None:
        self._file = KernelFile(os.path.join(root, "proc/meminfo"))

    def read(self) -> tuple[int | None, int | None]:
        """All memory, and how much of it is free or can be freed, in bytes."""
        found: dict[bytes, int | None] = {}
        for line in (self._file.read() or b"").splitlines():
            name, _, rest = line.partition(b":")
            found[name] = number(rest.strip().removesuffix(b" kB"))
            if name == b"MemAvailable":
                break  # the many lines after it are not needed
        total, available = found.get(b"MemTotal"), found.get(b"MemAvailable")
        if available is None and (free := found.get(b"MemFree")) is not None:
            available = free + (found.get(b"Buffers") or 0) + (found.get(b"Cached") or 0)
        return (
            None if total is None else total * 1024,
            None if available is None else available * 1024,
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class PressureFile:
    """The pressure on one resource, of a group or of the machine."""

    def __init__(self, path: str) -> None:
        self._file = KernelFile(path)

    def read(self) -> float | None:
        """The percentage of the last ten seconds in which some work waited for the resource."""
        first = (self._file.read() or b"").partition(b"\n")[0]
        if not first.startswith(b"some avg10="):
            return None
        try:
            return float(first[11:].partition(b" ")[0])
        except ValueError:
            return None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def pressure_of_machine(root: str) -> dict[str, PressureFile]:
    """Resource → its pressure on the whole machine."""
    folder = os.path.join(root, "proc/pressure")
    return {resource: PressureFile(os.path.join(folder, resource)) for resource in _RESOURCES}


def pressure_of_group(directory: str) -> dict[str, PressureFile]:
    """Resource → its pressure in a group of version 2."""
    return {
        resource: PressureFile(os.path.join(directory, f"{resource}.pressure"))
        for resource in _RESOURCES
    }


class LoadAverage:
    """How many processes ran or wanted to run, averaged over a minute."""

    def __init__(self, root: str) -> None:
        self._file = KernelFile(os.path.join(root, "proc/loadavg"))

    def read(self) -> float | None:
        """The first number of the kernel's three."""
        try:
            return float((self._file.read() or b"").split(b" ")[0])
        except ValueError:
            return None

    def close(self) -> None:
        """Close the file."""
        self._file.close()
