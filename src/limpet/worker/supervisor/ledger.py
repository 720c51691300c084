"""What the session holds: its jobs, where each job runs, and what the store does not know yet."""

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


# How many characters of log lines may wait for the store. Above this, only the newest lines of
# each job are kept.
_MOST_WAITING_CHARACTERS = 16 * 1024 * 1024


_NONE = TravellingOptions()


class Hold:
    """A job that the session holds. Times are microseconds of BOOTTIME.

    - `begun`: the executor has read the job's start token.
    - `begun_reported`: the begin was reported to the store.
    - `place`: how many jobs its executor was given before this one.
    - `lost`: the loss of an earlier attempt, for the orphan hook of the task.
    - `stop`: why the job was requested to stop.
    - `outcome`: known, but sent to the store only after the job's executor is dead.
    - `unreadable`: what in the job cannot be read, as a sentence; the job is quarantined.
    """

    __slots__ = (
        "begun", "begun_at", "begun_reported", "claimed", "executor", "force_at", "given_at",
        "interrupt_at", "is_limited", "lease", "limit", "lost", "outcome", "place", "progress_at",
        "stop", "unreadable",
    )  # fmt: skip

    def __init__(self, claimed: ClaimedJob) -> None:
        self.claimed = claimed
        self.lease = claimed.lease
        self.executor: Executor | None = None
        self.begun = False
        self.begun_reported = False
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
        """Whether the attempt runs and nobody has requested that it stops."""
        return self.begun and self.stop is None and self.outcome is None


def emit_for(hold: Hold, action: str, **facts: Any) -> None:
    """Log something about a job."""
    lease, claimed = hold.lease, hold.claimed
    known = {"job": lease.job, "task": claimed.task, "queue": claimed.queue}
    log.emit(action, **known, session=lease.session, **facts)


def _characters(lines: Iterable[LogLine]) -> int:
    return sum(len(line.message) for line in lines)


def _cut(line: LogLine) -> LogLine:
    """The line, cut to the length that a store keeps."""
    if len(line.message) <= LINE_KEPT:
        return line
    return LogLine(line.at, line.level, line.message[:LINE_KEPT])


class Ledger:
    """Every job from its claim until the store has acknowledged its outcome."""

    def __init__(self) -> None:
        self.holds: dict[str, Hold] = {}
        self.per_queue: Counter[str] = Counter()
        # What running jobs have reported and the store was not sent yet; of each job no more than
        # a store keeps.
        self.reports: dict[Lease, Report] = {}
        self._waiting_characters = 0  # of the lines in `reports`
        self.observer = Observer()
        self.released = 0  # how many jobs were handed back
        # How many outcomes there were, and of how many the store has answered the exchange.
        self.outcomes = self.answered_outcomes = 0
        # How many exchanges the store has answered. A store that counts fewer was rolled back.
        self.answered_exchanges = 0
        self._outbox: deque[Settlement] = deque()
        # The outcomes in an exchange that the store has not answered yet.
        self._sent: list[Settlement] = []

    def take(self, claimed: Iterable[ClaimedJob]) -> list[Hold]:
        """Hold jobs that this session has claimed."""
        taken = [Hold(job) for job in claimed]
        self.holds.update((hold.lease.job, hold) for hold in taken)
        self.per_queue.update(hold.claimed.queue for hold in taken)
        return taken

    def find(self, job: str, token: int) -> Hold | None:
        hold = self.holds.get(job)
        return hold if hold is not None and hold.lease.token == token else None

    def settle(self, hold: Hold, settlement: Settlement) -> None:
        """Stop holding a job whose outcome is known; the next exchange sends it to the store."""
        self.forget(hold)
        if self.observer.breaker_of:
            self.observer.ended(hold.claimed.task, settlement)
        if type(settlement) is Release:
            self.released += 1
        self.outcomes += 1
        self._outbox.append(settlement)

    def complete(self, holds: Sequence[Hold], completes: Sequence[Complete]) -> None:
        """Settle many jobs that succeeded in one step, because they end by the thousand."""
        held, per_queue = self.holds, self.per_queue
        for hold in holds:
            del held[hold.lease[0]]
            per_queue[hold.claimed.queue] -= 1
        if self.observer.breaker_of:
            for hold, complete in zip(holds, completes, strict=True):
                self.observer.ended(hold.claimed.task, complete)
        self.outcomes += len(completes)
        self._outbox.extend(completes)

    def forget(self, hold: Hold) -> None:
        if self.holds.pop(hold.lease.job, None) is not None:
            self.per_queue[hold.claimed.queue] -= 1

    def report(self, fresh: Report) -> None:
        """Keep what a running job has reported, until the store is sent it.

        Newer progress replaces older progress; of too many lines the oldest are left out.
        """
        lines = tuple(_cut(line) for line in fresh.lines)
        progress = fresh.progress
        self._waiting_characters += _characters(lines)
        if (kept := self.reports.get(fresh.lease)) is not None:
            left_out = len(kept.lines) + len(lines) - MOST_LINES
            if self._waiting_characters > _MOST_WAITING_CHARACTERS:
                left_out = len(kept.lines)
            left_out = min(max(left_out, 0), len(kept.lines))
            self._waiting_characters -= _characters(kept.lines[:left_out])
            lines = kept.lines[left_out:] + lines
            progress = progress or kept.progress
        self.reports[fresh.lease] = Report(fresh.lease, progress, lines)

    def next_reports(self) -> list[Report]:
        """The reports to send now.

        Reports of jobs that are settled are dropped: the store would refuse them after the
        outcome, and record the refusal on the timeline.
        """
        some = list(self.reports)[:CHUNK]
        taken = [self.reports.pop(lease) for lease in some]
        self._waiting_characters -= sum(_characters(report.lines) for report in taken)
        held = self.leases()
        return [report for report in taken if report.lease in held]

    def next_begun(self) -> list[Lease]:
        """The jobs that have begun since the last call; the caller reports them to the store."""
        fresh = [hold for hold in self.holds.values() if hold.begun and not hold.begun_reported]
        for hold in fresh:
            hold.begun_reported = True
        return [hold.lease for hold in fresh]

    def repeat_begun(self, leases: Iterable[Lease]) -> None:
        """Report these jobs as begun once more: the store could not record it."""
        for lease in leases:
            hold = self.holds.get(lease.job)
            if hold is not None and hold.lease == lease:
                hold.begun_reported = False

    @property
    def has_next_begun(self) -> bool:
        """Whether a job has begun and the store was not sent that yet."""
        return any(hold.begun and not hold.begun_reported for hold in self.holds.values())

    @property
    def outcomes_waiting(self) -> int:
        """How many outcomes wait for an exchange."""
        return len(self._outbox)

    @property
    def has_unacknowledged(self) -> bool:
        """Whether there are outcomes that the store has not acknowledged."""
        return bool(self._outbox or self._sent)

    def next_batch(self) -> list[Settlement]:
        """The outcomes to send now; their jobs count as held until `acknowledged` is called."""
        box = self._outbox
        self._sent = [box.popleft() for _ in range(min(len(box), CHUNK))]
        return self._sent

    def acknowledged(self) -> None:
        """The store has answered the exchange with the last batch."""
        self.answered_outcomes += len(self._sent)
        self._sent = []

    def digest(self) -> Digest:
        """The digest of all jobs that, by what the store was sent, this session still holds."""
        leases: list[Lease] = [hold.lease for hold in self.holds.values()]
        leases += [settlement.lease for settlement in (*self._outbox, *self._sent)]
        return digest((lease.job, lease.token) for lease in leases)

    def leases(self) -> set[Lease]:
        """The lease of every job whose outcome the store has not acknowledged."""
        known = {hold.lease for hold in self.holds.values()}
        return known | {settlement.lease for settlement in (*self._outbox, *self._sent)}
