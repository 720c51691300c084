"""How an attempt ended: what is settled, and what is said of it beside that."""

from datetime import timedelta
from typing import NamedTuple

from limpet.domain.transition import Settlement

NO_DELAY = timedelta()


class Ending(NamedTuple):
    """A settlement as an attempt came to it.

    `delay`: how long until the next attempt or the next round, for the worker's log. `note`: what
    went wrong with deciding that, for the job's own log. `final`: a failure after which the job
    gets no other chance by itself.
    """

    settlement: Settlement
    delay: timedelta = NO_DELAY
    note: str = ""
    final: bool = False
