"""A worker's processes as the kernel shows them: their names, memory, time and end."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PROC = Path("/proc")
QUIET_CORES = 0.25


def tree(root: int) -> list[int]:
    """A process and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            parent = _parent(int(folder.name))
            children.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return [pid for pid in found if (PROC / str(pid)).exists()]


def _parent(pid: int) -> int:
    # The second field is the name, in brackets, and may hold anything.
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _read(pid: int, name: str) -> str:
    try:
        return (PROC / str(pid) / name).read_text()
    except OSError:
        return ""


def name(pid: int) -> str:
    """The name that a process gave itself; Limpet's have names such as `limpet-lane`."""
    return _read(pid, "comm").strip()


def named(root: int, wanted: str) -> list[int]:
    """The processes of a tree that have that name."""
    return [pid for pid in tree(root) if name(pid) == wanted]


def seen_from_inside(pid: int) -> tuple[int, int]:
    """The pid of a process as the process sees it, and its pid namespace."""
    try:
        namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0, 0
    for line in _read(pid, "status").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1]), namespace
    return pid, namespace


def pss_megabytes(pids: list[int]) -> float:
    """Memory of all the processes; a page that several share counts once."""
    kilobytes = 0
    for pid in pids:
        for line in _read(pid, "smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                kilobytes += int(line.split()[1])
    return kilobytes * 1024 / 1e6


def leave_in_order() -> None:
    """Let SIGTERM end this process as Ctrl-C does, so that its children are stopped."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def stop(process: "subprocess.Popen[bytes]", seconds: float = 15) -> None:
    """Send SIGTERM to a process; after the grace kill the rest of its tree."""
    if process.poll() is None:
        pids = tree(process.pid)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        kill(pid for pid in pids if pid != process.pid and _parent(pid) == 1)
    if process.poll() is None:
        kill(tree(process.pid))
    process.wait()


def kill(pids: Iterable[int]) -> int:
    """Send SIGKILL to each process; returns the time before the first, as in `tally`."""
    at = time.monotonic_ns()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return at


class Others:
    """Cores that were busy with other work than this benchmark since this object was made."""

    def __init__(self) -> None:
        self._began = (time.monotonic(), _busy_seconds(), own_seconds())

    def cores(self) -> float:
        began, busy, own = self._began
        others = (_busy_seconds() - busy) - (own_seconds() - own)
        return max(0.0, others / (time.monotonic() - began))


def quietest(take: Callable[[], T], tries: int, quiet_timeout_seconds: float) -> tuple[T, float]:
    """The figure of `take` while other work used the fewest cores, and how many cores that was.

    A busy minute spoils a figure, so it is taken again, a few times at most. Only the other work
    decides which figure counts, never the figure itself.
    """
    taken: list[tuple[T, float]] = []
    while True:
        wait_for_quiet(quiet_timeout_seconds)
        others = Others()
        figure = take()
        taken.append((figure, others.cores()))
        if taken[-1][1] < QUIET_CORES or len(taken) == tries:
            return min(taken, key=lambda each: each[1])


def wait_for_quiet(seconds: float) -> None:
    """Wait until other work uses little of the machine, or the time is up."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        others = Others()
        time.sleep(0.5)
        if others.cores() < QUIET_CORES:
            return


def _busy_seconds() -> float:
    user, nice, system, _idle, _waiting, irq, soft, steal = map(
        int, (PROC / "stat").read_text().split(maxsplit=9)[1:9]
    )
    return float(user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def scheduled_seconds() -> float:
    """Processor time of all descendants of this process, without threads that have ended.

    It counts nanoseconds, where `own_seconds` counts ticks of ten milliseconds.
    """
    nanoseconds = 0
    for pid in tree(os.getpid())[1:]:
        with contextlib.suppress(OSError):
            for thread in (PROC / str(pid) / "task").iterdir():
                nanoseconds += int(
                    _read(pid, f"task/{thread.name}/schedstat").partition(" ")[0] or 0
                )
    return nanoseconds / 1e9


def own_seconds() -> float:
    """Processor time of this process and all its descendants, also of those that have ended.

    Servers live longer than a figure, so counting only children that were waited for is not enough.
    """
    ticks = 0
    for pid in tree(os.getpid()):
        fields = _read(pid, "stat").rpartition(")")[2].split()
        # User and system time of the process, and of the children that it has waited for.
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
