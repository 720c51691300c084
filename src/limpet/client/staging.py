"""Hands in more jobs in one step than one write can take: stages them, then commits them at once.

If this process is killed before the commit, no job exists and the staged rows are pruned; if it is
killed after the commit, all jobs exist and the workers write out the rest.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from limpet.domain.errors import QueueDraining, StoreError, StoreUnavailable, StoreUnreachable
from limpet.domain.job import NewJob
from limpet.domain.queue import QueueView
from limpet.domain.state import WAITING
from limpet.storage.contract.bounds import batches
from limpet.storage.contract.store import Store

_PAUSE_SECONDS = 0.01
# Longest time without progress of the writing out; then it is left to the workers.
_WRITE_OUT_TIMEOUT_SECONDS = 10.0


def hand_in(
    store: Store,
    jobs: Sequence[NewJob],
    with_retries: Callable[..., object],
    *,
    caps: Mapping[str, int] | None = None,
    writes_out: bool = True,
) -> None:
    """Hand in all of the jobs or none; parents come before children, the first id names the whole.

    Raises `QueueFull` for a queue that is over its cap; then there are no jobs. `writes_out`: write
    out the committed jobs here, instead of only waiting until a worker has done it.
    """
    flow = jobs[0].id
    chunks = list(batches(jobs))
    for place, chunk in enumerate(chunks):
        with_retries(store.stage, flow, place, chunk)
    with_retries(store.commit, flow, len(chunks), caps=caps)
    # The jobs are accepted: an error from here on only delays them, so it is not raised.
    with contextlib.suppress(StoreError):
        _write_out(store, deque([job.id for job in chunk] for chunk in chunks), writes_out)


def _write_out(store: Store, parts: deque[list[str]], writes_out: bool) -> None:
    """Write out, or wait for, the committed jobs, so that their handles can be used."""
    until = time.monotonic() + _WRITE_OUT_TIMEOUT_SECONDS
    while time.monotonic() < until:
        more = writes_out and store.promote().more
        while len(store.states(parts[0])) == len(parts[0]):
            parts.popleft()
            if not parts:
                return
            until = time.monotonic() + _WRITE_OUT_TIMEOUT_SECONDS
        if not more:
            time.sleep(_PAUSE_SECONDS)  # another process writes them out


def full_queue(
    store: Store, wanted: Mapping[str, int], caps: Mapping[str, int], from_outside: bool
) -> tuple[str, int] | None:
    """A queue that `wanted` would bring over its cap, and how many jobs wait in it; else None.

    Raises `QueueDraining` for a draining queue `from_outside`: it takes in only what running jobs
    enqueue.
    """
    full: tuple[str, int] | None = None
    for view in _queues(store):
        if view.name not in wanted:
            continue
        if view.draining and from_outside:
            raise QueueDraining(view.name)
        waiting = sum(view.counts.get(state, 0) for state in WAITING)
        cap = caps.get(view.name)
        if cap is not None and waiting + wanted[view.name] > cap:
            full = (view.name, waiting)
    return full


def _queues(store: Store) -> tuple[QueueView, ...]:
    """Every queue; none of a store that does not exist yet: the first write creates it."""
    try:
        return store.queues()
    except StoreUnreachable:
        raise
    except StoreUnavailable:
        return ()
