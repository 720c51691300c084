"""The diary of the demo: every process that runs marks when it is alive.

Each run, and each program that it starts, has a file of its own: `begin`, `alive` about every
10 ms, `end`, each with its CLOCK_BOOTTIME, the clock that all processes of a machine share. A
killed process has no `end`: its last mark is the last moment at which it is known to have lived.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from limpet.domain.clock import SystemClock
from limpet.payload.context import Context

# Names the demo's folder in the environment of its workers and of all processes below them; a
# process that has the variable belongs to the demo.
VARIABLE = "LIMPET_DEMO_FOLDER"
SAMPLE_SECONDS = 0.01
_DIARY = "diary"

_clock = SystemClock()


class Pen:
    """Writes the marks of one process for one run of one job."""

    def __init__(self, job: str, token: int, who: str) -> None:
        folder = os.path.join(os.environ[VARIABLE], _DIARY)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{job}.{token}.{who}.{os.getpid()}")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._marked = 0
        self._mark("begin")

    def alive(self) -> None:
        """Write a mark, but no more often than every 10 ms."""
        if _clock.boot() - self._marked >= SAMPLE_SECONDS * 1e6:
            self._mark("alive")

    def end(self) -> None:
        """Write the last mark."""
        self._mark("end")
        os.close(self._file)

    def _mark(self, what: str) -> None:
        self._marked = _clock.boot()
        os.write(self._file, f"{what} {self._marked}\n".encode())


@contextmanager
def run_of(context: Context) -> Iterator[Pen]:
    """Mark the begin and the end of a run, however the run ends."""
    pen = Pen(context.job.id, context.token, "job")
    try:
        yield pen
    finally:
        pen.end()


@dataclass(frozen=True, slots=True)
class Trace:
    """The diary of one process for one run; times are microseconds of BOOTTIME.

    `who`: "job", "program" or "daemon". `pid`: as the process saw it, maybe inside a namespace.
    """

    job: str
    token: int
    who: str
    pid: int
    begin: int
    last: int
    ended: bool
    marks: int


def read(folder: Path) -> list[Trace]:
    """Every trace that is in the diary now."""
    found = []
    for path in sorted((folder / _DIARY).glob("*.*.*.*")):
        job, token, who, pid = path.name.split(".")
        # A last line without a newline is still being written.
        lines = [line.split() for line in path.read_text().split("\n")[:-1]]
        if lines:
            times = [int(line[1]) for line in lines]
            ended = lines[-1][0] == "end"
            found.append(
                Trace(job, int(token), who, int(pid), times[0], times[-1], ended, len(lines))
            )
    return found
