"""Schedules: put, paused, removed; and ticks, each fired once. `storage.ticks` knows how."""

from collections.abc import Sequence
from functools import partial

from limpet.domain.job import NewJob
from limpet.domain.schedule import Schedule
from limpet.storage import ticks
from limpet.storage.answers import Ticked
from limpet.storage.bounds import at_most_a_chunk
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.enqueue import admit
from limpet.storage.postgres.inspect import states
from limpet.storage.postgres.transaction import Transaction


def put(tx: Transaction, schedule: Schedule) -> bool:
    """Put or change one."""
    tx.call("pass", False)
    return ticks.put(tx, schedule, tx.wall)


def remove(tx: Transaction, id_: str) -> bool:
    """Remove one."""
    tx.call("pass", False)
    return ticks.remove(tx, id_)


def pause(tx: Transaction, id_: str, paused: bool, next_at: int | None) -> bool:
    """Stop or resume one."""
    tx.call("pass", False)
    return ticks.pause(tx, id_, paused, next_at)


def tick(tx: Transaction, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
    """Fire ticks."""
    tx.call("pass", False)
    return ticks.tick(
        tx, seen, jobs, next_at, enqueue=partial(admit, tx), states=partial(states, tx)
    )


def trigger(tx: Transaction, seen: Schedule, job: NewJob) -> Ticked:
    """Fire one now."""
    tx.call("pass", False)
    return ticks.trigger(tx, seen, job, enqueue=partial(admit, tx), states=partial(states, tx))


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
        return self._db.write(lambda tx: tick(tx, seen, jobs, next_at))

    def trigger(self, seen: Schedule, job: NewJob) -> Ticked:
        return self._db.write(lambda tx: trigger(tx, seen, job))
