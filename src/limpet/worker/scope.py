"""What every part of a supervisor needs to know of its session."""

from dataclasses import dataclass

from limpet.worker.holds import Ledger
from limpet.worker.line import StoreLine
from limpet.worker.page import Page
from limpet.worker.plan import Plan


@dataclass(frozen=True, slots=True)
class SessionScope:
    """One session: what it was asked to do, its id, its lease, its store and its jobs."""

    plan: Plan
    session: str
    page: Page
    line: StoreLine
    ledger: Ledger
