"""Schedules: put, paused, removed; and ticks, each fired once. `storage.ticks` knows how."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from limpet.storage import ticks
from limpet.storage.postgres.database import Database
from limpet.storage.postgres.enqueue import admit
from limpet.storage.postgres.inspect import states
from limpet.storage.postgres.transaction import Transaction
from limpet.storage.relocation import Statements

T = TypeVar("T")


class Schedules(ticks.Schedules):
    """The verbs of schedules; see `limpet.storage.scheduling`."""

    _db: Database

    def _reading(self, work: Callable[[Statements], T]) -> T:
        return self._db.read(work)

    def _writing(self, work: Callable[[ticks.Writing], T], rows: int = 1) -> T:
        def write(tx: Transaction) -> T:
            tx.call("pass", False)
            return work(ticks.Writing(tx, tx.wall, partial(admit, tx), partial(states, tx)))

        return self._db.write(write)
