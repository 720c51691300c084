"""When the supervisor asks the store for jobs."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from limpet.domain.session import Standing
from limpet.storage.answers import Exchanged
from limpet.worker import claimer as claimer_module
from limpet.worker.claimer import Claimer
from limpet.worker.frames import LOOP
from limpet.worker.holds import Hold, Ledger
from limpet.worker.plan import Plan


class Line:
    """Stands for the store: nothing is ready there, ever."""

    def __init__(self, standing: Standing = Standing.LIVE) -> None:
        self.asked = 0
        self.during: Callable[[], None] = lambda: None
        self.standing = standing

    async def ask(self, verb: str, *args: Any) -> Exchanged:
        self.asked += 1
        await asyncio.sleep(0)
        self.during()
        await asyncio.sleep(0)
        return Exchanged(self.standing, (), ())


def claimer_of(line: Line) -> Claimer:
    async def report() -> None: ...

    services = SimpleNamespace(report=report, told=lambda batch: None)
    placement = SimpleNamespace(room=lambda kind: (0, 5, True), suspect_room=lambda: 1)
    stubs: list[Any] = [line, Ledger(), placement, services, lambda: None]
    claimer = Claimer("s", Plan("app:app"), *stubs)
    claimer.begin({LOOP: "digest"})
    return claimer


@pytest.fixture(autouse=True)
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claimer_module, "_SLOW_POLL_SECONDS", 3600)


async def _asked(claimer: Claimer, line: Line) -> int:
    """How often, by the time that nothing moves any more."""

    async def give(holds: list[Hold]) -> None: ...

    serving = asyncio.create_task(claimer.run(give))
    for _ in range(100):
        await asyncio.sleep(0)
    serving.cancel()
    return line.asked


def test_a_bell_that_rings_while_an_exchange_is_under_way_is_not_missed() -> None:
    """What rang may have been committed after the exchange had looked."""

    async def ring_once() -> int:
        line = Line()
        claimer = claimer_of(line)

        def ring() -> None:
            line.during = lambda: None
            claimer.rang()

        line.during = ring
        return await _asked(claimer, line)

    assert asyncio.run(ring_once()) == 2


@pytest.mark.parametrize("standing", [Standing.LIVE, Standing.PAST])
def test_a_store_that_gives_nothing_is_not_asked_again_and_again(standing: Standing) -> None:
    async def quiet() -> int:
        line = Line(standing)
        return await _asked(claimer_of(line), line)

    assert asyncio.run(quiet()) == 1
