"""Limpet workers on one store; some are lost on purpose."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import limpet_jobs
import processes
import tally
from contender import Place, Trouble
from limpet_contender import Limpet

from limpet import JobHandle
from limpet.domain.event import EventName
from limpet.domain.job import Job
from limpet.domain.session import SessionState
from limpet.storage.registry import open_store

TIMEOUT_SECONDS = 40
AGAIN = {EventName.ORPHANED, EventName.RECOVERED, EventName.RELEASED}


@dataclass(frozen=True)
class Held:
    """A job that runs until its holder is lost; the worker and the executor that hold it."""

    key: str
    job: JobHandle[Any]
    worker: "subprocess.Popen[bytes]"
    executor: int


class Workers:
    """Starts workers, finds the process that runs a job, and waits for the job's next start."""

    def __init__(self, limpet: Limpet, place: Place) -> None:
        self._limpet = limpet
        self._place = place
        self._store = open_store(place.url)
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._count = 0

    def __enter__(self) -> Self:
        self._store.migrate()
        limpet_jobs.app.registry.move_to(self._place.url)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        limpet_jobs.app.close()
        self._store.close()

    def fill_up(self, workers: int) -> None:
        """Start workers until `workers` of them are ready."""
        # A worker that got a signal may still be ending; it claims no more jobs.
        self._workers = {
            name: worker
            for name, worker in self._workers.items()
            if worker.poll() is None and self._live(name)
        }
        while len(self._workers) < workers:
            self._count += 1
            name = f"w{self._count}"
            worker = self._place.start(self._limpet.worker("--name", name))
            self._wait(partial(self._live, name), f"{name} did not register", worker)
            self._workers[name] = worker
        for worker in self._workers.values():
            self._wait(partial(_can_run, worker.pid), "no executor was started", worker)

    def hold(self, kind: str) -> Held:
        """Hand in a job that runs until its holder is lost, and wait for its start."""
        self._count += 1
        key = f"k{self._count}"
        task = limpet_jobs.hold_async if kind == "async" else limpet_jobs.hold_sync
        job = task.enqueue(key=key)
        self._wait(lambda: bool(self._starts(key)), "the job was not started")
        first = self._starts(key)[0]
        for worker in self._workers.values():
            for pid in processes.tree(worker.pid):
                if processes.seen_from_inside(pid) == (first.pid, first.namespace):
                    return Held(key, job, worker, pid)
        raise Trouble("the process that runs the job was not found.")

    def next_start(self, held: Held) -> tally.Start:
        self._wait(lambda: len(self._starts(held.key)) > 1, "the job was not started again")
        return self._starts(held.key)[1]

    def finished(self, held: Held) -> Job:
        held.job.result(timeout=TIMEOUT_SECONDS)
        return held.job.refresh().details

    def ready_again(self, held: Held) -> float:
        """When the job was ready again, in seconds of wall time."""
        events = self._store.events(held.job.id)
        return min(event.at for event in events if event.event in AGAIN) / 1e6

    def last_pulse(self, held: Held) -> int:
        """When the first run of the job was last alive."""
        return tally.last_pulse(self._place.folder, held.key)

    def _starts(self, key: str) -> list[tally.Start]:
        return [start for start in tally.starts(self._place.folder) if start.key == key]

    def _live(self, name: str) -> bool:
        return any(
            session.name == name and session.state is SessionState.LIVE and not session.overdue
            for session in self._store.sessions()
        )

    def _wait(
        self,
        done: Callable[[], bool],
        otherwise: str,
        worker: "subprocess.Popen[bytes] | None" = None,
    ) -> None:
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while not done():
            if worker is not None:
                self._place.must_run(worker)
            if time.monotonic() > give_up:
                raise Trouble(f"{otherwise} within {TIMEOUT_SECONDS} s.")
            # The pause leaves the processor to the processes that this waits for.
            time.sleep(0.02)


def _can_run(guardian: int) -> bool:
    # One executor of either kind is enough: a lost one is started again only when it has work.
    return any(processes.named(guardian, name) for name in ("limpet-loop", "limpet-lane"))
