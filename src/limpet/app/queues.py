"""Changes of queues, keys and breakers at run time; they hold for all workers at once."""

import asyncio

from limpet.client.client import Client
from limpet.domain.duration import Duration
from limpet.domain.errors import InvalidOption
from limpet.domain.queue import queue_rules
from limpet.domain.rate import Rate, rate_of
from limpet.ops import queues as ops
from limpet.ops.breakers import reset_breaker


class Queues:
    """The queues of an app; a change made here stays until it is taken back."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def limit(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        rate: str | Rate | None = None,
        weight: int | None = None,
    ) -> None:
        """Set limits in place of those that the app declares, from the next claim on.

        A limit that is not named stays as it is.
        """
        rules = queue_rules(concurrency, rate, weight, what=f"queue {queue!r}")
        ops.limit_queue(self._client.store, queue, rules)

    async def alimit(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        rate: str | Rate | None = None,
        weight: int | None = None,
    ) -> None:
        """As `limit`, without blocking the event loop."""
        await asyncio.to_thread(
            self.limit, queue, concurrency=concurrency, rate=rate, weight=weight
        )

    def unlimit(self, queue: str) -> None:
        """Remove what `limit` set; what the app declares holds again."""
        ops.unlimit_queue(self._client.store, queue)

    async def aunlimit(self, queue: str) -> None:
        """As `unlimit`, without blocking the event loop."""
        await asyncio.to_thread(self.unlimit, queue)

    def hold(self, queue: str, time: Duration) -> None:
        """Begin no job of the queue for `time`; a `time` of 0 ends a hold."""
        ops.hold_queue(self._client.store, queue, time, self._client.clock)

    async def ahold(self, queue: str, time: Duration) -> None:
        """As `hold`, without blocking the event loop."""
        await asyncio.to_thread(self.hold, queue, time)

    def pause(self, queue: str) -> None:
        """Begin no job of the queue until `resume`; running jobs go on."""
        ops.pause_queue(self._client.store, queue)

    async def apause(self, queue: str) -> None:
        """As `pause`, without blocking the event loop."""
        await asyncio.to_thread(self.pause, queue)

    def drain(self, queue: str) -> None:
        """Take in no new jobs until `resume`; the jobs that the queue has go on."""
        ops.drain_queue(self._client.store, queue)

    async def adrain(self, queue: str) -> None:
        """As `drain`, without blocking the event loop."""
        await asyncio.to_thread(self.drain, queue)

    def resume(self, queue: str) -> None:
        """End `pause` and `drain`."""
        ops.resume_queue(self._client.store, queue)

    async def aresume(self, queue: str) -> None:
        """As `resume`, without blocking the event loop."""
        await asyncio.to_thread(self.resume, queue)


class Keys:
    """The keys of an app; a change made here stays until it is taken back."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def limit(self, key: str, *, limit: int | None = None, rate: str | Rate | None = None) -> None:
        """Set how many jobs of a key may be under way, and how often one may begin.

        The limits hold for all jobs of the key, in place of those that the jobs declare.
        """
        if limit is None and rate is None:
            raise InvalidOption(
                f"limit({key!r}) limits nothing; name a limit or a rate, or use unlimit({key!r}) "
                f"to go back to what the jobs declare."
            )
        given = None if rate is None else rate_of(rate)
        ops.limit_key(self._client.store, key, limit, given)

    async def alimit(
        self, key: str, *, limit: int | None = None, rate: str | Rate | None = None
    ) -> None:
        """As `limit`, without blocking the event loop."""
        await asyncio.to_thread(self.limit, key, limit=limit, rate=rate)

    def unlimit(self, key: str) -> None:
        """Remove what `limit` set; what the jobs declare holds again."""
        ops.limit_key(self._client.store, key)

    async def aunlimit(self, key: str) -> None:
        """As `unlimit`, without blocking the event loop."""
        await asyncio.to_thread(self.unlimit, key)


class AppBreakers:
    """The breakers of an app."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def reset(self, name: str) -> None:
        """Close a breaker, so that jobs of its tasks begin at once; raises `BreakerNotFound`."""
        reset_breaker(self._client.store, name)

    async def areset(self, name: str) -> None:
        """As `reset`, without blocking the event loop."""
        await asyncio.to_thread(self.reset, name)
