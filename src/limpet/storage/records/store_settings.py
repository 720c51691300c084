"""The settings of a store, in the one JSON form in which stores keep them and moves carry them.

Each kind is a msgspec struct: `text()` writes it, `read(kind, text)` reads it. Stores that compute
with a part of it in SQL or Lua also keep that part in columns or fields of its own.
"""

from typing import Any, TypeVar

import msgspec

from limpet.domain.breaker import BreakerRules, BreakerState, BreakerStatus
from limpet.domain.job import NewJob
from limpet.domain.queue import NO_QUEUE_RULES, QueueRules
from limpet.domain.rate import Rate, checked_rate, whole_number
from limpet.domain.rules import rules_of
from limpet.domain.schedule import CatchUp, Schedule, Timing
from limpet.storage.records.unreadable import field, or_else


class _Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    def text(self) -> str:
        """The setting as JSON."""
        return msgspec.json.encode(self).decode()


class QueuePiece(_Setting, frozen=True, omit_defaults=True):
    """The settings of a queue; `given_until` belongs to its rate (see `domain.rate`)."""

    declared: QueueRules = NO_QUEUE_RULES
    adjusted: QueueRules = NO_QUEUE_RULES
    held_until: int = 0
    given_until: int = 0
    draining: bool = False

    @property
    def rules(self) -> QueueRules:
        """The rules in force."""
        return self.adjusted.over(self.declared)


class KeyPiece(_Setting, frozen=True, omit_defaults=True):
    """The limits set for a key at run time, and how far its rate has given out turns."""

    limit: int | None = None
    rate: Rate | None = None
    given_until: int = 0


class BreakerPiece(_Setting, frozen=True, omit_defaults=True):
    """A breaker: its rules and its state."""

    tasks: tuple[str, ...]
    failure_rate: float
    least: int
    window_us: int = msgspec.field(name="window")
    probe_after: int
    state: str = "closed"
    succeeded: int = 0
    failed: int = 0
    window_at: int = 0
    opened_at: int | None = None
    probe_at: int | None = None
    tries: tuple[tuple[str, int], ...] = ()

    def breaker(self, name: str) -> BreakerStatus:
        """The breaker as a domain object."""
        rules = BreakerRules(
            name,
            frozenset(self.tasks),
            self.failure_rate,
            self.least,
            self.window_us,
            self.probe_after,
        )
        return BreakerStatus(
            rules,
            BreakerState(self.state),
            self.succeeded,
            self.failed,
            self.window_at,
            self.opened_at,
            self.probe_at,
            self.tries,
        )

    @classmethod
    def of(cls, breaker: BreakerStatus) -> "BreakerPiece":
        """A breaker in its stored form."""
        rules = breaker.rules
        return cls(
            tuple(sorted(rules.tasks)),
            rules.failure_rate,
            rules.least,
            rules.window,
            rules.probe_after,
            str(breaker.state),
            breaker.succeeded,
            breaker.failed,
            breaker.window_at,
            breaker.opened_at,
            breaker.probe_at,
            breaker.tries,
        )


class SchedulePiece(_Setting, frozen=True, omit_defaults=True):
    """A schedule: its definition, and its state in the last seven fields.

    By `definition` a store knows whether a schedule is put again unchanged.
    """

    task: str
    args: str
    queue: str
    options: str = "{}"
    secrets: tuple[str, ...] = ()
    priority: int = 0
    delay_us: int | None = msgspec.field(default=None, name="delay")
    expires: int | None = None
    deadline: int | None = None
    key: str | None = None
    unique: str | None = None
    weight_class: str | None = None
    payload_version: int = 1
    rules: dict[str, Any] | None = None
    every: int | None = None
    cron: str | None = None
    tz: str = "UTC"
    jitter: int = 0
    catch_up: str = "one"
    overlap: bool = True
    declared: str = ""
    next_at: int = 0
    paused: bool = False
    last_at: int | None = None
    last_job: str | None = None
    fired: int = 0
    passed: int = 0
    changed_at: int = 0

    @property
    def definition(self) -> str:
        """The definition alone, as JSON."""
        return self.in_state(*_NEW_STATE).text()

    @property
    def state(self) -> tuple[Any, ...]:
        """The state, in the order of its fields."""
        return tuple(getattr(self, name) for name in _STATE)

    def in_state(self, *state: Any) -> "SchedulePiece":
        """The same definition with another state, in the order of its fields."""
        return msgspec.structs.replace(self, **dict(zip(_STATE, state, strict=True)))

    def schedule(self, id_: str) -> Schedule:
        """The schedule as a domain object."""
        job = NewJob(
            "", self.task, self.args, self.queue, self.options, self.secrets, self.priority,
            self.delay_us, self.expires, self.deadline, self.key, self.unique,
            weight_class=self.weight_class, payload_version=self.payload_version,
            rules=None if self.rules is None else rules_of(self.rules),
        )  # fmt: skip
        return Schedule(
            id=id_,
            job=job,
            timing=Timing(every=self.every, cron=self.cron, tz=self.tz, jitter=self.jitter),
            catch_up=CatchUp(self.catch_up),
            overlap=self.overlap,
            declared=self.declared,
            **{name: getattr(self, name) for name in _STATE},
        )

    @classmethod
    def of(cls, schedule: Schedule) -> "SchedulePiece":
        """A schedule in its stored form."""
        job, timing = schedule.job, schedule.timing
        return cls(
            job.task, job.args, job.queue, job.options, job.secrets, job.priority,
            job.scheduled_for, job.expires_at, job.deadline_at, job.key, job.unique,
            job.weight_class, job.payload_version,
            None if job.rules is None else job.rules.record(),
            timing.every, timing.cron, timing.tz, timing.jitter, str(schedule.catch_up),
            schedule.overlap, schedule.declared, *(getattr(schedule, name) for name in _STATE),
        )  # fmt: skip


_STATE = ("next_at", "paused", "last_at", "last_job", "fired", "passed", "changed_at")
_NEW_STATE = (0, False, None, None, 0, 0, 0)


def key_in(name: str, text: str | bytes) -> KeyPiece:
    """The limits set for a key; none if they cannot be read."""
    return or_else("key", name, "limits", _key, text, KeyPiece())


def _key(text: str | bytes) -> KeyPiece:
    piece = read(KeyPiece, text)
    if piece.limit is not None:
        whole_number(piece.limit, "limit", 1)
    if piece.rate is not None:
        checked_rate(piece.rate)
    return piece


def breaker_in(name: str, text: str | bytes) -> BreakerStatus:
    """A breaker from the text that a store keeps; raises `UnreadableRow`."""
    return field("breaker", name, "body", lambda body: read(BreakerPiece, body).breaker(name), text)


P = TypeVar("P", bound=_Setting)


def read(kind: type[P], text: str | bytes | None) -> P:
    """Read a setting from its text; no text means the defaults."""
    found: Any = msgspec.json.decode(text or "{}", type=kind)
    piece: P = found
    return piece
