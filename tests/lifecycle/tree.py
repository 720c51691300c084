"""A worker started for a test: its processes, its sessions, its log, its end."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from lifecycle import processes
from lifecycle.modes import TESTS, Mode
from lifecycle.processes import Process, everything, look, send

from limpet.worker.supervisor.gatekeeper import ROOT_VARIABLE

MARK = "LIMPET_TEST_MARK"
WORKER = "LIMPET_TEST_WORKER"
FOLDER = "LIMPET_TEST_FOLDER"


class Part(StrEnum):
    """A process of a worker, by the name that the kernel shows."""

    GUARDIAN = "limpet-guard"
    SUPERVISOR = "limpet-super"
    ZYGOTE = "limpet-zygote"
    LOOP = "limpet-loop"
    LANE = "limpet-lane"


PARTS = frozenset(Part)
EXECUTORS = frozenset({Part.LOOP, Part.LANE})

Order = Literal["from the root", "from the leaves", "supervisor first", "any"]
ORDERS: tuple[Order, ...] = ("from the root", "from the leaves", "supervisor first", "any")

APP = "lifecycle.app:app"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a worker of these tests is set; times in seconds.

    `machine`: a folder with a /proc and a /sys that it takes for those of its host. `app`: another
    module has fewer of the tasks.
    """

    lease: float = 4.0
    drain: float = 20.0
    grace: float | None = None
    lanes: int = 2
    async_jobs: int = 20
    queues: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    machine: str = "/"
    app: str = APP

    def words(self) -> list[str]:
        words = ["--lease", f"{self.lease}s", "--drain", f"{self.drain}s"]
        words += ["--lanes", str(self.lanes), "--async-jobs", str(self.async_jobs)]
        if self.grace is not None:
            words += ["--grace", f"{self.grace}s"]
        for queue in self.queues:
            words += ["-q", queue]
        return [*words, *self.more]


@dataclass
class Worker:
    """A running `limpet worker`; its pid is that of the guardian."""

    name: str
    mode: Mode
    settings: Settings
    log_file: Path
    mark: str
    popen: "subprocess.Popen[bytes]"
    _seen: dict[int, Process] = field(default_factory=dict)

    @classmethod
    def start(
        cls, name: str, mode: Mode, settings: Settings, *, url: str, folder: Path, mark: str,
        source: Path | None = None, wrapper: Sequence[str] = (),
    ) -> "Worker":  # fmt: skip
        """Start it; it is the leader of a process group of its own, as a shell would make it.

        `source`: a folder with another version of Limpet. `wrapper`: the words in front of the
        command, beside those of the mode.
        """
        log_file = folder / f"{name}.log"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LIMPET_", "XDG_"))}
        own = f"{mark}-{name}-{time.monotonic_ns()}"
        with log_file.open("ab") as log:
            popen = subprocess.Popen(
                [*wrapper, *mode.wrapper, sys.executable, "-m", "limpet.cli.main", "worker"]
                + [settings.app, "--url", url, "--name", name, *settings.words()],
                cwd=folder,
                env={
                    **inherited,
                    **mode.environment,
                    "HOME": str(folder),
                    "PYTHONPATH": f"{source}:{TESTS}" if source else str(TESTS),
                    MARK: mark,
                    WORKER: own,
                    FOLDER: str(folder),
                    ROOT_VARIABLE: settings.machine,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                umask=0o022,
                start_new_session=True,
            )
        return cls(name, mode, settings, log_file, own, popen)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    # -- its processes

    def processes(self) -> list[Process]:
        """All that is alive of it, parents first: what descends from it or carries its mark."""
        known = everything()
        found = {each.pid: each for each in processes.below(self.pid, known)}
        for pid, each in known.items():
            if pid not in found and processes.environment(pid).get(WORKER) == self.mark:
                found[pid] = each
        self._seen.update(found)
        return list(found.values())

    def part(self, part: Part) -> list[Process]:
        """Its processes of one kind; what user code forked from them is not counted."""
        known = {each.pid: each for each in self.processes()}
        return [
            each
            for each in known.values()
            if each.comm == part
            and (each.parent not in known or known[each.parent].comm != each.comm)
        ]

    def only(self, part: Part) -> Process:
        """Its one process of that kind."""
        found = self.part(part)
        assert len(found) == 1, f"{self.name}: {part}: {[str(each) for each in found]}"
        return found[0]

    def outer(self, inner: int) -> Process:
        """The process that calls itself by that pid, as a record has it."""
        found = [each for each in self.processes() if processes.inner_pid(each.pid) == inner]
        mine = [each for each in found if each.comm in EXECUTORS] or found
        assert len(mine) == 1, f"{self.name}: pid {inner}: {[str(each) for each in found]}"
        return mine[0]

    # -- its ends

    def signal(self, number: signal.Signals, *pids: int) -> None:
        """Signal some of its processes, or the guardian."""
        for pid in pids or (self.pid,):
            send(pid, number)

    def kill_tree(self, order: Order = "from the root", seed: int = 0) -> float:
        """SIGKILL to every process of it, one after the other; the answer is the wall time before.

        What user code started is not killed: to end that is the neighbours' part.
        """
        found = [each for each in self.processes() if each.comm in PARTS]
        if order == "from the leaves":
            found.reverse()
        elif order == "supervisor first":
            found.sort(key=lambda each: each.comm != Part.SUPERVISOR)
        elif order == "any":
            random.Random(seed).shuffle(found)
        pids = [each.pid for each in found]
        before = time.time()
        processes.kill_all(pids)
        return before

    def wait(self, seconds: float) -> int | None:
        """Its exit code, or None if it is not over by then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.popen.wait(seconds)
        return None

    def stop(self, seconds: float = 10.0) -> int | None:
        """Ask it to stop, twice if need be; the exit code, or None if it would not."""
        for _ in range(2):
            if self.popen.poll() is not None:
                break
            self.signal(signal.SIGTERM)
            self.wait(seconds / 2)
        return self.popen.poll()

    def stopped(self, pids: Sequence[int]) -> bool:
        """Whether all of those are stopped by a signal."""
        return all((found := look(pid)) is not None and found.stopped for pid in pids)
