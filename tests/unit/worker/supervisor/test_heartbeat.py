"""The heart and a store that has forgotten something."""

import asyncio
import os
from typing import Any

import pytest

from limpet.domain.lease import Digest
from limpet.domain.session import Standing
from limpet.domain.worker_settings import WorkerSettings
from limpet.storage.contract.answers import Renewed
from limpet.worker.supervisor.heartbeat import Heartbeat
from limpet.worker.supervisor.ledger import Ledger
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.store_line import SessionOver
from limpet.worker.wire.page import Page, create, now
from limpet.worker.wire.plan import Plan


class Line:
    """Says the same to every renewal."""

    def __init__(self, seq: int) -> None:
        self._seq = seq

    async def renew(self, *_: object) -> tuple[int, Renewed]:
        return now(), Renewed(Standing.LIVE, 0, self._seq, (), (), Digest(0, 0), "epoch")


def beat(seq: int, answered: int) -> tuple[int, int]:
    """The moment on the page before and after one renewal."""
    descriptor = create()
    page = Page(descriptor, writable=True)
    os.close(descriptor)
    line: Any = Line(seq)
    ledger = Ledger()
    ledger.answered_exchanges = answered
    heart = Heartbeat(SessionScope(Plan("app"), "s", page, line, ledger))
    heart.registered(now() - 1_000_000)
    before = page.lease_ends_at
    asyncio.run(heart._beat())
    return before, page.lease_ends_at


def test_a_renewal_prolongs_the_lease() -> None:
    before, after = beat(seq=3, answered=3)
    assert after > before


def test_an_exchange_under_way_is_not_taken_for_a_rollback() -> None:
    beat(seq=4, answered=3)


def test_a_store_that_forgot_an_exchange_ends_the_session_with_the_next_renewal() -> None:
    with pytest.raises(SessionOver, match="remembers 2 of 3 exchanges"):
        beat(seq=2, answered=3)


class SlowLine:
    """Answers every renewal after so many seconds, as the clock of the page has them."""

    async def renew(self, *_: object) -> tuple[int, Renewed]:
        asked = now()
        await asyncio.sleep(0.002)
        return asked, Renewed(Standing.LIVE, 0, 0, (), (), Digest(0, 0), "epoch")


@pytest.mark.parametrize(("lease", "said"), [(1.008, 1), (10.0, 0)])
def test_a_line_that_is_too_slow_for_the_lease_is_said_once(
    lease: float, said: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Of 1.008 s all but 8 ms are margin, and a renewal takes 2 ms at least."""
    descriptor = create()
    page = Page(descriptor, writable=True)
    os.close(descriptor)
    plan, line = Plan("app", settings=WorkerSettings(lease=lease)), SlowLine()
    heart = Heartbeat(SessionScope(plan, "s", page, line, Ledger()))  # type: ignore[arg-type]

    async def beat_often() -> None:
        for _ in range(30):
            page.lease_ends_at = now() + 60_000_000
            await heart._beat()

    asyncio.run(beat_often())
    lines = [each.message for each in caplog.records if "too far away" in each.message]
    assert len(lines) == said
    assert all("set --lease to 2 s or more" in line for line in lines)
