"""Runs blocking work in a thread of its own, where no signal interrupts it.

Python raises where a signal strikes: `KeyboardInterrupt` for Ctrl-C, and whatever a handler raises.
In the middle of a store's write that would leave locks behind which giving the permit back needs.
So the caller only waits, for one lock that nothing else needs, and a thread does the work to its
end.
"""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from limpet.gate.permits.stop import Stop

T = TypeVar("T")

# Longest wait of an interrupted caller for the thread to finish, as the store may not answer. After
# that the caller goes on, and the thread finishes if the process lives long enough.
_LONGEST_SECONDS = 2.0
# A waiting thread wakes this often to let Python handle signals. A signal does not wake it if it
# strikes just before the wait begins, or if the kernel delivers it to another thread.
_LOOK_SECONDS = 0.2


class Uninterrupted(Generic[T]):
    """Work to be done in a thread; `answer` is None before it is done, and if it failed."""

    def __init__(self, work: Callable[[], T], stop: Stop | None = None) -> None:
        """`stop`: is set when the caller that waits for the work is interrupted."""
        self.answer: T | None = None
        self._work = work
        self._stop = stop
        self._error: BaseException | None = None
        self._begun = threading.Lock()
        self._is_done = False
        self._under_way = threading.Lock()
        self._under_way.acquire()
        self._notify: Callable[[], None] = lambda: None

    def do(self, *, interrupted: bool = False) -> T | None:
        """Do the work and wait for its end; with `interrupted`, for `_LONGEST_SECONDS` at most."""
        until = time.monotonic() + (_LONGEST_SECONDS if interrupted else math.inf)
        try:
            self._begin()
            while not self._is_done and time.monotonic() < until:
                self._under_way.acquire(timeout=_LOOK_SECONDS)
        except BaseException:
            self._interrupted()
            if not self._is_done:
                self._under_way.acquire(timeout=_LONGEST_SECONDS)
            raise
        return self._outcome()

    async def ado(self, *, interrupted: bool = False) -> T | None:
        """Do the same without blocking the loop; a cancellation is raised when the work is done."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        self._notify = notify
        try:
            self._begin()
            if interrupted:
                loop.call_later(_LONGEST_SECONDS, done.set)
            await done.wait()
        except BaseException as error:
            self._interrupted()
            # Any other error ends the loop, so nothing could be awaited in it.
            if isinstance(error, asyncio.CancelledError):
                loop.call_later(_LONGEST_SECONDS, done.set)
                while not done.is_set():
                    with contextlib.suppress(asyncio.CancelledError):
                        await done.wait()
            raise
        return self._outcome()

    def _begin(self) -> None:
        # Not a thread of a pool: waiting callers would fill the pool.
        thread = threading.Thread(target=self._run, name="limpet-uninterrupted", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads can be started
            self._run()

    def _interrupted(self) -> None:
        if self._stop is not None:
            self._stop.set()
        if not self._begun.locked():  # the signal struck before the thread had begun
            self._begin()

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self.answer = self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._is_done = True
            self._under_way.release()
            self._notify()

    def _outcome(self) -> T | None:
        if self._error is not None:
            # The error's traceback holds this frame: a reference cycle would keep the permit alive.
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error
        return self.answer
