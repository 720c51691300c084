"""Gives one job at a time to an idle worker. Standard library only; the peers use it too."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import tally

# The first calls open connections; they are not part of the figures.
WARM_UP = 10
LEAST_PAUSE_SECONDS = 0.02
MOST_PAUSE_SECONDS = 0.1
_LOOK_SECONDS = 0.005


def one_at_a_time(enqueue: Callable[[int], object], jobs: int) -> None:
    """Call `enqueue` with the time, wait until that job has started, and pause at random."""
    for waits in _turns(jobs):
        enqueue(time.monotonic_ns())
        for seconds in waits:
            time.sleep(seconds)


async def one_at_a_time_async(enqueue: Callable[[int], Awaitable[object]], jobs: int) -> None:
    """As above, for systems that enqueue on an event loop."""
    for waits in _turns(jobs):
        await enqueue(time.monotonic_ns())
        for seconds in waits:
            await asyncio.sleep(seconds)


def _turns(jobs: int) -> Iterator[Iterator[float]]:
    """For each job how long to sleep, again and again, before the next is handed in.

    The pause comes last: without it the next job would follow the start of the one before, always
    at the same point of a poll.
    """
    starts = Path(os.environ[tally.FOLDER], "pickups")
    draw = random.Random(20)

    def waits(done: int) -> Iterator[float]:
        while not starts.exists() or starts.read_bytes().count(b"\n") < done:
            yield _LOOK_SECONDS
        yield draw.uniform(LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS)

    return (waits(done) for done in range(1, jobs + 1))
