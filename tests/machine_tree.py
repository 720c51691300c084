"""A fake /proc and /sys/fs/cgroup below a directory of the test."""

import shutil
from pathlib import Path

GIB = 1 << 30


class MachineTree:
    """Writes files as the kernel would show them; a file is written in place when it changes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._busy, self._idle = 1_000, 1_000

    def __str__(self) -> str:
        return str(self.root)

    def write(self, path: str, text: object) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def remove(self, path: str) -> None:
        (self.root / path.lstrip("/")).unlink()

    def machine(self, *, memory: int = 8 * GIB, available: int = 6 * GIB) -> None:
        """A machine of four CPUs without any limit."""
        self.ticks(0, 0)
        self.write(
            "proc/meminfo",
            f"MemTotal: {memory // 1024} kB\nMemFree: 1 kB\nMemAvailable: {available // 1024} kB",
        )
        self.write("proc/loadavg", "0.75 0.50 0.25 1/100 4242")
        for resource in ("cpu", "memory", "io"):
            self.write(f"proc/pressure/{resource}", pressure(1.5))
        self.write("proc/self/cgroup", "0::/")

    def ticks(self, busy: int, idle: int) -> None:
        """Let so many hundredths pass on each of the four CPUs, the even ones all idle."""
        self._busy += busy
        self._idle += idle
        lines = []
        for cpu in range(4):
            used = self._busy if cpu % 2 else 0
            rest = self._idle if cpu % 2 else self._idle + self._busy
            lines.append(f"cpu{cpu} {used} 0 0 {rest - 10} 10 0 0 0 0 0")
        used, rest = 2 * self._busy, 4 * self._idle + 2 * self._busy
        self.write(
            "proc/stat", "\n".join([f"cpu  {used} 0 0 {rest} 0 0 0 0 0 0", *lines, "intr 1"])
        )

    def group2(self, path: str, **files: object) -> None:
        """A group of version 2: `cpu_max="150000 100000"` is its file cpu.max."""
        for name, text in files.items():
            self.write(f"sys/fs/cgroup/{path}/{name.replace('_', '.', 1)}", text)

    def group1(self, controller: str, path: str, **files: object) -> None:
        """A group of version 1, in the hierarchy of one controller."""
        for name, text in files.items():
            self.write(f"sys/fs/cgroup/{controller}/{path}/{name.replace('_', '.', 1)}", text)

    def process(
        self,
        pid: int,
        parent: int,
        *,
        ticks: int = 0,
        children: int = 0,
        pages: int = 0,
        of_files: int = 0,
        mark: str | None = None,
        name: str = "a ) b",
        image: int = 0,
        start: int = 5,
    ) -> None:
        """A process that used so many hundredths itself, and its children that ended so many.

        `pages`: of memory, with those `of_files`. `mark`: the session in its environment. `image`:
        where its code begins, which a forked child has from its parent. `start`: when it began.
        """
        before = f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0"
        after = f"30 10 1 0 {start} 0 {pages} 0 {image or pid} 0 {image or pid} 0"
        self.write(f"proc/{pid}/stat", f"{before} {ticks} 0 {children} 0 {after}")
        self.write(f"proc/{pid}/statm", f"{pages + 100} {pages} {of_files} 0 0 0 0")
        marked = "" if mark is None else f"LIMPET_SESSION={mark}\0"
        self.write(f"proc/{pid}/environ", f"HOME=/\0{marked}PATH=/bin")

    def gone(self, pid: int) -> None:
        """The process has ended, and was reaped."""
        shutil.rmtree(self.root / f"proc/{pid}")


def pressure(some: float) -> str:
    return (
        f"some avg10={some:.2f} avg60=0.00 avg300=0.00 total=1\n"
        "full avg10=9.99 avg60=0.00 avg300=0.00 total=1"
    )


def cpu_stat(used: int, periods: int = 0, throttled: int = 0) -> str:
    """The file cpu.stat of version 2; microseconds."""
    return f"usage_usec {used}\nuser_usec 1\nnr_periods {periods}\nnr_throttled {throttled}"
