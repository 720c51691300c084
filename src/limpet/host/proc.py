"""What the kernel tells of the whole machine, and of single processes."""

import os
from collections.abc import Iterable

from limpet.domain.reading import Use
from limpet.host.files import KernelFile, number

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_RESOURCES = ("cpu", "memory", "io")


class HostCpu:
    """How busy the CPUs of the machine are, those of them that are `cpus`; None means all."""

    def __init__(self, root: str, cpus: frozenset[int] | None) -> None:
        self._file = KernelFile(os.path.join(root, "proc/stat"))
        self._wanted = None if cpus is None else {b"cpu%d" % each for each in cpus}
        self._before: tuple[int, int] | None = None

    def busy_share(self) -> float | None:
        """The share of the time since the last call in which they were busy, from 0 to 1.

        Time that a hypervisor gave to others counts as busy: it cannot be had.
        """
        now = self._ticks()
        before, self._before = self._before, now
        if now is None or before is None or now[1] <= before[1]:
            return None
        return min(1.0, max(0.0, (now[0] - before[0]) / (now[1] - before[1])))

    def _ticks(self) -> tuple[int, int] | None:
        """Busy, and all."""
        text = self._file.read() or b""
        busy = every = 0
        for line in text.splitlines():
            name, _, rest = line.partition(b" ")
            if not name.startswith(b"cpu"):
                break
            if name != b"cpu" if self._wanted is None else name not in self._wanted:
                continue
            # user nice system idle iowait irq softirq steal; a guest's time is in user already.
            ticks = [number(each) or 0 for each in rest.split()[:8]]
            every += sum(ticks)
            busy += sum(ticks) - sum(ticks[3:5])
            if self._wanted is None:
                break
        return (busy, every) if every else None

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class HostMemory:
    """The machine's memory."""

    def __init__(self, root: str) -> None:
        self._file = KernelFile(os.path.join(root, "proc/meminfo"))

    def read(self) -> tuple[int | None, int | None]:
        """All of it, and what is free or can be freed, in bytes."""
        found: dict[bytes, int | None] = {}
        for line in (self._file.read() or b"").splitlines():
            name, _, rest = line.partition(b":")
            found[name] = number(rest.strip().removesuffix(b" kB"))
            if name == b"MemAvailable":
                break  # the lines after it are many, and of no use here
        total, available = found.get(b"MemTotal"), found.get(b"MemAvailable")
        if available is None and (free := found.get(b"MemFree")) is not None:
            available = free + (found.get(b"Buffers") or 0) + (found.get(b"Cached") or 0)
        return (
            None if total is None else total * 1024,
            None if available is None else available * 1024,
        )

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class PressureFile:
    """The pressure of one resource, of a group or of the machine."""

    def __init__(self, path: str) -> None:
        self._file = KernelFile(path)

    def read(self) -> float | None:
        """The share of the last ten seconds, in percent, in which some work waited for it."""
        first = (self._file.read() or b"").partition(b"\n")[0]
        if not first.startswith(b"some avg10="):
            return None
        try:
            return float(first[11:].partition(b" ")[0])
        except ValueError:
            return None

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def pressure_of_machine(root: str) -> dict[str, PressureFile]:
    """Resource → its pressure."""
    folder = os.path.join(root, "proc/pressure")
    return {each: PressureFile(os.path.join(folder, each)) for each in _RESOURCES}


def pressure_of_group(directory: str) -> dict[str, PressureFile]:
    """Resource → its pressure in a group of version 2."""
    return {each: PressureFile(os.path.join(directory, f"{each}.pressure")) for each in _RESOURCES}


class LoadAverage:
    """How many processes ran or wanted to, on the average of a minute."""

    def __init__(self, root: str) -> None:
        self._file = KernelFile(os.path.join(root, "proc/loadavg"))

    def read(self) -> float | None:
        """The first number of the kernel's three."""
        try:
            return float((self._file.read() or b"").split(b" ")[0])
        except ValueError:
            return None

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Trees:
    """CPU and memory of processes, each with everything below it.

    Who is below whom is asked once for each process that appears, since the kernel has no cheap
    answer for a whole tree. What was once below a root stays with it while it lives, also when
    its parent died and another adopted it.
    """

    def __init__(self, root: str) -> None:
        self._proc = os.path.join(root, "proc")
        self._parents: dict[int, int] = {}
        self._root_of: dict[int, int | None] = {}
        self._roots: frozenset[int] = frozenset()
        self._ticks: dict[int, int] = {}
        self._at: int | None = None

    def sample(
        self, roots: Iterable[int], boot_microseconds: int, parents: Iterable[int] = ()
    ) -> dict[int, Use]:
        """What each root and those below it use; CPU since the last call, gone roots left out.

        Each child of one of the `parents` is a root too.
        """
        self._look(frozenset(roots), frozenset(parents))
        ticks: dict[int, int] = {}
        memory: dict[int, int] = {}
        for pid, top in self._root_of.items():
            if top is None:
                continue
            fields = self._stat(pid)
            if len(fields) > 21:
                # user, system, and both of children that ended: so nothing is lost when one does.
                spent = sum(number(each) or 0 for each in fields[11:15])
                ticks[top] = ticks.get(top, 0) + spent
                memory[top] = memory.get(top, 0) + (number(fields[21]) or 0) * _PAGE_BYTES
        elapsed = 0.0 if self._at is None else (boot_microseconds - self._at) / 1_000_000
        found = {}
        for top, spent in ticks.items():
            before = self._ticks.get(top, spent)
            share = (spent - before) / _TICKS_PER_SECOND / elapsed if elapsed > 0 else 0.0
            found[top] = Use(round(max(0.0, share * 100), 1), memory[top])
        self._ticks, self._at = ticks, boot_microseconds
        return found

    def _look(self, roots: frozenset[int], parents: frozenset[int]) -> None:
        """See who is there, and whose."""
        if not roots and not parents:
            self._parents, self._root_of, self._roots = {}, {}, roots
            return
        try:
            alive = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        except OSError:
            alive = set()
        self._parents = {pid: up for pid, up in self._parents.items() if pid in alive}
        for pid in alive - self._parents.keys():
            fields = self._stat(pid)
            if len(fields) > 1:
                self._parents[pid] = number(fields[1]) or 0
        if parents:
            roots |= {pid for pid, parent in self._parents.items() if parent in parents}
        # Who was below no root may be below a new one.
        same = roots == self._roots
        placed = {
            pid: top
            for pid, top in self._root_of.items()
            if pid in self._parents and (same if top is None else top in roots)
        }
        placed.update((pid, pid) for pid in roots if pid in self._parents)
        self._roots = roots
        for pid in self._parents:
            if pid not in placed:
                self._place(pid, placed)
        self._root_of = placed

    def _place(self, pid: int, placed: dict[int, int | None]) -> None:
        """Find the root above a process, and remember it for all on the way."""
        way: list[int] = []
        at = pid
        while at in self._parents and at not in placed and at not in way:
            way.append(at)
            at = self._parents[at]
        placed.update(dict.fromkeys(way, placed.get(at)))

    def _stat(self, pid: int) -> list[bytes]:
        """What the kernel says of a process: state, parent and so on; nothing if it is gone."""
        try:
            descriptor = os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            text = os.read(descriptor, 4096)
        except OSError:
            return []
        finally:
            os.close(descriptor)
        # The name before these, in parentheses, may itself hold any character.
        return text[text.rfind(b")") + 2 :].split()
