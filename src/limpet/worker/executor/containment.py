"""What an attempt leaves behind: threads, work in thread pools, asyncio tasks, child processes.

An attempt is over when all of these are. Executors count what an attempt starts, by the context
variable that says which attempt a piece of code belongs to; in a lane, where only one attempt runs
at a time, whatever carries no such variable belongs to that one.
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

# What does not end by itself within this time after its attempt ends with the executor.
PATIENCE_SECONDS = 0.5
_LOOK_SECONDS = 0.005
_MOST_ZOMBIES = 50


class Offspring:
    """What one attempt has started and not yet ended."""

    __slots__ = ("futures", "tasks", "threads")

    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()
        self.futures: set[Future[Any]] = set()
        self.tasks: set[asyncio.Task[Any]] = set()

    def living(self) -> list[str]:
        """What still runs, in words; work that has not begun is withdrawn."""
        # In place, because other threads of the attempt may add to them meanwhile.
        self.threads -= {each for each in tuple(self.threads) if not each.is_alive()}
        self.futures -= {each for each in tuple(self.futures) if each.cancel() or each.done()}
        self.tasks -= {each for each in tuple(self.tasks) if each.done()}
        return [
            *(f"thread {thread.name!r}" for thread in self.threads),
            *("work in a thread pool" for _ in self.futures),
            *(f"asyncio task {task.get_name()!r}" for task in self.tasks),
        ]


offspring: ContextVar[Offspring | None] = ContextVar("limpet_offspring", default=None)
_default: Offspring | None = None


def belongs_to(attempt: Offspring | None) -> None:
    """In a lane: whatever starts from now on belongs to this attempt, in every thread."""
    global _default
    _default = attempt


def _mine() -> Offspring | None:
    return offspring.get() or _default


def _is_shared(thread: threading.Thread) -> bool:
    of_a_pool = getattr(thread, "_target", None) is pools._worker
    return of_a_pool or thread.name.startswith("limpet-")


def watch_threads() -> None:
    """Count from now on which threads and which work in pools an attempt starts."""
    start = threading.Thread.start
    submit = ThreadPoolExecutor.submit

    def counted_start(self: threading.Thread) -> None:
        mine = _mine()
        # A pool's threads outlive the work that started them; the work itself is counted. Those
        # of the client serve every attempt.
        if mine is not None and not _is_shared(self):
            mine.threads.add(self)
            # So that the thread knows its attempt: its log, its fence.
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
    """A task factory that counts which tasks an attempt starts."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    mine = offspring.get()
    if mine is not None:
        mine.tasks.add(task)
        task.add_done_callback(mine.tasks.discard)
    return task


def wait_for_end(left: Offspring) -> str:
    """Wait for what an attempt left; the answer says what did not end, or is empty."""
    until = time.monotonic() + PATIENCE_SECONDS
    while names := left.living():
        if time.monotonic() > until:
            return ", ".join(names)
        time.sleep(_LOOK_SECONDS)
    return ""


async def await_end(left: Offspring) -> str:
    """As `wait_for_end`, for an attempt on an event loop; its tasks are cancelled first."""
    until = time.monotonic() + PATIENCE_SECONDS
    asked: set[asyncio.Task[Any]] = set()
    while names := left.living():
        for task in left.tasks - asked:
            task.cancel()
            asked.add(task)
        if time.monotonic() > until:
            return ", ".join(names)
        await asyncio.sleep(_LOOK_SECONDS)
    return ""


class ChildProcesses:
    """The child processes of this executor that belong to no attempt."""

    def __init__(self) -> None:
        self._own = set(processes.children_of_self())

    def end_others(self) -> str:
        """Kill every other child and what is below it; the answer names what would not die."""
        if not processes.has_children():
            return ""

        def strays() -> set[int]:
            return set(processes.children_of_self()) - self._own

        # Not reaped: the library that started one still asks for it. Too many, and we start anew.
        if not processes.end_all(strays):
            return "a child process"
        return "" if len(strays()) < _MOST_ZOMBIES else "a crowd of dead child processes"
