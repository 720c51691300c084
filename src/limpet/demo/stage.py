"""The demo's workers: starts, kills and inspects them, and ends all of them at the end."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from limpet.demo import KEPT
from limpet.demo.diary import VARIABLE
from limpet.host import processes

_LANES = 8
_DRAIN_SECONDS = 5.0
_APP = "limpet.demo.app:app"
# Runs the command line `limpet`, which stops even if the demo itself is killed with -9.
_TIED = """
import signal, sys
from limpet.host.processes import die_with_parent
die_with_parent(signal.SIGTERM)
from limpet.cli.main import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Worker:
    """A real worker; `process` is its guardian, the root of its tree."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def tree(self) -> dict[int, str]:
        """The worker's processes, without programs of its jobs: pid → name, the root first."""
        pids = [self.process.pid, *sorted(processes.descendants(self.process.pid))]
        named = {pid: name_of(pid) for pid in pids}
        own = {pid: name for pid, name in named.items() if name.startswith("limpet-")}
        return own if processes.LINUX else named

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace").strip()[-500:]


class DemoStage:
    """A folder with a store, and workers on it; leaving the stage ends all their processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'demo.db'}"
        self.workers: list[Worker] = []
        kept = {name: text for name, text in os.environ.items() if name == KEPT}
        others = {k: v for k, v in os.environ.items() if not k.startswith("LIMPET_")}
        self._environment = {**others, **kept, VARIABLE: str(folder)}

    def __enter__(self) -> "DemoStage":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # No signal may interrupt the cleanup, which takes a second at most.
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
        try:
            processes.end_all(self.alive)
            for worker in self.workers:
                worker.process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self, name: str) -> Worker:
        """Start `limpet worker` as a user would."""
        command = [sys.executable, "-c", _TIED, "worker", _APP, "--url", self.url]
        options = {"name": name, "lanes": _LANES, "drain": f"{_DRAIN_SECONDS:g}s", "grace": "1s"}
        for option, value in options.items():
            command += [f"--{option}", str(value)]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--log", "plain"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C is for the demo, which then ends its workers.
                start_new_session=True,
            )
        worker = Worker(name, process, log)
        self.workers.append(worker)
        return worker

    def stop(self, worker: Worker) -> int | None:
        """Send SIGTERM to a worker; returns its exit code, or None if it did not stop."""
        worker.process.send_signal(signal.SIGTERM)
        try:
            return worker.process.wait(_DRAIN_SECONDS + 5.0)
        except subprocess.TimeoutExpired:
            return None

    def alive(self) -> dict[int, str]:
        """Every process that the demo started, at any depth: pid → name."""
        mark = f"{VARIABLE}={self.folder}"
        found = _carrying_by_proc(mark) if processes.LINUX else _carrying_by_ps(mark)
        found.pop(os.getpid(), None)
        return found


def kill(pids: list[int]) -> None:
    """Kill processes with -9, all at once: stop them first, so that none sees another die."""
    if len(pids) > 1:
        processes.kill(pids, signal.SIGSTOP)
    processes.kill(pids, signal.SIGKILL)


def outer_pid(worker: Worker, inner: int) -> int | None:
    """The pid, outside of its pid namespace, of the worker's process that is `inner` inside."""
    for pid in worker.tree():
        if (_pid_inside(pid) if processes.LINUX else pid) == inner and pid != worker.process.pid:
            return pid
    return None


def name_of(pid: int) -> str:
    """The name of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _pid_inside(pid: int) -> int | None:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    except OSError:
        pass
    return None


def _carrying_by_proc(mark: str) -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark.encode() in file.read().split(b"\0"):
                        found[int(name)] = name_of(int(name))
            except OSError:
                continue
    return found


def _carrying_by_ps(mark: str) -> dict[int, str]:
    command = ["ps", "-axEww", "-o", "pid=,command="]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = (line.split(maxsplit=1) for line in text.splitlines() if mark in line)
    return {int(pid): words.partition(" ")[0] for pid, words in rows}


def wait_a_moment() -> None:
    """Sleep between two looks."""
    time.sleep(0.02)
