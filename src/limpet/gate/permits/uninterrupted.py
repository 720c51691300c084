"""What blocks, done in a thread of its own.

Where a signal strikes, Python may raise: Ctrl-C, and whatever a handler raises. In the middle of a
store's write that would leave locks behind which giving a permit back needs. So whoever asks for a
permit only waits, for one lock that nobody else needs, and a thread does the rest to its end.
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

# Whoever is interrupted waits so long at the most for the thread to be through: perhaps the store
# does not answer. It goes on then, and finishes what it does if the process lives on.
_LONGEST_SECONDS = 2.0
# A signal that strikes just before a thread begins to wait does not wake it, nor does one that the
# kernel has given to another thread: so often it looks.
_LOOK_SECONDS = 0.2


class Uninterrupted(Generic[T]):
    """Something to do; `answer` is None until it is done, and if it failed."""

    def __init__(self, work: Callable[[], T], stop: Stop | None = None) -> None:
        """`stop`: is set when whoever waits for it is interrupted."""
        self.answer: T | None = None
        self._work = work
        self._stop = stop
        self._error: BaseException | None = None
        self._begun = threading.Lock()
        self._is_through = False
        self._under_way = threading.Lock()
        self._under_way.acquire()
        self._tell: Callable[[], None] = lambda: None

    def do(self, *, interrupted: bool = False) -> T | None:
        """Do it, and wait for that; one who was interrupted before waits no longer than others."""
        until = time.monotonic() + (_LONGEST_SECONDS if interrupted else math.inf)
        try:
            self._begin()
            while not self._is_through and time.monotonic() < until:
                self._under_way.acquire(timeout=_LOOK_SECONDS)
        except BaseException:
            self._interrupted()
            if not self._is_through:
                self._under_way.acquire(timeout=_LONGEST_SECONDS)
            raise
        return self._outcome()

    async def ado(self, *, interrupted: bool = False) -> T | None:
        """As `do`, without blocking the loop; a cancellation arrives when it is through."""
        loop = asyncio.get_running_loop()
        through = asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(through.set)

        self._tell = tell
        try:
            self._begin()
            if interrupted:
                loop.call_later(_LONGEST_SECONDS, through.set)
            await through.wait()
        except BaseException as error:
            self._interrupted()
            # What else is raised in here ends the loop, in which nothing could be waited for.
            if isinstance(error, asyncio.CancelledError):
                loop.call_later(_LONGEST_SECONDS, through.set)
                while not through.is_set():
                    with contextlib.suppress(asyncio.CancelledError):
                        await through.wait()
            raise
        return self._outcome()

    def _begin(self) -> None:
        # Not one of a pool, which would be full of those who wait.
        thread = threading.Thread(target=self._run, name="limpet-errand", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more of them are to be had
            self._run()

    def _interrupted(self) -> None:
        if self._stop is not None:
            self._stop.set()
        if not self._begun.locked():  # it struck while the thread was started
            self._begin()

    def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        try:
            self.answer = self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._is_through = True
            self._under_way.release()
            self._tell()

    def _outcome(self) -> T | None:
        if self._error is not None:
            # The error has this frame in its trace: a circle that would keep the permit.
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error
        return self.answer
