"""Enqueue as users do: through an app, with checked arguments and shared writes."""

import asyncio
import threading
import time
from collections.abc import Callable

from limpet import App


def rates(folder: str, jobs: int) -> dict[str, float]:
    """Jobs a second, by way of enqueueing; `synchronous=full`."""
    app = App(f"sqlite:///{folder}/client.db")

    @app.task
    def work(to: str, n: int) -> None: ...

    work.enqueue(to="a@b.c", n=0)

    def one_by_one() -> int:
        few = max(jobs // 10, 1)
        for n in range(few):
            work.enqueue(to="a@b.c", n=n)
        return few

    def coroutines(callers: int) -> int:
        async def caller() -> None:
            for n in range(jobs // callers):
                await work.aenqueue(to="a@b.c", n=n)

        async def together() -> None:
            await asyncio.gather(*(caller() for _ in range(callers)))

        asyncio.run(together())
        return jobs // callers * callers

    def threads(callers: int) -> int:
        def caller() -> None:
            for n in range(jobs // callers):
                work.enqueue(to="a@b.c", n=n)

        started = [threading.Thread(target=caller) for _ in range(callers)]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        return jobs // callers * callers

    def bulk() -> int:
        return len(app.enqueue_many([work.call(to="a@b.c", n=n) for n in range(jobs)]))

    ways: dict[str, Callable[[], int]] = {
        "one caller": one_by_one,
        "64 coroutines, coalesced": lambda: coroutines(64),
        "512 coroutines, coalesced": lambda: coroutines(512),
        "64 threads, coalesced": lambda: threads(64),
        "enqueue_many": bulk,
    }
    measured = {}
    for name, way in ways.items():
        began = time.perf_counter()
        count = way()
        measured[name] = count / (time.perf_counter() - began)
    app.close()
    return measured
