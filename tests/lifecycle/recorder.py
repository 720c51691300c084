"""Says when an attempt runs: whoever runs for it appends records to one file.

A begin, a sample every 10 ms and an end, each with CLOCK_BOOTTIME, the job, its token and the role
of the writer. `lifecycle.intervals` reads them.

A program as well, so that the same code records in an async task, in a sync one, and in a plain
subprocess:

    python -I recorder.py child FILE JOB TOKEN SECONDS           samples until killed or over
    python -I recorder.py daemon FILE JOB TOKEN SECONDS          the same, double-forked
    python -I recorder.py bare-daemon FILE JOB TOKEN SECONDS     and without an environment

It imports next to nothing. What a job starts runs at the low priority of its executor, and on a
machine with a dozen others to run it gets a hundredth of a core: there a tenth of a second of
imports takes longer than a test waits.
"""

from __future__ import annotations

import os
import sys
import time

# Type checkers know the name; `typing` takes longer to import than Python to start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from lifecycle.intervals import Kind, Role

EVERY_SECONDS = 0.01
# Nothing that these tests start outlives this, whatever goes wrong with them.
LONGEST_SECONDS = 120.0
# Ends a record that was written whole.
LAST_FIELD = "."


def boottime() -> int:
    """CLOCK_BOOTTIME in nanoseconds: the clock of leases, the same in every process."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Recorder:
    """Appends the records of one writer."""

    def __init__(
        self, file: str | os.PathLike[str], job: str, token: int, role: Role = "job"
    ) -> None:
        self.file = str(file)
        self.job = job
        self.token = token
        self.role: Role = role
        self._descriptor = os.open(
            self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666
        )

    def write(self, kind: Kind) -> None:
        """Append one record, in one write.

        A writer that is killed where its record crosses a page leaves half a line; the line break
        in front of each record keeps the next writer's whole.
        """
        words = (boottime(), self.job, self.token, os.getpid(), self.role, kind, LAST_FIELD)
        os.write(self._descriptor, ("\n" + " ".join(map(str, words)) + "\n").encode())

    def close(self) -> None:
        os.close(self._descriptor)

    def run(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """Record for that long, or until `over`."""
        until = time.monotonic() + min(seconds, LONGEST_SECONDS)
        self.write("begin")
        while time.monotonic() < until and not over():
            self.write("sample")
            time.sleep(EVERY_SECONDS)
        self.write("end")

    async def arun(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """As `run`, without blocking the event loop."""
        import asyncio

        until = time.monotonic() + min(seconds, LONGEST_SECONDS)
        self.write("begin")
        while time.monotonic() < until and not over():
            self.write("sample")
            await asyncio.sleep(EVERY_SECONDS)
        self.write("end")

    def command(self, how: Literal["child", "daemon", "bare-daemon"], seconds: float) -> list[str]:
        """The command line of a subprocess that records for the same attempt."""
        words = (__file__, how, self.file, self.job, self.token, seconds)
        return [sys.executable, "-I", "-S", *map(str, words)]


# -- the program


def main(words: list[str]) -> None:
    how, file, job, token, seconds = words
    if how == "child":
        Recorder(file, job, int(token), "subprocess").run(float(seconds))
    elif how == "daemon-itself":
        Recorder(file, job, int(token), "daemon").run(float(seconds))
    elif how in ("daemon", "bare-daemon"):
        environment = {} if how == "bare-daemon" else dict(os.environ)
        _daemonise()
        itself = [sys.executable, "-I", "-S", __file__, "daemon-itself", *words[1:]]
        os.execve(sys.executable, itself, environment)
    else:
        raise SystemExit(f"unknown role {how!r}")


def _daemonise() -> None:
    """Leave session, parent, folder and streams, as a daemon does."""
    for _ in range(2):
        if os.fork():
            os._exit(0)
        os.setsid()
    os.chdir("/")
    for stream in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)


if __name__ == "__main__":
    main(sys.argv[1:])
