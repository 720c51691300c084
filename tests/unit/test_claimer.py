"""When the supervisor asks the store for jobs."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from limpet.domain.job import ClaimedJob, Counters
from limpet.domain.lease import Lease
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
        self.by_itself: asyncio.Future[Exchanged] | None = None

    async def exchange(
        self, *args: Any, begins: Callable[[], None], first: Any = None
    ) -> Exchanged:
        if first is not None:
            answer: Exchanged = await first.answer
            return answer
        self.asked += 1
        await asyncio.sleep(0)
        self.during()
        await asyncio.sleep(0)
        return Exchanged(self.standing, (), ())

    def stand_by(self, *args: Any, begins: Callable[[], None]) -> Any:
        self.begins = begins
        self.by_itself = asyncio.get_running_loop().create_future()
        return SimpleNamespace(answer=self.by_itself)

    def withdraw(self) -> bool:
        return self.by_itself is None or not self.by_itself.done()


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


def test_what_was_claimed_by_itself_is_given_and_counted() -> None:
    async def ring_for_a_job() -> tuple[list[str], Claimer]:
        line, given = Line(), list[str]()
        claimer = claimer_of(line)

        async def give(holds: list[Hold]) -> None:
            given.extend(hold.lease.job for hold in holds)

        serving = asyncio.create_task(claimer.run(give))
        while line.by_itself is None:
            await asyncio.sleep(0)
        line.begins()  # as the thread does when the bell rings
        assert claimer.in_flight
        claimed = ClaimedJob(
            Lease("job", "s", 1),
            "task",
            "q",
            1,
            1,
            Counters(),
            False,
            False,
            1,
            "{}",
            "{}",
            (),
            None,
        )
        line.by_itself.set_result(Exchanged(Standing.LIVE, (), (claimed,)))
        while line.asked < 2:
            await asyncio.sleep(0)  # there may be more
        serving.cancel()
        return given, claimer

    given, claimer = asyncio.run(ring_for_a_job())
    assert given == ["job"]
    assert claimer.exchanges == 3
    assert not claimer.in_flight
