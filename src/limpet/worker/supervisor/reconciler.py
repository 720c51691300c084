"""Compares what the store thinks the session holds with what it holds."""

from limpet import log
from limpet.domain.cause import Drained, NotStarted, Requested
from limpet.storage.contract.answers import Renewed
from limpet.worker.supervisor.claimer import Claimer
from limpet.worker.supervisor.dispatcher import Dispatcher
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.session_parts import SessionParts


class Reconciler:
    """Hears each renewal: who is to be cancelled, and whether the digests agree."""

    def __init__(
        self, scope: SessionScope, parts: SessionParts, dispatcher: Dispatcher, claimer: Claimer
    ) -> None:
        self._session = scope.session
        self._line = scope.line
        self._ledger = scope.ledger
        self._parts = parts
        self._dispatcher = dispatcher
        self._claimer = claimer

    def heard(self, answer: Renewed) -> None:
        """The store has answered a renewal."""
        self.cancel_asked(answer)
        if self.disagrees(answer):
            self._parts.serve(self.compare())  # not by the heart, which is to go on beating

    def cancel_asked(self, answer: Renewed) -> None:
        """Stop the jobs that somebody does not want any more."""
        for lease in answer.cancels:
            hold = self._ledger.find(lease.job, lease.token)
            if hold is not None and hold.stop is None:
                self._dispatcher.cancel(hold, Requested())

    def disagrees(self, answer: Renewed) -> bool:
        """Whether the store counts other jobs than we do; not known during an exchange."""
        return not self._claimer.in_flight and answer.digest != self._ledger.digest()

    async def compare(self) -> None:
        """Ask what the store thinks we hold; hand back what we do not know, end what we lost."""
        if self._claimer.in_flight:
            return
        exchanges = self._claimer.exchanges
        held = set(await self._line.ask("held", self._session))
        if self._claimer.in_flight or self._claimer.exchanges != exchanges:
            return  # it moved meanwhile; the next renewal will tell
        known = self._ledger.leases()
        unknown, missing = held - known, known - held
        if not unknown and not missing:
            return
        log.emit(
            "digest_mismatch", unknown=len(unknown), missing=len(missing), session=self._session
        )
        if unknown:
            cause = NotStarted("the worker did not know that it had it")
            await self._line.ask("release", self._session, sorted(unknown), cause)
        for lease in missing:
            hold = self._ledger.find(lease.job, lease.token)
            if hold is not None:
                # What it says will be refused; should we be wrong, it is handed back, uncharged.
                self._dispatcher.cancel(hold, Drained())
