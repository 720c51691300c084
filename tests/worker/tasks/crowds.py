"""Tasks that need many to run at once, and those that look at the limits of their process."""

import asyncio
import resource
import subprocess
import time

from worker.base import app, once
from worker.notes import note, notes


@app.task(retry=once)
def meets(path: str, count: int) -> int:
    """Goes on until so many have begun; the answer is how many it has seen."""
    note(path, "begin")
    until = time.monotonic() + 15
    while (found := len(notes(path, "begin"))) < count and time.monotonic() < until:
        time.sleep(0.05)
    return found


_here = 0


@app.task(retry=once)
async def meets_async(count: int) -> int:
    global _here
    _here += 1
    until = time.monotonic() + 15
    while _here < count and time.monotonic() < until:
        await asyncio.sleep(0.02)
    return _here


def _limits() -> list[list[int]]:
    """How many files this process may open, and a program that it starts."""
    said = subprocess.run(
        ["sh", "-c", "ulimit -Sn; ulimit -Hn"], capture_output=True, text=True, check=True
    ).stdout
    return [list(resource.getrlimit(resource.RLIMIT_NOFILE)), [int(n) for n in said.split()]]


@app.task(retry=once)
def limits_of_files() -> list[list[int]]:
    return _limits()


@app.task(retry=once)
async def limits_of_files_async() -> list[list[int]]:
    return await asyncio.to_thread(_limits)
