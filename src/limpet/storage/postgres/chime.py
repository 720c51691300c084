"""Rings after the commit, for all verbs of a process together.

A commit with a NOTIFY holds a lock of the whole server until the commit is on disk, so all such
commits would wait for each other. An enqueue therefore rings with its own commit only while no
other enqueue does. Otherwise a thread rings, in a commit that does not wait for the disk: at once,
and under load every few milliseconds. A process that is killed in between has not rung; workers
look twice a second anyway.
"""

import atexit
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable

from limpet.domain.errors import LimpetError
from limpet.domain.fork import anew_in_child
from limpet.storage.contract.bell import Topic

_log = logging.getLogger("limpet.store")

_PAUSE_SECONDS = 0.004
# A thread that has nothing to ring for this long ends; the next verb starts another.
_IDLE_SECONDS = 10.0
_END_SECONDS = 3.0


class Chime:
    """Calls `ring` with the topics that were requested since the last call."""

    def __init__(self, ring: Callable[[list[Topic]], None]) -> None:
        self._ring = ring
        self.start_anew()
        anew_in_child(self)
        _living.add(self)

    def start_anew(self) -> None:
        """In a child: the parent rings for what the parent has written."""
        self._requested = threading.Condition()
        self._topics: set[Topic] = set()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._rang_at = 0.0

    def may_ring(self) -> bool:
        """Whether a verb may ring with its own commit: no more often than the thread would."""
        now = time.monotonic()
        if self._topics or now - self._rang_at < _PAUSE_SECONDS:
            return False
        self._rang_at = now
        return True

    def request(self, topics: Iterable[Topic]) -> None:
        """Ring soon for what has been committed."""
        with self._requested:
            self._topics.update(topics)
            if self._thread is None:
                self._closed = False
                thread = threading.Thread(target=self._serve, name="limpet-chime", daemon=True)
                with contextlib.suppress(RuntimeError):  # out of threads, or the process is ending
                    thread.start()
                    self._thread = thread
            self._requested.notify()

    def close(self) -> None:
        """Ring what is left, and end the thread."""
        with self._requested:
            self._closed = True
            thread = self._thread
            self._requested.notify()
        if thread is not None:
            thread.join(_END_SECONDS)

    def _serve(self) -> None:
        while self._is_wanted():
            time.sleep(max(0.0, self._rang_at + _PAUSE_SECONDS - time.monotonic()))
            with self._requested:
                topics, self._topics = sorted(self._topics), set()
            self._rang_at = time.monotonic()
            try:
                self._ring(topics)
            except LimpetError as error:
                _log.debug("nobody was woken: %s", error, extra={"action": "store.chime"})

    def _is_wanted(self) -> bool:
        """Wait for a topic to ring; False when it is time to end."""
        with self._requested:
            self._requested.wait_for(lambda: self._topics or self._closed, _IDLE_SECONDS)
            if not self._topics:
                self._thread = None
            return bool(self._topics)


_living: "weakref.WeakSet[Chime]" = weakref.WeakSet()


@atexit.register
def _ring_what_is_left() -> None:
    for chime in list(_living):
        chime.close()
