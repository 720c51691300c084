"""A request that is sent again while its answer is late; the first answer counts.

A packet that is lost on a slow line costs its connection seconds, and other connections nothing.
Whoever must have an answer in time does not wait for the one, but asks on another as well. For that
a repeat must be harmless, and so must one that arrives after all others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from limpet.domain.errors import StoreBusy, StoreUnreachable

T = TypeVar("T")

# How many of one request may wait for an answer at the same time.
MOST_AT_ONCE = 3


async def first_answer(send: Callable[[], Awaitable[T]], late_seconds: float) -> T:
    """The answer to whichever request is answered first.

    Another one is sent whenever there was no answer for so many seconds. A store that cannot be
    reached counts once no request is left that may be answered: a connection that is lost says
    nothing of the others.
    """
    waiting: set[asyncio.Future[T]] = set()
    sent = 0
    while True:
        if sent < MOST_AT_ONCE:
            request = asyncio.ensure_future(send())
            request.add_done_callback(_look_at_error)
            waiting.add(request)
            sent += 1
        late = late_seconds if sent < MOST_AT_ONCE else None
        done, waiting = await asyncio.wait(
            waiting, timeout=late, return_when=asyncio.FIRST_COMPLETED
        )
        for each in done:
            if not isinstance(each.exception(), StoreUnreachable | StoreBusy):
                return each.result()
        if not waiting:
            return done.pop().result()


def _look_at_error(request: "asyncio.Future[T]") -> None:
    """Nobody waits any more for the error of one that came too late."""
    if not request.cancelled():
        request.exception()
