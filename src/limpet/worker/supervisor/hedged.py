"""A request that is sent again while its answer is late; the first answer counts.

A packet that is lost on a slow line costs its connection seconds, and other connections nothing. So
a caller that needs an answer in time sends its request on another connection as well. For that, a
repeated request must be harmless, also if it arrives after all others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from limpet.domain.errors import StoreBusy, StoreUnreachable

T = TypeVar("T")

# How many copies of a request may wait for an answer at the same time.
MOST_AT_ONCE = 3


async def first_answer(send: Callable[[], Awaitable[T]], late_seconds: float) -> T:
    """The answer to whichever copy of the request is answered first.

    Another copy is sent whenever no answer came for `late_seconds`. The error of a lost connection
    counts only when no copy is left that may be answered: it does not concern the others.
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
        for answered in done:
            if not isinstance(answered.exception(), StoreUnreachable | StoreBusy):
                return answered.result()
        if not waiting:
            return done.pop().result()


def _look_at_error(request: "asyncio.Future[T]") -> None:
    """Retrieve the error of a request whose answer came too late, so that asyncio does not warn."""
    if not request.cancelled():
        request.exception()
