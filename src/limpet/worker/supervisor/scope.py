"""What every part of a supervisor needs to know about its session."""

from dataclasses import dataclass

from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.store_line import StoreLine
from limpet.worker.wire.page import Page
from limpet.worker.wire.plan import Plan


@dataclass(frozen=True, slots=True)
class SessionScope:
    """One session: its plan, its id, the page with its lease, its store and its jobs."""

    plan: Plan
    session: str
    page: Page
    line: StoreLine
    ledger: Ledger
