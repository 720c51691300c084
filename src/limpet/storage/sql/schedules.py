"""Schedules of a store in SQL: combines its script `schedule` and its own `enqueue`.

Each function runs within one write transaction, or one read, of the store.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from limpet.domain.job import NewJob
from limpet.domain.queue import HIGHEST_PRIORITY, checked_name
from limpet.domain.rate import whole_number
from limpet.domain.schedule import Schedule
from limpet.domain.state import State
from limpet.storage.contract.answers import Receipt, Ticked
from limpet.storage.contract.bounds import at_most_a_chunk
from limpet.storage.contract.relocation import Statements
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.store_settings import SchedulePiece, read
from limpet.storage.records.unreadable import field, readable
from limpet.storage.sql.rows import Row

T = TypeVar("T")
Enqueue = Callable[[Sequence[NewJob]], list[Receipt]]
States = Callable[[Sequence[str]], dict[str, State]]

KIND = "schedule"
_UNDER_WAY = frozenset({State.SCHEDULED, State.READY, State.BLOCKED, State.RUNNING})
_TAKEN_IN = ("new", "already")


def schedule_of(row: Row) -> Schedule:
    """A schedule from a row of the script `schedule`."""
    id_, definition, next_at, paused, last_at, last_job, fired, passed, changed_at = row
    defined = field("schedule", id_, "definition", partial(read, SchedulePiece), definition)
    state = (next_at, bool(paused), last_at, last_job, fired, passed, changed_at)
    piece = defined.in_state(*state)
    return field("schedule", id_, "definition", lambda kept: checked(kept.schedule(id_)), piece)


def checked(schedule: Schedule) -> Schedule:
    """Check the numbers and names of a stored schedule; raises `ValueError`.

    Its moments are checked when it ticks: a time zone unknown here may be known elsewhere.
    """
    job, timing = schedule.job, schedule.timing
    for name, value in (
        ("delay", job.scheduled_for),
        ("expires", job.expires_at),
        ("deadline", job.deadline_at),
        ("jitter", timing.jitter),
    ):
        if value is not None:
            whole_number(value, name)
    if timing.cron is None:
        whole_number(timing.every, "every", 1)
    if not 0 <= schedule.next_at <= 2**53:
        raise ValueError("next_at is no time")
    if not -HIGHEST_PRIORITY <= job.priority <= HIGHEST_PRIORITY:
        raise ValueError(f"priority is not between -{HIGHEST_PRIORITY} and {HIGHEST_PRIORITY}")
    checked_name(job.queue)
    checked_name(job.task, "task")
    return schedule


def put(tx: Statements, schedule: Schedule, now: int | None) -> bool:
    """Put or change a schedule; see `ScheduleVerbs.put_schedule`."""
    changed = tx.run(
        "schedule",
        "put",
        id=schedule.id,
        timing=schedule.timing.text,
        definition=SchedulePiece.of(schedule).definition,
        next_at=schedule.next_at,
        now=now,
    )
    return bool(changed)


def remove(tx: Statements, id_: str) -> bool:
    """Remove a schedule; see `ScheduleVerbs.remove_schedule`."""
    return bool(tx.run("schedule", "remove", id=id_))


def pause(tx: Statements, id_: str, paused: bool, next_at: int | None) -> bool:
    """Pause or resume a schedule; see `ScheduleVerbs.pause_schedule`."""
    if paused:
        tx.run("schedule", "pause", id=id_)
    else:
        tx.run("schedule", "resume", id=id_, next_at=next_at)
    return find(tx, id_) is not None


def find(tx: Statements, id_: str) -> Schedule | None:
    """One schedule, or None."""
    return next(iter(readable(tx.run("schedule", "find", id=id_), schedule_of)), None)


def every(tx: Statements) -> tuple[Schedule, ...]:
    """All schedules, by id."""
    return tuple(readable(tx.run("schedule", "all"), schedule_of))


def due(tx: Statements, until: int) -> tuple[tuple[Schedule, ...], int | None]:
    """The schedules that tick by then; see `ScheduleVerbs.due_schedules`."""
    found = tx.run("schedule", "due", until=until, limit=CHUNK)
    ((later,),) = tx.run("schedule", "later", until=until)
    return tuple(readable(found, schedule_of)), later


def tick(
    tx: Statements,
    seen: Schedule,
    jobs: Sequence[NewJob],
    next_at: int,
    *,
    enqueue: Enqueue,
    states: States,
) -> Ticked:
    """Fire ticks; see `ScheduleVerbs.tick`."""
    now = _held(tx, seen.id)
    if now is None:
        return Ticked("gone")
    if (now.next_at, now.changed_at) != (seen.next_at, seen.changed_at) or next_at <= now.next_at:
        return Ticked("late", (), now.next_at, now.last_job)
    if now.paused:
        return Ticked("paused", (), now.next_at, now.last_job)
    if jobs and _is_busy(now, states):
        _move_on(tx, now.id, next_at, passed=len(jobs))
        return Ticked("passed", (), next_at, now.last_job)
    return _fired(tx, now, jobs, next_at, enqueue)


def trigger(
    tx: Statements, seen: Schedule, job: NewJob, *, enqueue: Enqueue, states: States
) -> Ticked:
    """Fire a schedule now; see `ScheduleVerbs.trigger`."""
    now = _held(tx, seen.id)
    if now is None:
        return Ticked("gone")
    if now.last_job == job.id:
        return Ticked("fired", tuple(enqueue([job])), now.next_at, now.last_job)
    if _is_busy(now, states):
        return Ticked("passed", (), now.next_at, now.last_job)
    return _fired(tx, now, [job], now.next_at, enqueue)


def _held(tx: Statements, id_: str) -> Schedule | None:
    """A schedule, locked so that nobody else fires or changes it before this transaction ends."""
    return next(iter(readable(tx.run("schedule", "hold", id=id_), schedule_of)), None)


def _is_busy(schedule: Schedule, states: States) -> bool:
    last = schedule.last_job
    return not schedule.overlap and last is not None and states([last]).get(last) in _UNDER_WAY


def _fired(
    tx: Statements, now: Schedule, jobs: Sequence[NewJob], next_at: int, enqueue: Enqueue
) -> Ticked:
    receipts = tuple(enqueue(jobs)) if jobs else ()
    taken = [
        job for job, receipt in zip(jobs, receipts, strict=True) if receipt.outcome in _TAKEN_IN
    ]
    last = taken[-1] if taken else None
    _move_on(tx, now.id, next_at, now, last, fired=len(taken), passed=len(jobs) - len(taken))
    return Ticked("fired", receipts, next_at, last.id if last else now.last_job)


def _move_on(
    tx: Statements,
    id_: str,
    next_at: int,
    of: Schedule | None = None,
    last: NewJob | None = None,
    *,
    fired: int = 0,
    passed: int = 0,
) -> None:
    at, job = None, None
    if of is not None and last is not None:
        at, job = of.tick_of(last), last.id
    tx.run(
        "schedule", "move_on", id=id_, next_at=next_at, at=at, job=job, fired=fired, passed=passed
    )  # fmt: skip


def settings(tx: Statements) -> list[tuple[str, str, str]]:
    """Every schedule as a setting that is carried to another store."""
    return [(KIND, schedule.id, SchedulePiece.of(schedule).text()) for schedule in every(tx)]


def rows(pieces: Sequence[tuple[str, str, str]]) -> list[tuple[int | str | None, ...]]:
    """The schedules among the settings of another store, as rows of the table."""
    found: list[tuple[int | str | None, ...]] = []
    for kind, id_, text in pieces:
        if kind == KIND:
            piece = read(SchedulePiece, text)
            found.append((id_, piece.schedule(id_).timing.text, piece.definition, *piece.state))
    return found


class Writing(NamedTuple):
    """A write transaction of a store that takes writes; `now`: its wall time, None for that of the
    server.
    """

    tx: Statements
    now: int | None
    enqueue: Enqueue
    states: States


class SqlSchedules(ABC):
    """The verbs of schedules on a store in SQL; see `limpet.storage.contract.scheduling`."""

    @abstractmethod
    def _reading(self, work: Callable[[Statements], T]) -> T:
        """Do `work` in one read."""

    @abstractmethod
    def _writing(self, work: Callable[[Writing], T], rows: int = 1) -> T:
        """Do `work` in one write transaction; raises `StoreMoved` if the store takes no writes."""

    def put_schedule(self, schedule: Schedule, /) -> bool:
        return self._writing(lambda to: put(to.tx, schedule, to.now))

    def remove_schedule(self, schedule: str, /) -> bool:
        return self._writing(lambda to: remove(to.tx, schedule))

    def pause_schedule(
        self, schedule: str, /, paused: bool = True, next_at: int | None = None
    ) -> bool:
        return self._writing(lambda to: pause(to.tx, schedule, paused, next_at))

    def schedules(self) -> tuple[Schedule, ...]:
        return self._reading(every)

    def schedule(self, schedule: str, /) -> Schedule | None:
        return self._reading(lambda tx: find(tx, schedule))

    def due_schedules(self, until: int) -> tuple[tuple[Schedule, ...], int | None]:
        return self._reading(lambda tx: due(tx, until))

    def tick(self, seen: Schedule, jobs: Sequence[NewJob], next_at: int) -> Ticked:
        at_most_a_chunk(jobs)
        return self._writing(
            lambda to: tick(to.tx, seen, jobs, next_at, enqueue=to.enqueue, states=to.states),
            rows=len(jobs),
        )

    def trigger(self, seen: Schedule, job: NewJob) -> Ticked:
        return self._writing(
            lambda to: trigger(to.tx, seen, job, enqueue=to.enqueue, states=to.states)
        )
