"""Schedules: put, paused, removed; and ticks, each fired once (`storage.sql.schedules`)."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from limpet.storage.contract.relocation import Statements
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.enqueue import admit
from limpet.storage.postgres.inspect import states
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.sql import schedules

T = TypeVar("T")


class ScheduleStore(schedules.SqlSchedules):
    """The verbs of schedules; see `limpet.storage.contract.scheduling`."""

    _db: Database

    def _reading(self, work: Callable[[Statements], T]) -> T:
        return self._db.read(work)

    def _writing(self, work: Callable[[schedules.Writing], T], rows: int = 1) -> T:
        def write(tx: Transaction) -> T:
            tx.call("pass", False)
            return work(schedules.Writing(tx, tx.wall, partial(admit, tx), partial(states, tx)))

        return self._db.write(write)
