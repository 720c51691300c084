"""What the session holds: the jobs, where each of them runs, and what is still to be told."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from limpet import log
from limpet.domain.cause import Cause
from limpet.domain.ending import Ending
from limpet.domain.job import ClaimedJob, LogLine, Report
from limpet.domain.lease import Digest, Lease, digest
from limpet.domain.transition import Complete, Release, Settlement
from limpet.storage.contract.bounds import LINE_KEPT, MOST_LINES
from limpet.storage.contract.store import CHUNK
from limpet.storage.records.texts import TravellingOptions, options_in
from limpet.worker.supervisor.breaker_observer import Observer

if TYPE_CHECKING:
    from limpet.worker.supervisor.executor_link import Executor


# Of the lines that wait to be told, in characters: above it only the last of each job are kept.
_MOST_WAITING = 16 * 1024 * 1024


_NONE = TravellingOptions()


class Hold:
    """A job that the session holds. Times are microseconds of BOOTTIME.

    `begun`: the executor has taken its permit. `told`: the store knows that it has begun.
    `place`: how many jobs its executor was given before it. `lost`: the loss of which its hook is
    to hear. `stop`: why it was asked to stop. `outcome`: known, but not to be told before its
    executor is dead. `unreadable`: what of it nobody can read, as a sentence; it is put aside.
    """

    __slots__ = (
        "begun", "begun_at", "claimed", "executor", "force_at", "given_at", "interrupt_at",
        "is_limited", "lease", "limit", "lost", "outcome", "place", "progress_at",
        "stop", "told", "unreadable",
    )  # fmt: skip

    def __init__(self, claimed: ClaimedJob) -> None:
        self.claimed = claimed
        self.lease = claimed.lease
        self.executor: Executor | None = None
        self.begun = False
        self.told = False
        self.begun_at = 0
        self.given_at = 0
        self.progress_at = 0
        self.stop: Cause | None = None
        self.lost: dict[str, Any] | None = None
        self.interrupt_at: int | None = None
        self.force_at: int | None = None
        self.outcome: Ending | None = None
        self.place = 0
        self.limit, self.unreadable = _NONE, claimed.unreadable
        if claimed.options != "{}":
            read = options_in(claimed.options)
            if isinstance(read, str):
                self.unreadable = self.unreadable or read
            else:
                self.limit = read
        self.is_limited = claimed.deadline_at is not None or (
            self.limit is not _NONE
            and (self.limit.timeout is not None or self.limit.stall_after is not None)
        )

    @property
    def goes_on(self) -> bool:
        """Whether the attempt runs and nobody has asked it to stop."""
        return self.begun and self.stop is None and self.outcome is None


def emit_for(hold: Hold, action: str, **facts: Any) -> None:
    """Log something about a job."""
    lease, claimed = hold.lease, hold.claimed
    known = {"job": lease.job, "task": claimed.task, "queue": claimed.queue}
    log.emit(action, **known, session=lease.session, **facts)


def _characters(lines: Iterable[LogLine]) -> int:
    return sum(len(line.message) for line in lines)


def _cut(line: LogLine) -> LogLine:
    """A line as long as a store keeps it."""
    if len(line.message) <= LINE_KEPT:
        return line
    return LogLine(line.at, line.level, line.message[:LINE_KEPT])


class Ledger:
    """Every job between its claim and the store's word that its outcome is kept."""

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        self.per_queue: Counter[str] = Counter()
        # What running jobs have said, and nobody was told: no more of each than a store keeps.
        self.reports: dict[Lease, Report] = {}
        self._waiting = 0  # characters of their lines
        self.observer = Observer()
        self.released = 0  # how many jobs were handed back
        # How many exchanges the store has answered; one that knows of fewer has forgotten some.
        self.answered_exchanges = 0
        self._outbox: deque[Settlement] = deque()
        # Sent with an exchange whose answer has not come yet.
        self._sent: list[Settlement] = []

    def take(self, claimed: Iterable[ClaimedJob]) -> list[Hold]:
        """Remember jobs that the store gave to this session."""
        taken = [Hold(each) for each in claimed]
        self.holds.update((hold.lease.job, hold) for hold in taken)
        self.per_queue.update(hold.claimed.queue for hold in taken)
        return taken

    def find(self, job: str, token: int) -> Hold | None:
        hold = self.holds.get(job)
        return hold if hold is not None and hold.lease.token == token else None

    def settle(self, hold: Hold, settlement: Settlement) -> None:
        """The outcome is known; it is told with the next exchange."""
        self.forget(hold)
        if self.observer.breaker_of:
            self.observer.ended(hold.claimed.task, settlement)
        if type(settlement) is Release:
            self.released += 1
        self._outbox.append(settlement)

    def complete(self, holds: Sequence[Hold], completes: Sequence[Complete]) -> None:
        """As `settle`, of many that succeeded, by the thousand: one step for all of them."""
        held, per_queue = self.holds, self.per_queue
        for hold in holds:
            del held[hold.lease[0]]
            per_queue[hold.claimed.queue] -= 1
        if self.observer.breaker_of:
            for hold, complete in zip(holds, completes, strict=True):
                self.observer.ended(hold.claimed.task, complete)
        self._outbox.extend(completes)

    def forget(self, hold: Hold) -> None:
        if self.holds.pop(hold.lease.job, None) is not None:
            self.per_queue[hold.claimed.queue] -= 1

    def report(self, said: Report) -> None:
        """A running job has said something; of what nobody was told yet the last of it counts."""
        lines = tuple(_cut(line) for line in said.lines)
        progress = said.progress
        self._waiting += _characters(lines)
        if (kept := self.reports.get(said.lease)) is not None:
            left_out = len(kept.lines) + len(lines) - MOST_LINES
            if self._waiting > _MOST_WAITING:
                left_out = len(kept.lines)
            left_out = min(max(left_out, 0), len(kept.lines))
            self._waiting -= _characters(kept.lines[:left_out])
            lines = kept.lines[left_out:] + lines
            progress = progress or kept.progress
        self.reports[said.lease] = Report(said.lease, progress, lines)

    def next_reports(self) -> list[Report]:
        """What to tell now.

        What comes after the outcome was told would be refused, and stand on the timeline.
        """
        some = list(self.reports)[:CHUNK]
        taken = [self.reports.pop(lease) for lease in some]
        self._waiting -= sum(_characters(report.lines) for report in taken)
        held = self.leases()
        return [each for each in taken if each.lease in held]

    def tell_begun(self) -> list[Lease]:
        """The jobs of which the store is to hear, this once, that they have begun."""
        fresh = [hold for hold in self.holds.values() if hold.begun and not hold.told]
        for hold in fresh:
            hold.told = True
        return [hold.lease for hold in fresh]

    def tell_again(self, leases: Iterable[Lease]) -> None:
        """The store could not note of these that they have begun; it hears it again."""
        for lease in leases:
            hold = self.holds.get(lease.job)
            if hold is not None and hold.lease == lease:
                hold.told = False

    @property
    def has_begun(self) -> bool:
        """Whether a job has begun without the store's knowing."""
        return any(hold.begun and not hold.told for hold in self.holds.values())

    @property
    def news(self) -> int:
        """How many outcomes wait to be told."""
        return len(self._outbox)

    @property
    def has_untold(self) -> bool:
        """Whether there are outcomes that the store has not answered for."""
        return bool(self._outbox or self._sent)

    def next_batch(self) -> list[Settlement]:
        """What to tell now; it counts as held until `told`."""
        box = self._outbox
        self._sent = [box.popleft() for _ in range(min(len(box), CHUNK))]
        return self._sent

    def told(self) -> None:
        """The store has answered for the last batch."""
        self._sent = []

    def digest(self) -> Digest:
        """What this session believes to hold, as far as the store can know."""
        leases: list[Lease] = [hold.lease for hold in self.holds.values()]
        leases += [each.lease for each in (*self._outbox, *self._sent)]
        return digest((lease.job, lease.token) for lease in leases)

    def leases(self) -> set[Lease]:
        """Everything that has not been told to be over."""
        known = {hold.lease for hold in self.holds.values()}
        return known | {each.lease for each in (*self._outbox, *self._sent)}
