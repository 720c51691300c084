"""What a session does when the store counts other jobs for it than it does itself."""

import asyncio
from types import SimpleNamespace
from typing import Any

from unit.bare_executor import OTHER, RUNNING, SESSION, claimed

from limpet.domain.cause import Drained, NotStarted, Requested
from limpet.domain.lease import Digest, Lease
from limpet.domain.session import Standing
from limpet.storage.contract.answers import Renewed
from limpet.worker.supervisor.ledger import Hold, Ledger
from limpet.worker.supervisor.reconciler import Reconciler
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.session_parts import SessionParts
from limpet.worker.wire.plan import Plan


class Line:
    """A store that holds these for the session."""

    def __init__(self, *held: Lease) -> None:
        self.held = held
        self.said: list[tuple[Any, ...]] = []

    async def request(self, verb: str, *args: Any) -> Any:
        self.said.append((verb, *args))
        return self.held if verb == "held" else None


def renewed(digest: Digest, *cancels: Lease) -> Renewed:
    return Renewed(Standing.LIVE, 0, 1, cancels, (), digest, "epoch")


def after(
    line: Line, *mine: Lease, in_flight: bool = False, cancels: tuple[Lease, ...] = ()
) -> list[tuple[str, object]]:
    """Which jobs are stopped, and why, once a renewal of another digest was heard."""

    async def hear() -> list[tuple[str, object]]:
        ledger = Ledger()
        ledger.take(map(claimed, mine))
        stopped: list[tuple[str, object]] = []

        def cancel(hold: Hold, cause: object) -> None:
            stopped.append((hold.lease.job, cause))

        dispatcher: Any = SimpleNamespace(cancel=cancel)
        claimer: Any = SimpleNamespace(in_flight=in_flight, exchanges=1)
        page: Any = None
        store: Any = line
        scope = SessionScope(Plan("a:b"), SESSION, page, store, ledger)
        reconciler = Reconciler(scope, SessionParts(), dispatcher, claimer)
        reconciler.renewed(renewed(Digest(7, 7), *cancels))
        assert line.said == []  # whoever renews does not wait for it
        for _ in range(5):
            await asyncio.sleep(0)
        return stopped

    return asyncio.run(hear())


def test_what_only_the_store_knows_is_handed_back_and_what_only_we_know_is_ended() -> None:
    line = Line(OTHER)
    assert after(line, RUNNING) == [(RUNNING.job, Drained())]
    unknown = NotStarted("the worker did not know that it held the job")
    assert line.said == [("held", SESSION), ("release", SESSION, [OTHER], unknown)]


def test_nothing_is_compared_while_an_exchange_is_under_way() -> None:
    line = Line(OTHER)
    assert after(line, RUNNING, in_flight=True) == []
    assert line.said == []


def test_what_nobody_wants_any_more_is_stopped() -> None:
    assert after(Line(RUNNING), RUNNING, cancels=(RUNNING,)) == [(RUNNING.job, Requested())]
