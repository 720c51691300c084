"""Tasks that hand in other jobs and wait for them."""

import asyncio
import threading

from worker.base import app, once
from worker.tasks.results import add, add_async

from limpet import Context, current


@app.task(retry=once)
def enqueues(ctx: Context) -> list[str]:
    return [add.enqueue(1, 2).id, add_async.enqueue(3, 4).id]


@app.task(retry=once)
async def enqueues_sync_in_async() -> list[str]:
    return [add.enqueue(1, 2).id, add_async.enqueue(3, 4).id]


@app.task(retry=once)
async def enqueues_async() -> list[str]:
    first = await add.aenqueue(1, 2)
    second = await add_async.aenqueue(3, 4)
    return [first.id, second.id]


@app.task(retry=once)
def enqueues_many(count: int) -> list[str]:
    calls = [add.call(n, 1) if n % 2 else add_async.call(n, 1) for n in range(count)]
    return [job.id for job in app.enqueue_many(calls)]


@app.task(retry=once)
async def enqueues_at_once(count: int) -> list[str]:
    jobs = await asyncio.gather(*(add_async.aenqueue(n, 1) for n in range(count)))
    return [job.id for job in jobs]


@app.task(retry=once)
def waits_for_result() -> int:
    return add_async.enqueue(20, 3).result(timeout=10)


@app.task(retry=once)
def waits_for_a_sync_one() -> int:
    """With a lane left for the other; it may have been put behind this one in its own."""
    return add.enqueue(20, 3).result(timeout=10)


@app.task(retry=once)
async def awaits_result() -> int:
    first = await add.aenqueue(20, 3)
    second = await add_async.aenqueue(30, 4)
    return await first.aresult(timeout=10) + await second.aresult(timeout=10)


@app.task(retry=once)
def looks_up(job: str) -> str:
    handle = app.job(job)
    return str(handle.state)


@app.task(retry=once)
def cancels(job: str) -> str:
    return str(app.job(job).cancel("by another job"))


@app.task(retry=once)
def cancels_itself(ctx: Context) -> None:
    import time

    app.job(ctx.job.id).cancel("by itself")
    time.sleep(30)


@app.task(retry=once)
def enqueues_from_a_thread() -> list[str]:
    found: list[str] = []
    known: list[bool] = []

    def work() -> None:
        known.append(current() is not None)
        found.append(add.enqueue(5, 6).id)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert known == [True], "the thread does not know its attempt"
    return found


@app.task(retry=once)
def enqueues_something_wrong() -> str:
    from limpet import PayloadInvalid

    try:
        add.enqueue("x", 2)  # type: ignore[arg-type]
    except PayloadInvalid as error:
        return str(error)
    return ""


@app.task(retry=once)
def enqueues_as_another(ctx: Context) -> str:
    """Tries to hand in a job under a token that is over, as a late holder would."""
    from limpet import LimpetError
    from limpet.domain.lease import Lease

    store = app.client.store
    job = add.new_jobs([add.call(1, 2).packed])[0]
    stale = Lease(ctx.job.id, store._session, ctx.token - 1)  # type: ignore[attr-defined]
    try:
        store.enqueue([job], fence=stale)
    except LimpetError as error:
        return type(error).__name__
    return "accepted"


@app.task(retry=once)
def uses_what_only_the_worker_may() -> list[str]:
    refused = []
    for verb in ("exchange", "settle", "release", "register", "recover", "prune"):
        try:
            getattr(app.client.store, verb)
        except AttributeError:
            refused.append(verb)
    return refused
