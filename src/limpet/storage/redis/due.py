"""What the passing of time brings: promote due jobs, prune old ones."""

from collections.abc import Mapping
from datetime import timedelta

from limpet.domain.duration import microseconds
from limpet.domain.queue import REPEAT_WINDOW
from limpet.domain.state import State
from limpet.storage.contract.answers import Promoted, Pruned
from limpet.storage.contract.bounds import SESSIONS_KEPT
from limpet.storage.records.unreadable import note, unreadable
from limpet.storage.redis.link import RedisLink


def promote(link: RedisLink) -> Promoted:
    """Scheduled → ready, waiting → too late; see `SweepVerbs.promote`."""
    _, ready, lapsed, more, next_due, lost = link.call("promote")
    for part in lost:
        flow, _, place = part.decode(errors="replace").partition(" ")
        note(unreadable("flow", flow, f"part {place}", ValueError("it is no list of jobs")))
    return Promoted(
        ready=ready,
        lapsed=lapsed,
        more=bool(more),
        next_due=int(float(next_due[1])) if next_due else None,
    )


def prune(
    link: RedisLink,
    retention: Mapping[State, timedelta],
    queues: Mapping[str, Mapping[State, timedelta]],
) -> Pruned:
    """Remove finished jobs and dead sessions; see `SweepVerbs.prune`."""
    kept = [(state, microseconds(time)) for state, time in retention.items()]
    kept_in = [
        (queue, state, microseconds(time))
        for queue, of_queue in queues.items()
        for state, time in of_queue.items()
    ]
    _, jobs, sessions, more = link.call(
        "prune", microseconds(REPEAT_WINDOW), kept, microseconds(SESSIONS_KEPT), kept_in
    )
    return Pruned(jobs, sessions, more=bool(more))
