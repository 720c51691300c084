"""Every word that a holder can say about a lease, and how to bring a job into every state."""

from collections.abc import Callable

from contract.driver import BOOM, KILLED, Holder, add, get

from limpet.domain.cause import Drained
from limpet.domain.job import LogLine, Progress, Report
from limpet.domain.lease import Lease
from limpet.domain.state import State
from limpet.domain.transition import (
    AwaitChildren,
    Cancel,
    Complete,
    Fail,
    Orphan,
    Quarantine,
    Rejected,
    Release,
    RetryAt,
    Settlement,
    SnoozeUntil,
)
from limpet.storage.contract.store import Store

LATER = 2**60

SETTLEMENTS: dict[str, Callable[[Lease], Settlement]] = {
    "complete": lambda lease: Complete(lease, '"late"'),
    "retry": lambda lease: RetryAt(lease, LATER, BOOM),
    "snooze": lambda lease: SnoozeUntil(lease, LATER),
    "fail": lambda lease: Fail(lease, BOOM),
    "quarantine": lambda lease: Quarantine(lease, BOOM),
    "release": lambda lease: Release(lease, Drained()),
    "cancel": Cancel,
    "orphan": lambda lease: Orphan(lease, KILLED, begun=True, alone=True),
    "fan out": lambda lease: AwaitChildren(lease, "f" * 26, 1, 1),
}

Word = Callable[[Holder, Lease], tuple[Rejected, ...]]


def _settling(make: Callable[[Lease], Settlement]) -> Word:
    return lambda holder, lease: holder.settle(make(lease))


def _report(holder: Holder, lease: Lease) -> tuple[Rejected, ...]:
    said = Report(lease, Progress(1, 2, "late", 3), (LogLine(0, "info", "late"),))
    return holder.store.report(holder.id, [said])


WORDS: dict[str, Word] = {
    **{f"settle {name}": _settling(make) for name, make in SETTLEMENTS.items()},
    "release": lambda holder, lease: holder.release(lease, cause=Drained()),
    "report": _report,
}


def _to_blocked(store: Store, holder: Holder) -> None:
    # Nobody who lives knows the task, and somebody looks for work.
    holder.release(holder.take(), cause=Drained())
    holder.die()
    Holder(store, ["other"]).claim()


def _to_running(_: Store, holder: Holder) -> None:
    holder.take()


def _to_ready(_: Store, holder: Holder) -> None:
    holder.release(holder.take(), cause=Drained())


def _settled(name: str) -> Callable[[Store, Holder], None]:
    def settle(_: Store, holder: Holder) -> None:
        assert holder.settle(SETTLEMENTS[name](holder.take())) == ()

    return settle


# How a second holder brings a job that was recovered from the first into each state.
INTO: dict[State, Callable[[Store, Holder], None]] = {
    State.READY: _to_ready,
    State.SCHEDULED: _settled("retry"),
    State.BLOCKED: _to_blocked,
    State.RUNNING: _to_running,
    State.QUARANTINED: _settled("quarantine"),
    State.SUCCEEDED: _settled("complete"),
    State.FAILED: _settled("fail"),
    State.CANCELLED: _settled("cancel"),
}


class Stage:
    """A job in a given state: lost by its first holder, then held by a second under token 2."""

    def __init__(self, store: Store, state: State) -> None:
        self.store = store
        self.job = add(store)
        self.first = Holder(store)
        self.old = self.first.take(begin=True)
        self.first.vanish()
        self.second = Holder(store)
        INTO[state](store, self.second)
        self.current = Lease(self.job, self.second.id, 2)
        kept = get(store, self.job)
        assert (kept.state, kept.token) == (state, 2)
