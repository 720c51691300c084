"""How an attempt ended: its settlement, and what the logs say beside it."""

from datetime import timedelta
from typing import NamedTuple

from limpet.domain.transition import Settlement

NO_DELAY = timedelta()


class Ending(NamedTuple):
    """The settlement of an attempt, with what the logs say beside it.

    `delay`: time until the next attempt or the next round, for the worker's log. `note`: what went
    wrong while that was decided, for the job's own log. `final`: a failure after which the job
    gets no other attempt or round by itself.
    """

    settlement: Settlement
    delay: timedelta = NO_DELAY
    note: str = ""
    final: bool = False
