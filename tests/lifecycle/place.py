"""Where one lifecycle test happens: a folder, a store, a record file, and the workers on it."""

import fcntl
import itertools
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest
from lifecycle import processes
from lifecycle.app import app
from lifecycle.intervals import Attempt, Record, Records, attempts
from lifecycle.modes import Case, Mode
from lifecycle.processes import Process
from lifecycle.recorder import boottime
from lifecycle.tree import MARK, Settings, Worker
from machine import crowded
from servers import shared_url

from limpet import JobHandle
from limpet.domain.event import Event, EventName, timeline
from limpet.domain.job import Job, JobFilter
from limpet.domain.session import Session, SessionState
from limpet.domain.state import FINAL
from limpet.storage.base import Store

ALLOWANCE_SECONDS = 0.5
# A job that has begun is known to have within this time.
KNOWN_AFTER_SECONDS = 0.25
# A worker needs that long at most until it has registered and runs its first job.
START_SECONDS = 15.0
# For what has no limit of its own: something is broken if it takes longer.
PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.01

# Whether a test has failed, so that what there is is told.
FAILED = pytest.StashKey[bool]()

T = TypeVar("T")
Handle: TypeAlias = JobHandle[Any]


def allowance() -> float:
    """What is added to every limit of the design, in seconds.

    Half a second where every core has at most one process to run, and that much more for each
    further one.
    """
    return ALLOWANCE_SECONDS * crowded()


@dataclass
class Place:
    """One test's folder and all that happens in it."""

    mode: Mode
    store_kind: str
    folder: Path
    mark: str
    workers: list[Worker] = field(default_factory=list)
    judged: bool = False
    file: Path = Path("jobs.db")
    own_url: str = ""
    way: str = ""
    _count: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _records: Records = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._records = Records(self.records_file)

    @classmethod
    def make(cls, case: Case, url: str = "", way: str = "") -> "Place":
        """A folder that every user may write to, and a store in it.

        `url`: another server than the shared one. `way`: how workers get there, if not like that.
        """
        folder = Path(tempfile.mkdtemp(prefix="limpet-life-"))
        folder.chmod(0o777)
        place = cls(case.mode, case.store, folder, uuid.uuid4().hex, own_url=url, way=way)
        # SQLite gives the file's own rights to those beside it.
        (folder / "jobs.db").touch(0o666)
        app.move_to(place.url)
        os.environ["LIMPET_TEST_FOLDER"] = str(folder)
        place.store.migrate()
        return place

    # -- what is there

    @property
    def url(self) -> str:
        if self.own_url:
            return self.own_url
        match self.store_kind:
            case "sqlite":
                # Nobody cuts the power here, and a slow disk would make renewals late.
                return f"sqlite:///{self.folder / self.file}?synchronous=normal"
            case "postgres" | "postgres15" as kind:
                return f"{shared_url(kind)}?schema=life_{self.mark}"
            case kind:
                return f"{shared_url(kind)}?namespace=life-{self.mark}"

    def look_at(self, url: str) -> None:
        """Look at another server from now on; the workers stay where they are."""
        self.own_url = url
        app.move_to(url)

    def move_to(self, file: Path) -> None:
        """Use another file as the store."""
        self.file = file
        app.move_to(self.url)
        self.store.migrate()

    @property
    def store(self) -> Store:
        return app.client.store

    @property
    def records_file(self) -> Path:
        return self.folder / "records"

    def records(self) -> list[Record]:
        return self._records.read()

    def attempts(self, job: Handle) -> list[Attempt]:
        """The attempts of a job, as they were recorded."""
        return attempts(self.records()).get(job.id, [])

    def unfinished(self) -> int:
        """How many jobs are not in a final state."""
        return sum(
            count
            for queue in self.store.queues()
            for state, count in queue.counts.items()
            if state not in FINAL
        )

    def job(self, job: Handle) -> Job:
        found = self.store.job(job.id)
        assert found is not None, f"job {job.id} is lost"
        return found

    def timeline(self, job: Handle) -> list[Event]:
        return timeline(self.job(job), list(self.store.events(job.id)))

    def events(self, job: Handle, *names: EventName) -> list[Event]:
        """The events of those names on a job's timeline."""
        return [event for event in self.timeline(job) if event.event in names]

    def losses(self, job: Handle) -> list[Event]:
        """Each time that the job was lost with its holder."""
        return self.events(job, EventName.ORPHANED, EventName.RECOVERED)

    # -- its workers

    def worker(
        self, name: str = "w", settings: Settings | None = None, source: Path | None = None
    ) -> Worker:
        """Start a worker and wait until it has registered."""
        worker = self.begin_worker(name, settings, source)
        self.session(worker)
        return worker

    def begin_worker(
        self,
        name: str = "w",
        settings: Settings | None = None,
        source: Path | None = None,
        wrapper: Sequence[str] = (),
    ) -> Worker:
        """Start a worker, of another version if `source` is given, and do not wait."""
        number = next(self._count)
        worker = Worker.start(
            f"{name}{number}", self.mode, settings or Settings(),
            url=self.way or self.url, folder=self.folder, mark=self.mark, source=source,
            wrapper=wrapper,
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def session(self, worker: Worker, *, not_: str | None = None) -> Session:
        """The live session of a worker, once it has one other than `not_`."""

        def find() -> Session | None:
            assert worker.popen.poll() is None, f"{worker.name} ended: {worker.popen.returncode}"
            return next(
                (
                    each
                    for each in self.store.sessions()
                    if each.name == worker.name
                    and each.state is SessionState.LIVE
                    and each.id != not_
                ),
                None,
            )

        return self.until(find, START_SECONDS, f"{worker.name} has a session")

    # -- waiting

    def until(
        self, what: Callable[[], T | None], seconds: float = PATIENCE_SECONDS, said: str = ""
    ) -> T:
        """Wait until something is true, and return it.

        So many seconds that they are patience, not a promise, are more on a machine that is busy.
        """
        began = time.monotonic()
        while True:
            found = what()
            if found:
                return found
            limit = seconds * crowded() if seconds >= START_SECONDS else seconds
            waited = time.monotonic() - began
            assert waited < limit, f"not within {seconds} s: {said or what.__name__}"
            time.sleep(POLL_SECONDS)

    def until_begun(self, *jobs: Handle, times: int = 1, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until each of the jobs has begun that many times."""

        def begun() -> bool:
            by_job = attempts(self.records())
            return all(len(by_job.get(job.id, ())) >= times for job in jobs)

        self.until(begun, seconds, f"{len(jobs)} jobs begun {times} times")

    def until_known(self, *jobs: Handle) -> None:
        """Wait until the store knows that the jobs have begun, so that their loss is charged.

        The worker tells it a moment after the start, because most jobs are over by then.
        """
        self.until(
            lambda: all(self.job(job).begun for job in jobs),
            KNOWN_AFTER_SECONDS + allowance(),
            f"the store knows that {len(jobs)} jobs have begun",
        )

    def until_role(self, role: str, *jobs: Handle, times: int = 1) -> None:
        """Wait until a subprocess, daemon or thread recorded in so many attempts of each job."""

        def begun() -> bool:
            found = {(r.job, r.token) for r in self.records() if r.role == role}
            return all(sum(job.id == each for each, _ in found) >= times for job in jobs)

        self.until(begun, said=f"a {role} of {len(jobs)} jobs in {times} attempts")

    def until_lost(self, *jobs: Handle, times: int = 1, seconds: float) -> None:
        """Wait until each of the jobs was lost with its holder that many times."""
        self.until(
            lambda: all(len(self.losses(job)) >= times for job in jobs),
            seconds,
            f"{len(jobs)} jobs lost {times} times",
        )

    def until_final(self, jobs: Sequence[Handle], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until each of the jobs is in a final state."""
        ids = [job.id for job in jobs]

        def final() -> bool:
            states = self.store.states(ids)
            assert len(states) == len(ids), "a job is lost"
            return all(state in FINAL for state in states.values())

        try:
            self.until(final, seconds)
        except AssertionError:
            left = [
                f"{job.id} {found.task} {found.state}" for job in jobs
                if (found := self.job(job)).state not in FINAL
            ]  # fmt: skip
            raise AssertionError(f"not final within {seconds} s: {left[:5]}") from None

    def say(self, word: str) -> None:
        """Tell the jobs that wait for this word."""
        (self.folder / word).touch()

    @contextmanager
    def store_that_answers_nobody(self) -> Iterator[None]:
        """Hold the locks in front of the file, so that no worker can write."""
        folder = self.folder / "jobs.db-limpet"
        files = [os.open(folder / name, os.O_RDWR) for name in ("urgent", "turn")]
        for file in files:
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            for file in files:
                os.close(file)

    # -- what lives here

    def carriers(self, job: Handle) -> list[Process]:
        """The subprocesses and daemons that record for a job and are alive."""
        return [
            each
            for pid, each in processes.everything().items()
            if job.id in (words := processes.command(pid)) and str(self.records_file) in words
        ]

    def living(self) -> list[Process]:
        """Every process that this test started and that is alive."""
        return processes.belonging((MARK, self.mark), self.folder)

    def stop(self, workers: Iterable[Worker] | None = None) -> None:
        """Ask workers to stop; one that would not is a failure."""
        them = [each for each in (workers or self.workers) if each.popen.poll() is None]
        for worker in them:
            code = worker.stop()
            assert code is not None, f"{worker.name} does not stop"

    def describe(self) -> Iterator[str]:
        """What there is, for the report of a test that failed."""
        for worker in self.workers:
            yield f"--- the log of {worker.name}\n{worker.log[-20_000:]}"
        for each in self.living():
            yield f"alive: {each}: {' '.join(processes.command(each.pid))}"
        for job in self.store.jobs(JobFilter(), limit=20).jobs:
            yield f"job {job.id} {job.task} {job.state} {job.counters} begun={job.begun}"
            for event in timeline(job, list(self.store.events(job.id))):
                yield f"    {event.at / 1e6:.3f} {event.event} {event.token} {event.cause or ''}"
            for attempt in attempts(self.records()).get(job.id, ()):
                first, last = wall_of(attempt.first), wall_of(attempt.last)
                yield f"    token {attempt.token} {first:.3f} to {last:.3f} ({attempt.last_role})"

    def clear(self) -> None:
        """End everything that is left, whatever happened, and remove the folder."""
        processes.end(self.living)
        for worker in self.workers:
            worker.popen.kill()
            worker.popen.wait(10)
        app.move_to("sqlite://")
        shutil.rmtree(self.folder, ignore_errors=True)


def wall_of(boot_ns: int) -> float:
    """The wall time in seconds at a moment of BOOTTIME, by the clocks of now."""
    return time.time() - (boottime() - boot_ns) / 1e9
