"""What the loop and the lane have in common: a process that runs only the user's code."""

import asyncio
import contextvars
import gc
import inspect
import logging
import os
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from limpet.app.app import opened
from limpet.domain.job import ClaimedJob
from limpet.host import marks, processes
from limpet.log.output import formatter_of
from limpet.payload import context
from limpet.storage.registry import same_store
from limpet.worker.executor import watched_calls
from limpet.worker.executor.attempt import mark_as_executor
from limpet.worker.executor.containment import watch_threads
from limpet.worker.executor.process_state import ProcessState
from limpet.worker.executor.registry import Registry, load_registry
from limpet.worker.executor.remote_store import RemoteStore
from limpet.worker.wire.bounds import LONGEST_PLACE, LONGEST_REASON, fit
from limpet.worker.wire.frames import LOOP, ReadyFrame, UnfitFrame, pack
from limpet.worker.wire.page import Page
from limpet.worker.wire.plan import Plan, from_environment, order_from_environment

# The exit code of an executor that has lost its supervisor.
LEFT_ALONE = 74


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an executor was given: its plan, its app, and its ways to the supervisor.

    `work`: the socket for frames. `requests`: the socket for the requests of tasks to the store.
    `start_tokens`: a pipe with one byte for each job that may start; whoever reads a byte starts
    one job. `notes`: a pipe for short messages that cannot wait for the event loop.
    """

    plan: Plan
    registry: Registry
    page: Page
    session: str
    work: socket.socket
    requests: socket.socket
    start_tokens: int
    notes: int

    @property
    def ways(self) -> tuple[int, ...]:
        """The descriptors that connect executor and supervisor."""
        return self.work.fileno(), self.requests.fileno(), self.start_tokens, self.notes


def run_executor(
    kind: str, plan: Plan, registry: Registry, page: Page, descriptors: list[int]
) -> None:
    """Run as an executor until the supervisor ends it; never returns."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    processes.set_name(marks.LOOP if kind == LOOP else marks.LANE)
    processes.adopt_orphans()
    processes.lower_priority()
    # A signal to the whole process group, as a deploy may send it, must not fail jobs.
    processes.withstand(*processes.GROUP_SIGNALS)
    processes.take_signals()
    work, requests, start_tokens, notes = descriptors
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # programs that tasks start must not get it
    os.set_blocking(start_tokens, False)
    os.set_blocking(notes, False)
    given = Surroundings(
        plan,
        registry,
        page,
        os.environ[marks.MARK],
        socket.socket(fileno=work),
        socket.socket(fileno=requests),
        start_tokens,
        notes,
    )
    mark_as_executor()
    watch_threads()
    if not _root.handlers:
        # The app has not configured logging: warnings are shown all the same.
        _root.addHandler(logging.StreamHandler())
        _root.handlers[0].setLevel(logging.WARNING)
        _root.handlers[0].setFormatter(formatter_of(plan.log_style, of_jobs=True))
        _root.setLevel(logging.INFO)
    keep_job_log()
    # With the default threshold, the jobs that wait here would start a collection every few jobs.
    gc.set_threshold(10_000)
    code = 1
    try:
        if kind == LOOP:
            from limpet.worker.executor.loop_executor import LoopExecutor

            code = LoopExecutor(given).run()
        else:
            from limpet.worker.executor.lane_executor import LaneExecutor

            code = LaneExecutor(given).run()
    except (EOFError, ConnectionError):
        code = LEFT_ALONE
    finally:
        # Not by the interpreter's own shutdown: a thread that hangs must not keep the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


_root = logging.getLogger()
_job_log = context.JobLogHandler()


def keep_job_log() -> None:
    """Keep the job log's handler in place: configuring logging anew removes handlers."""
    if _job_log not in _root.handlers:
        _root.addHandler(_job_log)


def talk_through(given: Surroundings) -> None:
    """Let every app on this worker's store reach it through the supervisor."""
    url = given.registry.app.url
    store = RemoteStore(given.requests, url, given.session, given.page)
    for app in opened():
        if same_store(app.url, url):
            app.registry.store_through(store)


def run_hooks(
    hooks: tuple[Callable[[], Any], ...],
    loop: asyncio.AbstractEventLoop,
    base: contextvars.Context,
) -> None:
    """Run hooks in the context from which each attempt's context is copied."""
    for hook in hooks:
        answer = base.run(hook)
        if inspect.isawaitable(answer):
            loop.run_until_complete(asyncio.Task(_awaited(answer), loop=loop, context=base))


def run_stop_hooks(
    hooks: tuple[Callable[[], Any], ...],
    loop: asyncio.AbstractEventLoop,
    base: contextvars.Context,
) -> None:
    """Run the stop hooks; an error in one is shown, and the others still run."""
    for hook in hooks:
        try:
            run_hooks((hook,), loop, base)
        except BaseException:
            traceback.print_exc()


async def _awaited(answer: Any) -> None:
    await answer


def run_start_hooks(work: socket.socket, hooks: Callable[[], None]) -> bool:
    """Run the start hooks; if one raises, report it to the supervisor and return False."""
    try:
        hooks()
    except BaseException as error:
        _refuse(work, f"an on_start hook raised {type(error).__name__}: {error}")
        return False
    return True


def ready(given: Surroundings) -> ProcessState | None:
    """Record the state of the process before its first job, and report it ready for jobs.

    None if the state cannot be read: then the start has failed, as if a hook had raised.
    """
    try:
        state = ProcessState(given.ways)
    except Exception as error:
        _refuse(given.work, f"its process cannot be examined: {type(error).__name__}: {error}")
        return None
    given.work.sendall(pack(ReadyFrame()))
    return state


def _refuse(work: socket.socket, reason: str) -> None:
    work.sendall(pack(ReadyFrame(fit(reason, LONGEST_REASON))))


def unfit_frame(last: ClaimedJob, what: str) -> UnfitFrame:
    """The report that the last job here has changed its process for good."""
    return UnfitFrame(last.lease.job, fit(last.task, LONGEST_PLACE), fit(what, LONGEST_REASON))


def main() -> None:
    """Run as an executor that was spawned, not forked."""
    watched_calls.watch()
    order = order_from_environment()
    processes.die_with_parent()
    if os.getppid() != order["parent"]:
        os._exit(71)
    plan = from_environment()
    page = Page(order["page"])
    for descriptor in (*order["descriptors"], order["page"], order["lock"]):
        os.set_inheritable(descriptor, False)
    run_executor(order["kind"], plan, load_registry(plan), page, order["descriptors"])


if __name__ == "__main__":
    main()
