"""Waits for jobs to finish: one thread and one query for all waiters of a process."""

import contextlib
import copy
import threading
import time
from concurrent.futures import Future
from datetime import timedelta

from limpet.domain.errors import StoreError
from limpet.domain.fork import anew_in_child
from limpet.domain.state import FINAL
from limpet.storage.contract.bell import Bell, Topic
from limpet.storage.contract.store import CHUNK, Store

# The bell wakes the thread; this poll is for a ring that was missed.
_SLOW_POLL = timedelta(seconds=1)
_POLL_WITHOUT_BELL = timedelta(milliseconds=100)


class Waiter:
    """Resolves futures when their jobs have reached a final state, or are gone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.start_anew()
        anew_in_child(self)

    def start_anew(self) -> None:
        """Forget all waiters: in a forked child they are the parent's threads."""
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Future[None]]] = {}
        self._thread: threading.Thread | None = None

    def watch(self, job: str) -> "Future[None]":
        """A future that is done when the job is; the caller gives it back with `forget`."""
        future: Future[None] = Future()
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="limpet-waiter", daemon=True)
                thread.start()
                self._thread = thread
            self._waiting.setdefault(job, set()).add(future)
        return future

    def look(self, job: str) -> None:
        """Check one job now, because the thread may be asleep until the next ring."""
        self._check([job])

    def forget(self, job: str, future: "Future[None]") -> None:
        """Stop waiting for a job with this future."""
        with self._lock:
            waiting = self._waiting.get(job)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[job]

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            # Every waiter gets the error, instead of waiting for a thread that is gone.
            with self._lock:
                self._thread = None
                waiting, self._waiting = self._waiting, {}
            for future in [future for futures in waiting.values() for future in futures]:
                if future.set_running_or_notify_cancel():
                    future.set_exception(copy.copy(error))

    def _serve(self) -> None:
        with contextlib.ExitStack() as stack:
            try:
                bell: Bell | None = stack.enter_context(
                    contextlib.closing(self._store.listen(Topic.DONE))
                )
            except StoreError:
                bell = None
            while True:
                # Check only once the bell is there, so that no job finishes unnoticed in between.
                with self._lock:
                    jobs = list(self._waiting)
                self._check(jobs)
                with self._lock:
                    if not self._waiting:
                        self._thread = None
                        return
                if bell is not None:
                    bell.wait(_SLOW_POLL)
                else:
                    time.sleep(_POLL_WITHOUT_BELL.total_seconds())

    def _check(self, jobs: list[str]) -> None:
        for start in range(0, len(jobs), CHUNK):
            some = jobs[start : start + CHUNK]
            states = self._store.states(some)
            for job in some:
                if job not in states or states[job] in FINAL:
                    self._notify(job)

    def _notify(self, job: str) -> None:
        with self._lock:
            futures = self._waiting.pop(job, set())
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(None)
