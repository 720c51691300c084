"""Finds and ends what carries a session's mark in its environment, whoever its parent is by now.

Standard library only, because the guardian imports it.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable

from limpet.host import processes

# In the environment of everything below the supervisor, so that strays can be found.
MARK = "LIMPET_SESSION"
# What the process whose children are the executors is called.
ZYGOTE = "limpet-zygote"
# And what executors are called.
LOOP, LANE = "limpet-loop", "limpet-lane"
_LOOK_SECONDS = 0.001


def lane_with(job: str) -> str:
    """What an executor is called while it runs this job, and no other, with a permit: so that the
    monitor of the host knows whose use it measures. A process has 15 characters for its name.
    """
    return f"lane-{job[-10:]}"


def marked(session: str, among: Iterable[int] | None = None) -> tuple[set[int], set[int]]:
    """Every process that carries the mark, as far as one may look; and those that cannot be told.

    For a moment, longer on a busy machine, a process that becomes another program shows no
    environment at all.
    """
    if not processes.LINUX:
        return set(), set()
    wanted = f"{MARK}={session}".encode()
    found, untold = set(), set()
    for pid in processes.pids() if among is None else among:
        with contextlib.suppress(OSError):
            environment = processes.environment(pid)
            if not environment:
                if processes.is_becoming_another(pid):
                    untold.add(pid)
                    continue
                # Perhaps it has become it since then: what it shows now is its own.
                environment = processes.environment(pid)
            if wanted in environment.split(b"\0"):
                found.add(pid)
    return found - {os.getpid()}, untold


def end_marked(session: str, seconds: float, between: Callable[[], None] = lambda: None) -> bool:
    """Kill every process that carries the mark; False if time ran out before that was certain.

    `between` is called after each look, by those who must show that they are alive.
    """
    until = time.monotonic() + seconds
    untold: set[int] = set()

    def find() -> set[int]:
        nonlocal untold
        found, untold = marked(session)
        return found

    while processes.end_all(find, until - time.monotonic(), between):
        # Of the session only these can be left, and they start no others meanwhile.
        while untold:
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_SECONDS)
            found, untold = marked(session, untold)
            between()
            if found:
                break
        else:
            return True
    return False
