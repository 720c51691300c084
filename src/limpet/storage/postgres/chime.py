"""Rings after the commit, for all verbs of a process together.

Every commit that rings takes a lock of the whole server until it is on the disk, so that all of
them would wait for each other. So an enqueue rings itself only while no other does; else a thread
rings beside, and waits for no disk: at once, and while there is much to ring for, every few
milliseconds. Who is killed in between has not rung; workers look twice a second anyway.
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
from limpet.storage.contract.store import Topic

_log = logging.getLogger("limpet.store")

_PAUSE_SECONDS = 0.004
# A thread that had nothing to ring for so long ends; the next verb starts another.
_IDLE_SECONDS = 10.0
_END_SECONDS = 3.0


class Chime:
    """Calls `ring` with the topics that were asked for since it was called last."""

    def __init__(self, ring: Callable[[list[Topic]], None]) -> None:
        self._ring = ring
        self.start_anew()
        anew_in_child(self)
        _living.add(self)

    def start_anew(self) -> None:
        """In a child: the parent rings for what it has written."""
        self._asked = threading.Condition()
        self._topics: set[Topic] = set()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._rang_at = 0.0

    def may_ring(self) -> bool:
        """Whether a verb may ring with its own commit: as often as the thread would."""
        now = time.monotonic()
        if self._topics or now - self._rang_at < _PAUSE_SECONDS:
            return False
        self._rang_at = now
        return True

    def ask(self, topics: Iterable[Topic]) -> None:
        """Ring soon for what has been committed."""
        with self._asked:
            self._topics.update(topics)
            if self._thread is None:
                self._closed = False
                thread = threading.Thread(target=self._serve, name="limpet-chime", daemon=True)
                with contextlib.suppress(RuntimeError):  # no thread to be had, or at the very end
                    thread.start()
                    self._thread = thread
            self._asked.notify()

    def close(self) -> None:
        """Ring what is left, and end the thread."""
        with self._asked:
            self._closed = True
            thread = self._thread
            self._asked.notify()
        if thread is not None:
            thread.join(_END_SECONDS)

    def _serve(self) -> None:
        while self._is_wanted():
            time.sleep(max(0.0, self._rang_at + _PAUSE_SECONDS - time.monotonic()))
            with self._asked:
                topics, self._topics = sorted(self._topics), set()
            self._rang_at = time.monotonic()
            try:
                self._ring(topics)
            except LimpetError as error:
                _log.debug("nobody was woken: %s", error, extra={"action": "store.chime"})

    def _is_wanted(self) -> bool:
        """Wait for something to ring for; False when it is time to end."""
        with self._asked:
            self._asked.wait_for(lambda: self._topics or self._closed, _IDLE_SECONDS)
            if not self._topics:
                self._thread = None
            return bool(self._topics)


_living: "weakref.WeakSet[Chime]" = weakref.WeakSet()


@atexit.register
def _ring_what_is_left() -> None:
    for each in list(_living):
        each.close()
