"""The store as an executor sees it: through the supervisor, under the token of the attempt.

A late holder can thus not enqueue either. Only what happens inside the user's own transaction goes
to the store directly, because nobody else has that connection.
"""

import _thread
import os
import pickle
import queue
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from limpet import context
from limpet.domain.breaker import Breaker
from limpet.domain.errors import StoreUnavailable, TransactionRefused
from limpet.domain.event import Event
from limpet.domain.job import Job, JobFilter, LogLine, NewJob, Page
from limpet.domain.lease import Lease
from limpet.domain.queue import QueueRules, QueueView
from limpet.domain.rate import Rate
from limpet.domain.schedule import Schedule
from limpet.domain.session import Session
from limpet.domain.state import State
from limpet.storage import answers, base
from limpet.storage.registry import open_store
from limpet.worker.frames import HEADER_BYTES, header, size_after
from limpet.worker.page import Page as LeasePage

_Box: TypeAlias = "queue.SimpleQueue[bytes | BaseException]"

VERBS = frozenset(
    {
        "enqueue", "cancel", "retry", "pause", "job", "states", "jobs", "events", "log", "queues",
        "sessions", "totals", "info", "invariants", "stage", "commit", "children", "limit_queue",
        "hold_queue", "limit_key", "drain_queue", "breakers", "reset_breaker", "repair", "requeue",
        "put_schedule", "remove_schedule", "pause_schedule", "schedules", "schedule", "trigger",
    }
)  # fmt: skip


class RemoteStore:
    """The verbs that a task may use, each one request to the supervisor."""

    def __init__(
        self,
        sock: socket.socket,
        url: str,
        session: str,
        page: LeasePage,
    ) -> None:
        self._sock = sock
        self._url = url
        self._session = session
        self._page = page
        self._serving = threading.Lock()
        self._is_served = False
        self._asked: queue.SimpleQueue[tuple[bytes, _Box]] = queue.SimpleQueue()
        self._owner = os.getpid()
        self._direct: base.Store | None = None

    def _ask(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != self._owner:
            raise StoreUnavailable(
                "a process that a task has forked cannot use the app of its parent; make its own "
                "App there, or hand in the job in the task itself."
            )
        if self._page.over:
            raise StoreUnavailable("the lease of this worker is over; the attempt must end.")
        request = pickle.dumps((verb, args, kwargs))
        # Not a future: its lock is Python code, which an exception can leave half-way.
        box: _Box = queue.SimpleQueue()
        if not self._is_served:
            # One step: a `Thread` that an exception cuts short in `start` would never run. Cut
            # short after it, a second one starts, and waits for ever behind the first.
            _thread.start_new_thread(self._serve, ())
            self._is_served = True
        self._asked.put((request, box))
        said = box.get()
        if isinstance(said, BaseException):
            raise said
        failed, answer = pickle.loads(said)
        if failed:
            raise answer
        return answer

    def _serve(self) -> None:
        """Ask and read in a thread of its own: only the main thread's code can be cut short, by a
        signal handler that raises, and half an answer read would be the next one's.
        """
        with self._serving:
            while True:
                request, box = self._asked.get()
                try:
                    self._sock.sendall(header(len(request)) + request)
                    box.put(self._read())
                except BaseException as error:
                    box.put(error)

    def _read(self) -> bytes:
        return self._exactly(size_after(self._exactly(HEADER_BYTES)))

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._sock.recv(min(size, 1 << 20))
            if not part:
                raise StoreUnavailable("the supervisor of this worker is gone.")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    # -- hand in

    def enqueue(
        self,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
        all_or_none: bool = False,
        fence: Lease | None = None,
        turn: Callable[[], None] = base.at_once,
    ) -> list[answers.Receipt]:
        turn()
        own = context.current()
        if own is not None and fence is None:
            fence = Lease(own.job.id, self._session, own.token)
        receipts: list[answers.Receipt] = self._ask(
            "enqueue", list(jobs), caps=dict(caps) if caps else None, all_or_none=all_or_none,
            fence=fence,
        )  # fmt: skip
        return receipts

    def enqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[answers.Receipt]:
        return self._own_store().enqueue_within(connection, jobs, caps=caps)

    async def aenqueue_within(
        self,
        connection: object,
        jobs: Sequence[NewJob],
        *,
        caps: Mapping[str, int] | None = None,
    ) -> list[answers.Receipt]:
        own = self._own_store()
        if not isinstance(own, base.AwaitedWithin):
            raise TransactionRefused(
                "within= works in the thread of the connection's transaction; use enqueue()."
            )
        return await own.aenqueue_within(connection, jobs, caps=caps)

    # -- flows

    def stage(self, flow: str, place: int, jobs: Sequence[NewJob]) -> None:
        """Only in an attempt; the supervisor sees whose it is."""
        self._ask("stage", flow, place, list(jobs), holder=self._attempt())

    def commit(
        self,
        flow: str,
        chunks: int,
        fence: Lease | None = None,
        *,
        caps: Mapping[str, int] | None = None,
    ) -> bool:
        more = {"caps": dict(caps)} if caps else {}
        return bool(self._ask("commit", flow, chunks, fence=fence or self._attempt(), **more))

    def _attempt(self) -> Lease:
        own = context.current()
        if own is None:
            raise StoreUnavailable(
                f"in a worker only a job that runs can hand in a flow of more than {base.CHUNK:,} "
                f"jobs."
            )
        return Lease(own.job.id, self._session, own.token)

    def children(self, job: str, cursor: str | None = None, limit: int = 50) -> Page:
        found: Page = self._ask("children", job, cursor, limit)
        return found

    # -- limits and repair

    def limit_queue(self, queue: str, rules: QueueRules | None) -> None:
        self._ask("limit_queue", queue, rules)

    def hold_queue(self, queue: str, until: int) -> None:
        self._ask("hold_queue", queue, until)

    def limit_key(self, key: str, limit: int | None, rate: Rate | None = None) -> None:
        self._ask("limit_key", key, limit, rate)

    def drain_queue(self, queue: str, draining: bool = True) -> None:
        self._ask("drain_queue", queue, draining)

    def breakers(self) -> tuple[Breaker, ...]:
        found: tuple[Breaker, ...] = self._ask("breakers")
        return found

    def reset_breaker(self, name: str) -> bool:
        return bool(self._ask("reset_breaker", name))

    def repair(self, job: str, args: str, payload_version: int, secrets: Sequence[str]) -> State:
        return State(self._ask("repair", job, args, payload_version, tuple(secrets)))

    def requeue(self, jobs: Sequence[str], queue: str) -> int:
        return int(self._ask("requeue", list(jobs), queue))

    # -- schedules

    def put_schedule(self, schedule: Schedule, /) -> bool:
        return bool(self._ask("put_schedule", schedule))

    def remove_schedule(self, schedule: str, /) -> bool:
        return bool(self._ask("remove_schedule", schedule))

    def pause_schedule(
        self, schedule: str, /, paused: bool = True, next_at: int | None = None
    ) -> bool:
        return bool(self._ask("pause_schedule", schedule, paused, next_at))

    def schedules(self) -> tuple[Schedule, ...]:
        found: tuple[Schedule, ...] = self._ask("schedules")
        return found

    def schedule(self, schedule: str, /) -> Schedule | None:
        found: Schedule | None = self._ask("schedule", schedule)
        return found

    def trigger(self, seen: Schedule, job: NewJob) -> answers.Ticked:
        told: answers.Ticked = self._ask("trigger", seen, job)
        return told

    # -- control

    def cancel(self, job: str, reason: str = "") -> State:
        return State(self._ask("cancel", job, reason))

    def retry(self, job: str, seen_round: int) -> int:
        return int(self._ask("retry", job, seen_round))

    def pause(self, queue: str, paused: bool = True) -> None:
        self._ask("pause", queue, paused)

    # -- inspect

    def job(self, job: str) -> Job | None:
        found: Job | None = self._ask("job", job)
        return found

    def states(self, jobs: Sequence[str]) -> dict[str, State]:
        found: dict[str, State] = self._ask("states", list(jobs))
        return found

    def jobs(self, which: JobFilter, cursor: str | None = None, limit: int = 50) -> Page:
        found: Page = self._ask("jobs", which, cursor, limit)
        return found

    def events(self, job: str) -> tuple[Event, ...]:
        found: tuple[Event, ...] = self._ask("events", job)
        return found

    def log(self, job: str) -> tuple[LogLine, ...]:
        found: tuple[LogLine, ...] = self._ask("log", job)
        return found

    def queues(self) -> tuple[QueueView, ...]:
        found: tuple[QueueView, ...] = self._ask("queues")
        return found

    def sessions(self, with_dead: bool = False) -> tuple[Session, ...]:
        found: tuple[Session, ...] = self._ask("sessions", with_dead)
        return found

    def totals(self) -> tuple[answers.Total, ...]:
        found: tuple[answers.Total, ...] = self._ask("totals")
        return found

    def info(self) -> answers.StoreInfo:
        found: answers.StoreInfo = self._ask("info")
        return found

    def invariants(self) -> tuple[answers.Broken, ...]:
        found: tuple[answers.Broken, ...] = self._ask("invariants")
        return found

    # -- the store itself

    def listen(self, topic: base.Topic) -> base.Bell:
        return self._own_store().listen(topic)

    def _own_store(self) -> base.Store:
        if self._direct is None:
            self._direct = open_store(self._url)
        return self._direct

    def close(self) -> None:
        if self._direct is not None:
            self._direct.close()

    def __getattr__(self, verb: str) -> Any:
        raise AttributeError(f"a task cannot use {verb!r}: only the supervisor holds jobs.")
