"""The processes of this machine as the kernel shows them, and those that belong to a test.

A test's processes are known by an environment variable that only it has, or as Python programs
that hold open a file in its folder, so that a daemon which cleared its environment is found too.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_DEAD = "ZX"


@dataclass(frozen=True, slots=True)
class Process:
    """A living process, with the pids of the outermost namespace."""

    pid: int
    parent: int
    comm: str
    state: str
    started: int

    @property
    def stopped(self) -> bool:
        return self.state in "Tt"

    def __str__(self) -> str:
        return f"{self.comm} {self.pid} (parent {self.parent}, {self.state})"


def look(pid: int) -> Process | None:
    """One process, or None if it is gone or waits only to be reaped."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name is in brackets and may hold anything, brackets and spaces too.
    comm = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split(" ")
    if fields[0] in _DEAD:
        return None
    return Process(pid, int(fields[1]), comm, fields[0], int(fields[19]))


def alive(pid: int) -> bool:
    return look(pid) is not None


def everything() -> dict[int, Process]:
    """Every living process of this machine, by pid."""
    pids = [int(name) for name in os.listdir(_PROC) if name.isdecimal()]
    return {pid: found for pid in pids if (found := look(pid)) is not None}


def below(root: int, among: dict[int, Process] | None = None) -> list[Process]:
    """A process and its descendants, parents before their children."""
    known = everything() if among is None else among
    children: dict[int, list[Process]] = {}
    for each in known.values():
        children.setdefault(each.parent, []).append(each)
    found = [known[root]] if root in known else []
    for parent in found:
        found += children.get(parent.pid, [])
    return found


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty if it is gone."""
    try:
        text = (_PROC / str(pid) / "environ").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.split("\0") if line)
    return {name: value for name, _, value in pairs}


def command(pid: int) -> list[str]:
    """The command line of a process; empty if it is gone."""
    try:
        text = (_PROC / str(pid) / "cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.split("\0")[:-1]


def inner_pid(pid: int) -> int | None:
    """The pid that a process itself sees, which is another one in a pid namespace."""
    try:
        status = (_PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    line = next((line for line in status.splitlines() if line.startswith("NSpid:")), None)
    return int(line.split("\t")[-1]) if line else pid


def niceness(pid: int) -> tuple[int, int | None]:
    """The nice value of a process, and that of its session where the kernel groups by session."""
    session: int | None = None
    with contextlib.suppress(FileNotFoundError):
        session = int((_PROC / str(pid) / "autogroup").read_text().rpartition(" ")[2])
    return os.getpriority(os.PRIO_PROCESS, pid), session


def open_files(pid: int) -> Iterator[str]:
    """The paths that a process holds open."""
    folder = _PROC / str(pid) / "fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                yield os.readlink(folder / name)


def works_in(pid: int, folder: Path) -> bool:
    """Whether a process runs this Python and holds a file of that folder open."""
    try:
        program = os.readlink(_PROC / str(pid) / "exe")
    except OSError:
        return False
    # Whoever only looks on, with `tail -f` for example, is left alone.
    if program != os.path.realpath(sys.executable):
        return False
    return any(path.startswith(f"{folder}/") for path in open_files(pid))


def belonging(mark: tuple[str, str], folder: Path) -> list[Process]:
    """Every living process with that variable in its environment, or at work in that folder."""
    name, value = mark
    return [
        each
        for pid, each in everything().items()
        if pid != os.getpid() and (environment(pid).get(name) == value or works_in(pid, folder))
    ]


def send(pid: int, number: signal.Signals) -> bool:
    """Signal one process; False if it was gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def kill_all(pids: list[int]) -> None:
    """SIGKILL to each, as fast as this process can; nothing is looked up in between."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end(found: Callable[[], list[Process]], seconds: float = 10.0) -> list[Process]:
    """Kill what is found until nothing is; the answer is what was there at first."""
    first = now = found()
    give_up = time.monotonic() + seconds
    while now and time.monotonic() < give_up:
        kill_all([each.pid for each in now])
        time.sleep(0.01)
        now = found()
    return first


def turn_holder(file: Path) -> int | None:
    """The pid that holds a `flock` on a file, as the kernel lists it; None if nobody does."""
    inode = file.stat().st_ino
    for line in (_PROC / "locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and "->" not in words and words[5].endswith(f":{inode}"):
            return int(words[4])
    return None
