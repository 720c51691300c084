"""What becomes of a running job, in the model: settled, handed back, or lost with its holder."""

from contract.model_rows import ModelJob

from limpet.domain.state import State
from limpet.domain.transition import (
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)


def settle(job: ModelJob, settlement: Settlement, now: int) -> None:
    """The outcome that its holder tells."""
    match settlement:
        case Complete():
            job.finish(State.SUCCEEDED, now)
        case Fail():
            job.failures += 1
            job.finish(State.FAILED, now)
        case Cancel():
            job.finish(State.CANCELLED, now)
        case Quarantine():
            if job.cancel_requested:
                job.finish(State.CANCELLED, now)
            else:
                job.state, job.holder = State.QUARANTINED, None
        case Release():
            hand_back(job, now)
        case RetryAt(at=at) | SnoozeUntil(at=at):
            job.failures += isinstance(settlement, RetryAt)
            job.suspect = False
            if job.cancel_requested:
                job.finish(State.CANCELLED, now)
            elif job.deadline is not None and at >= job.deadline:
                job.finish(State.FAILED, now)
            else:
                job.back(State.SCHEDULED, ready_at=at, started=True)
        case Orphan(cause=cause, begun=begun, alone=alone):
            lose(job, now, begun=begun, charged=cause.charged, alone=alone)


def hand_back(job: ModelJob, now: int) -> None:
    """Its holder has not finished it."""
    if job.cancel_requested:
        job.finish(State.CANCELLED, now)
    else:
        job.back(State.READY, started=False)


def lose(job: ModelJob, now: int, *, begun: bool, charged: bool, alone: bool | None) -> None:
    """The attempt was lost; `alone` is None when the whole worker was."""
    if job.cancel_requested:
        job.finish(State.CANCELLED, now)
        return
    if begun and charged:
        job.orphans += 1
        job.strikes += alone is True
        job.suspect = job.suspect or alone is not None
        if job.orphans >= 10 or job.strikes >= 3:
            if job.last_run or not job.has_hook:
                job.finish(State.FAILED, now)
                return
            job.last_run = True
    job.back(State.READY, started=begun)
