"""Hands in one job at a time to an idle worker. Standard library only; the peers use it too."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import tally

# The first calls open connections; they are not part of the figures.
WARM_UP = 10
LEAST_PAUSE_SECONDS = 0.02
MOST_PAUSE_SECONDS = 0.1


def one_at_a_time(enqueue: Callable[[int], object], jobs: int) -> None:
    """Call `enqueue` with the time, wait until that job has started, and pause at random.

    The pause comes last: without it the next job would follow the start of the one before, always
    at the same point of a poll.
    """
    starts = Path(os.environ[tally.FOLDER], "pickups")
    draw = random.Random(20)
    for done in range(1, jobs + 1):
        enqueue(time.monotonic_ns())
        while not starts.exists() or starts.read_bytes().count(b"\n") < done:
            time.sleep(0.005)
        time.sleep(draw.uniform(LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS))
