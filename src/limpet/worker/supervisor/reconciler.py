"""Compares the jobs that the session holds with those that the store counts for it."""

from limpet import log
from limpet.domain.cause import Drained, NotStarted, Requested
from limpet.storage.contract.answers import Renewed
from limpet.worker.supervisor.claimer import Claimer
from limpet.worker.supervisor.dispatcher import Dispatcher
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.session_parts import SessionParts


class Reconciler:
    """Acts on each renewal: cancels jobs that nobody wants, and compares the digests."""

    def __init__(
        self, scope: SessionScope, parts: SessionParts, dispatcher: Dispatcher, claimer: Claimer
    ) -> None:
        self._session = scope.session
        self._line = scope.line
        self._ledger = scope.ledger
        self._parts = parts
        self._dispatcher = dispatcher
        self._claimer = claimer

    def renewed(self, answer: Renewed) -> None:
        """The store has answered a renewal."""
        self.cancel_requested(answer)
        if self.disagrees(answer):
            self._parts.serve(self.compare())  # beside the heartbeat, which must go on

    def cancel_requested(self, answer: Renewed) -> None:
        """Stop the jobs whose cancellation was requested."""
        for lease in answer.cancels:
            hold = self._ledger.find(lease.job, lease.token)
            if hold is not None and hold.stop is None:
                self._dispatcher.cancel(hold, Requested())

    def disagrees(self, answer: Renewed) -> bool:
        """Whether the store counts other jobs for the session; not known during an exchange."""
        return not self._claimer.in_flight and answer.digest != self._ledger.digest()

    async def compare(self) -> None:
        """Read which jobs the session holds by the store, and correct the difference.

        Jobs that only the store counts are handed back; jobs that only this worker counts are
        stopped.
        """
        if self._claimer.in_flight:
            return
        exchanges = self._claimer.exchanges
        held = set(await self._line.request("held", self._session))
        if self._claimer.in_flight or self._claimer.exchanges != exchanges:
            return  # an exchange has changed it meanwhile; the next renewal will show
        known = self._ledger.leases()
        unknown, missing = held - known, known - held
        if not unknown and not missing:
            return
        log.emit(
            "digest_mismatch", unknown=len(unknown), missing=len(missing), session=self._session
        )
        if unknown:
            cause = NotStarted("the worker did not know that it held the job")
            await self._line.request("release", self._session, sorted(unknown), cause)
        for lease in missing:
            hold = self._ledger.find(lease.job, lease.token)
            if hold is not None:
                # The store will refuse its outcome. If this is a mistake, the job is handed back,
                # uncharged.
                self._dispatcher.cancel(hold, Drained())
