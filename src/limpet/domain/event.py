"""A job's timeline: failures and detours as recorded events, normal steps read from the row."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from limpet.domain.cause import Cause, NotStarted
from limpet.domain.job import Job
from limpet.domain.state import State


class EventName(StrEnum):
    """What happened to a job, in the words of the timeline."""

    ENQUEUED = "enqueued"
    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    RELEASED = "released"
    ORPHANED = "orphaned"
    RECOVERED = "recovered"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"
    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"
    REOPENED = "reopened"
    LEASE_LOST = "lease_lost"
    FANNED_OUT = "fanned_out"
    RELAUNCHED = "relaunched"
    REPAIRED = "repaired"
    REQUEUED = "requeued"


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the timeline; `at` is wall time in microseconds.

    `claimed_at` is set on the events of an attempt: a claim writes no event of its own, so the
    timeline adds one from this field.
    """

    at: int
    event: EventName | str  # a plain text if a newer version wrote a name unknown to this one
    session: str | None = None
    token: int | None = None
    cause: Cause | None = None
    claimed_at: int | None = None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event with the job that it happened to."""

    job: str
    task: str
    queue: str
    event: Event


def timeline(job: Job, recorded: list[Event]) -> list[Event]:
    """Put the timeline together; entries of one moment keep the order in which they happened."""
    entries: list[Event] = [Event(job.created_at, EventName.ENQUEUED)]
    claims: set[int] = set()
    for event in recorded:
        if event.claimed_at is not None and event.token is not None and event.token not in claims:
            claims.add(event.token)
            entries.append(Event(event.claimed_at, EventName.CLAIMED, event.session, event.token))
        entries.append(event)
    if job.claimed_at is not None and job.token not in claims:
        entries.append(Event(job.claimed_at, EventName.CLAIMED, job.session, job.token))
    if job.state is State.SUCCEEDED and job.finished_at is not None:
        entries.append(Event(job.finished_at, EventName.SUCCEEDED, job.session, job.token))
    return sorted(entries, key=lambda entry: entry.at)


def times_reopened(recorded: Sequence[Event]) -> int:
    """How many new rounds a person opened."""
    return sum(event.event == EventName.REOPENED for event in recorded)


def unreported_loss(recorded: Sequence[Event]) -> Cause | None:
    """The last loss that the orphan hook has not seen: since then no attempt ended otherwise."""
    for event in reversed(recorded):
        cause = event.cause
        if event.event in (EventName.ORPHANED, EventName.RECOVERED):
            if cause is not None and cause.charged:
                return cause
        elif event.event == EventName.RELEASED:
            if not isinstance(cause, NotStarted):
                return None
        elif event.event in (EventName.RETRIED, EventName.SNOOZED, EventName.REOPENED):
            return None
    return None
