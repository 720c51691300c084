"""A store with many waiting and as many finished jobs, and exchanges on it."""

import time

from holder import Holder, fill, new_jobs

from limpet.storage.contract.store import CHUNK


def deepen(holder: Holder, count: int) -> None:
    """Bring the store to `count` finished and `count` waiting jobs."""
    store = holder.store
    fill(store, count)
    while holder.exchange(min(CHUNK, count)) or holder.held:
        pass
    fill(store, count)


def exchanges(holder: Holder, batch: int, seconds: float) -> list[float]:
    """Times of exchanges that settle and claim a batch; the queue is refilled between them."""
    holder.store.enqueue(new_jobs(batch))
    holder.exchange(batch)
    times: list[float] = []
    spent = 0.0
    while spent < seconds:
        holder.store.enqueue(new_jobs(batch))
        began = time.perf_counter()
        assert holder.exchange(batch) == batch
        times.append(time.perf_counter() - began)
        spent += times[-1]
    holder.exchange(0)
    return times
