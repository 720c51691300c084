"""What every executor is: a process that runs the user's code and nothing else."""

import asyncio
import contextvars
import inspect
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from limpet import context
from limpet.worker import processes
from limpet.worker.containment import watch_threads
from limpet.worker.frames import LOOP, READY, pack
from limpet.worker.page import Page
from limpet.worker.plan import Plan, from_environment
from limpet.worker.registry import Registry, load_registry


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an executor was given: its plan, its app, and its ways to the supervisor.

    `permits`: a byte for each job that may start; whoever reads it has it. `notes`: for short
    words that cannot wait for the event loop.
    """

    plan: Plan
    registry: Registry
    page: Page
    session: str
    work: socket.socket
    desk: socket.socket
    permits: int
    notes: int


def run_executor(
    kind: str, plan: Plan, registry: Registry, page: Page, descriptors: list[int]
) -> None:
    """Be an executor until there is nothing more to do; never returns."""
    os.setsid()
    processes.set_name(f"limpet-{kind}")
    processes.adopt_orphans()
    processes.lower_priority()
    # Not ignored, which children would inherit: a deploy must not turn into failures.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _nothing)
    work, desk, permits, notes = descriptors
    os.set_blocking(permits, False)
    os.set_blocking(notes, False)
    given = Surroundings(
        plan,
        registry,
        page,
        os.environ[processes.MARK],
        socket.socket(fileno=work),
        socket.socket(fileno=desk),
        permits,
        notes,
    )
    watch_threads()
    root = logging.getLogger()
    root.addHandler(context.JobLogHandler())
    if root.level > logging.INFO or root.level == logging.NOTSET:
        root.setLevel(logging.INFO)
    code = 1
    try:
        if kind == LOOP:
            from limpet.worker.loop_executor import LoopExecutor

            code = LoopExecutor(given).run()
        else:
            from limpet.worker.lane_executor import LaneExecutor

            code = LaneExecutor(given).run()
    except (EOFError, ConnectionError):
        code = 0  # the supervisor is gone, and so must we be
    finally:
        # Not through the interpreter's end: a thread that hangs must not keep the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_hooks(
    hooks: tuple[Callable[[], Any], ...],
    loop: asyncio.AbstractEventLoop,
    base: contextvars.Context,
) -> None:
    """Run hooks in the context from which every attempt's own is copied."""
    for hook in hooks:
        answer = base.run(hook)
        if inspect.isawaitable(answer):
            loop.run_until_complete(asyncio.Task(_awaited(answer), loop=loop, context=base))


async def _awaited(answer: Any) -> None:
    await answer


def started(work: socket.socket, hooks: Callable[[], None]) -> bool:
    """Run the start hooks and say whether that went well."""
    try:
        hooks()
    except BaseException as error:
        work.sendall(pack(READY, f"an on_start hook raised {type(error).__name__}: {error}"))
        return False
    work.sendall(pack(READY))
    return True


def _nothing(number: int, frame: object) -> None:
    """Do nothing, and let nothing happen."""


def main() -> None:
    """Be an executor that was spawned, not forked."""
    order = json.loads(os.environ.pop("LIMPET_ORDER"))
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
