"""Real processes that race each other at one store, round after round."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Barrier
from typing import Any

import pytest
from contract.driver import KILLED

from limpet.domain.errors import MoveRefused
from limpet.domain.job import NewJob
from limpet.domain.lease import Lease
from limpet.domain.permit import RESERVE_AFTER_US, Room
from limpet.domain.state import State
from limpet.domain.transition import Complete, Settlement
from limpet.domain.weight import Weight
from limpet.storage.contract.answers import Exchanged, Receipt, Recovered
from limpet.storage.contract.store import Store, Want
from limpet.storage.registry import open_store
from limpet.testing.clock import FakeClock

_PATIENCE_SECONDS = 60
_MOST = 4
on_processes = pytest.mark.not_on("sqlite-memory", "a store in memory has no second process")

Step = Callable[..., Any]


def claim(store: Store, session: str, seq: int, want: Want) -> Exchanged:
    return store.exchange(session, seq, (), want)


def complete(store: Store, session: str, seq: int, leases: list[Lease]) -> Exchanged:
    return store.exchange(session, seq, [Complete(lease) for lease in leases])


def exchange(
    store: Store, session: str, seq: int, settlements: list[Settlement], want: Want | None
) -> Exchanged:
    return store.exchange(session, seq, settlements, want)


def enqueue(store: Store, jobs: list[NewJob]) -> list[Receipt]:
    return store.enqueue(jobs)


def promote(store: Store) -> int:
    """Promote until nothing is left to do; how many jobs that made ready."""
    ready = 0
    while True:
        answer = store.promote()
        ready += answer.ready
        if not answer.more:
            return ready


def retry(store: Store, job: str, seen_round: int) -> int | None:
    """The new round, or None where it is refused."""
    try:
        return store.retry(job, seen_round)
    except MoveRefused:
        return None


def commit(store: Store, flow: str, chunks: int) -> bool:
    return store.commit(flow, chunks)


def end_and_recover(store: Store, session: str) -> Recovered:
    store.end(session, KILLED)
    return store.recover(session)


def take_permit(
    store: Store, session: str, weight: Weight, room: Room, reserve_after_us: int = RESERVE_AFTER_US
) -> bool:
    return store.take_permit(session, weight, room, reserve_after_us)


def cancel(store: Store, job: str) -> State:
    return store.cancel(job)


def sweep(store: Store) -> int:
    """Expire and recover, as any worker does; the answer is how many jobs that made ready."""
    return sum(store.recover(session.id).ready for session in store.expire())


def _race(starts: dict[int, Barrier], line: Connection) -> None:
    """One store after the other, until nobody is there who could ask for more."""
    with suppress(EOFError):
        while True:
            url, ahead, number = line.recv()
            clock = FakeClock()
            clock.advance(ahead)
            store = open_store(url, clock)
            store.queues()  # everything is open before the first round
            line.send("ready")
            while (message := line.recv()) is not None:
                step, given = message
                starts[number].wait(_PATIENCE_SECONDS)
                line.send(step(store, *given))
            store.close()
            line.send("closed")


class Racers:
    """Processes that wait for each other, then all do their step at once."""

    def __init__(self, lines: list[Connection]) -> None:
        self._lines = lines

    def round(self, *steps: tuple[Step, tuple[Any, ...]]) -> list[Any]:
        """One step for each racer; their answers, in the same order."""
        for line, step in zip(self._lines, steps, strict=True):
            line.send(step)
        return [_heard(line) for line in self._lines]


def _heard(line: Connection) -> Any:
    assert line.poll(_PATIENCE_SECONDS), "a racer does not answer"
    return line.recv()


class _Stable:
    """Processes that are kept for the next race: to start them takes longer than most races."""

    def __init__(self) -> None:
        context = get_context("spawn")
        # Kept: what a barrier is made of is taken away with it, also under processes that start.
        self._starts = {number: context.Barrier(number) for number in range(2, _MOST + 1)}
        self.lines: list[Connection] = []
        self._processes: list[SpawnProcess] = []
        for _ in range(_MOST):
            here, there = context.Pipe()
            process = context.Process(target=_race, args=(self._starts, there), daemon=True)
            process.start()
            there.close()
            self.lines.append(here)
            self._processes.append(process)

    def close(self) -> None:
        for process, line in zip(self._processes, self.lines, strict=True):
            process.kill()
            process.join()
            process.close()
            line.close()


_stable: _Stable | None = None


def dismiss() -> None:
    """End the processes that are kept, if there are any."""
    global _stable
    if _stable is not None:
        _stable.close()
        _stable = None


@contextmanager
def racers(url: str, number: int, ahead: timedelta = timedelta()) -> Iterator[Racers]:
    """That many processes at the store; their clock is `ahead` of the test's."""
    global _stable
    _stable = _stable or _Stable()
    lines = _stable.lines[:number]
    try:
        for line in lines:
            line.send((url, ahead, number))
        for line in lines:
            assert _heard(line) == "ready"
        yield Racers(lines)
        for line in lines:
            line.send(None)
        for line in lines:
            assert _heard(line) == "closed"
    except BaseException:
        dismiss()  # one of them may be in the middle of something
        raise
