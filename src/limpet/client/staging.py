"""Hands in more jobs at one moment than one write takes: staged aside, then committed in one step.

Killed before the commit, there are none, and what was staged is pruned; killed after it, there are
all, and the workers write out what is left.
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

_PAUSE = 0.01
# Without any progress; then the workers are left to it.
_WRITE_OUT_PATIENCE = 10.0


def hand_in(
    store: Store,
    jobs: Sequence[NewJob],
    patiently: Callable[..., object],
    *,
    caps: Mapping[str, int] | None = None,
    writes_out: bool = True,
) -> None:
    """All of the jobs, or none. Parents come before their children, and the first one names it.

    Raises `QueueFull` for a queue that is over its cap; then there is none. `writes_out`: it does
    so itself, not only waits until others have.
    """
    flow = jobs[0].id
    chunks = list(batches(jobs))
    for place, chunk in enumerate(chunks):
        patiently(store.stage, flow, place, chunk)
    patiently(store.commit, flow, len(chunks), caps=caps)
    # They are accepted: what goes wrong from here on delays them and is nobody's error.
    with contextlib.suppress(StoreError):
        _write_out(store, deque([job.id for job in chunk] for chunk in chunks), writes_out)


def _write_out(store: Store, parts: deque[list[str]], writes_out: bool) -> None:
    """Have what is committed written out now, so that the handles can be used."""
    until = time.monotonic() + _WRITE_OUT_PATIENCE
    while time.monotonic() < until:
        more = writes_out and store.promote().more
        while len(store.states(parts[0])) == len(parts[0]):
            parts.popleft()
            if not parts:
                return
            until = time.monotonic() + _WRITE_OUT_PATIENCE
        if not more:
            time.sleep(_PAUSE)  # somebody else is at it


def without_room(
    store: Store, asked: Mapping[str, int], caps: Mapping[str, int], from_outside: bool
) -> tuple[str, int] | None:
    """A queue that has no room for what is asked, and how many wait in it; None if all have.

    Raises `QueueDraining` for one that takes in nothing `from_outside`, but by jobs that run.
    """
    full: tuple[str, int] | None = None
    for view in _queues(store):
        if view.name not in asked:
            continue
        if view.draining and from_outside:
            raise QueueDraining(view.name)
        waiting = sum(view.counts.get(state, 0) for state in WAITING)
        cap = caps.get(view.name)
        if cap is not None and waiting + asked[view.name] > cap:
            full = (view.name, waiting)
    return full


def _queues(store: Store) -> tuple[QueueView, ...]:
    """Every queue; none of a store that is yet to be made, as the first write does."""
    try:
        return store.queues()
    except StoreUnreachable:
        raise
    except StoreUnavailable:
        return ()
