"""When the supervisor asks the store for jobs."""

import asyncio
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from limpet.domain.breaker import BreakerRules, Observed
from limpet.domain.job import ClaimedJob, Counters, NewJob
from limpet.domain.lease import Lease
from limpet.domain.permit import Gate, Room
from limpet.domain.queue import QueueRules
from limpet.domain.rate import rate_of
from limpet.domain.session import Standing
from limpet.domain.transition import Complete
from limpet.domain.worker_settings import WorkerSettings
from limpet.storage.contract.answers import Exchanged
from limpet.storage.registry import open_store
from limpet.worker.supervisor import claimer as claimer_module
from limpet.worker.supervisor import services as services_module
from limpet.worker.supervisor.claimer import Claimer
from limpet.worker.supervisor.demand import Demand
from limpet.worker.supervisor.ledger import Hold, Ledger
from limpet.worker.supervisor.scope import SessionScope
from limpet.worker.supervisor.services import Services
from limpet.worker.supervisor.session_parts import SessionParts
from limpet.worker.wire.frames import LOOP
from limpet.worker.wire.plan import Plan

CLAIMED = ClaimedJob(
    Lease("job", "s", 1), "task", "q", 1, 1, Counters(), False, False, 1, "{}", "{}", (), None
)


class Line:
    """Stands for the store: nothing is ready there, ever."""

    def __init__(self, standing: Standing = Standing.LIVE) -> None:
        self.asked = self.promotions = 0
        self.during: Callable[[], None] = lambda: None
        self.by_itself: asyncio.Future[Exchanged] | None = None
        self.answer = Exchanged(standing, (), ())
        self.said: list[tuple[Any, ...]] = []
        self.given: list[str] = []

    async def exchange(self, *args: Any, first: Any = None) -> Exchanged:
        if first is not None:
            answer: Exchanged = await first.answer
            return answer
        self.asked += 1
        self.said.append(args)
        await asyncio.sleep(0)
        self.during()
        await asyncio.sleep(0)
        return self.answer

    def stand_by(self, *args: Any, begins: Callable[[], None]) -> Any:
        self.begins = begins
        self.by_itself = asyncio.get_running_loop().create_future()
        return SimpleNamespace(answer=self.by_itself)

    def withdraw(self) -> bool:
        return self.by_itself is None or not self.by_itself.done()


def claimer_of(line: Line) -> Claimer:
    async def report() -> None: ...

    def promote() -> None:
        line.promotions += 1

    services = SimpleNamespace(report=report, acknowledged=lambda batch: None, promote_now=promote)
    placement = SimpleNamespace(free_places=lambda kind: (0, 5, True), suspect_places=lambda: 1)
    page: Any = None
    heart = SimpleNamespace(beat_soon=lambda: None)

    async def give(holds: list[Hold]) -> None:
        line.given.extend(hold.lease.job for hold in holds)

    stubs: list[Any] = [placement, services, heart, SimpleNamespace(give=give), Demand()]
    scope = SessionScope(Plan("app:app"), "s", page, line, Ledger())  # type: ignore[arg-type]
    claimer = Claimer(scope, *stubs)
    claimer.begin({LOOP: "digest"})
    return claimer


@pytest.fixture(autouse=True)
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claimer_module, "_SLOW_POLL_SECONDS", 3600)


async def _asked(claimer: Claimer, line: Line) -> int:
    """How often, by the time that nothing moves any more."""
    serving = asyncio.create_task(claimer.run())
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
            claimer._demand.rang()

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
        line = Line()
        claimer = claimer_of(line)
        serving = asyncio.create_task(claimer.run())
        while line.by_itself is None:
            await asyncio.sleep(0)
        line.begins()  # as the thread does when the bell rings
        assert claimer.in_flight
        line.by_itself.set_result(Exchanged(Standing.LIVE, (), (CLAIMED,)))
        while line.asked < 2:
            await asyncio.sleep(0)  # there may be more
        serving.cancel()
        return line.given, claimer

    given, claimer = asyncio.run(ring_for_a_job())
    assert given == ["job"]
    assert claimer.exchanges == 3
    assert not claimer.in_flight


def later(seconds: float) -> Exchanged:
    """Nothing now, more after so long."""
    return Exchanged(Standing.LIVE, (), (), next_at=time.time_ns() // 1000 + round(seconds * 1e6))


def _asked_within(seconds: float, answer: Callable[[], Exchanged]) -> int:
    async def go_on() -> int:
        line = Line()
        line.answer = answer()

        def anew() -> None:
            line.answer = answer()

        line.during = anew
        claimer = claimer_of(line)
        serving = asyncio.create_task(claimer.run())
        await asyncio.sleep(seconds)
        serving.cancel()
        return line.asked

    return asyncio.run(go_on())


def test_what_is_kept_back_is_asked_for_at_the_moment_when_it_may_be_had() -> None:
    asked = _asked_within(0.5, lambda: later(0.1))
    assert 4 <= asked <= 6, asked


def test_what_is_due_but_not_to_be_had_is_not_asked_for_again_and_again() -> None:
    """As where the store's clock is behind, or other workers are faster each time."""
    asked = _asked_within(0.5, lambda: later(-1.0))
    assert asked <= 14, asked


def test_what_is_kept_back_for_long_does_not_stop_the_slow_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claimer_module, "_SLOW_POLL_SECONDS", 0.1)
    asked = _asked_within(0.5, lambda: later(3600))
    assert 4 <= asked <= 6, asked


def test_the_promoter_is_woken_for_what_was_left_unfinished() -> None:
    async def unfinished() -> int:
        line = Line()
        line.answer = Exchanged(Standing.LIVE, (), (), unfinished=True)
        await _asked(claimer_of(line), line)
        return line.promotions

    assert asyncio.run(unfinished()) == 1


def test_a_worker_that_leaves_when_idle_waits_for_what_a_rate_gives_soon() -> None:
    async def found_nothing(answer: Exchanged) -> bool:
        line = Line()
        line.answer = answer
        claimer = claimer_of(line)
        for _ in range(3):
            claimer._demand.rang()
            await _asked(claimer, line)
        return claimer.found_nothing

    assert asyncio.run(found_nothing(Exchanged(Standing.LIVE, (), ())))
    assert asyncio.run(found_nothing(later(3600)))
    assert not asyncio.run(found_nothing(later(0.5)))


def test_a_bounded_queue_is_never_claimed_ahead() -> None:
    async def slots(*words: Any) -> Mapping[str, int]:
        line = Line()
        claimer = claimer_of(line)
        claimer.begin({LOOP: "digest"}, ["slow"])
        claimer._plan = Plan("app:app", settings=WorkerSettings(queues=dict.fromkeys(words)))
        claimer._demand.throughput[LOOP].per_second = 200.0  # ten in 50 ms
        await _asked(claimer, line)
        want = line.said[0][3]
        assert want.pools[0].total > 5
        found: Mapping[str, int] = want.pools[0].slots
        return found

    assert asyncio.run(slots()) == {"*": 15, "slow": 5}
    assert asyncio.run(slots("slow", "fast")) == {"slow": 5, "fast": 15}


def test_each_claim_says_what_the_host_can_carry_where_tasks_have_weights() -> None:
    gates = iter(Gate(Room("web-2", cpu, 0), {}) for cpu in range(100))

    async def wants(*gate: Callable[[], Gate | None]) -> list[Gate | None]:
        line = Line()
        claimer = claimer_of(line)
        claimer.begin({LOOP: "digest"}, (), *gate)
        for _ in range(2):
            claimer._demand.rang()
            await _asked(claimer, line)
        return [each[3].gate for each in line.said]

    assert asyncio.run(wants()) == [None, None]
    first, second = asyncio.run(wants(lambda: next(gates)))
    assert first is not None
    assert second is not None
    assert first.room.cpu < second.room.cpu


def test_a_queue_that_was_limited_at_run_time_is_not_claimed_ahead_either() -> None:
    async def slots() -> list[Mapping[str, int]]:
        line = Line()
        claimer = claimer_of(line)
        claimer.begin({LOOP: "digest"}, ["slow"])
        for limited in (["slower"], []):
            claimer.bound(limited)
            claimer._demand.throughput[LOOP].per_second = 200.0
            claimer._demand.rang()
            await _asked(claimer, line)
        return [said[3].pools[0].slots for said in line.said]

    assert asyncio.run(slots()) == [{"*": 15, "slow": 5, "slower": 5}, {"*": 15, "slow": 5}]


def test_workers_learn_of_limits_that_were_set_at_run_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services_module, "_BOUNDS_SECONDS", 0)
    store = open_store("sqlite://")
    store.migrate()
    store.enqueue([NewJob(f"{n:026}", "t", "{}", queue) for n, queue in enumerate(("a", "b", "c"))])
    store.declare_queues({"a": QueueRules(weight=3), "b": QueueRules(concurrency=1)})
    store.limit_queue("c", QueueRules(rate=rate_of("5/s")))

    async def do(work: Callable[[], Any]) -> Any:
        return work()

    async def learn() -> list[str]:
        heard: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

        def bound(queues: list[str]) -> None:
            if not heard.done():
                heard.set_result(queues)

        line: Any = SimpleNamespace(store=store, do=do, failing_since=None)
        page: Any = None
        services = Services(
            SessionScope(Plan("app:app"), "s", page, line, Ledger()), SessionParts()
        )
        learning = asyncio.create_task(services._learn_bounds_forever(bound))
        try:
            return await asyncio.wait_for(heard, 5)
        finally:
            learning.cancel()

    assert sorted(asyncio.run(learn())) == ["b", "c"]
    store.close()


def test_how_attempts_ended_is_told_once_with_their_outcomes() -> None:
    async def told() -> list[tuple[Any, ...]]:
        line = Line()
        claimer = claimer_of(line)
        ledger = claimer._ledger
        ledger.observer.watch([BreakerRules("api", frozenset({"task"}), 0.5, 1, 1, 1)])
        (hold,) = ledger.take([CLAIMED])
        ledger.settle(hold, Complete(hold.lease))
        await _asked(claimer, line)
        claimer._demand.rang()
        await _asked(claimer, line)
        return [each[5:] for each in line.said]

    attempt = (CLAIMED.lease.job, CLAIMED.lease.token, True)
    assert asyncio.run(told()) == [((Observed("api", 1, 0, (attempt,)),),), ()]
