"""What an attempt leaves behind: threads, work in thread pools, asyncio tasks, child processes.

An attempt is over when all of these have ended. Executors count what an attempt starts: a context
variable names the attempt to which a piece of code belongs. A lane runs one attempt at a time, so
code without that variable belongs to the attempt that runs.
"""

import asyncio
import concurrent.futures.thread as pools
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

from limpet.host import processes

# What still runs this long after the end of its attempt is ended together with the executor.
END_TIMEOUT_SECONDS = 0.5
_LOOK_SECONDS = 0.005
_MOST_ZOMBIES = 50


class Offspring:
    """What one attempt has started and what has not ended yet."""

    __slots__ = ("futures", "tasks", "threads")

    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()
        self.futures: set[Future[Any]] = set()
        self.tasks: set[asyncio.Task[Any]] = set()

    def living(self) -> list[str]:
        """Descriptions of what still runs; work that has not begun is cancelled."""
        # In place, because other threads of the attempt may add to these sets meanwhile.
        self.threads -= {thread for thread in tuple(self.threads) if not thread.is_alive()}
        self.futures -= {work for work in tuple(self.futures) if work.cancel() or work.done()}
        self.tasks -= {task for task in tuple(self.tasks) if task.done()}
        return [
            *(f"thread {thread.name!r}" for thread in self.threads),
            *("work in a thread pool" for _ in self.futures),
            *(f"asyncio task {task.get_name()!r}" for task in self.tasks),
        ]


offspring: ContextVar[Offspring | None] = ContextVar("limpet_offspring", default=None)
_default: Offspring | None = None


def belongs_to(attempt: Offspring | None) -> None:
    """For a lane: what any thread starts from now on belongs to this attempt."""
    global _default
    _default = attempt


def _mine() -> Offspring | None:
    return offspring.get() or _default


def _is_shared(thread: threading.Thread) -> bool:
    of_a_pool = getattr(thread, "_target", None) is pools._worker
    return of_a_pool or thread.name.startswith("limpet-")


def watch_threads() -> None:
    """Count from now on the threads, and the work in thread pools, that an attempt starts."""
    start = threading.Thread.start
    submit = ThreadPoolExecutor.submit

    def counted_start(self: threading.Thread) -> None:
        mine = _mine()
        # A pool's threads outlive the work that started them, so the work is counted instead. The
        # client's threads serve every attempt.
        if mine is not None and not _is_shared(self):
            mine.threads.add(self)
            # The copied context gives the thread the log and the fence of its attempt.
            self.run = partial(copy_context().run, self.run)  # type: ignore[method-assign]
        start(self)

    def counted_submit(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        mine = _mine()
        if mine is None:
            return submit(self, fn, *args, **kwargs)
        future: Future[Any] = submit(self, copy_context().run, fn, *args, **kwargs)
        if not future.done():
            mine.futures.add(future)
            future.add_done_callback(mine.futures.discard)
        return future

    threading.Thread.start = counted_start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = counted_submit  # type: ignore[assignment,method-assign]


def counted_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> "asyncio.Task[Any]":
    """A task factory that counts the asyncio tasks that an attempt starts."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    mine = offspring.get()
    if mine is not None:
        mine.tasks.add(task)
        task.add_done_callback(mine.tasks.discard)
    return task


def wait_for_end(left: Offspring) -> str:
    """Wait for what an attempt left; return what did not end, or an empty text."""
    until = time.monotonic() + END_TIMEOUT_SECONDS
    while names := left.living():
        if time.monotonic() > until:
            return ", ".join(names)
        time.sleep(_LOOK_SECONDS)
    return ""


async def await_end(left: Offspring) -> str:
    """Like `wait_for_end`, for an attempt on an event loop; cancels its asyncio tasks first."""
    until = time.monotonic() + END_TIMEOUT_SECONDS
    cancelled: set[asyncio.Task[Any]] = set()
    while names := left.living():
        for task in left.tasks - cancelled:
            task.cancel()
            cancelled.add(task)
        if time.monotonic() > until:
            return ", ".join(names)
        await asyncio.sleep(_LOOK_SECONDS)
    return ""


class ChildProcesses:
    """The child processes of this executor that belong to no attempt."""

    def __init__(self) -> None:
        self._own = set(processes.children_of_self())

    def end_others(self) -> str:
        """Kill every other child and all below it; return what would not die, or an empty text."""
        if not processes.has_children():
            return ""

        def strays() -> set[int]:
            return set(processes.children_of_self()) - self._own

        # Not reaped: the library that started a child still waits for it. With too many zombies
        # the executor is replaced.
        if not processes.end_all(strays):
            return "a child process"
        return "" if len(strays()) < _MOST_ZOMBIES else "too many dead child processes"
