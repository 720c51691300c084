"""Runs the whole suite: tests that wait, several at a time, beside tests that only compute.

    python scripts/suite.py

Most tests wait for a process, a lease or a server. Run one after the other, they leave the machine
idle; beside tests that compute at the same priority, they find the machine busy when they need it.
So pytest runs twice at the same time: one run has more processes than cores, and the other has the
folders that only compute, at lower priority. No folder is divided, so that one run has all tests
that must be compared (tests/equality.py).
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
# On a large machine more processes would only start more servers.
CORES = min(os.cpu_count() or 1, 4)
# Folders whose tests keep a core busy all the time, and hardly have limits in seconds. A new folder
# counts as one that waits, which does no harm.
COMPUTING = ("architecture", "contract", "unit")
# The same niceness as a worker's executors.
NICENESS = 10
_LAST_WORDS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Part:
    """Some folders of tests, and how pytest runs them."""

    name: str
    folders: tuple[str, ...]
    words: tuple[str, ...]
    gives_way: bool = False

    @property
    def command(self) -> list[str]:
        """The command, for the root of the checkout."""
        folders = [str(Path("tests") / folder) for folder in self.folders]
        return [sys.executable, "-m", "pytest", *self.words, *folders]


def folders(tests: Path) -> tuple[str, ...]:
    """Every folder with tests in it."""
    return tuple(
        sorted({each.relative_to(tests).parts[0] for each in tests.glob("*/**/test_*.py")})
    )


def parts(every: tuple[str, ...], cores: int) -> list[Part]:
    """The runs of pytest, at the same time; together they have every folder."""
    waiting = tuple(each for each in every if each not in COMPUTING)
    computing = tuple(each for each in every if each in COMPUTING)
    return [
        # A file to each process, because its tests share servers; in the order of conftest.py.
        Part(
            "waiting",
            waiting,
            ("-n", str(cores + cores // 2), "--dist", "loadfile", "--no-loadscope-reorder"),
        ),
        # Fewer processes than cores, so that the machine does not count as crowded
        # (tests/machine.py).
        Part(
            "computing",
            computing,
            ("-n", str(max(1, cores // 2)), "--dist", "worksteal"),
            gives_way=True,
        ),
    ]


def give_way(pid: int) -> None:
    """Lower the priority of a process and of all its future children."""
    os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
    # Where the kernel groups processes by session, niceness counts only within a group.
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(NICENESS))


@dataclass
class Running:
    """A part that runs; its lines are printed with its name in front."""

    part: Part
    process: "subprocess.Popen[str]" = field(init=False)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            self.part.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if self.part.gives_way:
            give_way(self.process.pid)
        # A stray process of a test may hold the pipe open, so nobody waits for this thread.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(f"{self.part.name:>9} │ {line}", end="", flush=True)

    def wait(self) -> int:
        """Wait for the end of the part; returns its exit code."""
        code = self.process.wait()
        self.seconds = time.monotonic() - self._began
        self._reader.join(_LAST_WORDS_SECONDS)
        return code

    def interrupt(self) -> None:
        """Send SIGINT to all processes of the part, so that each ends what its test has started;
        Ctrl-C does not reach them, because they are in a session of their own.
        """
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)


def main() -> int:
    running: list[Running] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        for part in running:
            part.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, interrupt)
    for part in parts(folders(TESTS), CORES):
        running.append(Running(part))
    with ThreadPoolExecutor(len(running)) as pool:
        codes = list(pool.map(Running.wait, running))
    for done, code in zip(running, codes, strict=True):
        verdict = "passed" if code == 0 else f"FAILED (exit code {code})"
        print(f"{done.part.name}: {verdict} after {done.seconds:.0f} s")
    return 0 if set(codes) == {0} else 1


if __name__ == "__main__":
    sys.exit(main())
