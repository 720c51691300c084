"""Why a job, or a queue, does not run: one reason, as a kind and a sentence.

Where there are several reasons, the answer is the one that a person must deal with first.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from limpet.domain.breaker import BreakerState, BreakerStatus
from limpet.domain.clock import SystemClock
from limpet.domain.duration import spoken
from limpet.domain.errors import JobNotFound
from limpet.domain.ids import checked_id
from limpet.domain.job import Job, JobFilter
from limpet.domain.queue import QueueView, sort_key
from limpet.domain.session import Session, SessionKind, SessionState
from limpet.domain.state import FINAL, State
from limpet.ops.admission import kept_off, weight_in
from limpet.ops.queues import find_queue
from limpet.ops.reason import (
    BreakerReason,
    ChildrenReason,
    ConcurrencyReason,
    KeyReason,
    Kind,
    LineReason,
    MovingReason,
    RateReason,
    Reason,
    RunningReason,
    TaskReason,
    TurnHolder,
)
from limpet.ops.record import iso
from limpet.ops.selection import Readable, Selection
from limpet.storage.contract.gating import GateVerbs
from limpet.storage.contract.relocation import MoveStage, MoveVerbs
from limpet.storage.contract.shaping import BreakerVerbs, LimitVerbs
from limpet.storage.contract.store import CHUNK

# How many jobs are read to find those that are ahead or have a turn; how many a sentence names.
MOST_SEEN = 10 * CHUNK
MOST_NAMED = 5
# How many blocked jobs are read to see what queues wait for, and how many ready jobs of each queue:
# few, so that an answer stays cheap.
MOST_BLOCKED = 100
MOST_READY = 20

_NEEDS_TASK = "needs task "


class Explicable(Readable, BreakerVerbs, LimitVerbs, MoveVerbs, GateVerbs, Protocol):
    """The verbs of a store that finding a reason needs."""


def why_job(store: Explicable, id_: str, now: int | None = None) -> Reason:
    """Why a job does not run now, or that it does; raises `JobNotFound`."""
    job = store.job(checked_id(id_))
    if job is None:
        raise JobNotFound(id_)
    return reason_of(store, job, SystemClock().wall() if now is None else now)


def reason_of(store: Explicable, job: Job, now: int) -> Reason:
    """The same, for a job that was just read."""
    if job.state is State.SCHEDULED:
        return _scheduled(job, now)
    if job.state is State.BLOCKED:
        return _blocked(store, job, now)
    if job.state is State.READY:
        return _ready(store, job, now)
    if job.state is State.RUNNING:
        return _running(store, job, now)
    if job.state is State.QUARANTINED:
        why = f"its arguments do not fit: {job.error}" if job.error else "its arguments do not fit"
        return Reason(kind=Kind.QUARANTINED, text=f"quarantined, because {why}")
    return _finished(job, now)


def queue_reasons(store: Explicable, queues: Sequence[QueueView], now: int) -> dict[str, Reason]:
    """Why no job, or no further one, of a queue is claimed: by queue, where there is a reason."""
    sessions, breakers = store.sessions(), _not_closed(store.breakers())
    reasons: dict[str, Reason] = {}
    for view in queues:
        reason = _held_back(view, now)
        if reason is None and view.counts.get(State.READY):
            reason = (
                _holding(store, view, breakers, now)
                or _deserted(sessions)
                or _first_at_the_gate(store, view, now)
            )
        if reason is not None:
            reasons[view.name] = reason
    return reasons


def blocked_by(store: Readable, queues: Sequence[QueueView]) -> dict[str, Counter[str]]:
    """What the newest of the blocked jobs wait for: queue → reason → how many."""
    found: dict[str, Counter[str]] = {}
    if any(view.counts.get(State.BLOCKED) for view in queues):
        for job in store.jobs(JobFilter(State.BLOCKED), limit=MOST_BLOCKED).jobs:
            found.setdefault(job.queue, Counter())[_waits_for(job)] += 1
    return found


def _waits_for(job: Job) -> str:
    """What a job waits for, in words that many jobs share; so without the key itself."""
    blocked_by = job.blocked_by or "unknown"
    if job.pending or blocked_by.startswith(_NEEDS_TASK) or job.key is None:
        return blocked_by
    return "waits for its key"


# -- by state


def _scheduled(job: Job, now: int) -> Reason:
    after = f", after {job.error}" if job.error and job.counters.failures else ""
    text = f"scheduled until {_when(job.ready_at, now)}{after}"
    if job.ready_at <= now:
        text = f"due since {_clock(job.ready_at)}; the next worker to look makes it ready"
    return Reason(kind=Kind.SCHEDULED, text=text, until=iso(job.ready_at))


def _blocked(store: Explicable, job: Job, now: int) -> Reason:
    if job.pending:
        return _waits_for_children(store, job)
    blocked_by = job.blocked_by or ""
    if blocked_by.startswith(_NEEDS_TASK):
        task = blocked_by.removeprefix(_NEEDS_TASK)
        text = f"no live worker knows its task {task}; start one whose app has it"
        return TaskReason(kind=Kind.TASK, text=text, task=task)
    if job.key is not None:
        return _waits_for_key(store, job, job.key)
    text = f"blocked: {blocked_by or 'for a reason that this version does not know'}"
    return Reason(kind=Kind.TASK, text=text)


def _waits_for_key(store: Explicable, job: Job, key: str) -> Reason:
    given = store.key_limit(key)
    limit, rate = given.limit or job.rules.key_limit, given.rate or job.rules.key_rate
    holders = _with_a_turn(store, key, limit)
    waiting = Selection(state=State.BLOCKED, key=key).pages(store, MOST_SEEN)
    ahead = sum(
        not other.pending and _place(other) < _place(job) for page in waiting for other in page
    )
    named = ", ".join(f"{holder.id} ({holder.state})" for holder in holders[:MOST_NAMED])
    more = ", …" if len(holders) > MOST_NAMED else ""
    verb = "has its turn" if len(holders) == 1 else "have their turns"
    parts = [f"{named}{more} {verb}"] if holders else []
    by_rate = rate is not None and len(holders) < limit
    if by_rate:
        parts.append(f"the next turn comes with its rate of {rate}")
    if not parts:
        parts.append("none of the jobs that were looked at has a turn")
    if ahead:
        parts.append(f"{_many(ahead, 'job', 'jobs')} ahead")
    end = ""
    if (given.rate if by_rate else given.limit) is not None:
        adjusted = "that rate" if by_rate else f"its limit of {limit}"
        end = f"; {adjusted} was set at run time, `limpet keys unlimit {key}` takes it back"
    return KeyReason(
        kind=Kind.KEY,
        text=f"blocked by key {key}: {', '.join(parts)}{end}",
        key=key,
        limit=limit,
        rate=None if rate is None else str(rate),
        holders=tuple(TurnHolder(id=holder.id, state=holder.state) for holder in holders),
        ahead=ahead,
    )


def _with_a_turn(store: Explicable, key: str, limit: int) -> list[Job]:
    """Jobs of the key that run, are ready, or keep their turn while they wait for an attempt."""
    found: list[Job] = []
    for state in (State.RUNNING, State.READY, State.SCHEDULED):
        for jobs in Selection(state=state, key=key).pages(store, MOST_SEEN):
            keeps = state is not State.SCHEDULED
            found += [job for job in jobs if keeps or (job.rules.key_strict and job.token)]
            if len(found) >= limit:
                return found
    return found


def _waits_for_children(store: Explicable, job: Job) -> Reason:
    counts: Counter[State] = Counter()
    failed: list[str] = []
    for jobs in Selection(parent=job.id).pages(store):
        counts.update(child.state for child in jobs)
        failed += [child.id for child in jobs if child.state is State.FAILED]
    children = max(counts.total(), job.rules.children, job.pending)
    text = f"waits for {job.pending} of {_many(children, 'child', 'children')}"
    if failed:
        more = ", …" if len(failed) > MOST_NAMED else ""
        text += f"; failed: {', '.join(failed[:MOST_NAMED])}{more}"
    return ChildrenReason(
        kind=Kind.CHILDREN,
        text=text,
        pending=job.pending,
        children=children,
        failed=tuple(failed[:CHUNK]),
    )


def _ready(store: Explicable, job: Job, now: int) -> Reason:
    view = find_queue(store, job.queue)
    reason = _moving(store) or (None if view is None else _held_back(view, now))
    if reason is None:
        breakers = [breaker for breaker in store.breakers() if job.task in breaker.rules.tasks]
        reason = _open(_not_closed(breakers), now)
    if reason is None:
        reason = _deserted(store.sessions()) or _at_the_gate(store, job, now)
    return reason or _in_line(store, job, 0 if view is None else view.counts.get(State.READY, 0))


def _running(store: Explicable, job: Job, now: int) -> Reason:
    names = {session.id: session.name for session in store.sessions(with_dead=True)}
    worker = names.get(job.session or "", "a worker that is gone")
    if job.cancel_requested_at is not None:
        gap = _gap(now - job.cancel_requested_at)
        kind, text = Kind.STOPPING, f"it runs on {worker}, which was asked to stop it {gap} ago"
    else:
        since = "" if job.claimed_at is None else f" since {_clock(job.claimed_at)}"
        kind, text = Kind.RUNNING, f"it runs on {worker}{since}"
    return RunningReason(kind=kind, text=text, session=job.session, worker=worker)


def _finished(job: Job, now: int) -> Reason:
    if job.state is State.FAILED and job.relaunch_at is not None:
        text = f"failed ({job.error}); it is relaunched at {_when(job.relaunch_at, now)}"
        return Reason(kind=Kind.RELAUNCH, text=text, until=iso(job.relaunch_at))
    error = "" if job.error is None or job.state is State.SUCCEEDED else f": {job.error}"
    assert job.state in FINAL
    return Reason(kind=Kind.FINISHED, text=f"it is {job.state}{error}")


# -- what holds ready jobs back


def _moving(store: Explicable) -> Reason | None:
    part, _ = store.relocation()
    if part is None or part.stage is MoveStage.ARRIVED:
        return None
    moved = (
        f"moved to {part.place}" if part.stage is MoveStage.MOVED else f"being moved ({part.place})"
    )
    text = f"the store is {moved}; nothing starts here"
    return MovingReason(kind=Kind.MOVING, text=text, place=part.place)


def _held_back(view: QueueView, now: int) -> Reason | None:
    """What holds a whole queue back, for every worker."""
    name, rules, running = view.name, view.rules, view.counts.get(State.RUNNING, 0)
    if view.paused:
        text = f"queue {name} is paused; `limpet queues resume {name}` lets it go on"
        return Reason(kind=Kind.PAUSED, text=text)
    if view.held_until is not None and view.held_until > now:
        text = f"queue {name} is held until {_when(view.held_until, now)}"
        return Reason(kind=Kind.HELD, text=text, until=iso(view.held_until))
    if rules.concurrency is not None and running >= rules.concurrency:
        return ConcurrencyReason(
            kind=Kind.CONCURRENCY,
            text=f"queue {name} is at its concurrency, {running} of {rules.concurrency}",
            running=running,
            concurrency=rules.concurrency,
        )
    if rules.rate is not None and view.next_at is not None and view.next_at > now:
        return RateReason(
            kind=Kind.RATE,
            text=f"queue {name} has reached its rate of {rules.rate}; the next one begins "
            f"at {_when(view.next_at, now)}",
            until=iso(view.next_at),
            rate=str(rules.rate),
        )
    return None


def _not_closed(breakers: Sequence[BreakerStatus]) -> list[BreakerStatus]:
    return [breaker for breaker in breakers if breaker.state is not BreakerState.CLOSED]


def _holding(
    store: Explicable, view: QueueView, breakers: Sequence[BreakerStatus], now: int
) -> Reason | None:
    """The reason if an open breaker holds ready jobs of that queue back."""
    for breaker in breakers:
        for task in sorted(breaker.rules.tasks):
            if store.jobs(JobFilter(State.READY, view.name, task), limit=1).jobs:
                return _open([breaker], now)
    return None


def _open(breakers: Sequence[BreakerStatus], now: int) -> Reason | None:
    for breaker in breakers:
        name = breaker.rules.name
        since = "" if breaker.opened_at is None else f" since {_clock(breaker.opened_at)}"
        if breaker.state is BreakerState.PROBING:
            then = "one job is being tried"
        elif breaker.probe_at is None or breaker.probe_at <= now:
            then = "one job is tried at a worker's next claim"
        else:
            then = f"one job is tried at {_when(breaker.probe_at, now)}"
        return BreakerReason(
            kind=Kind.BREAKER,
            text=f"breaker {name} is open{since}; {then}",
            until=iso(breaker.probe_at),
            breaker=name,
            opened_at=iso(breaker.opened_at),
        )
    return None


def _deserted(sessions: Sequence[Session]) -> Reason | None:
    workers = [session for session in sessions if session.kind is SessionKind.WORKER]
    if any(worker.state is SessionState.LIVE and not worker.overdue for worker in workers):
        return None
    draining = sum(worker.state is SessionState.DRAINING for worker in workers)
    beside = f" ({draining} draining)" if draining else ""
    text = f"no worker is live{beside}; start one with limpet worker"
    return Reason(kind=Kind.NO_WORKER, text=text)


def _at_the_gate(store: Explicable, job: Job, now: int) -> Reason | None:
    """The reason if no host has room for what the job weighs."""
    weight = weight_in(job)
    return None if weight is None else kept_off(store, job, weight, now)


def _first_at_the_gate(store: Explicable, view: QueueView, now: int) -> Reason | None:
    """The same for the first weighted job of a queue, among the newest that are ready."""
    ready = store.jobs(JobFilter(State.READY, view.name), limit=MOST_READY).jobs
    first = min((job for job in ready if weight_in(job)), key=_place, default=None)
    return None if first is None else _at_the_gate(store, first, now)


def _in_line(store: Explicable, job: Job, ready: int) -> Reason:
    """How many jobs are ahead of a ready one. `ready`: how many the queue has; of a long line only
    the newest are read.
    """
    mine = _place(job)
    ahead = seen = 0
    for jobs in Selection(state=State.READY, queue=job.queue).pages(store, MOST_SEEN):
        seen += len(jobs)
        ahead += sum(_place(other) < mine for other in jobs)
    older = max(0, ready - seen) if seen >= MOST_SEEN else 0
    ahead += older
    about = "about " if older else ""
    text = f"ready, with {about}{_many(ahead, 'job', 'jobs')} ahead of it in queue {job.queue}"
    if not ahead:
        text = f"ready, and first in queue {job.queue}; the next free worker of that queue takes it"
    if job.suspect:
        text += "; it runs alone, because a process that ran it died"
    return LineReason(kind=Kind.IN_LINE, text=text, ahead=ahead)


def _place(job: Job) -> tuple[int, int, str]:
    """The place of a job in a line; ids stand for the store's row numbers, which grow like them."""
    return sort_key(job.ready_at, job.priority), job.created_at, job.id


# -- wording


def _many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _clock(wall: int) -> str:
    return datetime.fromtimestamp(wall / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _when(wall: int, now: int) -> str:
    return f"{_clock(wall)} (in {_gap(wall - now)})" if wall > now else _clock(wall)


def _gap(microseconds: int) -> str:
    seconds = microseconds / 1e6
    return spoken(timedelta(seconds=round(seconds) if seconds >= 10 else round(seconds, 1)))
