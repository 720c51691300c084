"""The options that name a rate."""

from dataclasses import dataclass
from typing import Annotated

import typer

from limpet.domain.errors import InvalidOption
from limpet.domain.rate import Rate, rate_of


@dataclass(frozen=True, slots=True)
class RateOptions:
    """A rate, and whether its jobs may begin all at once."""

    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="this many in a time, as 100/m or 5/s"),
    ] = None
    bursty: Annotated[
        bool, typer.Option("--bursty", help="the jobs of one period may begin all at once")
    ] = False

    def checked(self) -> Rate | None:
        """The rate that the command line names; None if there is none."""
        if self.rate is None:
            if self.bursty:
                raise InvalidOption("--bursty needs a rate; add one, as in --rate 100/m.")
            return None
        return rate_of(self.rate, bursty=self.bursty, what="--rate")
