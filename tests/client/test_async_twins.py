"""What can be asked and said can be asked and said in async code as well."""

import asyncio
import inspect
from typing import Any

import pytest
from client.waiting import PUBLIC, members_that_wait, waiting
from contract.driver import Holder

from limpet import App, BreakerNotFound, InvalidOption, JobNotFound, Unique
from limpet.app.task import Task
from limpet.domain.breaker import BreakerState, Observed
from limpet.domain.errors import DuplicateJob
from limpet.domain.queue import QueueRules
from limpet.domain.rate import rate_of
from limpet.domain.state import State


@pytest.fixture
def work(app: App) -> Task[[], None]:
    @app.task(queue="email")
    def work() -> None: ...

    return work


WAITS = [(kind, name) for kind in PUBLIC for name in sorted(waiting()[kind])]


def parameters(member: Any) -> inspect.Signature:
    function: Any = member.fget if isinstance(member, property) else member
    return inspect.signature(function)


@pytest.mark.parametrize(("kind", "name"), WAITS, ids=lambda each: getattr(each, "__name__", each))
def test_what_waits_has_an_async_twin_that_takes_and_returns_the_same(kind: Any, name: str) -> None:
    member, twin = inspect.getattr_static(kind, name), getattr(kind, f"a{name}")
    assert inspect.iscoroutinefunction(twin)
    assert parameters(twin) == parameters(member)


def test_the_search_for_what_waits_finds_it() -> None:
    found = {f"{kind.__name__}.{name}" for kind, name in WAITS}
    assert found >= {
        "App.enqueue_many", "App.flow", "App.chain", "App.job", "App.close", "Task.enqueue",
        "JobHandle.state", "JobHandle.details", "JobHandle.parent", "JobHandle.children",
        "JobHandle.refresh", "JobHandle.result", "JobHandle.cancel", "GroupHandle.results",
        "GroupHandle.cancel", "Context.children", "Queues.limit", "Keys.unlimit",
        "AppBreakers.reset", "Schedules.upsert", "Schedules.list",
    }  # fmt: skip
    assert not found & {"App.queues", "App.permit", "App.task", "Task.call", "Task.handle"}


class Silent:
    """Waits in ways that are not to be overlooked."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def plainly(self) -> Any:
        return self._client.store.states([])

    def inside(self) -> Any:
        return self._hidden()

    def _hidden(self) -> Any:
        return [self.plainly for _ in range(2)]

    def beside(self, handle: Any) -> Any:
        return handle.refresh()

    def not_at_all(self) -> Any:
        return self._client.clock.wall()


def test_a_wait_is_found_wherever_it_is() -> None:
    assert members_that_wait(Silent, {"refresh"}) == {"plainly", "inside", "beside"}


def test_jobs_are_handed_in_found_and_followed(app: App, work: Task[[], None]) -> None:
    async def say() -> None:
        one, two = await app.aenqueue_many(work.call() for _ in range(2))
        found = await app.ajob(one.id)
        assert (await found.astate(), (await found.adetails()).queue) == (State.READY, "email")
        assert await found.aparent() is None
        parent = await app.aflow(work.call(), [work.call()])
        (child,) = await parent.achildren()
        above = await (await app.ajob(child.id)).aparent()
        assert above is not None
        assert above.id == parent.id
        assert await above.astate() is State.BLOCKED
        with pytest.raises(JobNotFound):
            await app.ajob(two.id[:-1] + ("0" if two.id[-1] != "0" else "1"))

    asyncio.run(say())


def test_a_refusal_comes_through_the_twin(app: App, work: Task[[], None]) -> None:
    async def say() -> None:
        with pytest.raises(InvalidOption, match="has no key"):
            await app.aenqueue_many([work.using(key_limit=2).call()])
        only = work.using(unique=Unique("a", on_conflict="drop"))
        only.enqueue()
        with pytest.raises(DuplicateJob):
            await only.enqueue().astate()

    asyncio.run(say())


def test_an_app_is_closed(url: str) -> None:
    async def say() -> None:
        app = App(url)
        app.client.store.migrate()
        await app.aclose()
        await app.aclose()

    asyncio.run(say())


def test_a_breaker_is_reset(app: App, work: Task[[], None]) -> None:
    app.task(name="charge", breaker="stripe")(lambda: None)
    app.breaker("stripe", least=1)
    store = app.client.store
    store.declare_breakers(app.registry.breaker_rules)
    Holder(store, ["charge"]).exchange(observed=[Observed("stripe", 0, 3)])
    assert [each.state for each in store.breakers()] == [BreakerState.OPEN]

    async def say() -> None:
        await app.breakers.areset("stripe")
        with pytest.raises(BreakerNotFound, match="this store has: stripe"):
            await app.breakers.areset("strype")

    asyncio.run(say())
    assert [each.state for each in store.breakers()] == [BreakerState.CLOSED]


def test_a_queue_is_limited_held_paused_and_drained(app: App, work: Task[[], None]) -> None:
    work.enqueue()

    def seen() -> tuple[QueueRules, bool, bool, bool]:
        (view,) = app.client.store.queues()
        return view.rules, bool(view.held_until), view.paused, view.draining

    async def say() -> None:
        await app.queues.alimit("email", concurrency=1, rate="10/s", weight=2)
        await app.queues.ahold("email", "1h")
        await app.queues.apause("email")
        await app.queues.adrain("email")
        assert seen() == (QueueRules(1, rate_of("10/s"), 2), True, True, True)
        await app.queues.aunlimit("email")
        await app.queues.ahold("email", 0)
        await app.queues.aresume("email")
        assert seen() == (QueueRules(), False, False, False)

    asyncio.run(say())


def test_a_key_is_limited_and_freed(app: App, work: Task[[], None]) -> None:
    def states() -> list[State]:
        return [work.using(key="k").enqueue().refresh().state for _ in range(2)]

    async def say() -> None:
        await app.keys.alimit("k", limit=3, rate="1000/s")
        assert states() == [State.READY, State.READY]
        await app.keys.aunlimit("k")
        assert states() == [State.BLOCKED, State.BLOCKED]

    asyncio.run(say())


def test_a_schedule_is_put_fired_paused_and_removed(app: App, work: Task[[], None]) -> None:
    async def say() -> None:
        schedules = app.schedules
        put = await schedules.aupsert("s", work, args={}, cron="0 3 * * *", tz="Europe/Berlin")
        assert await schedules.aget("s") == put
        assert await schedules.alist() == [put]
        assert len(await schedules.anext_runs("s", 3)) == 3
        assert app.job(await schedules.atrigger("s")).task == "work"
        await schedules.apause("s")
        assert (await schedules.aget("s")).paused
        await schedules.aresume("s")
        assert not (await schedules.aget("s")).paused
        await schedules.aremove("s")
        assert await schedules.alist() == []

    asyncio.run(say())
