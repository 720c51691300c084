"""Finds and ends processes that carry a session's mark in their environment, whatever their parent.

Standard library only, because the guardian imports it.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable

from limpet.host import processes

# In the environment of every process below the supervisor, so that strays can be found.
MARK = "LIMPET_SESSION"
# Process name of the zygote, the parent of the executors.
ZYGOTE = "limpet-zygote"
# Process names of executors.
LOOP, LANE = "limpet-loop", "limpet-lane"
_LOOK_SECONDS = 0.001


def lane_with(job: str) -> str:
    """The process name of an executor while it runs only this job, and with a permit.

    By this name the monitor of the host knows whose use it measures. The name of a process has at
    most 15 characters.
    """
    return f"lane-{job[-10:]}"


def marked(session: str, among: Iterable[int] | None = None) -> tuple[set[int], set[int]]:
    """The processes that carry the mark, and those whose environment is not known at the moment.

    Processes that this user may not look at are in neither set. A process that becomes another
    program shows no environment for a moment, which is longer on a busy machine.
    """
    if not processes.LINUX:
        return set(), set()
    wanted = f"{MARK}={session}".encode()
    found, unknown = set(), set()
    for pid in processes.pids() if among is None else among:
        with contextlib.suppress(OSError):
            environment = processes.environment(pid)
            if not environment:
                if processes.is_becoming_another(pid):
                    unknown.add(pid)
                    continue
                # It may have become the other program since then, and show its environment now.
                environment = processes.environment(pid)
            if wanted in environment.split(b"\0"):
                found.add(pid)
    return found - {os.getpid()}, unknown


def end_marked(session: str, seconds: float, between: Callable[[], None] = lambda: None) -> bool:
    """Kill every process that carries the mark; False if time ran out before that was certain.

    `between` is called after each look: some callers must show that they are alive.
    """
    until = time.monotonic() + seconds
    unknown: set[int] = set()

    def find() -> set[int]:
        nonlocal unknown
        found, unknown = marked(session)
        return found

    while processes.end_all(find, until - time.monotonic(), between):
        # Only these processes of the session can be left, and they start no others meanwhile.
        while unknown:
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_SECONDS)
            found, unknown = marked(session, unknown)
            between()
            if found:
                break
        else:
            return True
    return False
