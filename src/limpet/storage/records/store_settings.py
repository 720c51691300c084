"""What a store has beside jobs, in the one form in which it is kept as JSON and carried along.

Each kind is a msgspec struct: `text()` writes it, `read(kind, text)` reads it. Stores that reckon
with a part of it in SQL or Lua keep that part in columns or fields of their own as well.
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
        """As JSON."""
        return msgspec.json.encode(self).decode()


class QueuePiece(_Setting, frozen=True, omit_defaults=True):
    """What is said of a queue; `given_until` belongs to its rate (see `domain.rate`)."""

    declared: QueueRules = NO_QUEUE_RULES
    adjusted: QueueRules = NO_QUEUE_RULES
    held_until: int = 0
    given_until: int = 0
    draining: bool = False

    @property
    def rules(self) -> QueueRules:
        """Those in force."""
        return self.adjusted.over(self.declared)


class KeyPiece(_Setting, frozen=True, omit_defaults=True):
    """What was set for a key at run time, and how far its rate has given out turns."""

    limit: int | None = None
    rate: Rate | None = None
    given_until: int = 0


class BreakerPiece(_Setting, frozen=True, omit_defaults=True):
    """A breaker, rules and state."""

    tasks: tuple[str, ...]
    failure_rate: float
    least: int
    window: int
    probe_after: int
    state: str = "closed"
    succeeded: int = 0
    failed: int = 0
    window_at: int = 0
    opened_at: int | None = None
    probe_at: int | None = None
    tries: tuple[tuple[str, int], ...] = ()

    def breaker(self, name: str) -> BreakerStatus:
        """As the domain has it."""
        rules = BreakerRules(
            name,
            frozenset(self.tasks),
            self.failure_rate,
            self.least,
            self.window,
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
        """As it is kept."""
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
    """What is said of a schedule, and what became of it so far, the last seven.

    What is said is `definition`, by which a store knows whether a schedule is put again as it was.
    """

    task: str
    args: str
    queue: str
    options: str = "{}"
    secrets: tuple[str, ...] = ()
    priority: int = 0
    delay: int | None = None
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
        """What is said of it, as JSON."""
        return self.in_state(*_NEW_STATE).text()

    @property
    def state(self) -> tuple[Any, ...]:
        """What became of it, in the order of its fields."""
        return tuple(getattr(self, name) for name in _STATE)

    def in_state(self, *state: Any) -> "SchedulePiece":
        """The same with another state, in the order of its fields."""
        return msgspec.structs.replace(self, **dict(zip(_STATE, state, strict=True)))

    def schedule(self, id_: str) -> Schedule:
        """As the domain has it."""
        job = NewJob(
            "", self.task, self.args, self.queue, self.options, self.secrets, self.priority,
            self.delay, self.expires, self.deadline, self.key, self.unique,
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
        """As it is kept."""
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
    """What was set for a key; nothing where that cannot be read."""
    return or_else("key", name, "limits", _key, text, KeyPiece())


def _key(text: str | bytes) -> KeyPiece:
    piece = read(KeyPiece, text)
    if piece.limit is not None:
        whole_number(piece.limit, "limit", 1)
    if piece.rate is not None:
        checked_rate(piece.rate)
    return piece


def breaker_in(name: str, text: str | bytes) -> BreakerStatus:
    """A breaker as a store keeps it; raises `UnreadableRow`."""
    return field("breaker", name, "body", lambda body: read(BreakerPiece, body).breaker(name), text)


P = TypeVar("P", bound=_Setting)


def read(kind: type[P], text: str | bytes | None) -> P:
    """Read a piece; one that is not there is as it is by default."""
    found: Any = msgspec.json.decode(text or "{}", type=kind)
    piece: P = found
    return piece
