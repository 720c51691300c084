"""Schedules: put, paused, removed; and ticks, each fired once. `storage.ticks` knows how."""

from collections.abc import Sequence
from functools import partial

from limpet.domain.job import NewJob
from limpet.domain.schedule import Schedule
from limpet.storage import ticks
from limpet.storage.answers import Ticked
from limpet.storage.bounds import at_most_a_chunk
from limpet.storage.sqlite.database import Database
from limpet.storage.sqlite.enqueue import enqueue
from limpet.storage.sqlite.inspect import states
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction


def put(tx: Transaction, schedule: Schedule) -> bool:
    """Put or change one."""
    must_take_writes(tx)
    return ticks.put(tx, schedule, tx.now)


def remove(tx: Transaction, id_: str) -> bool:
    """Remove one."""
    must_take_writes(tx)
    return ticks.remove(tx, id_)


def pause(tx: Transaction, id_: str, paused: bool, next_at: int | None) -> bool:
    """Stop or resume one."""
    must_take_writes(tx)
    return ticks.pause(tx, id_, paused, next_at)


def tick(tx: Transaction, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
    """Fire ticks."""
    must_take_writes(tx)
    return ticks.tick(
        tx, seen, jobs, next_at, enqueue=partial(enqueue, tx), states=partial(states, tx)
    )


def trigger(tx: Transaction, seen: Schedule, job: NewJob) -> Ticked:
    """Fire one now."""
    must_take_writes(tx)
    return ticks.trigger(tx, seen, job, enqueue=partial(enqueue, tx), states=partial(states, tx))


class Schedules:
    """The verbs of schedules; see `limpet.storage.scheduling`."""

    _db: Database

    def put_schedule(self, schedule: Schedule, /) -> bool:
        return self._db.write(lambda tx: put(tx, schedule))

    def remove_schedule(self, schedule: str, /) -> bool:
        return self._db.write(lambda tx: remove(tx, schedule))

    def pause_schedule(
        self, schedule: str, /, paused: bool = True, next_at: int | None = None
    ) -> bool:
        return self._db.write(lambda tx: pause(tx, schedule, paused, next_at))

    def schedules(self) -> tuple[Schedule, ...]:
        return self._db.read(ticks.every)

    def schedule(self, schedule: str, /) -> Schedule | None:
        return self._db.read(lambda tx: ticks.find(tx, schedule))

    def due_schedules(self, until: int) -> tuple[tuple[Schedule, ...], int | None]:
        return self._db.read(lambda tx: ticks.due(tx, until))

    def tick(self, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
        at_most_a_chunk(jobs)
        return self._db.write(lambda tx: tick(tx, seen, jobs, next_at), rows=len(jobs))

    def trigger(self, seen: Schedule, job: NewJob) -> Ticked:
        return self._db.write(lambda tx: trigger(tx, seen, job))
