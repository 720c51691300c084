"""Schedules and their ticks; `sql.schedules` has the logic."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from limpet.storage.contract.relocation import Statements
from limpet.storage.sql import schedules
from limpet.storage.sqlite.database import Database
from limpet.storage.sqlite.enqueue import enqueue
from limpet.storage.sqlite.inspect import states
from limpet.storage.sqlite.relocate import must_take_writes
from limpet.storage.sqlite.transaction import Transaction

T = TypeVar("T")


class ScheduleStore(schedules.SqlSchedules):
    """The verbs of schedules; see `limpet.storage.contract.scheduling`."""

    _db: Database

    def _reading(self, work: Callable[[Statements], T]) -> T:
        return self._db.read(work)

    def _writing(self, work: Callable[[schedules.Writing], T], rows: int = 1) -> T:
        def write(tx: Transaction) -> T:
            must_take_writes(tx)
            return work(schedules.Writing(tx, tx.now, partial(enqueue, tx), partial(states, tx)))

        return self._db.write(write, rows=rows)
