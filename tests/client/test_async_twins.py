"""What is said of queues, keys and schedules can be said in async code as well."""

import asyncio
import inspect
from typing import Any

import pytest

from limpet import App
from limpet.app.queues import Keys, Queues
from limpet.app.schedules import Schedules
from limpet.app.task import Task
from limpet.domain.queue import QueueRules
from limpet.domain.rate import rate_of
from limpet.domain.state import State

VERBS = [
    (kind, name)
    for kind in (Queues, Keys, Schedules)
    for name, member in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and not inspect.iscoroutinefunction(member)
]


@pytest.fixture
def work(app: App) -> Task[[], None]:
    @app.task(queue="email")
    def work() -> None: ...

    return work


@pytest.mark.parametrize(("kind", "name"), VERBS)
def test_each_verb_has_an_async_twin_that_takes_and_returns_the_same(kind: Any, name: str) -> None:
    verb, twin = getattr(kind, name), getattr(kind, f"a{name}")
    assert inspect.iscoroutinefunction(twin)
    assert inspect.signature(twin) == inspect.signature(verb)


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
