"""The marks that the jobs of a benchmark leave, and how they are read.

Standard library only: the peers' workers import it too, so that all Python jobs do the same. Every
time is CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share. Jobs write into the
folder that BENCH_FOLDER names. No file is opened before the first job, so that a forked process has
files of its own.
"""

import mmap
import os
import struct
import threading
import time
from pathlib import Path
from typing import NamedTuple

FOLDER = "BENCH_FOLDER"
_SHEET = struct.Struct("qqq")
_BEAT_SECONDS = 0.005


class _Sheet:
    """The first and the last time, and the number of no-op jobs of one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.memory: mmap.mmap | None = None
        self.first = 0
        self.count = 0

    def open(self) -> mmap.mmap:
        # In a pid namespace two processes may have the same pid; the time tells them apart.
        name = f"tally-{os.getpid()}-{time.monotonic_ns()}"
        with Path(os.environ[FOLDER], name).open("wb+") as file:
            file.truncate(_SHEET.size)
            self.memory = mmap.mmap(file.fileno(), _SHEET.size)
        self.first = time.monotonic_ns()
        return self.memory


_sheet = _Sheet()


def count() -> None:
    """A no-op job ran: no system call but for the first one."""
    sheet = _sheet
    with sheet.lock:
        memory = sheet.memory or sheet.open()
        sheet.count += 1
        _SHEET.pack_into(memory, 0, sheet.first, time.monotonic_ns(), sheet.count)


def pick_up(at: int) -> None:
    """Mark the start of a job that was enqueued at that time."""
    _append("pickups", f"{time.monotonic_ns() - at}\n")


def fed(jobs: int, nanoseconds: int) -> None:
    """Mark that `jobs` jobs were enqueued within that time."""
    _append("fed", f"{jobs} {nanoseconds}\n")


def begin(key: str) -> "Pulse | None":
    """An attempt of a job that is to be lost has started; None if it is not the first attempt."""
    now = time.monotonic_ns()
    folder = os.environ[FOLDER]
    again = any(start.key == key for start in starts(Path(folder)))
    # The pid as the process sees it, and its namespace: together they identify it from outside.
    namespace = os.stat("/proc/self/ns/pid").st_ino
    _append("starts", f"{key} {now} {os.getpid()} {namespace}\n")
    return None if again else Pulse(key)


class Pulse:
    """How long an attempt was alive; shared memory, so that it is right after any kill."""

    def __init__(self, key: str) -> None:
        with Path(os.environ[FOLDER], f"pulse-{key}").open("wb+") as file:
            file.truncate(8)
            self._memory = mmap.mmap(file.fileno(), 8)

    def beat(self) -> None:
        self._memory[:] = time.monotonic_ns().to_bytes(8, "little")


def hold(key: str) -> None:
    """A job that runs until it is ended from outside; its next attempt ends at once."""
    pulse = begin(key)
    while pulse:
        pulse.beat()
        time.sleep(_BEAT_SECONDS)


async def hold_async(key: str) -> None:
    """As above, on an event loop."""
    # Imported here, because workers without an event loop should not load it.
    from asyncio import sleep

    pulse = begin(key)
    while pulse:
        pulse.beat()
        await sleep(_BEAT_SECONDS)


def _append(name: str, line: str) -> None:
    path = os.path.join(os.environ[FOLDER], name)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, line.encode())
    os.close(descriptor)


# -- read back


class Count(NamedTuple):
    """No-op jobs of all processes: the first and the last time, and how many."""

    first: int
    last: int
    jobs: int


class Start(NamedTuple):
    """The start of an attempt."""

    key: str
    at: int
    pid: int
    namespace: int


def counted(folder: Path) -> Count:
    sheets = [path.read_bytes() for path in folder.glob("tally-*")]
    read = [Count(*_SHEET.unpack(sheet)) for sheet in sheets if len(sheet) == _SHEET.size]
    read = [each for each in read if each.jobs]
    if not read:
        return Count(0, 0, 0)
    first = min(each.first for each in read)
    return Count(first, max(each.last for each in read), sum(each.jobs for each in read))


def pick_ups(folder: Path) -> list[float]:
    """Milliseconds from just before the call of enqueue to the start of the job."""
    path = folder / "pickups"
    return [int(line) / 1e6 for line in path.read_text().split()] if path.exists() else []


def feeding_rate(folder: Path) -> float:
    """Jobs a second of the last enqueue."""
    jobs, nanoseconds = (folder / "fed").read_text().splitlines()[-1].split()
    return int(jobs) / int(nanoseconds) * 1e9


def starts(folder: Path) -> list[Start]:
    path = folder / "starts"
    if not path.exists():
        return []
    rows = [line.split() for line in path.read_text().splitlines()]
    return [Start(row[0], int(row[1]), int(row[2]), int(row[3])) for row in rows]


def last_pulse(folder: Path, key: str) -> int:
    return int.from_bytes((folder / f"pulse-{key}").read_bytes(), "little")
