"""Where a test happens: a folder, a store in it, and the workers on it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from machine import crowded

from limpet import App, JobHandle, Task
from limpet.domain.event import Event, timeline
from limpet.domain.job import Job, LogLine, NewJob
from limpet.domain.state import FINAL, State
from limpet.storage.base import Store

TESTS = Path(__file__).parents[1]
MARK = "LIMPET_TEST_MARK"
PATIENCE_SECONDS = 40.0

T = TypeVar("T")
Handle = JobHandle[Any]


def until(what: Callable[[], T | None], seconds: float = PATIENCE_SECONDS, said: str = "") -> T:
    """Wait until something is true, and return it; longer on a machine that is busy."""
    began = time.monotonic()
    while not (found := what()):
        assert time.monotonic() - began < seconds * crowded(), (
            f"not within {seconds} s: {said or what.__name__}"
        )
        time.sleep(0.005)
    return found


@dataclass
class Worker:
    """A `limpet worker` that runs; its pid is that of the guardian."""

    popen: "subprocess.Popen[bytes]"
    log_file: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def text(self) -> str:
        """Everything that it and its jobs have written."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def log(self, action: str | None = None) -> list[dict[str, Any]]:
        """What it has logged, all of it or one action."""
        lines = []
        for line in self.text.splitlines():
            if action is not None and action not in line:
                continue  # a flood of prints is read in no time
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict) and action in (None, found.get("action")):
                    lines.append(found)
        return lines

    def until_logged(self, action: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """The first line of that action, once it is there."""
        return until(lambda: self.log(action), seconds, f"{action} in the log")[0]

    def until_ready(self) -> "Worker":
        def is_ready() -> bool:
            assert self.popen.poll() is None, f"it ended with {self.popen.poll()}: {self.text}"
            return bool(self.log("worker_ready"))

        until(is_ready, said="the worker is ready")
        return self

    def signal(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Its exit code."""
        return self.popen.wait(seconds)

    def end(self, seconds: float = 10.0) -> None:
        """Make it stop, whatever runs: two signals, far enough apart to be told apart."""
        while self.popen.poll() is None and seconds > 0:
            self.signal()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(1.0)
            seconds -= 1.0
        assert self.popen.poll() is not None, "it does not stop"

    def stop(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Ask it to stop, and return the exit code."""
        if self.popen.poll() is None:
            self.signal()
        return self.wait(seconds)


@dataclass
class Place:
    """One folder and all that happens in it."""

    folder: Path
    app: App
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    workers: list[Worker] = field(default_factory=list)
    notes_file: Path | None = None

    def __post_init__(self) -> None:
        self.app.move_to(self.url)

    @property
    def url(self) -> str:
        # Nobody cuts the power here.
        return f"sqlite:///{self.folder}/jobs.db?synchronous=normal"

    @property
    def store(self) -> Store:
        return self.app.client.store

    @property
    def notes(self) -> str:
        """Where its tasks write down what they did."""
        return str(self.notes_file or self.folder / "notes")

    @property
    def last(self) -> Worker:
        """The worker that was started last."""
        return self.workers[-1]

    # -- workers

    def begin_worker(
        self, *words: str, target: str = "worker.jobs:app", url: str | None = "", **more: Any
    ) -> Worker:
        """Start a worker and do not wait; `url` is the place's own unless given, None for none."""
        log_file = self.folder / f"worker{len(self.workers)}.log"
        command = [sys.executable, "-m", "limpet.cli.main", "worker", target, "--log", "json"]
        if url is not None:
            command += ["--url", url or self.url]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("LIMPET_")}
        inherited |= {"PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1", MARK: self.mark}
        inherited |= more.pop("env", {})
        with log_file.open("ab") as log:
            given = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **more}
            popen = subprocess.Popen(
                [*command, *words],
                cwd=self.folder,
                env=inherited,
                start_new_session=True,
                **given,
            )
        worker = Worker(popen, log_file)
        self.workers.append(worker)
        return worker

    def worker(self, *words: str, **more: Any) -> Worker:
        """Start a worker and wait until it claims."""
        return self.begin_worker(*words, **more).until_ready()

    def module(self, source: str, name: str = "own") -> str:
        """Write an app of the test's own; the answer is the target for a worker."""
        (self.folder / f"{name}.py").write_text(source, encoding="utf-8")
        return f"{name}:app"

    # -- jobs

    def hand_in(self, task: Task[Any, Any] | str, args: str, **more: Any) -> Handle:
        """Put a job into the store as another program might: nothing checks its arguments."""
        name = task if isinstance(task, str) else task.name
        job = NewJob(self.app.client.ids.new(), name, args, **more)
        self.store.enqueue([job])
        return JobHandle(self.app.client, job.id, name)

    def job(self, job: Handle | str) -> Job:
        found = self.store.job(job if isinstance(job, str) else job.id)
        assert found is not None, "the job is lost"
        return found

    def timeline(self, job: Handle) -> list[Event]:
        return timeline(self.job(job), list(self.store.events(job.id)))

    def events(self, job: Handle) -> list[str]:
        """The names of the job's events, in order."""
        return [str(event.event) for event in self.timeline(job)]

    def cause(self, job: Handle, event: str) -> Event:
        """The last event of that name."""
        found = [each for each in self.timeline(job) if each.event == event]
        assert found, f"no {event} in {self.events(job)}"
        return found[-1]

    def log(self, job: Handle) -> list[LogLine]:
        return list(self.store.log(job.id))

    def lines(self, job: Handle) -> list[str]:
        return [line.message for line in self.log(job)]

    def until_state(self, job: Handle, *states: State, seconds: float = PATIENCE_SECONDS) -> Job:
        """Wait until the job is in one of those states, or in any final one."""
        wanted = states or tuple(FINAL)

        def there() -> Job | None:
            found = self.job(job)
            return found if found.state in wanted else None

        try:
            return until(there, seconds)
        except AssertionError:
            raise AssertionError(
                f"{job.task} is {self.job(job).state}, not {wanted}: {self.events(job)}"
            ) from None

    def until_over(self, *jobs: Handle, seconds: float = PATIENCE_SECONDS) -> list[Job]:
        """Wait until each of the jobs is final."""
        ids = [job.id for job in jobs]
        began = time.monotonic()
        while left := [i for i, state in self.store.states(ids).items() if state not in FINAL]:
            assert time.monotonic() - began < seconds * crowded(), (
                f"{len(left)} of {len(ids)} not over"
            )
            time.sleep(0.01)
        return [self.job(job) for job in jobs]

    # -- the end

    def living(self) -> list[str]:
        """The command lines of everything that was started here and is alive."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and wanted in Path(f"/proc/{entry}/environ").read_bytes():
                    words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                    name = Path(f"/proc/{entry}/comm").read_text().strip()
                    found.append(f"{entry} {name} {b' '.join(words).decode()}")
        return found

    def process(self, name: str) -> int:
        """The first process of that name, once there is one."""
        line = until(lambda: [each for each in self.living() if each.split()[1] == name], said=name)
        return int(line[0].split()[0])

    def close(self) -> None:
        """Stop the workers; nothing of them may be left, and the store must be sound."""
        try:
            for worker in self.workers:
                worker.end()
            with contextlib.suppress(AssertionError):
                until(lambda: not self.living(), 1.0)
            assert self.living() == []
            broken = self.store.invariants() if (self.folder / "jobs.db").exists() else ()
            assert [each.sentence for each in broken] == []
        finally:
            for line in self.living():
                with contextlib.suppress(OSError):
                    os.kill(int(line.split()[0]), signal.SIGKILL)
            for worker in self.workers:
                worker.wait(10)
            self.app.move_to("sqlite://")
