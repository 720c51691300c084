"""A permit whose store is away: what is used meanwhile, and how long it takes to stop."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from machine import crowded
from permits.measured import Measure
from servers.proxy import Proxy

from limpet import App
from limpet.domain.weight import Weight
from limpet.gate.permits.permit import Permit
from limpet.gate.permits.stop import Stop
from limpet.gate.this_host import ThisHost
from limpet.host import locks
from limpet.storage.registry import open_store

PATIENCE_SECONDS = 30.0
# What whoever is cancelled waits at the most, and a little more.
SOON_SECONDS = 2.0 + 0.5

pytestmark = pytest.mark.not_on("sqlite", "there is no network between")


@pytest.fixture
def network(url: str) -> Iterator[Proxy]:
    proxy = Proxy(port_of(url))
    yield proxy
    proxy.close()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


@pytest.fixture
def far_url(network: Proxy, url: str) -> str:
    """The store behind the network."""
    return network.url(url, port_of(url))


def until(true: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def opened(folder: Path) -> int:
    """How many descriptors this process has of files there."""
    found = 0
    for each in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{each}").startswith(str(folder))
        except FileNotFoundError:  # that of the list itself
            continue
    return found


def test_waiting_through_an_outage_keeps_nothing_of_each_try(
    far_url: str,
    network: Proxy,
    server: str,
    measure: Measure,
    run_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[str] = []
    reasons: list[str] = []
    held, leave = threading.Event(), threading.Event()
    take = locks.take

    def counted(session: str) -> locks.HeldLocks:
        tries.append(session)
        return take(session)

    monkeypatch.setattr(locks, "take", counted)
    with measure(busy=95) as host, closing(open_store(far_url)) as store:
        permit = Permit(
            store,
            lambda: ThisHost(server),
            Weight(1),
            lease=timedelta(seconds=2),
            on_wait=reasons.append,
            stop=(stop := Stop()),
        )

        def hold() -> None:
            with permit:
                held.set()
                leave.wait(PATIENCE_SECONDS)

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            until(lambda: reasons)
            network.refuse()
            until(lambda: len(tries) >= 6)
            # Those of a try that is under way are closed soon; what is kept would grow.
            until(lambda: opened(run_folder) <= 2)
            assert len(os.listdir(run_folder)) <= 4  # of this try, and of the one before the outage
            network.pass_on()
            host.say(0)
            assert held.wait(PATIENCE_SECONDS)
        finally:
            stop.set()
            leave.set()
            thread.join()
        assert opened(run_folder) == 0


def test_cancelled_wait_for_a_store_that_does_not_answer_is_over_soon(
    far_url: str, network: Proxy, measure: Measure
) -> None:
    async def waits(app: App) -> float:
        permit = app.permit()

        async def enter() -> None:
            async with permit:
                raise AssertionError("there was no room")

        task = asyncio.create_task(enter())
        await asyncio.sleep(1.5)
        network.hang()
        await asyncio.sleep(1.0)
        task.cancel()
        return await time_to_end(task)

    with measure(busy=95), closing(App(far_url)) as app:
        assert asyncio.run(waits(app)) < SOON_SECONDS * crowded()


def test_cancelled_body_does_not_wait_for_a_store_that_does_not_answer(
    far_url: str, network: Proxy, measure: Measure
) -> None:
    async def works(app: App) -> float:
        inside = asyncio.Event()

        async def work() -> None:
            async with app.permit():
                inside.set()
                await asyncio.sleep(PATIENCE_SECONDS)

        task = asyncio.create_task(work())
        await inside.wait()
        network.hang()
        task.cancel()
        return await time_to_end(task)

    with measure(), closing(App(far_url)) as app:
        assert asyncio.run(works(app)) < SOON_SECONDS * crowded()


async def time_to_end(task: "asyncio.Task[None]") -> float:
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    print(f"it ended {time.monotonic() - began:.2f} s after it was cancelled")
    return time.monotonic() - began


def test_interrupted_body_does_not_wait_for_a_store_that_does_not_answer(
    far_url: str, network: Proxy, measure: Measure
) -> None:
    def interrupted() -> None:
        network.hang()
        raise KeyboardInterrupt

    with measure(), closing(App(far_url)) as app:
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt), app.permit():
            interrupted()
        print(f"it ended {time.monotonic() - began:.2f} s after it was interrupted")
        assert time.monotonic() - began < SOON_SECONDS * crowded()
