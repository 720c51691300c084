"""What users see: reads only."""

from collections.abc import Sequence
from typing import Any

from limpet.domain.event import Event, JobEvent
from limpet.domain.job import Job, JobFilter, JobList, LogLine
from limpet.domain.queue import NO_QUEUE_RULES, QueueView
from limpet.domain.session import Session
from limpet.domain.state import State
from limpet.storage.contract.answers import Total
from limpet.storage.contract.bounds import page_size
from limpet.storage.contract.refusals import cursor_not_given
from limpet.storage.records.unreadable import readable
from limpet.storage.redis.limits import rules_of
from limpet.storage.redis.link import RedisLink
from limpet.storage.redis.rows import counts_of, job_of, number_of, pairs_of, state_of
from limpet.storage.redis.timeline import event_of, job_event_of, line_of, session_of

# How many rows one script may look at before it frees the server for others.
_MOST_LOOKED_AT = 10_000


def job(link: RedisLink, id_: str) -> Job | None:
    """One job, or None."""
    answer = link.call("job", id_)
    return job_of(answer[1]) if len(answer) > 1 else None


def states(link: RedisLink, ids: Sequence[str]) -> dict[str, State]:
    """The states of those jobs that exist."""
    digits = link.call("states", list(ids))[1]
    pairs = zip(ids, digits.decode(), strict=True)
    return {id_: state_of(int(digit)) for id_, digit in pairs if digit != "0"}


def jobs(link: RedisLink, which: JobFilter, cursor: str | None, limit: int) -> JobList:
    """A page of jobs, newest first."""
    size = page_size(limit)
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 16):
        raise cursor_not_given(cursor)
    found: list[Any] = []
    after: int | bool = int(cursor) if cursor is not None else False
    while len(found) <= size:
        _, part, goes_on = link.call(
            "jobs",
            after,
            size + 1 - len(found),
            which.state or False,
            which.queue or False,
            which.task or False,
            _MOST_LOOKED_AT,
        )
        found += part
        if not goes_on:
            break
        after = int(goes_on)
    more = len(found) > size
    found = found[:size]
    return JobList(tuple(map(job_of, found)), str(number_of(found[-1])) if more else None)


def events(link: RedisLink, id_: str) -> tuple[Event, ...]:
    """The recorded events of a job, oldest first."""
    return tuple(readable(link.call("events", id_)[1], lambda entry: event_of(id_, entry)))


def latest_events(link: RedisLink, limit: int) -> tuple[JobEvent, ...]:
    """What was recorded last, of any job."""
    return tuple(readable(link.call("latest_events", page_size(limit))[1], job_event_of))


def log(link: RedisLink, id_: str) -> tuple[LogLine, ...]:
    """The lines that a job wrote."""
    return tuple(readable(link.call("log", id_)[1], lambda entry: line_of(id_, entry)))


def queues(link: RedisLink) -> tuple[QueueView, ...]:
    """Every queue, with how many jobs are in each state."""
    _, gauges, paused, heads, now, declared, adjusted, holds, given, draining = link.call("queues")
    counts: dict[str, dict[State, int]] = {}
    for (queue, state), count in counts_of(gauges).items():
        of_queue = counts.setdefault(queue, {})
        if count:
            of_queue[State(state)] = count
    first: dict[str, tuple[float, int]] = {}
    for queue, place, ready_at in heads:
        head = (float(place), int(ready_at))
        name = queue.decode()
        first[name] = min(head, first.get(name, head))
    stopped = {queue.decode() for queue in paused}
    drained = {queue.decode() for queue in draining}
    set_ = {name: rules_of(name, kept, "adjusted rules") for name, kept in pairs_of(adjusted)}
    declared_ = {name: rules_of(name, kept, "declared rules") for name, kept in pairs_of(declared)}
    held = {name: int(float(until)) for name, until in pairs_of(holds)}
    paced = {name: int(float(until)) for name, until in pairs_of(given)}
    views = []
    for name in sorted(counts):
        own = set_.get(name, NO_QUEUE_RULES)
        rules = own.over(declared_.get(name, NO_QUEUE_RULES))
        until = held.get(name, 0)
        next_at = rules.rate.next_at(paced.get(f"queue:{name}", 0), int(now)) if rules.rate else 0
        views.append(
            QueueView(
                name,
                name in stopped,
                counts[name],
                first[name][1] if name in first else None,
                rules=rules,
                adjusted=own,
                held_until=until if until > int(now) else None,
                next_at=next_at if next_at > int(now) else None,
                draining=name in drained,
            )
        )
    return tuple(views)


def sessions(link: RedisLink, with_dead: bool) -> tuple[Session, ...]:
    """The sessions, newest first."""
    _, now_lease, found = link.call("sessions", with_dead)
    return tuple(session_of(id_, fields, int(now_lease)) for id_, fields in found)


def totals(link: RedisLink) -> tuple[Total, ...]:
    """How often each move was made, by queue."""
    counted = counts_of(link.call("totals")[1])
    return tuple(Total(queue, move, count) for (queue, move), count in sorted(counted.items()))
