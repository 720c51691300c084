"""Puts, pauses and removes schedules; fires each of their ticks once."""

from collections.abc import Sequence
from typing import Any

from limpet.domain.job import NewJob
from limpet.domain.schedule import Schedule
from limpet.storage.contract.answers import Ticked
from limpet.storage.contract.bounds import at_most_a_chunk
from limpet.storage.contract.refusals import of_texts
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.store_settings import SchedulePiece, read
from limpet.storage.records.unreadable import field, readable
from limpet.storage.redis.enqueue import batch_of, receipts_of
from limpet.storage.redis.link import RedisLink
from limpet.storage.redis.packed import unpacked
from limpet.storage.sql.schedules import checked


@of_texts
def put(link: RedisLink, schedule: Schedule) -> bool:
    """Add or change a schedule; see `ScheduleVerbs.put_schedule`."""
    definition = SchedulePiece.of(schedule).definition
    fields = (schedule.id, schedule.timing.text, definition, schedule.next_at)
    return bool(link.call("put_schedule", *fields)[1])


def remove(link: RedisLink, id_: str) -> bool:
    """Remove a schedule; see `ScheduleVerbs.remove_schedule`."""
    return bool(link.call("remove_schedule", id_)[1])


def pause(link: RedisLink, id_: str, paused: bool, next_at: int | None) -> bool:
    """Stop or resume a schedule; see `ScheduleVerbs.pause_schedule`."""
    return bool(link.call("pause_schedule", id_, paused, next_at or False)[1])


def every(link: RedisLink) -> tuple[Schedule, ...]:
    """All schedules, by id."""
    found = schedules_of(link.call("schedules", False, False, 0)[1])
    return tuple(sorted(found, key=lambda schedule: schedule.id))


def find(link: RedisLink, id_: str) -> Schedule | None:
    """One schedule, or None."""
    return next(iter(schedules_of(link.call("schedules", id_, False, 0)[1])), None)


def due(link: RedisLink, until: int) -> tuple[tuple[Schedule, ...], int | None]:
    """The schedules that tick by a time; see `ScheduleVerbs.due_schedules`."""
    _, found, *later = link.call("schedules", False, until, CHUNK)
    first = later[0] if later else None
    return tuple(schedules_of(found)), None if first is None else int(first)


def schedules_of(pairs: Sequence[bytes]) -> list[Schedule]:
    """Schedules from pairs of id and stored text; those that cannot be read are left out."""
    return readable(zip(pairs[::2], pairs[1::2], strict=True), _schedule)


def _schedule(pair: tuple[bytes, bytes | None]) -> Schedule:
    name = pair[0].decode(errors="replace")
    return field("schedule", name, "definition", lambda kept: _read(name, kept), pair[1])


def _read(name: str, kept: bytes | None) -> Schedule:
    # A field that is not set is false.
    if kept is None:
        raise ValueError("there is none")
    _, definition, next_at, paused, last_at, last_job, *counted = unpacked(kept)
    state = (next_at, paused, last_at or None, last_job or None, *counted)
    return checked(read(SchedulePiece, definition).in_state(*state).schedule(name))


def kept_of(piece: SchedulePiece, id_: str) -> tuple[Any, ...]:
    """A schedule of another store, in the order in which it is kept."""
    next_at, paused, last_at, last_job, *counted = piece.state
    timing = piece.schedule(id_).timing.text
    return (
        timing,
        piece.definition,
        next_at,
        paused,
        last_at or False,
        last_job or False,
        *counted,
    )


def tick(link: RedisLink, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
    """Fire ticks; see `ScheduleVerbs.tick`."""
    return _fire(link, seen, jobs, seen.next_at, seen.changed_at, next_at)


def trigger(link: RedisLink, seen: Schedule, job: NewJob) -> Ticked:
    """Fire one now; see `ScheduleVerbs.trigger`."""
    return _fire(link, seen, [job], False, False, 0)


@of_texts
def _fire(link: RedisLink, seen: Schedule, jobs: Sequence[NewJob], *when: int) -> Ticked:
    number, shapes, kinds, extras, texts = batch_of(jobs)
    delay = seen.job.scheduled_for or 0
    _, *answer = link.call(
        "tick", seen.id, *when, seen.overlap, delay, number, shapes, kinds, extras, texts=texts
    )
    outcome, next_at, last_job, *fired = (*answer, None, None)[: max(len(answer), 3)]
    return Ticked(
        outcome.decode(),
        tuple(receipts_of([job.id for job in jobs], fired[0].decode(), *fired[1:]))
        if fired
        else (),
        None if next_at is None else int(next_at),
        None if last_job is None else last_job.decode(),
    )


class ScheduleStore:
    """The verbs of schedules; see `limpet.storage.contract.scheduling`."""

    _link: RedisLink

    def put_schedule(self, schedule: Schedule, /) -> bool:
        return put(self._link, schedule)

    def remove_schedule(self, schedule: str, /) -> bool:
        return remove(self._link, schedule)

    def pause_schedule(
        self, schedule: str, /, paused: bool = True, next_at: int | None = None
    ) -> bool:
        return pause(self._link, schedule, paused, next_at)

    def schedules(self) -> tuple[Schedule, ...]:
        return every(self._link)

    def schedule(self, schedule: str, /) -> Schedule | None:
        return find(self._link, schedule)

    def due_schedules(self, until: int) -> tuple[tuple[Schedule, ...], int | None]:
        return due(self._link, until)

    def tick(self, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
        at_most_a_chunk(jobs)
        return tick(self._link, seen, jobs, next_at)

    def trigger(self, seen: Schedule, job: NewJob) -> Ticked:
        return trigger(self._link, seen, job)
