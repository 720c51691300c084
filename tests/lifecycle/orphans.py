"""The end of every lifecycle test: nothing lost, nothing doubled, nothing left behind."""

from collections.abc import Iterator

from lifecycle.intervals import doubles, overlaps
from lifecycle.place import PATIENCE_SECONDS, Place

from limpet.domain.event import EventName, timeline
from limpet.domain.job import Job, JobFilter
from limpet.domain.session import SessionState
from limpet.domain.state import FINAL, State

_ENDS = {EventName.SUCCEEDED, EventName.FAILED, EventName.CANCELLED}


def assert_no_orphans(place: Place) -> None:
    """Stop the workers, then require that nothing is left and that every promise was kept.

    No job runs under a dead or missing session, the store's invariants hold, each job has exactly
    one final state, no process of the test is alive, and no two attempts of a job overlapped.
    """
    place.stop()
    place.judged = True
    found = troubles(place)
    assert found == [], "\n".join(["what is left:", *found[:20]])


def troubles(place: Place) -> list[str]:
    """Everything that is wrong, one sentence each."""
    return [
        *_orphan_rows(place),
        *(f"invariant {each.invariant}: {each.example}" for each in place.store.invariants()),
        *_ends(place),
        *_survivors(place),
        *map(str, overlaps(place.records())),
        *doubles(place.records()),
    ]


def all_jobs(place: Place) -> Iterator[Job]:
    """Every job of the store."""
    cursor: str | None = None
    while True:
        page = place.store.jobs(JobFilter(), cursor, limit=1_000)
        yield from page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def _orphan_rows(place: Place) -> Iterator[str]:
    living = {
        each.id
        for each in place.store.sessions(with_dead=True)
        if each.state is not SessionState.DEAD and not each.overdue
    }
    for job in all_jobs(place):
        if job.state is State.RUNNING and job.session not in living:
            yield f"job {job.id} ({job.task}) runs under session {job.session}, which is dead"


def _ends(place: Place) -> Iterator[str]:
    for job in all_jobs(place):
        events = [event.event for event in timeline(job, list(place.store.events(job.id)))]
        ends = [event for event in events if event in _ENDS]
        rounds = 1 + events.count(EventName.REOPENED)
        if job.state not in FINAL:
            yield f"job {job.id} ({job.task}) is {job.state}, which is not final"
        elif len(ends) != rounds:
            yield f"job {job.id} ({job.task}) has {len(ends)} ends in {rounds} rounds: {ends}"
        elif str(ends[-1]) != job.state:
            yield f"job {job.id} ({job.task}) is {job.state}, but its timeline ends in {ends[-1]}"


def _survivors(place: Place) -> Iterator[str]:
    # A killed process needs a moment to be gone, and a worker's last child one to see its end.
    try:
        place.until(lambda: not place.living(), ALLOWED_SECONDS)
    except AssertionError:
        yield from (f"alive: {each}" for each in place.living())


ALLOWED_SECONDS = min(1.0, PATIENCE_SECONDS)
