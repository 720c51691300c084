"""The verbs that tasks ask for, each served while the attempt that asks holds its job."""

from typing import Any

from limpet.domain.errors import LeaseLost
from limpet.domain.lease import Lease
from limpet.worker.heart import Heart
from limpet.worker.holds import Ledger
from limpet.worker.line import StoreLine
from limpet.worker.page import Page


class Requests:
    """What the desk asks the store for."""

    def __init__(self, line: StoreLine, page: Page, ledger: Ledger, heart: Heart) -> None:
        self._line = line
        self._page = page
        self._ledger = ledger
        self._heart = heart

    async def serve(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """One verb that a task asked for."""
        if verb == "stage":
            # The store does not ask who stages, and so we do: not a late holder.
            holder: Lease = kwargs.pop("holder")
            if self._page.over or self._ledger.find(holder.job, holder.token) is None:
                raise LeaseLost(*holder)
        try:
            return await self._line.serve(verb, *args, **kwargs)
        except LeaseLost:
            if self._page.over:
                raise
        # By our own clock it has not: that of the store may have been set.
        await self._heart.beat_now()
        return await self._line.serve(verb, *args, **kwargs)
