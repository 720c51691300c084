"""Waits for jobs to finish: one thread and one question for all who wait in a process."""

import contextlib
import os
import threading
from concurrent.futures import Future
from datetime import timedelta

from limpet.domain.errors import StoreError
from limpet.domain.state import FINAL
from limpet.storage.base import CHUNK, Store, Topic

# The bell does the waking; this is for a ring that was missed.
_SLOW_POLL = timedelta(seconds=1)
_POLL_WITHOUT_BELL = timedelta(milliseconds=100)


class Waiter:
    """Tells when a job has reached a final state, or is gone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Future[None]]] = {}
        self._thread: threading.Thread | None = None

    def watch(self, job: str) -> "Future[None]":
        """A future that is done when the job is; give it back with `forget`."""
        if self._process != os.getpid():
            self._start_anew()
        future: Future[None] = Future()
        with self._lock:
            self._waiting.setdefault(job, set()).add(future)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="limpet-waiter", daemon=True)
                self._thread.start()
        return future

    def forget(self, job: str, future: "Future[None]") -> None:
        """Stop waiting."""
        with self._lock:
            waiting = self._waiting.get(job)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[job]

    def _run(self) -> None:
        try:
            bell = self._store.listen(Topic.DONE)
        except StoreError:
            bell = None
        pause = threading.Event()
        try:
            while True:
                # Ask after the bell is there, so that nothing can finish unnoticed in between.
                with contextlib.suppress(StoreError):
                    self._ask()
                with self._lock:
                    if not self._waiting:
                        self._thread = None
                        return
                if bell is not None:
                    bell.wait(_SLOW_POLL)
                else:
                    pause.wait(_POLL_WITHOUT_BELL.total_seconds())
        finally:
            if bell is not None:
                bell.close()

    def _ask(self) -> None:
        with self._lock:
            jobs = list(self._waiting)
        for start in range(0, len(jobs), CHUNK):
            some = jobs[start : start + CHUNK]
            states = self._store.states(some)
            for job in some:
                if job not in states or states[job] in FINAL:
                    self._tell(job)

    def _tell(self, job: str) -> None:
        with self._lock:
            futures = self._waiting.pop(job, set())
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(None)
