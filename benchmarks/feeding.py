"""Enqueues jobs, the same way for every system that is written in Python.

fill COUNT        no-op jobs, the way that takes many at once, where there is one
one COUNT         no-op jobs from one caller, who makes each call after the one before
together COUNT    no-op jobs from 64 callers of one process, each with one call under way
pickup COUNT      one job at a time, with random pauses
hold KEY          one job that runs until its holder is lost
trickle SECONDS   a no-op job each second

Standard library only: the peers use it too. The first job opens connections and is not timed.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import pacing
import tally

CALLERS = 64


class Payload(TypedDict):
    """The arguments of a no-op job."""

    user_id: int
    email: str
    kind: str


def payload(number: int) -> Payload:
    return {"user_id": number, "email": "someone@example.com", "kind": "welcome"}


def payloads(count: int) -> list[Payload]:
    return [payload(number) for number in range(count)]


@dataclass(frozen=True)
class Feed:
    """How a system enqueues each kind of job from a thread; `many`: up to `chunk` jobs at once."""

    noop: Callable[[Payload], object]
    pickup: Callable[[int], object]
    hold: Callable[[str], object]
    many: Callable[[Sequence[Payload]], object] | None = None
    chunk: int = 1_000

    def obey(self) -> None:
        """Run the command line."""
        command, word = sys.argv[1:3]
        if command == "hold":
            self.hold(word)
        elif command == "pickup":
            pacing.one_at_a_time(self.pickup, int(word))
        elif command == "trickle":
            for number in range(int(word)):
                self.noop(payload(number))
                time.sleep(1)
        else:
            self.noop(payload(0))
            rest = payloads(int(word) - 1)
            ways = {"fill": self._fill, "one": self._one, "together": self._together}
            began = time.monotonic_ns()
            ways[command](rest)
            tally.fed(len(rest), time.monotonic_ns() - began)

    def _fill(self, jobs: list[Payload]) -> None:
        if self.many is None:
            self._one(jobs)
        else:
            for some in chunks(jobs, self.chunk):
                self.many(some)

    def _one(self, jobs: Sequence[Payload]) -> None:
        for job in jobs:
            self.noop(job)

    def _together(self, jobs: list[Payload]) -> None:
        shares = [jobs[start::CALLERS] for start in range(CALLERS)]
        callers = [threading.Thread(target=self._one, args=(share,)) for share in shares]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()


@dataclass(frozen=True)
class AsyncFeed:
    """How a system enqueues each kind of job on an event loop."""

    noop: Callable[[Payload], Awaitable[object]]
    pickup: Callable[[int], Awaitable[object]]
    hold: Callable[[str], Awaitable[object]]
    many: Callable[[Sequence[Payload]], Awaitable[object]] | None = None
    chunk: int = 1_000

    async def obey(self) -> None:
        """Run the command line."""
        command, word = sys.argv[1:3]
        if command == "hold":
            await self.hold(word)
        elif command == "pickup":
            await pacing.one_at_a_time_async(self.pickup, int(word))
        elif command == "trickle":
            for number in range(int(word)):
                await self.noop(payload(number))
                await asyncio.sleep(1)
        else:
            await self.noop(payload(0))
            rest = payloads(int(word) - 1)
            ways = {"fill": self._fill, "one": self._one, "together": self._together}
            began = time.monotonic_ns()
            await ways[command](rest)
            tally.fed(len(rest), time.monotonic_ns() - began)

    async def _fill(self, jobs: list[Payload]) -> None:
        if self.many is None:
            await self._one(jobs)
        else:
            for some in chunks(jobs, self.chunk):
                await self.many(some)

    async def _one(self, jobs: Sequence[Payload]) -> None:
        for job in jobs:
            await self.noop(job)

    async def _together(self, jobs: list[Payload]) -> None:
        shares = [jobs[start::CALLERS] for start in range(CALLERS)]
        await asyncio.gather(*(self._one(share) for share in shares))


def chunks(jobs: list[Payload], size: int) -> Iterator[list[Payload]]:
    return (jobs[start : start + size] for start in range(0, len(jobs), size))
